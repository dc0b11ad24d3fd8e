"""Everything that more than one test module uses; no test imports another test."""

"""Everything that more than one test module uses; no test imports another test."""

from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
ROOT = TESTS.parent

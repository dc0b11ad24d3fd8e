"""Data: the public release of frozen features, and generated histories."""

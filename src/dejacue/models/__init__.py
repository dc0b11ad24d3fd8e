"""Frozen models: encoders of pictures and words, trackers, detectors, and their weights."""

"""Annotation, and the scene of the demo."""

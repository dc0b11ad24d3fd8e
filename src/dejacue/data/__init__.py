"""The scene of the demo."""

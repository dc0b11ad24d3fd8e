"""What is trained: the embedded encoder ``mini``."""

"""The eight learned decoders, and the training of ``mini``."""

"""An encoder that a test stops on its way."""

from __future__ import annotations

import threading

from dejacue.models.encoders.mini import Mini


class Slow(Mini):
    """An encoder that waits after its first batch until it may go on."""

    batch = 8

    def __init__(self) -> None:
        super().__init__()
        self.at_work, self.go_on, self.images = threading.Event(), threading.Event(), 0

    def encode_images(self, crops):
        if self.images:
            self.at_work.set()
            assert self.go_on.wait(600)
        self.images += len(crops)
        return super().encode_images(crops)

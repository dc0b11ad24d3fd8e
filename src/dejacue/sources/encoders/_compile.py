"""torch.compile for the image towers: full batches on a GPU, once that pays.

Compiling takes long and makes a batch faster, so that it pays only after very many images; how many
is an estimate (PAYS). Rows differ from those that are not compiled by
rounding, within the precision.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from dejacue.errors import first_line, need

REMEDY = "pip install 'dejacue[torch]'"
PAYS = 500_000  # images
_log = logging.getLogger("dejacue")


class Tower:
    """Bytes (n, size, size, 3) on the device → rows.

    function   computes them
    wanted     True: compiled from the first full batch on; False: never; None: after PAYS images on
               CUDA
    """

    def __init__(
        self, function: Callable[[Any], Any], batch: int, device: str, wanted: bool | None
    ) -> None:
        self._function, self._batch = function, batch
        self._compiled: Callable[[Any], Any] | None = None
        self._lock = threading.Lock()
        self._after: int | None = PAYS if device.startswith("cuda") else None
        if wanted is not None:
            self._after = 0 if wanted else None
        self._seen = 0

    def __call__(self, images: Any) -> Any:
        count = len(images)
        self._seen += count
        if self._after is None or self._seen < self._after or 2 * count < self._batch:
            return self._function(images)
        if self._compiled is None:
            with self._lock:  # several threads may come at once; one compiles
                return self._first(images)
        return self._compiled(self._padded(images))[:count]

    def _first(self, images: Any) -> Any:
        """Compiles, unless another thread just has; where that fails, all goes on without."""
        torch = need("torch", REMEDY)
        compiled = self._compiled or torch.compile(self._function, dynamic=False)
        try:
            rows = compiled(self._padded(images))[: len(images)]
        except Exception as error:  # the compilers behind it raise all kinds
            self._after = None
            _log.warning("torch.compile failed (%s); continuing without it", first_line(error))
            return self._function(images)
        self._compiled = compiled
        return rows

    def _padded(self, images: Any) -> Any:
        """A full batch, the only size that is compiled: the rest is black."""
        torch = need("torch", REMEDY)
        lacking = self._batch - len(images)
        if lacking <= 0:
            return images
        return torch.cat([images, images.new_zeros((lacking, *images.shape[1:]))])

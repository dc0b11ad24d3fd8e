"""Types of fields: what a value in a file must be, declared once. msgspec checks it."""

from __future__ import annotations

import sys
from typing import Annotated

from msgspec import Meta

MAX_FRAME = 1 << 53  # what JSON numbers hold exactly; differences of such frames fit 64 bits
FrameNumber = Annotated[int, Meta(ge=0, le=MAX_FRAME)]
Finite = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
Share = Annotated[float, Meta(ge=0, le=1)]
Name = Annotated[str, Meta(pattern=r"\S")]

"""How many masks and frames matched in one pass, and a warning if they seem to be of two videos."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dejacue.errors import counted
from dejacue.sources.masks._matching import Matching

if TYPE_CHECKING:
    from dejacue.sources.video import Frame


class Coverage:
    """Counts frames with and without a mask, and masks without a frame, in the last pass.

    complete   whether the source has a row for a frame without objects, too; if not, a frame
               without a row says nothing

    Frames come in their order; one that does not come after the last starts a new pass.
    """

    def __init__(self, matching: Matching, complete: bool) -> None:
        self._matching, self._complete = matching, complete
        self._begin()

    def _begin(self) -> None:
        self.frames, self.matched, self.last = 0, 0, -1
        self.unsampled = True  # as far as known: an early end of sampling is not noticed
        self._used = bytearray(len(self._matching.keys))
        self._first_missing: int | None = None

    def count(self, frame: Frame, row: int | None) -> None:
        if frame.index <= self.last:
            self._begin()
        self.last = frame.index
        self.frames += 1
        self.unsampled = self.unsampled and frame.index == frame.source
        if row is not None:
            self.matched += 1
            self._used[row] = 1
        elif self._first_missing is None:
            self._first_missing = frame.source

    def problems(self) -> list[str]:
        """Warnings, one sentence each."""
        rows, unused = len(self._used), self._used.count(0)
        found = []
        if self._complete and self.frames and 2 * self.matched <= self.frames:
            few = f"only {self.matched}" if self.matched else "none"
            has = "has" if self.matched < 2 else "have"
            found.append(f"{few} of {counted(self.frames, 'frame')} {has} a mask")
        if self.frames and self.unsampled and 2 * unused > rows:
            belong = "belongs" if unused == 1 else "belong"
            found.append(
                f"{unused} of {counted(rows, 'mask')} {belong} to no frame that was read; check "
                "that they are for this video, and --end"
            )
        if not found and self._one_apart(unused):
            found.append(
                "the masks are numbered from 1 and the frames from 0, so the last mask is "
                'unused; if the first mask belongs to the first frame, choose the match "index" '
                "(--match)"
            )
        return found

    def _one_apart(self, unused: int) -> bool:
        """Names alike, but all of them one apart: 00000 … 00084 and 00001 … 00085."""
        return (
            self._matching.match == "auto"
            and self.unsampled
            and unused == 1
            and self._first_missing == 0
            and self.matched == self.frames - 1
            and self._matching.counted_from_one
        )

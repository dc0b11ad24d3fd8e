"""Options that go together, as small records; their defaults are what ``find`` does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dejacue.errors import InputError
from dejacue.method.coordinates import Coordinates
from dejacue.method.locate import read
from dejacue.method.plan import Plan
from dejacue.method.view import Readout
from dejacue.records import History, Timeline, Vocabulary
from dejacue.records.history import EVERY
from dejacue.sources.catalogue import check_default
from dejacue.sources.encoders import Encoder, load_encoder
from dejacue.sources.video import Video


@dataclass(frozen=True)
class VideoOptions:
    """Which frames are taken: the options of open_video."""

    start: int | None = None
    end: int | None = None
    start_s: float | None = None
    end_s: float | None = None
    stride: int | None = None
    fps: float | None = None
    rate: float | None = None
    errors: str = "skip"
    decoder: str = "software"

    def every(
        self, video: Video, pace: float | None, made: Iterable[Mapping[str, str]] = ()
    ) -> int:
        """Return n where one in n frames is used: 1 where the user says which frames to take, the
        encoder is fast, or it is images and not a video. No clock decides: another run agrees.

        pace   frames per second that the encoder is given, or None for all
        made   made_with of histories that are there already: one of this video keeps its own n
        """
        if self.stride is not None or self.fps is not None:
            return 1
        for own in made:
            every = int(own.get(EVERY, "1"))
            if own.get("video") == video.thinned(every).key:
                return every
        return max(1, round(video.rate / pace)) if pace and video.rate else 1


@dataclass(frozen=True)
class EncoderOptions:
    """How an encoder that is given by name is loaded, and how descriptions are phrased.

    prompts   ensemble (None), raw, photo or definite
    """

    backend: str | None = None
    precision: str | None = None
    device: str | None = None
    prompts: str | None = None

    def check(self, encoder: Encoder | str | None) -> None:
        """Before anything is decoded: of the encoder that nobody named the weights must be here."""
        if encoder is None:
            check_default(self.backend, self.precision, self.device)

    def load(self, encoder: Encoder | str | None) -> Encoder:
        """None: siglip2, which is not fetched unasked."""
        if isinstance(encoder, Encoder):
            return encoder
        self.check(encoder)
        encoder = "siglip2" if encoder is None else encoder
        given = {"backend": self.backend, "precision": self.precision, "device": self.device}
        options = {name: value for name, value in given.items() if value is not None}
        if encoder == "mini" and options:
            raise InputError(f"mini has no option {', '.join(options)}; leave it out")
        return load_encoder(encoder, **options)


@dataclass(frozen=True)
class ReadOptions:
    """How a history is read: the options of dejacue.method.locate.read."""

    readout: str | Readout = "contrast"
    coordinates: str | Coordinates | None = None
    smoothing: int | None = None
    top: int | None = None
    diagnostics: bool = False
    engine: str = "auto"

    def check(self) -> None:
        """Refuses what does not fit before anything is looked at."""
        Plan.of(**vars(self))

    def read(self, history: History, vocabulary: Vocabulary) -> Timeline:
        return read(history, vocabulary, **vars(self))


def changed(options: Any) -> dict[str, str]:
    """The options that differ from their defaults, as text."""
    usual = type(options)()
    return {n: str(v) for n, v in vars(options).items() if v != getattr(usual, n)}

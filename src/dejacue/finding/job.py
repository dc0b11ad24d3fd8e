"""Job: all that decides which features a video gives, whoever encodes it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from dejacue.errors import InputError, StrPath
from dejacue.finding.request import FindRequest, LazyModel, Sampling
from dejacue.finding.where import (
    ByName,
    InMasks,
    MaskSource,
    Objects,
    ObjectSource,
    Observed,
    Sight,
    object_source,
)
from dejacue.models.catalogue import check_models, default_encoder
from dejacue.models.encoders import Encoder, load_encoder
from dejacue.models.trackers import Prompt, TrackerOptions
from dejacue.models.trackers.prompts import first_prompts
from dejacue.progress import Progress, silent
from dejacue.records.history import FRAME_STEP
from dejacue.video.video import Video, open_video


@dataclass(frozen=True)
class EncoderOptions:
    """Options to load an encoder by its name, and to phrase descriptions.

    templates   ensemble (None), raw, photo or definite
    """

    backend: str | None = None
    precision: str | None = None
    device: str | None = None
    templates: str | None = None

    @property
    def default_name(self) -> str:
        """Return which encoder is taken where none is named."""
        return default_encoder(self.backend, self.precision, self.device)

    def check(self, encoder: Encoder | str | None) -> None:
        """Refuse, before anything is decoded, a default encoder whose weights are not here."""
        if encoder is None:
            check_models(encoder=self.default_name)

    def load(self, encoder: Encoder | str | None) -> Encoder:
        """Load an encoder; None: siglip2, which is not fetched unasked."""
        if isinstance(encoder, Encoder):
            return encoder
        self.check(encoder)
        encoder = "siglip2" if encoder is None else encoder
        names = ("backend", "precision", "device")
        options = {name: value for name in names if (value := getattr(self, name)) is not None}
        if encoder == "mini" and options:
            raise InputError(f"mini has no option {', '.join(options)}; leave it out")
        return load_encoder(encoder, **options)


def changed_options(options: Sampling | EncoderOptions | TrackerOptions) -> dict[str, str]:
    """Return the options that differ from their defaults, as text."""
    default = type(options)()
    return {n: str(v) for n, v in vars(options).items() if v != getattr(default, n)}


ALL_FRAMES, USUAL_ENCODER = Sampling(), EncoderOptions()


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job makes a history of each object of a video.

    video         a path, or an opened Video
    sampling      which frames are used; where it does not say, the encoder's max_fps decides
    where         how it is said where the object is (default: by its name)
    objects       mask ids that are one object, a list of these for each of several, or a text as on
                  the command line ("1,2", "1+2"); "all": each is one; None: the only one
    encoder       a name or an Encoder (None: siglip2)
    id            of the history (default: the name of the video); those of several objects go on
                  with -1, -2+3 …
    """

    video: StrPath | Video
    sampling: Sampling = ALL_FRAMES
    where: ObjectSource = field(default_factory=ByName)
    objects: Objects = None
    encoder: Encoder | str | None = None
    encoder_options: EncoderOptions = USUAL_ENCODER
    id: str | None = None

    def open(self, threads: int | None = None) -> Video:
        """Return the frames to look at; ``threads`` decode them."""
        if isinstance(self.video, str | os.PathLike):
            return open_video(self.video, **vars(self.sampling), threads=threads)
        if self.sampling != Sampling():
            names = ", ".join(changed_options(self.sampling))
            raise InputError(f"{names}: the video is already open; give this to open_video instead")
        return self.video

    def load(self) -> Encoder:
        return self.encoder_options.load(self.encoder)

    def stride_for(
        self, video: Video, max_fps: float | None, existing: Iterable[Mapping[str, str]] = ()
    ) -> int:
        """Return n where one in n frames is used: 1 where the video is open already, the user says
        which frames to take, the encoder is fast, or it is images and not a video. No clock
        decides: another run agrees.

        max_fps    frames per second that the encoder is given, or None for all
        existing   made_with of earlier histories: one of this video keeps its n
        """
        sampling = self.sampling
        if isinstance(self.video, Video) or (sampling.stride, sampling.fps) != (None, None):
            return 1
        for made_with in existing:
            stride = int(made_with.get(FRAME_STEP, "1"))
            if made_with.get("video") == video.thinned(stride).key:
                return stride
        return max(1, round(video.rate / max_fps)) if max_fps and video.rate else 1

    @classmethod
    def of(cls, request: FindRequest, **fields: Any) -> Self:
        """Return the job of a request; ``fields`` are those that a request has not."""
        encoder, options = request.encoder, USUAL_ENCODER
        if isinstance(encoder, LazyModel):
            options, encoder = encoder.options, encoder.name
        first = first_prompts(request.box, request.point)
        prompts = [request.prompts] if isinstance(request.prompts, Prompt) else request.prompts
        if first and prompts:
            raise InputError("prompts are given as well as a box or point; leave one of them out")
        return cls(
            video=request.video if isinstance(request.video, str | os.PathLike | Video) else "",
            sampling=request.sampled,
            where=object_source(
                masks=request.masks,
                prompts=prompts or first,
                fixed=request.fixed,
                whole=request.whole,
                names=request.name or (),
                detector=request.detector,
                tracker=request.tracker,
            ),
            objects=request.objects,
            encoder=encoder,
            encoder_options=options,
            **fields,
        )

    @property
    def locates(self) -> bool:
        """Return whether masks have to be made first, which are kept in the folder of the job."""
        return self.masks is None

    @property
    def masks(self) -> MaskSource | None:
        return self.where.masks if isinstance(self.where, InMasks) else None

    def check_weights(self) -> None:
        """Refuse, before anything is decoded, to go on without all weights that are needed where
        the user names no model."""
        encoder = {} if self.encoder is not None else {"encoder": self.encoder_options.default_name}
        models = {**encoder, **self.where.models()}
        if list(models) != ["tracker"]:  # alone, it is looked for when the prompts are checked
            check_models(**models)

    def observe(
        self,
        video: Video | None = None,
        folder: StrPath | None = None,
        progress: Progress = silent,
        encoder: Encoder | None = None,
    ) -> Observed:
        """Return where the objects are: masks that exist, or are made.

        video     that of the job, where it is open already
        folder    where masks that are made are kept, and those of an earlier run are found
        encoder   that of the job, where it is loaded already: it tells which objects of different
                  shots are the same
        """
        video = video or self.open()
        sight = Sight(
            video=video,
            name=self.id or video.name,
            objects=self.objects,
            folder=folder,
            encoder=self.load if encoder is None else lambda: encoder,
            progress=progress,
        )
        return self.where.observe(sight)

"""Options that commands share, and the settings and requests that are made of them."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
import typer

from dejacue.errors import InputError, unknown
from dejacue.finding.request import FindRequest, Lazy, Sampling, asked_fields
from dejacue.video.sizes import pixel_limit


class TableFormat(StrEnum):
    table = "table"
    json = "json"
    csv = "csv"


def option(
    help: str,
    *names: str,
    panel: str | None = None,
    values: Callable[[], Iterable[str]] | None = None,
    metavar: str | None = None,
) -> Any:
    """Return an option of typer; ``values`` are completed in the shell, and computed only then."""

    def complete(incomplete: str) -> list[str]:
        return [value for value in values() if value.startswith(incomplete)] if values else []

    return typer.Option(
        *names,
        help=help,
        rich_help_panel=panel,
        metavar=metavar,
        autocompletion=complete if values else None,
    )


def asked(name: str) -> Any:
    """Return the option of a field of a request, with its names, help, panel and values."""
    text = asked_fields()[name]
    names = text.names or (f"--{name.replace('_', '-')}",)
    return option(text.help, *names, panel=text.group, values=VALUES.get(name))


def typed_fields(record: type) -> dict[str, inspect.Parameter]:
    """Return the parameters of the fields of a dataclass that are declared as options."""
    hints = get_type_hints(record, include_extras=True)
    return {
        field.name: inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hint
        )
        for field in fields(record)
        if get_origin(hint := hints[field.name]) is Annotated
    }


def takes(*names: str, beside: type | None = None) -> Callable[[Any], Any]:
    """Return a decorator that adds the options of these fields of a request, and of a dataclass
    ``beside`` it, to those of a command, panel by panel; it takes what is typed as keywords."""

    def with_options(command: Any) -> Any:
        own = [*inspect.signature(command, eval_str=True).parameters.values()]
        own = [p for p in own if p.name not in names and p.kind is not p.VAR_KEYWORD]
        own += typed_fields(beside).values() if beside else ()
        parameters = [*map(_parameter, names), *own]
        command.__signature__ = inspect.Signature(
            sorted((p.replace(kind=p.KEYWORD_ONLY) for p in parameters), key=_panel)
        )
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        return command

    return with_options


def _parameter(name: str) -> inspect.Parameter:
    """Return the parameter of a field: an argument, a switch, or an option that may be left out."""
    text = asked_fields()[name]
    default: Any = getattr(FindRequest, name, None)
    annotation: Any = Annotated[text.written | None, asked(name)]
    if name == "video":  # several, of which ``single_path`` says what to do about them
        default = inspect.Parameter.empty
        annotation = Annotated[list[Path], typer.Argument(metavar="VIDEO", help=text.help)]
    elif text.written is bool:
        annotation = Annotated[bool, asked(name)]
    elif not isinstance(default, str):
        default = None
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _panel(parameter: inspect.Parameter) -> int:
    _, *infos = get_args(parameter.annotation) or [None]
    return PANELS.index(getattr(infos[0], "rich_help_panel", None) if infos else None)


def output(help: str, panel: str | None = None) -> Any:
    return option(help, "--output", "-o", panel=panel)


PANELS = (None, "States", "Object", "Frames", "Method", "Results")
FRAMES = ("start", "end", "fps", "stride", "stream")  # fields that say which frames are used
METHOD = "Method"
states_option = partial(option, panel="States")
object_option = partial(option, panel="Object")
method_option = partial(option, panel=METHOD)
results_option = partial(option, panel="Results")


def _readouts() -> list[str]:
    from dejacue.method.localization import READOUTS

    return sorted({*READOUTS, "published"})


def _trackers() -> list[str]:
    from dejacue.models.trackers.sam2 import REPOSITORIES

    return ["sam2", *REPOSITORIES]


def encoders() -> list[str]:
    from dejacue.models.encoders import ENCODERS, EXAMPLES, FAMILIES

    return [*ENCODERS, *FAMILIES, *EXAMPLES]


VALUES = {"readout": _readouts, "tracker": _trackers, "encoder": encoders}

# Settings are rarely changed, so they share the option --set; each with values for the shell.
KERNELS = ["auto", "avx2", "baseline", "numpy"]
MASK_SETTINGS = {
    "kind": ["indexed", "binary", "youtube-vos", "stack", "coco", "boxes", "logits"],
    "match": ["auto", "stem", "source", "one-based", "index"],
}
VIDEO_SETTINGS: dict[str, list[str]] = {
    "rate": [],
    "errors": ["skip", "fail"],
    "max_pixels": [],
}
PRECISION = {"precision": ["fp32", "fp16", "bf16", "int8"]}
ENCODER_SETTINGS = {"backend": ["onnx", "torch"], **PRECISION}
DETECTOR_SETTINGS: dict[str, list[str]] = {"detector": []}
TEMPLATE_SETTINGS = {"templates": ["ensemble", "raw", "photo", "definite"]}
READING_SETTINGS = {
    "coordinates": [
        "vocabulary",
        "absolute",
        "trajectory",
        "dual",
        "query-uniform",
        "dual-query-uniform",
    ],
    "kernel": KERNELS,
    "diagnostics": ["true", "false"],
}
SETTINGS = {
    **MASK_SETTINGS,
    **VIDEO_SETTINGS,
    **ENCODER_SETTINGS,
    **DETECTOR_SETTINGS,
    **TEMPLATE_SETTINGS,
    **READING_SETTINGS,
}
TYPES: dict[str, Any] = {"rate": float, "max_pixels": int, "diagnostics": bool}
VALUE_NAMES = {float: "a number", int: "a whole number", bool: "true or false"}
Choices = Mapping[str, Sequence[str]]


def prepare_options(command: Any) -> None:
    """Say in the help of a command and of those below it what their options take, in words and not
    in types of Python."""
    for parameter in command.params:
        if parameter.param_type_name != "option":
            if parameter.nargs != 1:
                parameter.display_type_rich = lambda ctx: None  # "list[Path]"
            continue
        if parameter.is_flag:
            parameter.metavar = " "
        if parameter.multiple:
            parameter.metavar = parameter.metavar or "<text>"
            parameter.help = f"{parameter.help} Repeatable."
    for inner in getattr(command, "commands", {}).values():
        prepare_options(inner)


def setting(
    choices: Choices, help: str = "", of_readout: Callable[[str], Iterable[str]] | None = None
) -> Any:
    """Return the option --set; ``of_readout`` gives the settings of the readout of that name."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        key, mark, _ = incomplete.partition("=")
        readout_settings = (
            of_readout(context.params.get("readout") or "timeline") if of_readout else ()
        )
        known = [f"{key}=" for key in (*choices, *readout_settings)]
        values = [f"{key}={value}" for value in choices.get(key, ())]
        return [text for text in (values if mark else known) if text.startswith(incomplete)]

    return typer.Option(
        "--set",
        help=help or f"A setting: {', '.join(choices)} (docs/commands.md).",
        metavar="KEY=VALUE",
        rich_help_panel=METHOD,
        autocompletion=complete,
    )


def settings(texts: Iterable[str] | None, choices: Choices) -> dict[str, Any]:
    """Return the values of ``--set KEY=VALUE``; a key that is not in ``choices`` is refused."""
    values = {}
    for key, text in pairs(texts, "--set", "KEY=VALUE, as in --set precision=fp16"):
        if key not in choices:
            raise unknown("setting", key, choices)
        values[key] = setting_value(key, text)
    return values


def setting_value(key: str, text: str, type_: Any = None) -> Any:
    """Return the value that a text gives to a setting, of its declared type or of ``type_``."""
    type_ = type_ or TYPES.get(key, str)
    try:
        return msgspec.convert(text, type_, strict=False)
    except msgspec.ValidationError:
        raise bad_setting(key, text, f"give {VALUE_NAMES.get(type_, str(type_))}") from None


def bad_setting(key: str, text: str, remedy: str) -> InputError:
    return InputError(f'--set {key} "{text}": {remedy}')


def pairs(texts: Iterable[str] | None, name: str, form: str) -> Iterable[tuple[str, str]]:
    """Yield (key, value) of each text KEY=VALUE; ``form`` says how to write them."""
    for text in texts or ():
        key, mark, value = text.partition("=")
        if not mark or not key.strip():
            raise InputError(f'{name} "{text}": give {form}')
        yield key.strip(), value


Texts = list[str] | None

OutputFormat = Annotated[
    TableFormat | None,
    results_option(
        "Output format (default: by the suffix of --output, else table).", "--format", "-f"
    ),
]
Times = Annotated[
    list[Path] | None,
    option(
        "Video or history (.npz) with the timestamps, for references in seconds; for several "
        "objects, one file of the same name each.",
        metavar="FILE",
    ),
]
Engine = Annotated[
    str, option(f"{', '.join(KERNELS)}: same answer, different speed.", values=lambda: KERNELS)
]
Workers = Annotated[
    str,
    option(
        "local, or ray (the machines of a cluster): same answer.",
        "--engine",
        values=lambda: ["local", "ray"],
    ),
]
Decoders = Annotated[
    int | None,
    option("Processes that decode and crop (default: number of cores minus one).", "--workers"),
]
RayAddress = Annotated[
    str | None,
    option("HOST:PORT of the cluster, or auto (default: RAY_ADDRESS, else this machine only)."),
]
FirstMask = Annotated[Texts, object_option("Mask of the object: PICTURE#ID@FRAME.", "--mask")]
Replace = Annotated[bool, option("Replace histories with the same id.", "--replace")]
ReplaceOther = Annotated[
    bool, option("Redo histories that were made from other inputs or options.", "--replace")
]
EncoderName = Annotated[str | None, asked("encoder")]
Device = Annotated[str | None, method_option("Where models of torch run: cuda, mps or cpu.")]
EncoderSettings = Annotated[Texts, setting(ENCODER_SETTINGS)]


def encoder_from(name: str | None, values: Mapping[str, Any], device: str | None) -> Lazy:
    """Return an encoder that is loaded later, with those of the settings that are its own."""
    options = {"backend": None, "precision": None, **values, "device": device}
    names = ("backend", "precision", "device")
    return Lazy(name, {name: options[name] for name in names if options[name] is not None})


def words_from(words: Any, values: Mapping[str, Any], **options: Any) -> Lazy:
    """Return a vocabulary that is read later, with the settings that say how it is encoded."""
    options |= {"templates": values["templates"]} if "templates" in values else {}
    return Lazy(words, options)


_ON, _OFF = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def refuse_values(words: Iterable[object]) -> None:
    """Refuse a value that follows a flag, which would be taken for a path or a name."""
    for word in map(str, words):
        before = sys.argv[sys.argv.index(word) - 1] if word in sys.argv else ""
        if word.lower() not in (*_ON, *_OFF) or before[:2] != "--" or Path(word).exists():
            continue
        off = "give --no-backward" if before == "--backward" else "leave both out"
        instead = f"leave {word} out" if word.lower() in _ON else off
        raise InputError(f"{before} is a switch and takes no value; {instead}")


def check_utf8(name: str) -> None:
    """Refuse a name whose bytes are no text: what is written of it would be none either."""
    if any("\ud800" <= letter <= "\udfff" for letter in name):
        raise InputError(f"{name}: the name is not UTF-8; rename the file")


def check_not_read(output: Path | None, *inputs: object) -> None:
    """Refuse to write over a file that the command reads."""
    paths = [path for path in inputs if isinstance(path, Path) and os.path.exists(path)]
    if output is not None and os.path.exists(output) and any(map(output.samefile, paths)):
        raise InputError(f"{output}: is read by this command; give another output")


def single_path(paths: Sequence[Path]) -> Path:
    """Return the path; refuse the many paths that a shell makes of a glob without quotes."""
    if len(paths) == 1:
        return paths[0]
    refuse_values(paths)
    folders = {path.parent for path in paths}
    if len(folders) > 1 or any(path.suffix != paths[0].suffix for path in paths):
        problem = f"{len(paths)} paths are given, the first is {paths[0]}"
        raise InputError(f"{problem}; give one: a video, a folder of images, or a quoted glob")
    folder, suffix = folders.pop(), paths[0].suffix
    remedy = f"quote the glob: '{folder / f'*{suffix}'}', or give the folder: {folder}"
    raise InputError(f"{len(paths)} files are given; {remedy}")


def request(
    context: typer.Context,
    video: Sequence[Path],
    values: Mapping[str, Any],
    device: str | None,
    *,
    mask: Texts = None,
    tracker_options: Mapping[str, Any] | None = None,
    **asked: Any,
) -> FindRequest:
    """Return the request of a command on one video; its pixel limit holds while the command runs.

    values   of the settings
    asked    the other fields, as they are typed
    """
    from dejacue.models.trackers.prompts import parse_prompts

    context.with_resource(pixel_limit(values.get("max_pixels")))

    def set_among(names: Iterable[str]) -> dict[str, Any]:
        return {name: values[name] for name in names if name in values}

    def taken(*names: str) -> dict[str, Any]:
        return {name: asked.pop(name, None) for name in names}

    masks, encoder, tracker, box, point, like = taken(
        "masks", "encoder", "tracker", "box", "point", "like"
    ).values()
    return FindRequest(
        single_path(video),
        masks=None if masks is None else Lazy(masks, set_among(MASK_SETTINGS)),
        prompts=parse_prompts(box or (), point or (), masks=mask or ()),
        like=like or (),
        sampling=Sampling(**taken("stride", "stream"), **set_among(("rate", "errors"))),
        encoder=encoder_from(encoder, values, device),
        tracker=Lazy(tracker, tracker_options or {}),
        detector=values.get("detector"),
        **asked,
    )

"""Histories and vocabularies on disk: ours, the public release's, and YAML or JSON word lists.

docs/files.md describes the formats.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from dejacue.errors import InputError, in_file, shortened, unknown
from dejacue.files.documents import (
    as_json,
    check_schema,
    declared,
    parse_json,
    read_text,
    unique,
)
from dejacue.files.npz import names_in, read_npz, write_npz
from dejacue.records import Example, History, Vocabulary

HISTORY_SCHEMA = "dejacue.history/1"
VOCABULARY_SCHEMA = "dejacue.vocabulary/2"
MAX_TEXT_BYTES = 1 << 20
MAX_YAML_VALUES = 30_000  # each takes Python a tenth of a millisecond
MAX_DIGITS = 50  # of a YAML number
MAX_BRACKETS = 20  # within each other, in YAML; a vocabulary needs two
_TWICE = "given twice; list its descriptions together"
BOOL = "tag:yaml.org,2002:bool"
_COLUMNS = ("times_s", "source_frames", "presence")
_OF_HISTORY = ("id", "made_with", "visual_features", "frames", "frame_indices", *_COLUMNS)
_STATES = ("states", "state_ids", "state_tokens", "descriptions", "state_texts", "variant_names")
_OF_WORDS = ("object", "text_features", "examples", "example_features", "exhaustive", *_STATES)
_NAMES = ("schema", "encoder", "features", *_OF_HISTORY, *_OF_WORDS)  # others are not unpacked


def file_name(text: str) -> str:
    """Return a text as a name that a file can have."""
    return "".join(c if c.isalnum() or c in "-_.+" else "_" for c in text)


def read_history(path: str | os.PathLike[str]) -> History:
    """Read a ``.npz`` history of ours (features, frames, …) or of the public release
    (visual_features, frame_indices)."""
    arrays = read_npz(path, _NAMES)
    name = os.fspath(path)
    with in_file(name):
        check_schema(_text(arrays, "schema", HISTORY_SCHEMA), HISTORY_SCHEMA)
        if {"states", "descriptions", "text_features"} & set(names_in(path)):
            raise InputError("holds descriptions, so it is a vocabulary; give a history")
        return History(
            _first(arrays, ("features", "visual_features"), name, "a history"),
            arrays.get("frames", arrays.get("frame_indices")),  # type: ignore[arg-type]
            id=_text(arrays, "id", Path(name).name.removesuffix(".npz").removesuffix(".history")),
            encoder=_text(arrays, "encoder", None),
            made_with=_made_with(arrays),
            **{column: arrays.get(column) for column in _COLUMNS},
        )


def write_history(path: str | os.PathLike[str], history: History) -> Path:
    """Write a history as ``.npz``; the file appears whole or not at all."""
    arrays: dict[str, Any] = {"schema": HISTORY_SCHEMA, "id": history.id}
    if history.encoder is not None:
        arrays["encoder"] = history.encoder
    arrays |= {"features": history.features, "frames": history.frames}
    arrays |= {c: getattr(history, c) for c in _COLUMNS if getattr(history, c) is not None}
    if history.made_with is not None:
        arrays["made_with"] = json.dumps(dict(history.made_with))
    return write_npz(path, arrays)


def _made_with(arrays: Mapping[str, NDArray[Any]]) -> dict[str, str] | None:
    text = _text(arrays, "made_with", None)
    if text is None:
        return None
    document = parse_json(text)
    if not isinstance(document, dict):
        raise InputError("made_with must be a JSON object of texts")
    return document


def read_vocabulary(path: str | os.PathLike[str], *, templates: str | None = None) -> Vocabulary:
    """Read a vocabulary from ``.npz`` (with text features), ``.yaml``, ``.yml`` or ``.json``.

    ``templates`` picks one of the variants of a release prompt file (raw, photo, definite).
    """
    name = os.fspath(path)
    suffix = Path(name).suffix.lower()
    if suffix == ".npz":
        return _vocabulary_from_arrays(read_npz(path, _NAMES), name, templates)
    if suffix not in (".yaml", ".yml", ".json"):
        raise InputError(f"{name}: a vocabulary is an .npz, .yaml, .yml or .json file")
    text = read_text(name, MAX_TEXT_BYTES, "check that it is a vocabulary")
    with in_file(name):
        vocabulary = Vocabulary.from_dict(
            parse_json(text, twice=_TWICE) if suffix == ".json" else _parse_yaml(text)
        )
        examples = tuple(_beside(example, Path(name).parent) for example in vocabulary.examples)
        return by_file(replace(vocabulary, examples=examples))


def vocabulary_yaml(
    states: Mapping[str, Sequence[str]], object: str | None = None, *, exhaustive: bool = False
) -> str:
    """Return a vocabulary as the text of a .yaml file."""
    lines = [f"object: {_yaml_scalar(object)}"] if object else []
    lines.append("states:")
    for state, texts in states.items():
        lines.append(f"  {_yaml_scalar(state)}:")
        lines += [f"    - {_yaml_scalar(text)}" for text in texts]
    if exhaustive:
        lines.append("exhaustive: true")
    return "\n".join(lines) + "\n"


def _yaml_scalar(text: str) -> str:
    """Return a text as YAML on one line, in quotes where it needs them."""
    import yaml

    style = '"' if "\n" in text else None
    dumped = yaml.safe_dump(text, allow_unicode=True, width=1 << 20, default_style=style)
    return dumped.removesuffix("...\n").strip()


def by_file(vocabulary: Vocabulary) -> Vocabulary:
    """Return the vocabulary with frames counted as those of the file: so a list means the same,
    however the video is sampled."""

    def counted(example: Example) -> Example:
        in_frames = example.span is not None and example.unit == "frames"
        return structs.replace(example, unit="source") if in_frames else example

    return replace(
        vocabulary,
        examples=tuple(map(counted, vocabulary.examples)),
        changes=tuple(map(counted, vocabulary.changes)),
    )


def is_there(path: Path) -> bool:
    """Return whether something of this name exists; any text may be asked about."""
    try:
        return path.exists()
    except (OSError, ValueError):  # too long for a name, or with a zero in it
        return False


def _beside(example: Example, folder: Path) -> Example:
    """Return the example with the path of its source, if that lies beside the list: it is meant,
    wherever the command runs."""
    if example.source is None:
        return example
    head = example.source.rpartition("@")[0]
    is_beside = is_there(folder / example.source) or (head and is_there(folder / head))
    return structs.replace(example, source=str(folder / example.source)) if is_beside else example


def write_vocabulary(path: str | os.PathLike[str], vocabulary: Vocabulary) -> Path:
    """Write a vocabulary with its text features as ``.npz``; whole or not at all."""
    if vocabulary.features is None and not vocabulary.examples:
        raise InputError("a vocabulary without text features is written as YAML or JSON, not .npz")
    arrays: dict[str, Any] = {"schema": VOCABULARY_SCHEMA}
    for key in ("encoder", "object"):
        if getattr(vocabulary, key) is not None:
            arrays[key] = getattr(vocabulary, key)
    arrays["states"] = np.array(vocabulary.state_names)
    texts = [text for group in vocabulary.states.values() for text in group or ("",)]
    arrays["descriptions"] = np.array(texts)
    if vocabulary.features is not None:
        arrays["features"] = vocabulary.features
    if vocabulary.exhaustive:
        arrays["exhaustive"] = True
    if vocabulary.examples or vocabulary.changes:
        arrays |= _example_arrays(vocabulary)
    return write_npz(path, arrays)


def _example_arrays(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return a JSON text of examples and changes, and the features of those from elsewhere, which
    it names by their row."""
    rows: list[NDArray[Any]] = []

    def number(features: NDArray[Any]) -> int:
        rows.append(features)
        return len(rows) - 1

    plain = msgspec.to_builtins((vocabulary.examples, vocabulary.changes), enc_hook=number)
    arrays: dict[str, Any] = {"examples": as_json(plain)}
    if rows:
        arrays["example_features"] = np.stack(rows).astype(np.float32)
    return arrays


def _examples_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    text = _text(arrays, "examples", None)
    if text is None:
        return {}
    rows = arrays.get("example_features", np.empty((0, 1)))
    if rows.ndim != 2:
        raise InputError(f"example_features must be rows × dimensions, not of shape {rows.shape}")
    examples, changes = declared(parse_json(text), tuple[list[Example], list[Example]], rows=rows)
    return {"examples": examples, "changes": tuple(changes)}


def _vocabulary_from_arrays(
    arrays: dict[str, NDArray[Any]], name: str, templates: str | None
) -> Vocabulary:
    what = "a vocabulary"
    with in_file(name):
        check_schema(_text(arrays, "schema", VOCABULARY_SCHEMA), VOCABULARY_SCHEMA)
        fields = _examples_from_arrays(arrays)
        fields |= {key: _text(arrays, key, None) for key in ("encoder", "object")}
        fields["exhaustive"] = "exhaustive" in arrays
        features = None
        if "features" in arrays or "examples" not in fields:
            features = _first(arrays, ("features", "text_features"), name, what)
            features = _template_variant(arrays, features, templates)
        states = _first(arrays, ("states", "state_ids", "state_tokens"), name, what)
        texts = _first(arrays, ("descriptions", "state_texts"), name, what)
        rows = states.shape if features is None else features.shape[:1]
        if states.ndim != 1 or texts.shape != states.shape or rows != states.shape:
            raise InputError(
                f"{rows} rows of features, states of shape {states.shape} and descriptions of "
                f"shape {texts.shape}; give one state and one description per row"
            )
        if states.dtype.kind != "U" or texts.dtype.kind != "U":
            problem = f"states ({states.dtype}) and descriptions ({texts.dtype}) must be text"
            raise InputError(problem)
        return grouped_vocabulary(states.tolist(), texts.tolist(), features, **fields)


def grouped_vocabulary(
    states: list[str], texts: list[str], features: NDArray[Any] | None, **fields: Any
) -> Vocabulary:
    """Return a vocabulary of rows in any order: states by first appearance, rows in order. Without
    features, a state may have no description but an empty one."""
    groups: dict[str, list[int]] = {}
    for row, state in enumerate(states):
        groups.setdefault(state, []).append(row)
    order = [row for rows in groups.values() for row in rows]
    if features is not None and order != sorted(order):
        features = features[order]
    names = {
        state: [texts[row] for row in rows if texts[row] or features is not None]
        for state, rows in groups.items()
    }
    return Vocabulary(names, features, **fields)


def _template_variant(
    arrays: dict[str, NDArray[Any]], features: NDArray[Any], templates: str | None
) -> NDArray[Any]:
    if "variant_names" not in arrays:
        if templates is not None:
            problem = "holds one form of each description, so there are no templates to choose from"
            raise InputError(f"{problem}; leave templates out")
        return features
    known = [str(variant) for variant in arrays["variant_names"].ravel().tolist()]
    if features.ndim != 3 or len(features) != len(known):
        raise InputError(f"{len(known)} variant names for features {features.shape}")
    if templates is None:
        problem = f"holds the templates {', '.join(known)}"
        raise InputError(f"{problem}; choose one, as with the setting templates={known[0]}")
    if templates not in known:
        raise unknown("templates", templates, known)
    return np.asarray(features[known.index(templates)])


def _first(
    arrays: Mapping[str, NDArray[Any]], keys: tuple[str, ...], name: str, what: str
) -> NDArray[Any]:
    for key in keys:
        if key in arrays:
            return arrays[key]
    names = names_in(name)
    listed = ", ".join(names[:8]) + (", …" if len(names) > 8 else "") or "nothing"
    raise InputError(f"no {' or '.join(keys)}; it holds {listed} and is not {what}")


def _text(arrays: Mapping[str, NDArray[Any]], key: str, default: Any) -> Any:
    if key not in arrays:
        return default
    value = arrays[key]
    if value.ndim or value.dtype.kind != "U":
        raise InputError(f"{key} must be one piece of text, not {value.dtype} {value.shape}")
    return str(value)


def _parse_yaml(text: str) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        """YAML in which a key may appear only once; plain YAML silently keeps the last."""

        def fetch_flow_collection_start(self, kind: Any) -> None:
            if self.flow_level >= MAX_BRACKETS:  # the time grows with their square
                line = self.get_mark().line + 1
                raise InputError(f"not valid YAML (line {line}: brackets nested too deeply)")
            super().fetch_flow_collection_start(kind)

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.values = getattr(self, "values", 0) + 1
            if self.values > MAX_YAML_VALUES:
                raise InputError(f"holds more than {MAX_YAML_VALUES} values; write it as JSON")
            return super().compose_node(parent, index)

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        make, pairs = loader.construct_object, []
        for key, value in node.value:
            is_flag = key.value == "exhaustive" and value.tag == BOOL  # the only one there is
            flag = loader.construct_yaml_bool(value) if is_flag else make(value, deep=True)
            pairs.append((make(key, deep=True), flag))
        return unique(pairs, _TWICE)

    def truth(loader: Any, node: Any) -> Any:
        if node.value.lower() not in loader.bool_values:
            return loader.construct_yaml_bool(node)  # and fails
        problem = f"YAML reads {node.value} as true or false, not as a word"
        remedy = f'put it in quotes: "{node.value}"'
        raise InputError(f"line {node.start_mark.line + 1}: {problem}; {remedy}")

    def number(loader: Any, node: Any) -> Any:
        if len(node.value) > MAX_DIGITS:  # 1:1:1:… are as many digits of base 60
            problem = f"YAML reads {shortened(node.value, 40)} as a number, not as a word"
            line, remedy = node.start_mark.line + 1, "put it in quotes"
            raise InputError(f"line {line}: {problem}; {remedy}")
        return yaml.SafeLoader.yaml_constructors[node.tag](loader, node)

    for tag in ("int", "float"):
        Loader.add_constructor(f"tag:yaml.org,2002:{tag}", number)
    Loader.add_constructor(BOOL, truth)
    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    try:
        return yaml.load(text, Loader=Loader)
    except InputError:
        raise
    except Exception as error:  # tagged values (!!int, !!bool, …) raise many kinds of errors
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"not valid YAML ({reason})") from None

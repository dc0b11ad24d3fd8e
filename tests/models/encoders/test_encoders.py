"""Encoders on small models with the published classes and file layout: no weights, no network."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
from importlib.metadata import EntryPoint
from typing import NamedTuple

import numpy as np
import pytest
from helpers.errors import refused
from helpers.published_model import add_smaller

from dejacue import Vocabulary, plugins
from dejacue.atomic import write_text
from dejacue.errors import MissingData
from dejacue.models import weights
from dejacue.models.encoders import (
    base,
    encode_vocabulary,
    load_encoder,
    siglip,
)
from dejacue.models.encoders.base import Encoder, unit
from dejacue.models.encoders.mini import WordTokenizer
from dejacue.models.encoders.siglip import ONNX_REPOSITORY, run
from dejacue.models.weights import Weights

TEXTS = ["empty cup", "Cup filled with espresso", "a photo of the empty cup"]


def crops(seed: int = 0, count: int = 5) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    sides = rng.integers(5, 90, size=(count, 2))
    return [rng.integers(0, 256, size=(h, w, 3), dtype=np.uint8) for h, w in sides]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["onnx", "torch"])
def test_rows_are_unit_and_named_by_the_published_model(offline, backend) -> None:
    encoder = load_encoder("siglip2", backend=backend)
    rows = encoder.encode_images(crops())
    assert rows.shape == (5, encoder.dimension) == (5, 32)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert encoder.encode_texts(TEXTS).shape == (3, 32)
    assert encoder.identity == f"google/siglip2-base-patch16-224@{siglip.REVISION}"
    assert encoder.details["backend"] == backend
    assert any(len(value) == 64 for value in encoder.details.values())  # a sha256


@pytest.mark.filterwarnings("ignore")
def test_both_back_ends_agree(offline) -> None:
    onnx, torch = (load_encoder("siglip2", backend=name) for name in ("onnx", "torch"))
    texts = np.abs(onnx.encode_texts(TEXTS) - torch.encode_texts(TEXTS)).max()
    images = np.abs(onnx.encode_images(crops()) - torch.encode_images(crops())).max()
    assert texts < 1e-5
    assert images < 1e-5


@pytest.mark.filterwarnings("ignore")
def test_an_image_does_not_depend_on_its_batch(offline) -> None:
    encoder = load_encoder("siglip2", backend="torch")
    images = crops(1, 7)
    alone = np.concatenate([encoder.encode_images([image]) for image in images])
    np.testing.assert_allclose(encoder.encode_images(images), alone, atol=1e-5)


def test_texts_are_lower_cased_by_default(offline) -> None:
    path = offline / siglip.REPOSITORY / "tokenizer.json"
    lower, exact = siglip.Tokenizer(path), siglip.Tokenizer(path, lower=False)
    assert lower(["Cup"]).tolist() == lower(["cup"]).tolist() != exact(["Cup"]).tolist()


def test_texts_are_padded_to_64_tokens_and_cut_there(offline) -> None:
    tokens = siglip.Tokenizer(offline / siglip.REPOSITORY / "tokenizer.json")
    short, long = tokens(["empty cup", "cup " * 100])
    assert short.tolist() == [3, 4, 1] + [0] * 61
    assert len(long) == 64
    assert long[-1] == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["onnx", "torch"])
def test_siglip_says_which_words_it_does_not_know(offline, backend) -> None:
    spelling = load_encoder("siglip2", backend=backend).spelling("Empty mug")
    assert (spelling.unknown, spelling.in_pieces, spelling.cut) == (("mug",), (), "")


class Words(Encoder):
    """Counts letters, and remembers the texts that it encoded last."""

    name = identity = "words"
    dimension, size, details = 26, 8, {}

    def encode_images(self, crops):
        return np.ones((len(crops), 26), np.float32)

    def encode_texts(self, texts):
        self.texts = list(texts)
        return np.array([[t.count(chr(97 + k)) + 0.1 for k in range(26)] for t in texts])


def test_the_ensemble_is_the_mean_of_three_unit_forms() -> None:
    words = Vocabulary({"empty": ["empty cup"], "full": ["full cup"]}, object="cup")
    encoder = Words()
    encoded = encode_vocabulary(words, encoder)
    assert encoder.texts[::2] == ["empty cup", "a photo of empty cup", "the empty cup"]
    rows = [encoder.encode_texts([form.format("empty cup")])[0] for form in base.FORMS.values()]
    mean = np.mean([row / np.linalg.norm(row) for row in rows], axis=0)
    np.testing.assert_allclose(encoded.features[0], mean / np.linalg.norm(mean), atol=1e-6)
    assert (encoded.encoder, encoded.object) == ("words", "cup")
    raw = encode_vocabulary(words, encoder, templates="raw")
    assert encoder.texts == ["empty cup", "full cup"]
    assert raw.features.shape == (2, 26)
    assert encoder.spelling("empty cup") is None  # one that does not say
    with refused("templates", "foto"):
        encode_vocabulary(words, encoder, templates="foto")


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_rows_that_cannot_be_used_are_named(value) -> None:
    rows = np.ones((3, 4))
    rows[1] = value
    with refused("image", 1):
        unit(rows, "image")


def test_an_unknown_encoder_suggests_the_nearest() -> None:
    with refused("encoder", "siglip", '"siglip2"'):
        load_encoder("siglip")
    with refused("backend", "tensorflow"):
        load_encoder("siglip2", backend="tensorflow")
    with refused("precision of the ONNX back end", "int4"):
        load_encoder("siglip2", backend="onnx", precision="int4")


def test_plug_ins_are_found_and_checked(monkeypatch) -> None:
    entry = EntryPoint("words", f"{__name__}:Words", "dejacue.encoders")
    monkeypatch.setattr(plugins, "entry_points", lambda group: {"words": entry})
    assert isinstance(load_encoder("words"), Words)
    entry = EntryPoint("words", "builtins:dict", "dejacue.encoders")
    with refused("words"):
        load_encoder("words")


# Files


def write_weights(folder, **files) -> Weights:
    (folder / "a" / "b").mkdir(parents=True)
    for name, text in files.items():
        (folder / "a" / "b" / name).write_text(text)
    known = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    return Weights("a/b", "abc", known)


def test_files_are_taken_from_the_folder_that_is_named_and_others_are_refused(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("DEJACUE_WEIGHTS", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    published = write_weights(tmp_path, config="{}")
    path = tmp_path / "a" / "b" / "config"
    assert weights.fetch(published) == {"config": path}
    path.write_text("[]")
    with refused(path):
        weights.fetch(published)


def test_a_hash_is_remembered_until_the_file_changes(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "file"
    path.write_bytes(b"one")
    first = weights.sha256(path)
    assert first == hashlib.sha256(b"one").hexdigest()
    memory = json.loads((tmp_path / "cache" / "dejacue" / "hashes.json").read_text())
    assert memory[str(path)][2] == first
    path.write_bytes(b"other")
    assert weights.sha256(path) == hashlib.sha256(b"other").hexdigest()


@pytest.mark.parametrize("content", ["[1]", '"x"', "3", "[" * 100_000, "{", '{"a": 1}', "\xff"])
def test_a_damaged_memory_of_hashes_is_made_anew(tmp_path, monkeypatch, content) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    memory = write_text(tmp_path / "cache" / "dejacue" / "hashes.json", content)
    (tmp_path / "file").write_bytes(b"one")
    assert weights.sha256(tmp_path / "file") == hashlib.sha256(b"one").hexdigest()
    assert str(tmp_path / "file") in json.loads(memory.read_text())


@pytest.fixture
def no_hub(tmp_path, monkeypatch):
    """Replace the hub by one that cannot be reached; return the repositories that were tried."""
    import huggingface_hub

    tried: list[str] = []

    class Api:
        def model_info(self, repository, **_):
            tried.append(repository)
            raise OSError("Connection refused")

    monkeypatch.delenv("DEJACUE_WEIGHTS", raising=False)
    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    return tried


def test_one_sentence_names_model_and_tokenizer_files_with_their_folders(no_hub) -> None:
    with pytest.raises(MissingData) as caught:
        load_encoder("siglip2", backend="onnx", precision="fp16")
    reason = "no connection to huggingface.co"
    assert str(caught.value) == (
        f"{ONNX_REPOSITORY} and {siglip.REPOSITORY} could not be downloaded ({reason}); on a "
        f"machine with a connection, run: hf download {ONNX_REPOSITORY} "
        "onnx/vision_model_fp16.onnx onnx/text_model_fp16.onnx --revision main --local-dir "
        f"FOLDER/{ONNX_REPOSITORY} && hf download {siglip.REPOSITORY} tokenizer.json --revision "
        f"{siglip.REVISION} --local-dir FOLDER/{siglip.REPOSITORY}; then copy FOLDER here and set "
        "DEJACUE_WEIGHTS to it"
    )
    assert no_hub == [ONNX_REPOSITORY]  # the others would only make one wait


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("precision", ["int8", "fp16"])
def test_smaller_exports_are_near_the_whole_one(
    offline, tmp_path, monkeypatch, dejacue, precision, release
) -> None:
    # made here of the small model, as those of the hub are of the published one
    root = tmp_path / "weights"
    shutil.copytree(offline, root)
    add_smaller(root, precision)
    monkeypatch.setenv("DEJACUE_WEIGHTS", str(root))
    encoder = load_encoder("siglip2", backend="onnx", precision=precision)
    assert encoder.details["precision"] == precision
    assert encoder.details["export"].endswith("@unknown, not checked")
    assert len(encoder.details[f"sha256 onnx/vision_model_{precision}.onnx"]) == 64
    exact = load_encoder("siglip2", backend="onnx")
    assert not np.array_equal(exact.encode_images(crops()), encoder.encode_images(crops()))
    images, texts = siglip.cosines(precision)
    assert 0.95 < images < 1
    assert 0.95 < texts < 1
    monkeypatch.setenv("DEJACUE_DATA", str(release.folder))
    ran = dejacue("weights", "check", f"siglip2:{precision}")
    assert ran.code == 2  # it runs, but is not the model of the paper
    assert (
        f"siglip2:{precision}: 1 − cosine with fp32 at most {1 - images:.4f} (images) and "
        f"{1 - texts:.4f} (texts)"
    ) in " ".join(ran.out.split())


def test_a_vocabulary_is_encoded_by_the_name_of_an_encoder() -> None:
    words = {"empty": ["empty cup"], "full": ["full cup"]}
    named = encode_vocabulary(words, "mini")
    assert np.array_equal(named.features, encode_vocabulary(words, load_encoder("mini")).features)
    with refused("encoder", "minni"):
        encode_vocabulary(words, "minni")


def test_mini_names_words_that_it_does_not_know_and_refuses_nothing_but_such() -> None:
    with pytest.warns(UserWarning, match="^words that mini does not know: xyzzy$"):
        encode_vocabulary({"empty": ["empty cup"], "full": ["xyzzy cup"]}, "mini")
    with refused("encoder", "mini"):
        encode_vocabulary({"empty": ["the plugh"], "full": ["a xyzzy"]}, "mini")


def test_of_few_cores_only_those_are_used(monkeypatch) -> None:
    monkeypatch.setattr(siglip.os, "cpu_count", lambda: 8)
    monkeypatch.setattr(siglip.os, "sched_getaffinity", lambda _: {1, 5}, raising=False)
    assert siglip._threads() == 2
    monkeypatch.setattr(siglip.os, "sched_getaffinity", lambda _: set(range(8)))
    assert siglip._threads() == 0  # as many as there are


def test_a_hub_that_cannot_be_reached_is_tried_once_and_not_for_long(monkeypatch) -> None:
    from huggingface_hub import constants

    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "DEJACUE_WEIGHTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("it was tried again"))
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))  # nobody listens
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        with refused("a/b", kind=MissingData) as caught:
            weights.fetch(Weights("a/b", "main", {"x": None}))
        assert "(no connection to 127.0.0.1)" in str(caught.value)
        server.listen()  # somebody who never answers
        monkeypatch.setattr(weights, "REPLY_TIMEOUT_S", 0.05)
        with refused("a/b", kind=MissingData) as caught:
            weights.fetch(Weights("a/b", "main", {"x": None}))
        assert "(no connection to 127.0.0.1)" in str(caught.value)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(MissingData, match="HF_HUB_OFFLINE is set"):
        weights.fetch(Weights("a/b", "main", {"x": None}))


def test_a_folder_of_ones_own_lacks_what_it_lacks(no_hub, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("DEJACUE_WEIGHTS", str(tmp_path))
    (tmp_path / ONNX_REPOSITORY / "onnx").mkdir(parents=True)
    (tmp_path / ONNX_REPOSITORY / "onnx" / "vision_model.onnx").write_bytes(b"")
    (tmp_path / siglip.REPOSITORY).mkdir(parents=True)
    with pytest.raises(MissingData) as caught:
        load_encoder("siglip2", backend="onnx")
    assert str(caught.value).startswith(
        f"{ONNX_REPOSITORY} and {siglip.REPOSITORY}: has no onnx/text_model.onnx, tokenizer.json; "
        f"on a machine with a connection, run: hf download {ONNX_REPOSITORY} "
    )
    assert str(caught.value).endswith(f"/{siglip.REPOSITORY}; then copy {tmp_path} here")
    assert no_hub == []


def test_files_that_are_not_in_the_cache_are_downloaded(tmp_path, monkeypatch) -> None:
    import huggingface_hub

    downloaded = []

    def cached(repository, name, *, revision):
        return str(tmp_path / name) if (tmp_path / name).exists() else None

    def download(repository, name, **_):
        downloaded.append(name)
        (tmp_path / name).write_text(name)
        return cached(repository, name, revision="")

    monkeypatch.delenv("DEJACUE_WEIGHTS", raising=False)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", cached)
    monkeypatch.setattr(weights, "ask_hub", lambda *_: None)
    (tmp_path / "old").write_text("old")
    first = Weights("a/b", "abc", {"old": None, "new": None})
    second = Weights("c/d", "e", {"x": None})
    assert weights.fetch(first, second) == {name: tmp_path / name for name in ("old", "new", "x")}
    assert downloaded == ["new", "x"]


def test_a_commit_is_known_in_the_cache_of_the_hub_only(tmp_path) -> None:
    commit = "0123456789" * 4
    snapshot = tmp_path / "hub" / "models--a--b" / "snapshots"
    assert weights.commit(snapshot / commit / "onnx" / "vision_model.onnx") == commit
    assert weights.commit(snapshot / "main" / "vision_model.onnx") is None
    assert weights.commit(snapshot) is None
    assert weights.commit(tmp_path / "a" / "b" / "vision_model.onnx") is None


def test_of_several_outputs_the_pooled_one_is_taken() -> None:
    class Port(NamedTuple):
        name: str
        type: str = "tensor(float)"

    class Model:
        def __init__(self, *outputs: str) -> None:
            self.outputs = outputs

        def get_inputs(self):
            return [Port("pixel_values")]

        def get_outputs(self):
            return [Port(name) for name in self.outputs]

        def run(self, names, values):
            return [(names, values)]

    for outputs, expected in (
        (("last_hidden_state", "pooler_output"), ["pooler_output"]),
        (("embeds", "last_hidden_state"), ["embeds"]),
    ):
        assert run(Model(*outputs), "pixel_values", 3)[0] == expected
    with refused("input_ids"):
        run(Model("embeds"), "input_ids", 3)


@pytest.mark.parametrize(
    ("device", "backend"), [("cuda", "torch"), ("mps", "torch"), ("cpu", "onnx")]
)
def test_the_default_back_end_is_torch_where_there_is_an_accelerator(
    monkeypatch, device, backend
) -> None:
    pytest.importorskip("transformers")
    from dejacue.models.encoders import torch_models

    monkeypatch.setattr(torch_models, "choose_device", lambda name: name or device)
    monkeypatch.setattr(siglip, "TorchSiglip", lambda **_: "torch")
    monkeypatch.setattr(siglip, "OnnxSiglip", lambda **_: "onnx")
    assert load_encoder("siglip2") == backend
    assert load_encoder("siglip2", backend="onnx") == "onnx"


def test_the_words_of_mini_are_numbered_below_their_count() -> None:
    words = WordTokenizer.of(["a red cup", "a cup"])
    assert len(words) == 5  # three words, padding and the unknown word
    assert sorted({*words(["a red cup", "blue"]).ravel().tolist()}) == [*range(len(words))]

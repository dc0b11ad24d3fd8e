"""hf:NAME on small models with the classes and files of the hub."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.errors import refused
from helpers.small_models import (
    SHARED,
    TEXTS,
    crops,
    one_sentence,
    save_clip,
    save_metaclip,
    save_siglip,
    torch,
    transformers,
)

from dejacue import History, load_encoder
from dejacue.errors import MissingData, MissingExtra
from dejacue.models.encoders import SIZES, encoder_name
from dejacue.video.crops import fit

pytestmark = [
    pytest.mark.usefixtures("own_cache"),
    pytest.mark.filterwarnings("ignore"),
]  # what transformers deprecates is not ours

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {
        "clip": save_clip(root / "small-clip"),
        "siglip": save_siglip(root / "small-siglip"),
        "metaclip": save_metaclip(root / "small-metaclip"),
    }


# hf:NAME


@pytest.mark.parametrize(("kind", "dimension"), [("clip", 24), ("siglip", 32), ("metaclip", 24)])
def test_rows_of_a_folder_are_unit_and_of_the_size_it_states(saved, kind, dimension) -> None:
    encoder = load_encoder(f"hf:{saved[kind]}", device="cpu")
    assert (encoder.dimension, encoder.size) == (dimension, 32)
    for rows in (encoder.encode_images(crops()), encoder.encode_texts([*TEXTS, "x", "y"])):
        assert rows.shape == (5, dimension)
        assert rows.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)


def test_it_says_which_words_it_does_not_know_and_what_is_cut(saved) -> None:
    letters, whole = (
        load_encoder(f"hf:{saved[kind]}", device="cpu") for kind in ("clip", "siglip")
    )
    assert letters.spelling("empty cup").in_pieces == ("empty", "cup")
    assert letters.spelling("a b").in_pieces == ()
    assert letters.spelling("a " * 40).cut == "a " * 11 + "a"  # 30 with start and end
    assert whole.spelling("empty mug").unknown == ("mug",)
    assert whole.spelling("cup " * 20).cut == "cup " * 4 + "cup"


def test_images_of_a_clip_are_scaled_by_its_own_mean_and_deviation(saved) -> None:
    """A square of its size is neither resized nor cut, so it can be computed by hand."""
    encoder = load_encoder(f"hf:{saved['clip']}", device="cpu")
    square = fit(crops()[0], 32)
    mean, deviation = (
        transformers.image_utils.OPENAI_CLIP_MEAN,
        (0.26862954, 0.26130258, 0.27577711),
    )
    pixels = (square / 255 - np.array(mean)) / np.array(deviation)
    batch = torch.from_numpy(pixels.transpose(2, 0, 1)[None].astype(np.float32))
    model = transformers.CLIPModel.from_pretrained(saved["clip"]).eval()
    with torch.inference_mode():
        output = model.get_image_features(pixel_values=batch)
    row = getattr(output, "pooler_output", output).numpy()[0]
    expected = row / np.linalg.norm(row)
    np.testing.assert_allclose(encoder.encode_images([square])[0], expected, atol=1e-5)


def test_texts_are_padded_to_the_full_length_alone_or_together(saved) -> None:
    encoder = load_encoder(f"hf:{saved['siglip']}", device="cpu")
    alone = np.concatenate([encoder.encode_texts([text]) for text in TEXTS])
    np.testing.assert_allclose(encoder.encode_texts(TEXTS), alone, atol=1e-5)
    ids = torch.zeros((1, 16), dtype=torch.int64)
    ids[0, :2] = torch.tensor([encoder._tokenizer.convert_tokens_to_ids("cup"), 1])
    with torch.inference_mode():
        output = encoder._model.get_text_features(input_ids=ids)
    row = getattr(output, "pooler_output", output).numpy()[0]
    np.testing.assert_allclose(alone[2], row / np.linalg.norm(row), atol=1e-5)
    assert encoder.encode_texts(["cup " * 100]).shape == (1, 32)  # cut, not refused


def test_an_image_does_not_depend_on_its_batch(saved) -> None:
    encoder = load_encoder(f"hf:{saved['clip']}", device="cpu", batch=2)
    images = crops(1, 5)
    alone = np.concatenate([encoder.encode_images([image]) for image in images])
    np.testing.assert_allclose(encoder.encode_images(images), alone, atol=1e-5)


def test_three_rows_of_pixels_are_not_taken_for_three_channels(saved) -> None:
    encoder = load_encoder(f"hf:{saved['siglip']}", device="cpu")
    flat = np.random.default_rng(3).integers(0, 256, (3, 60, 3), dtype=np.uint8)
    expected = encoder.encode_images([fit(flat, 32)])
    np.testing.assert_allclose(encoder.encode_images([flat]), expected, atol=0.02)


def test_a_folder_is_known_by_its_weights_and_not_by_its_place(saved, tmp_path) -> None:
    first = load_encoder(f"hf:{saved['clip']}", device="cpu").identity
    assert first.startswith("small-clip@")
    moved = shutil.copytree(saved["clip"], tmp_path / "small-clip")
    assert load_encoder(f"hf:{moved}", device="cpu").identity == first
    torch.manual_seed(5)
    model = transformers.CLIPModel(transformers.CLIPConfig.from_pretrained(moved))
    model.save_pretrained(moved)
    assert load_encoder(f"hf:{moved}", device="cpu").identity != first


def test_a_name_is_found_in_the_cache_of_the_hub_with_its_commit(
    saved, tmp_path, monkeypatch
) -> None:
    repository = tmp_path / "hub" / "models--someone--small-clip"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    snapshot = repository / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    for path in saved["clip"].iterdir():
        (snapshot / path.name).write_bytes(path.read_bytes())
    offline(monkeypatch, tmp_path / "hub")
    encoder = load_encoder("hf:someone/small-clip", device="cpu")
    here = load_encoder(f"hf:{saved['clip']}", device="cpu")
    assert encoder.identity == f"someone/{here.identity}"  # the hash of the same weights
    assert encoder.details["unpinned"] == COMMIT
    assert here.details["unpinned"] == "unknown commit"
    assert len(encoder.details["sha256 model.safetensors"]) == 64
    np.testing.assert_array_equal(encoder.encode_texts(TEXTS), here.encode_texts(TEXTS))


def offline(monkeypatch, cache: Path) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))


def test_a_name_that_is_not_here_is_one_sentence_with_the_line_that_fetches_it(
    tmp_path, monkeypatch
) -> None:
    offline(monkeypatch, tmp_path / "hub")
    with refused(
        "hf:nobody/nothing",
        "hf download nobody/nothing --local-dir FOLDER/nobody/nothing",
        kind=MissingData,
    ) as caught:
        load_encoder("hf:nobody/nothing", device="cpu")
    assert one_sentence(str(caught.value))
    with refused("hf:./nothing/here", kind=MissingData):
        load_encoder("hf:./nothing/here", device="cpu")


def test_a_folder_for_weights_is_looked_into_first(saved, tmp_path, monkeypatch) -> None:
    shutil.copytree(saved["clip"], tmp_path / "someone" / "theirs")
    offline(monkeypatch, tmp_path / "hub")
    monkeypatch.setenv("DEJACUE_WEIGHTS", str(tmp_path))
    encoder = load_encoder("hf:someone/theirs", device="cpu")
    assert encoder.identity.startswith("someone/theirs@")


class Hub:
    """A hub with the files of a folder, which are copied to another when they are downloaded."""

    def __init__(self, files: Path, cache: Path, error: Exception | None = None) -> None:
        self.files, self.cache, self.error = files, cache, error

    def model_info(self, name, *, revision, timeout):
        if self.error:
            raise self.error

    def snapshot_download(
        self, name, *, revision, ignore_patterns, local_files_only=False, allow_patterns=()
    ):
        from huggingface_hub.utils import filter_repo_objects

        if local_files_only:
            raise FileNotFoundError("not in the cache")
        self.cache.mkdir(exist_ok=True)
        names = [str(path.relative_to(self.files)) for path in self.files.rglob("*.*")]
        for file in filter_repo_objects(
            names, allow_patterns=allow_patterns, ignore_patterns=ignore_patterns
        ):
            (self.cache / file).parent.mkdir(exist_ok=True)
            shutil.copy(self.files / file, self.cache / file)
        return str(self.cache)


def replace_hub(monkeypatch, *of_hub) -> None:
    import huggingface_hub

    hub = Hub(*of_hub)
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: hub)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub.snapshot_download)


def test_of_a_repository_only_one_kind_of_weights_is_fetched(saved, tmp_path, monkeypatch) -> None:
    files = copied(saved["clip"], tmp_path / "files")
    (files / "onnx").mkdir()
    for name in ("README.md", "onnx/model.safetensors", "pytorch_model.bin"):
        (files / name).write_bytes(b"?")
    replace_hub(monkeypatch, files, tmp_path / "first")
    encoder = load_encoder("hf:someone/small", device="cpu")
    downloaded = {
        str(path.relative_to(tmp_path / "first")) for path in (tmp_path / "first").rglob("*")
    }
    assert downloaded == {path.name for path in saved["clip"].iterdir()}
    assert encoder.identity.startswith("someone/small@")
    (files / "model.safetensors").rename(files / "weights.gguf")
    (files / "pytorch_model.bin").unlink()
    replace_hub(monkeypatch, files, tmp_path / "second")
    with refused("model", "hf:someone/small", kind=MissingData):
        load_encoder("hf:someone/small", device="cpu")


def test_gated_and_unknown_models_are_distinguished(tmp_path, monkeypatch) -> None:
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    for kind, remedy in (
        (GatedRepoError, "accept its terms"),
        (RepositoryNotFoundError, "check the name"),
    ):
        replace_hub(monkeypatch, tmp_path, tmp_path, kind.__new__(kind))
        with pytest.raises(MissingData, match=remedy) as caught:
            load_encoder("hf:facebook/dinov3", device="cpu")
        assert one_sentence(str(caught.value))


def copied(folder: Path, place: Path) -> Path:
    return Path(shutil.copytree(folder, place))


def test_folders_that_hold_no_model_are_named(saved, tmp_path) -> None:
    with refused(tmp_path, kind=MissingData) as caught:
        load_encoder(f"hf:{tmp_path}", device="cpu")
    assert one_sentence(str(caught.value))
    broken = copied(saved["clip"], tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"not this")
    with refused(f"hf:{broken}", kind=MissingData) as caught:
        load_encoder(f"hf:{broken}", device="cpu")
    assert one_sentence(str(caught.value))


@pytest.mark.parametrize("file", ["config.json", "preprocessor_config.json"])
def test_a_file_that_is_missing_is_named(saved, tmp_path, file) -> None:
    folder = copied(saved["clip"], tmp_path / "lacking")
    (folder / file).unlink()
    with refused(f"hf:{folder}", f"no {file}") as caught:
        load_encoder(f"hf:{folder}", device="cpu")
    assert one_sentence(str(caught.value))


def test_a_tokenizer_whose_words_are_missing_is_refused(saved, tmp_path) -> None:
    folder = copied(saved["clip"], tmp_path / "speechless")
    (folder / "tokenizer.json").unlink()
    with refused("check that its files are complete"):
        load_encoder(f"hf:{folder}", device="cpu")


def test_a_text_tower_without_a_length_is_refused(saved, tmp_path) -> None:
    from dejacue.models.encoders.torch_models import text_length

    encoder = load_encoder(f"hf:{saved['siglip']}", device="cpu")
    with refused("how many tokens it reads"):
        text_length("it", object(), encoder._tokenizer)


def test_code_of_a_model_is_not_run_and_nobody_is_prompted(saved, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("prompted"))
    folder = copied(saved["clip"], tmp_path / "stranger")
    (folder / "theirs.py").write_text("raise SystemExit('run')")
    config = json.loads((folder / "config.json").read_text())
    config["model_type"] = "theirs"
    config["auto_map"] = {"AutoConfig": "theirs.A", "AutoModel": "theirs.B"}
    (folder / "config.json").write_text(json.dumps(config))
    with refused(f"hf:{folder}", kind=MissingData) as caught:
        load_encoder(f"hf:{folder}", device="cpu")
    assert one_sentence(str(caught.value))


def test_weights_that_are_missing_are_not_made_up(saved, tmp_path) -> None:
    from safetensors.torch import load_file, save_file

    for path in saved["clip"].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["visual_projection.weight"]
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with refused(f"hf:{tmp_path}", "visual_projection.weight"):
        load_encoder(f"hf:{tmp_path}", device="cpu")


def test_a_model_without_images_is_refused(tmp_path) -> None:
    config = transformers.BertConfig(**SHARED, vocab_size=20)
    transformers.BertModel(config).save_pretrained(tmp_path)
    with refused(f"hf:{tmp_path}", "BertModel"):
        load_encoder(f"hf:{tmp_path}", device="cpu")


def test_a_model_that_gives_nan_is_refused_with_a_sentence(saved) -> None:
    encoder = load_encoder(f"hf:{saved['clip']}", device="cpu")
    with torch.no_grad():
        encoder._model.visual_projection.weight[0, 0] = float("nan")
        encoder._model.text_projection.weight[0, 0] = float("inf")
    with refused("image", 0):
        encoder.encode_images(crops())
    with refused("text", 0):
        encoder.encode_texts(TEXTS)


@pytest.mark.parametrize(
    ("package", "name", "remedy"),
    [
        ("transformers", "hf:someone/model", "transformers is not installed"),
        ("open_clip", "openclip:ViT-B-16", r"\[openclip\]"),
        ("timm", "timm:vit_base_patch14_dinov2.lvd142m", r"\[timm\]"),
    ],
)
def test_without_its_package_the_extra_is_named(monkeypatch, package, name, remedy) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=remedy):
        load_encoder(name)


# What differs between families


def text_inputs(encoder) -> dict[str, object]:
    """Return what the model of an encoder takes to encode a text."""
    inputs = {}
    real = encoder._model.get_text_features
    encoder._model.get_text_features = lambda **tensors: inputs.update(tensors) or real(**tensors)
    encoder.encode_texts(["cup"])
    return inputs


def test_words_of_a_siglip_are_lower_cased_without_an_attention_mask(saved) -> None:
    encoder = load_encoder(f"hf:{saved['siglip']}", device="cpu")
    assert encoder.details["lower_case"] == "True"
    np.testing.assert_array_equal(encoder.encode_texts(["Cup"]), encoder.encode_texts(["cup"]))
    exact = load_encoder(f"hf:{saved['siglip']}", device="cpu", lower=False)
    assert np.abs(exact.encode_texts(["Cup"]) - encoder.encode_texts(["cup"])).max() > 1e-3
    inputs = text_inputs(encoder)
    assert set(inputs) == {"input_ids"}


def test_words_of_a_clip_keep_their_mask_and_capitals_are_its_tokenizers_affair(saved) -> None:
    encoder = load_encoder(f"hf:{saved['clip']}", device="cpu")
    assert encoder.details["lower_case"] == "False"
    inputs = text_inputs(encoder)
    assert set(inputs) == {"input_ids", "attention_mask"}
    assert inputs["input_ids"].shape == (1, 30)


@pytest.mark.parametrize("name", SIZES)
def test_larger_sizes_of_siglip2_are_loaded_by_their_names(name, tmp_path, monkeypatch) -> None:
    save_siglip(tmp_path / SIZES[name], size=48, width=40)
    offline(monkeypatch, tmp_path / "hub")
    monkeypatch.setenv("DEJACUE_WEIGHTS", str(tmp_path))
    encoder = load_encoder(name, device="cpu")
    assert (encoder.name, encoder.size, encoder.dimension) == (name, 48, 40)
    assert encoder.identity.startswith(f"{SIZES[name]}@")
    assert encoder.details["images"] == "both sides 48 bilinear, middle 48, mean 0.5 std 0.5"
    assert encoder.fit is None  # the compiled crop is what it needs
    rows = History(encoder.encode_images(crops()), encoder=encoder.identity)
    assert encoder_name(rows) == name
    with refused("backend"):
        load_encoder(name, backend="onnx")


def test_a_history_of_a_hub_model_leads_back_to_its_name() -> None:
    rows = np.eye(3)
    history = History(rows, encoder="a/b@0123", made_with={"backend": "transformers"})
    assert encoder_name(history) == "hf:a/b"
    base = "google/siglip2-base-patch16-224@"
    assert encoder_name(History(rows, encoder=f"{base}75de")) == "siglip2"
    other = History(rows, encoder=f"{base}0123", made_with={"backend": "transformers"})
    assert encoder_name(other) == f"hf:{base[:-1]}"  # not with the pinned one's words
    assert encoder_name(History(rows, encoder="timm:vit.x@0123")) == "timm:vit.x"
    assert encoder_name(History(rows, encoder="openclip:ViT-B-16/dfn2b@01")) == (
        "openclip:ViT-B-16/dfn2b"
    )
    with refused("encoder", "small-clip@0123"):
        encoder_name(History(rows, encoder="small-clip@0123"))


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_other_precisions_are_near_and_recorded(saved, precision) -> None:
    full = load_encoder(f"hf:{saved['clip']}", device="cpu")
    half = load_encoder(f"hf:{saved['clip']}", device="cpu", precision=precision)
    assert half.details["precision"] == precision
    assert (full.encode_images(crops()) * half.encode_images(crops())).sum(axis=1).min() > 0.999
    assert (full.encode_texts(TEXTS) * half.encode_texts(TEXTS)).sum(axis=1).min() > 0.999


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("clip", "openclip:ViT-B-32"),
        ("dinov2", "hf:facebook/dinov2-base"),
        ("PE-Core", "openclip:PE-Core-B-16"),
        ("metaclip", "openclip:ViT-B-16/metaclip_fullcc"),
        ("siglip2-larg", "siglip2-large"),
    ],
)
def test_an_unknown_name_suggests_one_that_is_near(name, near) -> None:
    with refused("encoder", name, f'"{near}"'):
        load_encoder(name)


def test_a_family_without_a_name_is_one_sentence() -> None:
    with refused("timm:"):
        load_encoder("timm:")


@pytest.mark.parametrize(
    ("name", "options", "fact"),
    [
        ("siglip2", {"backend": "onnx", "device": "cpu"}, "device"),
        ("siglip2", {"backend": "torch", "threads": 2}, "threads"),
        ("mini", {"device": "cpu"}, "device"),
        ("hf:a/b", {"precision": "fp8"}, "fp8"),
        ("hf:a/b", {"device": "tpu"}, "tpu"),
        ("hf:a/b", {"batches": 3}, "batches"),
        ("siglip2", {"device": "tpu"}, "tpu"),  # so it is torch
    ],
)
def test_options_that_an_encoder_does_not_have_are_named_before_it_is_fetched(
    name, options, fact, tmp_path, monkeypatch
) -> None:
    offline(monkeypatch, tmp_path / "hub")
    with refused(fact):
        load_encoder(name, **options)

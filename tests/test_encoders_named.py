"""hf:NAME on small models with the classes and files of the hub; openclip:NAME on a stand-in.

open_clip is not among the packages of the tests: ``StandIn`` has the five functions of it that are
used, and what they return, so that the adapter is tested and not open_clip.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path

import numpy as np
import pytest

from dejacue import InputError, MissingData, MissingExtra, encode_vocabulary, load_encoder
from dejacue.sources.crops import fit

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # what transformers deprecates is not ours

TEXTS = ["empty cup", "cup filled with espresso", "cup"]
SHARED = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 4}  # fmt: skip
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def save_clip(folder: Path) -> Path:
    """A CLIP that spells its words letter by letter."""
    torch.manual_seed(0)
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    tokens = [*letters, *(f"{letter}</w>" for letter in letters)]
    words = {token: at for at, token in enumerate([*tokens, "<|startoftext|>", "<|endoftext|>"])}
    start, end = len(words) - 2, len(words) - 1
    config = transformers.CLIPConfig(
        text_config={**SHARED, "vocab_size": len(words), "max_position_embeddings": 30,
                     "bos_token_id": start, "eos_token_id": end, "pad_token_id": end},
        vision_config={**SHARED, "image_size": 32, "patch_size": 8}, projection_dim=24,
    )  # fmt: skip
    transformers.CLIPModel(config).eval().save_pretrained(folder)
    images = transformers.CLIPImageProcessor(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    )
    tokenizer = transformers.CLIPTokenizer(vocab=words, merges=[])
    transformers.CLIPProcessor(images, tokenizer).save_pretrained(folder)
    return folder


def save_siglip(folder: Path) -> Path:
    import tokenizers

    torch.manual_seed(1)
    names = ["<pad>", "<eos>", "<unk>", *sorted({word for text in TEXTS for word in text.split()})]
    config = transformers.SiglipConfig(
        text_config={**SHARED, "vocab_size": len(names), "max_position_embeddings": 16,
                     "projection_size": 32, "pad_token_id": 0, "eos_token_id": 1},
        vision_config={**SHARED, "image_size": 32, "patch_size": 8},
    )  # fmt: skip
    transformers.SiglipModel(config).eval().save_pretrained(folder)
    own = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({name: at for at, name in enumerate(names)}, "<unk>")
    )
    own.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    own.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A <eos>", special_tokens=[("<eos>", 1)]
    )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=own, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>",
        model_input_names=["input_ids"],
    )  # fmt: skip
    images = transformers.SiglipImageProcessor(size={"height": 32, "width": 32}, resample=2)
    transformers.SiglipProcessor(images, tokenizer).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {"clip": save_clip(root / "small-clip"), "siglip": save_siglip(root / "small-siglip")}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def crops(seed: int = 0, count: int = 5) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [
        rng.integers(0, 256, (*sides, 3), dtype=np.uint8)
        for sides in rng.integers(20, 90, (count, 2))
    ]


# hf:NAME


@pytest.mark.parametrize(("kind", "dimension"), [("clip", 24), ("siglip", 32)])
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
    given = torch.from_numpy(pixels.transpose(2, 0, 1)[None].astype(np.float32))
    model = transformers.CLIPModel.from_pretrained(saved["clip"]).eval()
    with torch.inference_mode():
        found = model.get_image_features(pixel_values=given)
    row = getattr(found, "pooler_output", found).numpy()[0]
    expected = row / np.linalg.norm(row)
    np.testing.assert_allclose(encoder.encode_images([square])[0], expected, atol=1e-5)


def test_texts_are_padded_to_the_full_length_alone_or_together(saved) -> None:
    encoder = load_encoder(f"hf:{saved['siglip']}", device="cpu")
    alone = np.concatenate([encoder.encode_texts([text]) for text in TEXTS])
    np.testing.assert_allclose(encoder.encode_texts(TEXTS), alone, atol=1e-5)
    ids = torch.zeros((1, 16), dtype=torch.int64)
    ids[0, :2] = torch.tensor([encoder._processor.tokenizer.convert_tokens_to_ids("cup"), 1])
    with torch.inference_mode():
        found = encoder._model.get_text_features(input_ids=ids)
    row = getattr(found, "pooler_output", found).numpy()[0]
    np.testing.assert_allclose(alone[2], row / np.linalg.norm(row), atol=1e-5)
    assert encoder.encode_texts(["cup " * 100]).shape == (1, 32)  # cut, not refused


def test_an_image_does_not_depend_on_its_batch(saved) -> None:
    one = load_encoder(f"hf:{saved['clip']}", device="cpu", batch=2)
    given = crops(1, 5)
    alone = np.concatenate([one.encode_images([crop]) for crop in given])
    np.testing.assert_allclose(one.encode_images(given), alone, atol=1e-5)


def test_three_rows_of_pixels_are_not_taken_for_three_channels(saved) -> None:
    encoder = load_encoder(f"hf:{saved['siglip']}", device="cpu")
    flat = np.random.default_rng(3).integers(0, 256, (3, 60, 3), dtype=np.uint8)
    expected = encoder.encode_images([fit(flat, 32)])
    np.testing.assert_allclose(encoder.encode_images([flat]), expected, atol=0.02)


def test_a_folder_is_known_by_its_weights_and_not_by_its_place(saved, tmp_path) -> None:
    import shutil

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
    assert encoder.identity == f"someone/small-clip@{COMMIT}"
    here = load_encoder(f"hf:{saved['clip']}", device="cpu")
    np.testing.assert_array_equal(encoder.encode_texts(TEXTS), here.encode_texts(TEXTS))


def offline(monkeypatch, cache: Path) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))


def one_sentence(message: str) -> bool:
    return "\n" not in message and ". " not in message


def test_a_name_that_is_not_here_is_explained_in_one_sentence(tmp_path, monkeypatch) -> None:
    offline(monkeypatch, tmp_path / "hub")
    with pytest.raises(MissingData, match="hf:nobody/nothing could not be loaded") as caught:
        load_encoder("hf:nobody/nothing", device="cpu")
    assert "give the path of a folder" in str(caught.value)
    assert one_sentence(str(caught.value))


def test_folders_that_hold_no_model_are_named(saved, tmp_path) -> None:
    with pytest.raises(MissingData, match=r"hf:.*could not be loaded") as caught:
        load_encoder(f"hf:{tmp_path}", device="cpu")
    assert one_sentence(str(caught.value))
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in saved["clip"].iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    (broken / "model.safetensors").write_bytes(b"not this")
    with pytest.raises(MissingData, match=r"hf:.*broken could not be loaded") as caught:
        load_encoder(f"hf:{broken}", device="cpu")
    assert one_sentence(str(caught.value))


def test_weights_that_are_missing_are_not_made_up(saved, tmp_path) -> None:
    from safetensors.torch import load_file, save_file

    for path in saved["clip"].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    kept = load_file(tmp_path / "model.safetensors")
    del kept["visual_projection.weight"]
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        InputError, match=r"1 weights are missing from its file \(visual_projection\.weight"
    ):
        load_encoder(f"hf:{tmp_path}", device="cpu")


def test_a_model_without_images_is_refused(tmp_path) -> None:
    config = transformers.BertConfig(**SHARED, vocab_size=20)
    transformers.BertModel(config).save_pretrained(tmp_path)
    with pytest.raises(InputError, match="is a BertModel, not a model of images and texts"):
        load_encoder(f"hf:{tmp_path}", device="cpu")


def test_a_model_that_gives_nan_is_refused_with_a_sentence(saved) -> None:
    encoder = load_encoder(f"hf:{saved['clip']}", device="cpu")
    with torch.no_grad():
        encoder._model.visual_projection.weight[0, 0] = float("nan")
        encoder._model.text_projection.weight[0, 0] = float("inf")
    with pytest.raises(InputError, match="image 0: the encoder gave NaN or infinity; try"):
        encoder.encode_images(crops())
    with pytest.raises(InputError, match="text 0: the encoder gave NaN or infinity; try"):
        encoder.encode_texts(TEXTS)


def test_without_transformers_the_extra_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match=r"transformers is not installed; pip install 'dejacue"):
        load_encoder("hf:someone/model")


# openclip:NAME


class Visual:
    image_size = (16, 16)


class Towers:
    """Mean colour and number of letters, in four dimensions."""

    visual = Visual()
    training, device = True, None  # as open_clip gives them

    def eval(self):
        self.training = False
        return self

    def to(self, device):
        self.device = device
        return self

    def encode_image(self, images):
        assert not self.training
        assert str(self.device) == "cpu"
        assert images.shape[1:] == (3, 16, 16)
        return torch.cat([images.mean(dim=(2, 3)), torch.ones(len(images), 1)], dim=1)

    def encode_text(self, tokens):
        return torch.stack([tokens.sum(dim=1) + k for k in range(1, 5)], dim=1).float()


class StandIn(types.ModuleType):
    """The interface of open_clip 2 and 3 as far as it is used."""

    def __init__(self) -> None:
        super().__init__("open_clip")
        self.asked: list[tuple[str, str]] = []

    def list_models(self):
        return ["RN50", "ViT-B-16", "ViT-B-16-SigLIP2", "untrained"]

    def list_pretrained_tags_by_model(self, model):
        return {"untrained": [], "ViT-B-16": ["openai", "laion2b"]}.get(model, ["webli"])

    def create_model_and_transforms(self, model, pretrained):
        self.asked.append((model, pretrained))
        if model == "RN50":
            raise RuntimeError("Failed to download weights.\nTry again later.")

        def transform(image):
            small = np.asarray(image.resize((16, 16)), np.float32)
            return torch.from_numpy(small / 255).permute(2, 0, 1)

        return Towers(), None, transform

    def get_tokenizer(self, model):
        return lambda texts: torch.tensor([[len(text), 0, 0] for text in texts])


@pytest.fixture
def open_clip(monkeypatch) -> StandIn:
    made = StandIn()
    monkeypatch.setitem(sys.modules, "open_clip", made)
    return made


def test_a_model_of_open_clip_uses_its_transform_and_tokenizer(open_clip) -> None:
    encoder = load_encoder("openclip:ViT-B-16-SigLIP2", device="cpu", batch=2)
    assert open_clip.asked == [("ViT-B-16-SigLIP2", "webli")]
    assert (encoder.name, encoder.identity) == (
        "openclip:ViT-B-16-SigLIP2", "openclip:ViT-B-16-SigLIP2/webli",
    )  # fmt: skip
    assert (encoder.dimension, encoder.size) == (4, 16)
    red = np.zeros((30, 20, 3), np.uint8)
    red[..., 0] = 255
    rows = encoder.encode_images([red, red, red])
    np.testing.assert_allclose(rows, np.tile([0.5**0.5, 0, 0, 0.5**0.5], (3, 1)), atol=1e-6)
    words = encode_vocabulary({"empty": ["ab"], "full": ["abc"]}, encoder, prompts="raw")
    expected = np.array([3.0, 4, 5, 6]) / np.linalg.norm([3, 4, 5, 6])  # two letters
    np.testing.assert_allclose(words.features[0], expected, atol=1e-6)
    assert words.encoder == encoder.identity


def test_weights_of_open_clip_may_be_named(open_clip) -> None:
    assert load_encoder("openclip:ViT-B-16/openai", device="cpu").identity.endswith("/openai")
    assert load_encoder("openclip:ViT-B-16", device="cpu").identity.endswith("/laion2b")
    with pytest.raises(InputError, match=r'weights of openclip:ViT-B-16 "openal"; did you mean "o'):
        load_encoder("openclip:ViT-B-16/openal", device="cpu")
    with pytest.raises(InputError, match="untrained has no published weights"):
        load_encoder("openclip:untrained", device="cpu")


def test_a_wrong_name_of_open_clip_suggests_others(open_clip) -> None:
    with pytest.raises(InputError, match=r'no model "ViT-B16"; did you mean ViT-B-16'):
        load_encoder("openclip:ViT-B16", device="cpu")


def test_weights_that_open_clip_cannot_get_are_one_sentence(open_clip) -> None:
    with pytest.raises(MissingData, match="openclip:RN50 could not be loaded") as caught:
        load_encoder("openclip:RN50", device="cpu")
    assert one_sentence(str(caught.value))


def test_nan_of_open_clip_is_refused_with_a_sentence(open_clip, monkeypatch) -> None:
    encoder = load_encoder("openclip:ViT-B-16", device="cpu")
    monkeypatch.setattr(
        Towers, "encode_image", lambda self, images: torch.full((len(images), 4), float("nan"))
    )
    with pytest.raises(InputError, match="image 0: the encoder gave NaN"):
        encoder.encode_images(crops())


def test_without_open_clip_the_package_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(
        MissingExtra, match="open_clip is not installed; pip install open_clip_torch"
    ):
        load_encoder("openclip:ViT-B-16")

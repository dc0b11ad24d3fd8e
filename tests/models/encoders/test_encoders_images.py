"""Models of images alone, and how images are resized and scaled, on small models."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.clips import Boxes, Still
from helpers.errors import refused
from helpers.small_models import (
    SHARED,
    crops,
    one_sentence,
    save_clip,
    save_dinov2,
    save_dinov3,
    save_siglip,
    save_vit,
    torch,
    transformers,
    write,
)

from dejacue import InputError, encode_vocabulary, load_encoder
from dejacue.finding._encode import build_histories
from dejacue.models.encoders import ImageEncoder
from dejacue.models.encoders.preprocess import (
    Preprocessing,
    of_open_clip,
    of_timm,
    of_transformers,
)
from dejacue.video.crops import crop

pytestmark = [
    pytest.mark.usefixtures("own_cache"),
    pytest.mark.filterwarnings("ignore"),
]  # what transformers deprecates is not ours

SAVED = {"dinov2": save_dinov2, "dinov3": save_dinov3, "vit": save_vit}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return {kind: save(root / kind) for kind, save in SAVED.items()}


def scales_to(folder, side: int, resample: int) -> None:
    """Write how a model of square images scales them."""
    size, half = {"height": side, "width": side}, [0.5] * 3
    scale = {"size": size, "resample": resample, "image_mean": half, "image_std": half}
    write(folder, "preprocessor_config.json", **scale)


# Rows


@pytest.mark.parametrize("kind", SAVED)
def test_a_model_of_images_gives_unit_rows_and_says_that_it_has_no_words(saved, kind) -> None:
    encoder = load_encoder(f"hf:{saved[kind]}", device="cpu")
    rows = encoder.encode_images(crops())
    assert rows.shape == (5, encoder.dimension) == (5, 32)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert encoder.has_text is False
    with refused(encoder.name) as caught:
        encode_vocabulary({"empty": ["empty cup"], "full": ["full cup"]}, encoder)
    assert one_sentence(str(caught.value))
    assert encoder.identity.startswith(f"{kind}@")


def model_rows(kind: str, folder, pixels):
    """Return the row as the paper of each model takes it, computed beside the encoder."""
    if kind == "vit":
        model = transformers.ViTForImageClassification.from_pretrained(folder).vit.eval()
    else:
        model = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        return model(pixel_values=torch.from_numpy(pixels)).last_hidden_state[:, 0].numpy()


@pytest.mark.parametrize(
    ("kind", "pooled"),
    [("dinov2", "pooled by the model"), ("dinov3", "pooled by the model"), ("vit", "first token")],
)
def test_a_row_is_the_first_token_of_the_published_images(saved, kind, pooled) -> None:
    encoder = load_encoder(f"hf:{saved[kind]}", device="cpu")
    assert encoder.details["rows"] == pooled
    images = crops(1)
    preprocessing = of_transformers(saved[kind], kind)
    pixels = np.stack([scaled(preprocessing, image) for image in images])
    rows = model_rows(kind, saved[kind], pixels)
    expected = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode_images(images), expected, atol=1e-5)


def test_a_model_without_a_token_for_the_image_gives_the_mean(tmp_path) -> None:
    torch.manual_seed(0)
    config = transformers.IJepaConfig(
        **SHARED,
        image_size=32,
        patch_size=8,
    )
    transformers.IJepaModel(config, add_pooling_layer=False).save_pretrained(tmp_path)
    scales_to(tmp_path, 32, 2)
    encoder = load_encoder(f"hf:{tmp_path}", device="cpu")
    assert encoder.details["rows"] == "mean of tokens"
    assert encoder.encode_images(crops()).shape == (5, 32)


def test_a_convolutional_model_gives_what_it_pools(tmp_path) -> None:
    torch.manual_seed(0)
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1], layer_type="basic"
    )
    transformers.ResNetModel(config).eval().save_pretrained(tmp_path)
    scales_to(tmp_path, 32, 3)
    encoder = load_encoder(f"hf:{tmp_path}", device="cpu")
    assert encoder.encode_images(crops()).shape == (5, 12)


def test_a_model_that_hides_parts_of_an_image_by_chance_is_refused(tmp_path) -> None:
    torch.manual_seed(0)
    config = transformers.ViTMAEConfig(
        **SHARED,
        image_size=32,
        patch_size=8,
        initializer_range=1.0,
    )
    transformers.ViTMAEModel(config).save_pretrained(tmp_path)
    scales_to(tmp_path, 32, 2)
    with refused(f"hf:{tmp_path}", "choose another model"):
        load_encoder(f"hf:{tmp_path}", device="cpu")


def test_a_model_that_cannot_take_its_images_is_one_sentence(saved, tmp_path) -> None:
    import shutil

    folder = shutil.copytree(saved["vit"], tmp_path / "vit")
    scales_to(folder, 40, 2)
    with refused(f"hf:{folder}") as caught:
        load_encoder(f"hf:{folder}", device="cpu")
    assert one_sentence(str(caught.value))


class Colours(ImageEncoder):
    """A plug-in without words."""

    name = identity = "colours"
    dimension, size, details = 3, 8, {}

    def encode_images(self, images):
        return np.array([image.mean(axis=(0, 1)) for image in images], np.float32) + 1


def test_a_plug_in_without_words_says_so() -> None:
    with refused("colours"):
        encode_vocabulary({"empty": ["a"], "full": ["b"]}, Colours())


# How images are resized and scaled


def scaled(images: Preprocessing, image: np.ndarray) -> np.ndarray:
    values = (images.fit(image) / 255 - np.array(images.mean)) / np.array(images.std)
    return values.transpose(2, 0, 1).astype(np.float32)


def library(folder):
    """Return the processor of transformers, with Pillow."""
    config = json.loads((folder / "preprocessor_config.json").read_text())
    kind = config.pop("image_processor_type", None) or config.pop("feature_extractor_type")
    kind = kind.replace("FeatureExtractor", "ImageProcessor").removesuffix("Fast")
    processor = getattr(transformers, f"{kind}Pil", None) or getattr(transformers, kind)
    return processor(**{name: value for name, value in config.items() if value is not None})


@pytest.mark.parametrize("save", [save_clip, save_siglip, save_dinov2, save_vit])
def test_images_are_those_of_the_librarys_own_processor(tmp_path, save) -> None:
    # to a grey level: versions of Pillow differ in whether rows or columns come first; with smooth
    # images, since in noise a bicubic filter goes beyond white and is cut there in between
    from PIL import Image

    folder = save(tmp_path / "model")
    images, processor = of_transformers(folder, "it"), library(folder)
    for noise in crops(2, 12):
        small = Image.fromarray(noise[:6, :6] // 2 + 60)
        image = np.asarray(small.resize(noise.shape[1::-1], Image.Resampling.BICUBIC))
        picture = Image.fromarray(image)
        expected = processor(images=picture, return_tensors="np")["pixel_values"][0]
        levels = (scaled(images, image) - expected) * np.reshape(images.std, (3, 1, 1)) * 255
        assert np.abs(levels).max() < 1.001
        assert np.abs(levels).mean() < 0.3


def test_settings_that_transformers_5_writes_are_read_as_well(tmp_path) -> None:
    folder = save_dinov2(tmp_path / "model")
    expected = of_transformers(folder, "it")
    inner = json.loads((folder / "preprocessor_config.json").read_text())
    (folder / "preprocessor_config.json").unlink()
    write(folder, "processor_config.json", image_processor=inner, processor_class="X")
    assert of_transformers(folder, "it") == expected
    assert str(expected) == (
        "shorter side 40 bicubic, middle 32, mean 0.485 0.456 0.406 std 0.229 0.224 0.225"
    )


PLAIN = {
    "size": {"height": 8, "width": 8},
    "resample": 2,
    "image_mean": [0.5] * 3,
    "image_std": [0.5] * 3,
}


@pytest.mark.parametrize(
    "changes",
    [
        {"max_num_patches": 256},
        {"size": {"height": 8, "width": 9}},
        {"size": {"longest_edge": 8}},
        {"size": "large"},
        {"resample": None},
        {"resample": 9},
        {"image_std": [0.5, 0, 0.5]},
        {"image_mean": [0.5]},
        {"do_resize": False},
        {"do_center_crop": True, "crop_size": 9},
        {"do_center_crop": True, "crop_size": {"height": 4, "width": 5}},
        {"do_center_crop": True},
        {"size": {"height": 10**9, "width": 10**9}},
    ],
)
def test_settings_that_cannot_be_followed_are_one_sentence(tmp_path, changes) -> None:
    write(tmp_path, "preprocessor_config.json", **{**PLAIN, **changes})
    with refused(tmp_path / "preprocessor_config.json") as caught:
        of_transformers(tmp_path, "it")
    assert one_sentence(str(caught.value))


def test_values_of_another_range_are_scaled_as_much(tmp_path) -> None:
    # 0 … 2 with mean 1 and deviation 1 is 0 … 1 with ½ and ½
    wide = {"rescale_factor": 2 / 255, "image_mean": [1] * 3, "image_std": [1] * 3}
    write(tmp_path, "preprocessor_config.json", **{**PLAIN, **wide})
    images = of_transformers(tmp_path, "it")
    np.testing.assert_allclose((images.mean, images.std), 0.5)
    write(tmp_path, "preprocessor_config.json", **{**PLAIN, "do_normalize": False})
    images = of_transformers(tmp_path, "it")
    assert (images.mean, images.std) == ((0,) * 3, (1,) * 3)


@pytest.mark.parametrize("text", ["[]", "{", "", "3"])
def test_settings_that_are_no_settings_are_refused(tmp_path, text) -> None:
    (tmp_path / "preprocessor_config.json").write_text(text)
    with refused(tmp_path / "preprocessor_config.json"):
        of_transformers(tmp_path, "it")


def test_a_long_strip_costs_no_more_than_its_middle() -> None:
    images = Preprocessing(32, 40, False, "bicubic", (0.5,) * 3, (0.5,) * 3)
    strip = np.random.default_rng(0).integers(0, 256, (2, 300_000, 3), dtype=np.uint8)
    fitted = images.fit(strip)
    assert fitted.shape == (32, 32, 3)
    middle = strip[:, 149_900:150_100]
    assert np.abs(fitted.astype(int) - images.fit(middle)).max() <= 1


def test_settings_of_open_clip_and_timm_are_the_same_record() -> None:
    listed = {"mean": (0.5,) * 3, "std": (0.5,) * 3, "interpolation": "bilinear"}
    squashed = of_open_clip({**listed, "resize_mode": "squash"}, 336, "it")
    grey = ((0.5,) * 3, (0.5,) * 3)
    assert squashed == Preprocessing(336, 336, True, "bilinear", *grey, rounded=True)
    assert squashed.usual
    assert not of_open_clip({**listed, "resize_mode": "shortest"}, 336, "it").usual
    with refused("longest"):
        of_open_clip({**listed, "resize_mode": "longest"}, 336, "it")
    with pytest.raises(InputError, match="it: does not state"):
        of_open_clip({}, 336, "it")
    timm = {**listed, "input_size": (3, 224, 224), "crop_pct": 0.875, "crop_mode": "center"}
    assert of_timm(timm, "it") == Preprocessing(224, 256, False, "bilinear", *grey, rounded=True)
    with refused("random"):
        of_timm({**timm, "interpolation": "random"}, "it")
    with refused("border"):
        of_timm({**timm, "crop_mode": "border"}, "it")
    with refused(224, 112):
        of_timm({**timm, "input_size": (3, 224, 112)}, "it")


def test_a_history_is_made_of_images_that_are_resized_as_the_model_needs(saved) -> None:
    # of the crop itself: not of one that was squashed before
    encoder = load_encoder(f"hf:{saved['dinov2']}", device="cpu")
    groups = {"object": frozenset({1})}
    video, masks = Still(), Boxes()
    history = build_histories(video, masks, encoder, groups)["object"]
    seen = [
        crop(frame.image, mask)
        for frame in video.lazy_frames()
        if (mask := masks.unions(frame, list(groups.values()))[0]) is not None
    ]
    assert {image.shape for image in seen} == {(15, 18, 3)}
    np.testing.assert_allclose(history.features, encoder.encode_images(seen), atol=1e-5)
    assert history.made_with["images"].startswith("shorter side 40 bicubic, middle 32")
    squashed = encoder.encode_images([np.resize(image, (32, 32, 3)) for image in seen])
    assert np.abs(history.features - squashed).max() > 1e-3


@pytest.mark.parametrize(("spare", "first", "even"), [(0, 0, 0), (1, 0, 0), (3, 1, 2), (5, 2, 2)])
def test_the_middle_of_an_odd_rest_is_where_each_library_has_it(spare, first, even) -> None:
    image = np.zeros((4 + spare, 4 + spare, 3), np.uint8)
    image[:] = np.arange(4 + spare)[:, None, None]
    for rounded, top in ((False, first), (True, even)):
        images = Preprocessing(
            4, 4 + spare, True, "bicubic", (0.5,) * 3, (0.5,) * 3, rounded=rounded
        )
        assert images.fit(image)[0, 0, 0] == top

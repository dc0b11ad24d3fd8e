"""openclip:NAME and timm:NAME: on stand-ins, and on small models where the packages are installed.

open_clip and timm are not among the packages of the tests: the stand-ins have the functions of
them that are used, and what they return, so that the adapters are tested and not the packages.
"""

from __future__ import annotations

import json
import sys
import tomllib
import types
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT
from helpers.errors import refused
from helpers.peers import need
from helpers.small_models import crops, one_sentence, save_dinov3, torch, transformers, write

from dejacue import encode_vocabulary, load_encoder
from dejacue.errors import MissingData, MissingExtra
from dejacue.models.encoders.preprocess import (
    Preprocessing,
    of_open_clip,
    of_timm,
    of_transformers,
)

pytestmark = pytest.mark.filterwarnings("ignore")

GREY = {"mean": (0.5,) * 3, "std": (0.5,) * 3, "interpolation": "bilinear"}
LISTED = {
    ("ViT-B-16", "openai"): {
        "hf_hub": "timm/clip.openai/",
        "resize_mode": "shortest",
        "quick_gelu": True,
        **GREY,
        "interpolation": "bicubic",
    },
    ("ViT-B-16", "laion2b"): {"hf_hub": "laion/clip/", "resize_mode": "shortest", **GREY},
    ("ViT-B-16-SigLIP2", "webli"): {"hf_hub": "timm/siglip/", "resize_mode": "squash", **GREY},
    ("RN50", "yfcc15m"): {"url": "https://example.org/rn50.pt", "hf_hub": "", **GREY},
}


class Visual:
    image_size = (16, 16)


class Towers(torch.nn.Module):
    """Mean colour and number of letters, in four dimensions."""

    visual = Visual()

    def encode_image(self, images):
        assert images.shape[1:] == (3, 16, 16)
        ones = torch.ones(len(images), 1, dtype=images.dtype)
        return torch.cat([images.mean(dim=(2, 3)), ones], dim=1)

    def encode_text(self, tokens):
        return torch.stack([tokens.sum(dim=1) + k for k in range(1, 5)], dim=1).float()


class StandIn(types.ModuleType):
    """The interface of open_clip 3.3 as far as it is used."""

    __version__ = "3.3.0"

    def __init__(self) -> None:
        super().__init__("open_clip")
        self.created: list[tuple[str, dict[str, object]]] = []
        self.tokenizers: list[str] = []

    def list_models(self):
        return ["RN50", "ViT-B-16", "ViT-B-16-SigLIP2", "untrained"]

    def list_pretrained_tags_by_model(self, model):
        return [tag for name, tag in LISTED if name == model]

    def get_pretrained_cfg(self, model, tag):
        return LISTED[model, tag]

    def get_model_config(self, model):
        hub = {"hf_tokenizer_name": "timm/siglip"} if "SigLIP" in model else {}
        return {"text_cfg": {"context_length": 3, **hub}}

    def download_pretrained(self, config):
        raise RuntimeError("Failed to download weights.\nTry again later.")

    def create_model(self, model, **options):
        self.created.append((model, options))
        return Towers()

    def get_tokenizer(self, model):
        self.tokenizers.append(model)
        return lambda texts: torch.tensor([[len(text), 0, 0] for text in texts])


@pytest.fixture(autouse=True)
def weights(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DEJACUE_WEIGHTS", str(tmp_path))
    for place in ("timm/clip.openai", "laion/clip", "timm/siglip"):
        folder = tmp_path / place
        folder.mkdir(parents=True)
        (folder / "open_clip_model.safetensors").write_text(place)
        write(folder, "open_clip_config.json", preprocess_cfg={**GREY, "resize_mode": "squash"})
    return tmp_path


@pytest.fixture
def open_clip(monkeypatch) -> StandIn:
    module = StandIn()
    monkeypatch.setitem(sys.modules, "open_clip", module)
    return module


def test_a_model_of_open_clip_has_the_settings_and_weights_of_its_list(open_clip, weights) -> None:
    encoder = load_encoder("openclip:ViT-B-16-SigLIP2", device="cpu", batch=2)
    file = weights / "timm/siglip/open_clip_model.safetensors"
    assert open_clip.created == [
        ("ViT-B-16-SigLIP2", {"pretrained": str(file), "force_quick_gelu": False})
    ]
    assert open_clip.tokenizers == [f"local-dir:{file.parent}"]  # not from the hub
    assert encoder.name == "openclip:ViT-B-16-SigLIP2"
    assert encoder.identity.startswith("openclip:ViT-B-16-SigLIP2/webli@")
    assert encoder.details["unpinned"] == "unknown commit"
    assert (encoder.dimension, encoder.size, encoder.fit) == (4, 16, None)
    red = np.zeros((30, 20, 3), np.uint8)
    red[..., 0] = 255
    rows = encoder.encode_images([red, red, red])
    np.testing.assert_allclose(rows, np.tile([0.5, -0.5, -0.5, 0.5], (3, 1)), atol=1e-6)
    words = encode_vocabulary({"empty": ["ab"], "full": ["abc"]}, encoder, templates="raw")
    expected = np.array([3.0, 4, 5, 6]) / np.linalg.norm([3, 4, 5, 6])  # two letters
    np.testing.assert_allclose(words.features[0], expected, atol=1e-6)
    assert words.encoder == encoder.identity


def test_weights_of_open_clip_may_be_named(open_clip) -> None:
    named = load_encoder("openclip:ViT-B-16/openai", device="cpu")
    assert named.identity.startswith("openclip:ViT-B-16/openai@")
    assert named.details["images"].startswith("shorter side 16 bicubic, middle 16")
    assert open_clip.created[-1][1]["force_quick_gelu"] is True  # else its features would be wrong
    assert open_clip.tokenizers == ["ViT-B-16"]
    last = load_encoder("openclip:ViT-B-16", device="cpu")
    assert last.identity.startswith("openclip:ViT-B-16/laion2b@")
    assert open_clip.created[-1][1]["force_quick_gelu"] is False
    with refused("weights of openclip:ViT-B-16", "openal"):
        load_encoder("openclip:ViT-B-16/openal", device="cpu")
    with refused("ViT-B16", "did you mean ViT-B-16"):
        load_encoder("openclip:ViT-B16", device="cpu")
    with refused("openclip:untrained"):
        load_encoder("openclip:untrained", device="cpu")


def test_a_folder_or_repository_has_its_own_settings(open_clip, weights) -> None:
    folder = weights / "timm" / "siglip"
    encoder = load_encoder(f"openclip:{folder}", device="cpu")
    assert open_clip.created == [(f"local-dir:{folder}", {"require_pretrained": True})]
    assert encoder.identity.startswith("openclip:siglip@")
    hub = load_encoder("openclip:hf-hub:timm/siglip", device="cpu")
    assert hub.identity.startswith("openclip:hf-hub:timm/siglip@")
    (folder / "open_clip_config.json").write_text("{}")
    with refused(folder / "open_clip_config.json", "preprocess_cfg"):
        load_encoder(f"openclip:{folder}", device="cpu")
    (folder / "open_clip_config.json").unlink()
    with refused(f"openclip:{folder}"):
        load_encoder(f"openclip:{folder}", device="cpu")


def test_weights_that_open_clip_cannot_get_are_one_sentence(open_clip, weights) -> None:
    with refused("openclip:RN50", kind=MissingData) as caught:
        load_encoder("openclip:RN50", device="cpu")
    assert one_sentence(str(caught.value))


def test_without_a_connection_the_line_that_fetches_weights_is_named(
    open_clip, tmp_path, monkeypatch
) -> None:
    import huggingface_hub.constants

    monkeypatch.delenv("DEJACUE_WEIGHTS")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    with refused(
        "openclip:ViT-B-16-SigLIP2", "hf download timm/siglip --local-dir", kind=MissingData
    ) as caught:
        load_encoder("openclip:ViT-B-16-SigLIP2", device="cpu")
    assert one_sentence(str(caught.value))


@pytest.mark.parametrize("error", ["RuntimeError", "OSError"])
def test_a_package_that_does_not_fit_the_others_is_one_sentence(
    error, tmp_path, monkeypatch
) -> None:
    reason = "operator torchvision::nms does not exist"
    (tmp_path / "open_clip.py").write_text(f"raise {error}({reason!r})")
    monkeypatch.delitem(sys.modules, "open_clip", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(MissingExtra, match=f"open_clip is installed.*{reason}") as caught:
        load_encoder("openclip:ViT-B-16")
    assert one_sentence(str(caught.value))


def test_extras_that_are_named_exist() -> None:
    from dejacue.models.encoders import torch_models

    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    for remedy in (torch_models.OPEN_CLIP_REMEDY, torch_models.TIMM_REMEDY, torch_models.REMEDY):
        assert remedy.partition("[")[2].partition("]")[0] in extras


# timm


class TimmStandIn(types.ModuleType):
    """The interface of timm 1.0.30 as far as it is used."""

    __version__ = "1.0.30"

    def __init__(self) -> None:
        super().__init__("timm")
        self.data = self
        self.created: list[str] = []

    def list_pretrained(self):
        return ["vit_small.dino", "vit_small.in1k", "resnet50.a1"]

    def list_models(self):
        return ["vit_small", "resnet50"]

    def get_pretrained_cfg(self, name):
        hub = {"vit_small.dino": "timm/vit_small.dino", "vit_small": "timm/vit_small.dino"}
        return types.SimpleNamespace(hf_hub_id=hub.get(name))

    def create_model(self, name, *, pretrained):
        assert pretrained
        self.created.append(name)
        model = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten())
        model.reset_classifier = lambda classes: self.created.append(f"{classes} classes")
        return model

    def resolve_model_data_config(self, model):
        return {**GREY, "input_size": (3, 16, 16), "crop_pct": 0.8, "crop_mode": "center"}


@pytest.fixture
def timm(monkeypatch, weights) -> TimmStandIn:
    module = TimmStandIn()
    monkeypatch.setitem(sys.modules, "timm", module)
    folder = weights / "timm" / "vit_small.dino"
    folder.mkdir()
    (folder / "model.safetensors").write_text("weights")
    write(folder, "config.json")
    return module


def test_a_model_of_timm_has_its_settings_and_no_words(timm, weights) -> None:
    encoder = load_encoder("timm:vit_small.dino", device="cpu")
    assert timm.created == [f"local-dir:{weights / 'timm' / 'vit_small.dino'}", "0 classes"]
    assert encoder.identity.startswith("timm:vit_small.dino@")
    assert encoder.details["images"] == "shorter side 20 bilinear, middle 16, mean 0.5 std 0.5"
    assert encoder.encode_images(crops()).shape == (5, 12)
    assert not encoder.has_text
    with refused("timm:vit_small.dino"):
        encoder.encode_texts(["cup"])
    default = load_encoder("timm:vit_small", device="cpu")
    assert default.identity == encoder.identity


def test_names_and_files_of_timm_that_are_not_there_are_one_sentence(timm, weights) -> None:
    with refused("vit_smal", "did you mean vit_small."):
        load_encoder("timm:vit_smal", device="cpu")
    with refused("timm:resnet50.a1"):
        load_encoder("timm:resnet50.a1", device="cpu")
    (weights / "timm" / "vit_small.dino" / "config.json").unlink()
    with refused("timm:vit_small.dino"):
        load_encoder("timm:vit_small.dino", device="cpu")


# The packages themselves, where they are


def save_open_clip(folder: Path, library, **vision: object) -> Path:
    """Save a small CLIP in the layout of open_clip."""
    from safetensors.torch import save_file

    folder.mkdir()
    config = {
        "embed_dim": 24,
        "vision_cfg": {
            "image_size": 32,
            "layers": 2,
            "width": 32,
            "head_width": 8,
            "patch_size": 8,
            **vision,
        },
        "text_cfg": {
            "context_length": 12,
            "vocab_size": 49408,
            "width": 16,
            "heads": 2,
            "layers": 2,
        },
    }
    images = {"size": [32, 32], "mode": "RGB", "fill_color": 0, **GREY, "resize_mode": "shortest"}
    write(folder, "open_clip_config.json", model_cfg=config, preprocess_cfg=images)
    torch.manual_seed(0)
    model = library.CLIP(**json.loads(json.dumps(config)))
    state = {name: values.contiguous() for name, values in model.state_dict().items()}
    save_file(state, folder / "open_clip_model.safetensors")
    return folder


def smooth(count: int = 8):
    """Images without noise, in which filters differ little by the order of their passes."""
    from PIL import Image

    for noise in crops(5, count):
        small = Image.fromarray(noise[:6, :6] // 2 + 60)
        height, width = noise.shape[:2]
        yield small.resize((3 * width, 3 * height), Image.Resampling.BICUBIC)


def check_images(images: Preprocessing, transform) -> None:
    """Grey levels by which ours differ from those of a library."""
    for image in smooth():
        ours = (images.fit(np.asarray(image)) / 255 - images.mean) / images.std
        theirs = np.asarray(transform(image)).transpose(1, 2, 0)
        levels = np.abs(ours - theirs) * images.std * 255
        assert levels.max() < 2.001
        assert levels.mean() < 0.3


@pytest.mark.parametrize(
    "name",
    [
        "PE-Core-B-16/meta",
        "ViT-B-16/dfn2b",
        "ViT-H-14-378-quickgelu/dfn5b",
        "ViT-B-16/metaclip_fullcc",
        "ViT-L-16-SigLIP2-256/webli",
    ],
)
@pytest.mark.long
@pytest.mark.peers
def test_images_of_weights_that_real_open_clip_lists_are_those_of_its_transform(name) -> None:
    library = need("open_clip")
    model, tag = name.split("/")
    listed = library.get_pretrained_cfg(model, tag)
    size = library.get_model_config(model)["vision_cfg"]["image_size"]
    transform = library.image_transform(
        size,
        is_train=False,
        mean=listed["mean"],
        std=listed["std"],
        interpolation=listed["interpolation"],
        resize_mode=listed["resize_mode"],
    )
    check_images(of_open_clip(listed, size, name), transform)


@pytest.mark.parametrize(
    "name", ["vit_base_patch14_dinov2.lvd142m", "resnet50.a1_in1k", "convnext_tiny.fb_in1k"]
)
@pytest.mark.long
@pytest.mark.peers
def test_images_of_real_timm_are_those_of_its_transform(name) -> None:
    library = need("timm")
    listed = library.data.resolve_data_config(
        {}, pretrained_cfg=library.get_pretrained_cfg(name).to_dict()
    )
    transform = library.data.create_transform(**listed, is_training=False)
    check_images(of_timm(listed, name), transform)


@pytest.mark.long
@pytest.mark.peers
def test_images_of_dinov3_are_those_of_its_processor(tmp_path) -> None:
    need("torchvision")
    folder = save_dinov3(tmp_path / "small")
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    check_images(
        of_transformers(folder, "it"),
        lambda image: processor(images=image, return_tensors="np")["pixel_values"][0],
    )


@pytest.mark.long
@pytest.mark.peers
def test_real_open_clip_gives_the_rows_of_its_own_transform_and_tokenizer(tmp_path) -> None:
    library = need("open_clip")
    from PIL import Image

    folder = save_open_clip(tmp_path / "small", library)
    encoder = load_encoder(f"openclip:{folder}", device="cpu")
    assert (encoder.size, encoder.dimension) == (32, 24)
    model, _, transform = library.create_model_and_transforms(f"local-dir:{folder}")
    images = torch.stack([transform(Image.fromarray(image)) for image in crops()])
    texts = ["Empty cup!", "cup filled with espresso"]
    with torch.inference_mode():
        rows = model.eval().encode_image(images, normalize=True).numpy()
        tokens = library.get_tokenizer(f"local-dir:{folder}")(texts)
        words = model.encode_text(tokens, normalize=True).numpy()
    assert (encoder.encode_images(crops()) * rows).sum(axis=1).min() > 0.9999
    np.testing.assert_allclose(encoder.encode_texts(texts), words, atol=1e-5)
    (folder / "open_clip_model.safetensors").write_bytes(b"not this")
    with refused(f"openclip:{folder}", kind=MissingData) as caught:
        load_encoder(f"openclip:{folder}", device="cpu")
    assert one_sentence(str(caught.value))


@pytest.mark.long
@pytest.mark.peers
def test_real_timm_gives_the_rows_of_its_own_transform(tmp_path) -> None:
    library = need("timm")
    from PIL import Image
    from safetensors.torch import save_file

    torch.manual_seed(0)
    small = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 4}
    model = library.create_model("vit_tiny_patch16_224", num_classes=3, **small).eval()
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    pretrained = {
        "input_size": [3, 32, 32],
        "interpolation": "bicubic",
        "crop_pct": 0.9,
        "mean": [0.5] * 3,
        "std": [0.5] * 3,
        "num_classes": 3,
        "classifier": "head",
        "first_conv": "patch_embed.proj",
        "fixed_input_size": True,
    }
    write(
        tmp_path,
        "config.json",
        architecture="vit_tiny_patch16_224",
        num_classes=3,
        num_features=32,
        model_args=small,
        pretrained_cfg=pretrained,
    )
    encoder = load_encoder(f"timm:{tmp_path}", device="cpu")
    assert (encoder.size, encoder.dimension, encoder.has_text) == (32, 32, False)
    transform = library.data.create_transform(
        input_size=(3, 32, 32),
        interpolation="bicubic",
        crop_pct=0.9,
        mean=[0.5] * 3,
        std=[0.5] * 3,
        is_training=False,
    )
    model.reset_classifier(0)
    with torch.inference_mode():
        rows = model(torch.stack([transform(Image.fromarray(image)) for image in crops()])).numpy()
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    assert (encoder.encode_images(crops()) * rows).sum(axis=1).min() > 0.9999
    lacking = {name: value for name, value in model.state_dict().items() if "blocks.1" not in name}
    save_file(lacking, tmp_path / "model.safetensors")
    with refused(f"timm:{tmp_path}", kind=MissingData) as caught:  # not made up
        load_encoder(f"timm:{tmp_path}", device="cpu")
    assert one_sentence(str(caught.value))

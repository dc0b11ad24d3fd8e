"""Small models with the classes and files of the hub, for the tests of encoders."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

TEXTS = ["empty cup", "cup filled with espresso", "cup"]
SHARED = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
CLIP_SCALE = {
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}


def write(folder: Path, name: str, **values: object) -> None:
    (folder / name).write_text(json.dumps(values))


def vocabulary() -> dict[str, int]:
    """CLIP's kind: words are spelled letter by letter."""
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    tokens = [*letters, *(f"{letter}</w>" for letter in letters)]
    return {token: at for at, token in enumerate([*tokens, "<|startoftext|>", "<|endoftext|>"])}


def save_clip(folder: Path) -> Path:
    torch.manual_seed(0)
    words = vocabulary()
    start, end = len(words) - 2, len(words) - 1
    config = transformers.CLIPConfig(
        text_config={
            **SHARED,
            "vocab_size": len(words),
            "max_position_embeddings": 30,
            "bos_token_id": start,
            "eos_token_id": end,
            "pad_token_id": end,
        },
        vision_config={**SHARED, "image_size": 32, "patch_size": 8},
        projection_dim=24,
    )
    transformers.CLIPModel(config).eval().save_pretrained(folder)
    transformers.CLIPTokenizer(vocab=words, merges=[]).save_pretrained(folder)
    write(
        folder,
        "preprocessor_config.json",
        crop_size=32,
        do_center_crop=True,
        do_normalize=True,
        do_resize=True,
        feature_extractor_type="CLIPFeatureExtractor",
        resample=3,
        size=32,
        **CLIP_SCALE,
    )  # as openai/clip-vit-base-patch32 has it
    return folder


def word_tokenizer():
    """Whole words, an end mark, padding 0: as SigLIP's, but small."""
    import tokenizers

    words = sorted({word for text in TEXTS for word in text.split()})
    names = ["<pad>", "<eos>", "<unk>", *words, "Cup"]
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({name: at for at, name in enumerate(names)}, "<unk>")
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A <eos>", special_tokens=[("<eos>", 1)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )


def save_siglip(folder: Path, *, size: int = 32, width: int = 32) -> Path:
    """A SigLIP whose tokenizer neither lower-cases nor leaves the attention mask out."""
    torch.manual_seed(1)
    tokenizer = word_tokenizer()
    shared = {**SHARED, "hidden_size": width}
    config = transformers.SiglipConfig(
        text_config={
            **shared,
            "vocab_size": len(tokenizer),
            "max_position_embeddings": 16,
            "projection_size": width,
            "pad_token_id": 0,
            "eos_token_id": 1,
        },
        vision_config={**shared, "image_size": size, "patch_size": 8},
    )
    transformers.SiglipModel(config).eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    write(
        folder,
        "preprocessor_config.json",
        do_convert_rgb=None,
        do_normalize=True,
        do_resize=True,
        do_rescale=True,
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
        resample=2,
        image_processor_type="SiglipImageProcessor",
        processor_class="SiglipProcessor",
        rescale_factor=1 / 255,
        size={"height": size, "width": size},
    )
    return folder


def save_metaclip(folder: Path) -> Path:
    torch.manual_seed(2)
    tokenizer = word_tokenizer()
    config = transformers.MetaClip2Config(
        text_config={
            **SHARED,
            "vocab_size": len(tokenizer),
            "max_position_embeddings": 20,
            "bos_token_id": 0,
            "eos_token_id": 1,
            "pad_token_id": 0,
        },
        vision_config={**SHARED, "image_size": 32, "patch_size": 8},
        projection_dim=24,
    )
    transformers.MetaClip2Model(config).eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    write(
        folder,
        "preprocessor_config.json",
        do_center_crop=True,
        do_normalize=True,
        do_resize=True,
        do_rescale=True,
        resample=3,
        size={"shortest_edge": 32},
        rescale_factor=1 / 255,
        crop_size={"height": 32, "width": 32},
        image_processor_type="CLIPImageProcessor",
        **CLIP_SCALE,
    )
    return folder


def save_dinov2(folder: Path) -> Path:
    """Larger than its images, as the published one: 37 patches a side, 16 used."""
    torch.manual_seed(3)
    config = transformers.Dinov2Config(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, image_size=56, patch_size=8
    )
    transformers.Dinov2Model(config).eval().save_pretrained(folder)
    write(
        folder,
        "preprocessor_config.json",
        do_center_crop=True,
        do_convert_rgb=True,
        do_normalize=True,
        do_rescale=True,
        do_resize=True,
        resample=3,
        rescale_factor=1 / 255,
        crop_size={"height": 32, "width": 32},
        size={"shortest_edge": 40},
        image_processor_type="BitImageProcessor",
        **IMAGENET,
    )
    return folder


def save_dinov3(folder: Path) -> Path:
    torch.manual_seed(4)
    config = transformers.DINOv3ViTConfig(
        **SHARED, image_size=32, patch_size=8, num_register_tokens=2
    )
    transformers.DINOv3ViTModel(config).eval().save_pretrained(folder)
    write(
        folder,
        "preprocessor_config.json",
        crop_size=None,
        data_format="channels_first",
        default_to_square=True,
        device=None,
        disable_grouping=None,
        do_center_crop=None,
        do_convert_rgb=None,
        do_normalize=True,
        do_rescale=True,
        do_resize=True,
        image_processor_type="DINOv3ViTImageProcessorFast",
        resample=2,
        rescale_factor=1 / 255,
        size={"height": 32, "width": 32},
        **IMAGENET,
    )
    return folder


def save_vit(folder: Path) -> Path:
    """A classifier, which is published without the layer that pools."""
    torch.manual_seed(5)
    config = transformers.ViTConfig(**SHARED, image_size=32, patch_size=8, num_labels=3)
    transformers.ViTForImageClassification(config).eval().save_pretrained(folder)
    write(
        folder,
        "preprocessor_config.json",
        do_normalize=True,
        do_resize=True,
        size=32,
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
        feature_extractor_type="ViTFeatureExtractor",
    )
    return folder


def crops(seed: int = 0, count: int = 5) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [
        rng.integers(0, 256, (*sides, 3), dtype=np.uint8)
        for sides in rng.integers(20, 90, (count, 2))
    ]


def one_sentence(message: str) -> bool:
    return "\n" not in message and ". " not in message and len(message) < 600

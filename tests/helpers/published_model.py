"""A SigLIP of 32 dimensions in the files of the published one, for tests without its weights."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from dejacue.models.encoders import siglip
from dejacue.models.encoders.siglip import ONNX_REPOSITORY


def save_published(root: Path) -> Path:
    """As Hugging Face lays it out, its ONNX export, and a tokenizer."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    import tokenizers

    folder, exported = root / siglip.REPOSITORY, root / ONNX_REPOSITORY / "onnx"
    exported.mkdir(parents=True)
    folder.mkdir(parents=True)
    torch.manual_seed(0)
    shared = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    config = transformers.SiglipConfig(
        text_config={
            **shared,
            "vocab_size": 50,
            "max_position_embeddings": 64,
            "projection_size": 32,
            "pad_token_id": 0,
            "eos_token_id": 1,
        },
        vision_config={**shared, "image_size": 32, "patch_size": 8},
    )
    model = transformers.SiglipModel(config).eval()
    model.save_pretrained(folder)
    words = [
        "<pad>",
        "<eos>",
        "<unk>",
        "empty",
        "cup",
        "filled",
        "with",
        "espresso",
        "a",
        "photo",
        "of",
        "the",
        "Cup",
    ]
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: at for at, word in enumerate(words)}, "<unk>")
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A <eos>", special_tokens=[("<eos>", 1)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    for tower, name, example in (
        (model.vision_model, "pixel_values", torch.zeros(2, 3, 32, 32)),
        (model.text_model, "input_ids", torch.zeros(2, 64, dtype=torch.int64)),
    ):
        export(torch, tower, name, example, exported)
    return root


def export(torch, tower, name, example, folder):
    class Pooled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.tower = tower

        def forward(self, given):
            return self.tower(given).pooler_output

    kind = "vision" if name == "pixel_values" else "text"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what torch deprecates; any test may be the first
        torch.onnx.export(
            Pooled(),
            (example,),
            folder / f"{kind}_model.onnx",
            dynamo=False,
            opset_version=17,
            input_names=[name],
            output_names=["pooler_output"],
            dynamic_axes={name: {0: "n"}, "pooler_output": {0: "n"}},
        )


def add_smaller(root: Path, precision: str) -> None:
    """Its export at int8 or fp16, as those of the hub are made of the published one."""
    onnx = pytest.importorskip("onnx")
    from onnxruntime.quantization import quantize_dynamic
    from onnxruntime.transformers.float16 import convert_float_to_float16

    for tower in ("vision", "text"):
        whole = root / ONNX_REPOSITORY / "onnx" / f"{tower}_model.onnx"
        made = whole.with_name(f"{tower}_model_{precision}.onnx")
        if precision == "int8":
            # 7 bits: products of 8 overflow on processors without VNNI, as they do in real exports
            quantize_dynamic(whole, made, reduce_range=True)
        else:
            onnx.save(convert_float_to_float16(onnx.load(whole)), made)

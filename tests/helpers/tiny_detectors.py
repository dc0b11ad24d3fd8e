"""LLMDet, Grounding DINO and OWLv2 with the classes and files of the hub, tiny and random."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from helpers.small_models import CLIP_SCALE, IMAGENET, SHARED, vocabulary, write  # noqa: E402

KINDS = ("llmdet", "grounding-dino", "owlv2")
SHORT, LONG = 96, 160  # pixels of the sides of pictures as Grounding DINO sees them
SIDE = 64  # pixels of the square that OWLv2 sees
MAX_TOKENS = 64  # of Grounding DINO
MAX_NAME_TOKENS = 16  # of OWLv2
WORDS = ("a", "cup", "jar", "glass", "red", "lid", "kettle", "##s", "ca", "##fe", "-")
# where BERT has them: the model knows these by number
NUMBERED = {0: "[PAD]", 100: "[UNK]", 101: "[CLS]", 102: "[SEP]", 103: "[MASK]"}
NUMBERED |= {1012: ".", 1029: "?"}
DONE = dict.fromkeys(("do_normalize", "do_pad", "do_rescale", "do_resize"), True)
DONE |= {"resample": 2, "rescale_factor": 1 / 255}


def save(kind: str, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return save_owl(folder) if kind == "owlv2" else save_dino(kind, folder)


def save_dino(kind: str, folder: Path) -> Path:
    torch.manual_seed(len(kind))
    backbone = transformers.SwinConfig(
        image_size=SHORT,
        embed_dim=8,
        depths=[1, 1, 1, 1],
        num_heads=[1, 1, 2, 2],
        window_size=4,
        out_features=["stage2", "stage3", "stage4"],
    )
    text = transformers.BertConfig(
        vocab_size=1030,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
    )
    names = {"llmdet": "MMGroundingDino", "grounding-dino": "GroundingDino"}
    config = getattr(transformers, f"{names[kind]}Config")(
        backbone_config=backbone,
        text_config=text,
        d_model=32,
        num_queries=30,
        encoder_layers=1,
        encoder_ffn_dim=32,
        encoder_attention_heads=4,
        decoder_layers=2,
        decoder_ffn_dim=32,
        decoder_attention_heads=4,
        max_text_len=MAX_TOKENS,
    )
    model = getattr(transformers, f"{names[kind]}ForObjectDetection")(config)
    spread(model).save_pretrained(folder)
    tokens = {at: f"[unused{at}]" for at in range(1030)}
    tokens |= dict(enumerate(WORDS, 200)) | NUMBERED
    (folder / "vocab.txt").write_text("\n".join(tokens[at] for at in range(1030)) + "\n")
    transformers.BertTokenizerFast.from_pretrained(folder).save_pretrained(folder)
    write(
        folder,
        "preprocessor_config.json",
        **DONE,
        format="coco_detection",
        image_processor_type="GroundingDinoImageProcessor",
        processor_class="GroundingDinoProcessor",
        size={"shortest_edge": SHORT, "longest_edge": LONG},
        **IMAGENET,
    )
    return folder


def save_owl(folder: Path) -> Path:
    torch.manual_seed(7)
    words = vocabulary()
    start, end = len(words) - 2, len(words) - 1
    config = transformers.Owlv2Config(
        text_config={
            **SHARED,
            "vocab_size": len(words),
            "max_position_embeddings": MAX_NAME_TOKENS,
            "bos_token_id": start,
            "eos_token_id": end,
            "pad_token_id": 0,
        },
        vision_config={**SHARED, "image_size": SIDE, "patch_size": 8},
        projection_dim=32,
    )
    spread(transformers.Owlv2ForObjectDetection(config)).save_pretrained(folder)
    write(folder, "vocab.json", **words)
    (folder / "merges.txt").write_text("#version: 0.2\n")
    write(
        folder,
        "tokenizer_config.json",
        tokenizer_class="CLIPTokenizer",
        bos_token="<|startoftext|>",
        eos_token="<|endoftext|>",
        unk_token="<|endoftext|>",
        pad_token="a",
        model_max_length=MAX_NAME_TOKENS,
    )
    write(
        folder,
        "preprocessor_config.json",
        **DONE,
        image_processor_type="Owlv2ImageProcessor",
        processor_class="Owlv2Processor",
        size={"height": SIDE, "width": SIDE},
        **CLIP_SCALE,
    )
    return folder


def spread(model):
    """Widen the weights, so that boxes and scores differ from each other and between pictures."""
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if weights.ndim > 1 and "norm" not in name:
                weights.normal_(0, weights[0].numel() ** -0.5)
    return model.eval()

"""SAM 3 for video as transformers has it, tiny and randomly initialised."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", minversion="5.0")

from helpers.small_models import vocabulary  # noqa: E402

PATCH, PATCHES, WIDTH = 14, 4, 128
SIDE = PATCH * PATCHES
MEMORIES, POINTERS, QUERIES = 4, 6, 6


def config():
    words = vocabulary()
    layers = {
        "hidden_size": WIDTH,
        "num_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    backbone = {
        "model_type": "sam3_vit_model",
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": SIDE,
        "pretrain_image_size": SIDE,
        "patch_size": PATCH,
        "window_size": 2,
        "global_attn_indexes": [1],
    }
    vision = {
        "model_type": "sam3_vision_model",
        "backbone_config": backbone,
        "fpn_hidden_size": WIDTH,
        "backbone_feature_sizes": [[PATCHES * scale] * 2 for scale in (4, 2, 1)],
    }
    text = {
        "model_type": "clip_text_model",
        "vocab_size": len(words),
        "hidden_size": 32,
        "intermediate_size": 32,
        "projection_dim": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "max_position_embeddings": 32,
        "bos_token_id": len(words) - 2,
        "eos_token_id": len(words) - 1,
        "pad_token_id": 0,
    }
    detector = transformers.Sam3Config(
        vision_config=vision,
        text_config=text,
        geometry_encoder_config=layers,
        detr_encoder_config=layers,
        detr_decoder_config={**layers, "num_queries": QUERIES},
        mask_decoder_config={"hidden_size": WIDTH, "num_attention_heads": 2},
    )
    tracker = transformers.Sam3TrackerVideoConfig(
        vision_config=vision,
        image_size=SIDE,
        prompt_encoder_config={"hidden_size": WIDTH, "image_size": SIDE, "patch_size": PATCH},
        mask_decoder_config={"hidden_size": WIDTH, "mlp_dim": 16, "num_attention_heads": 2},
        num_maskmem=MEMORIES,
        max_object_pointers_in_encoder=POINTERS,
        memory_attention_hidden_size=WIDTH,
        memory_attention_num_layers=1,
        memory_attention_rope_feat_sizes=[PATCHES, PATCHES],
        memory_attention_feed_forward_hidden_size=16,
        memory_encoder_hidden_size=WIDTH,
        mask_downsampler_embed_dim=WIDTH,
        memory_fuser_embed_dim=WIDTH,
        memory_fuser_intermediate_dim=16,
    )
    # a random model is not sure of anything: all that it detects in the first frames counts
    sure = {"score_threshold_detection": 0.0, "new_det_thresh": 0.0, "max_num_objects": 2 * QUERIES}
    sizes = {"detector_config": detector, "tracker_config": tracker}
    return transformers.Sam3VideoConfig(**sizes, low_res_mask_size=4 * PATCHES, **sure)


def save(folder: Path) -> None:
    """Write a model and its tokenizer, as a user has them."""
    torch.manual_seed(0)
    transformers.Sam3VideoModel(config()).save_pretrained(folder)
    transformers.CLIPTokenizer(vocab=vocabulary(), merges=[]).save_pretrained(folder)

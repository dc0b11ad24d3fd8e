"""SAM 2 and EdgeTAM as transformers has them, tiny and randomly initialised."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SIDE, MEMORIES, POINTERS = 64, 4, 6


def config(kind: str = "sam2", **options):
    levels = [[SIDE // 4] * 2, [SIDE // 8] * 2, [SIDE // 16] * 2]
    backbone = {
        "model_type": "sam2_hiera_det_model",
        "hidden_size": 8,
        "image_size": [SIDE, SIDE],
        "blocks_per_stage": [1, 1, 1, 1],
        "embed_dim_per_stage": [8, 16, 24, 32],
        "num_attention_heads_per_stage": [1, 1, 1, 2],
        "window_size_per_stage": [8, 4, 4, 2],
        "global_attention_blocks": [],
        "window_positional_embedding_background_size": [4, 4],
    }
    vision = {
        "model_type": "sam2_vision_model",
        "backbone_config": backbone,
        "backbone_channel_list": [32, 24, 16, 8],
        "backbone_feature_sizes": levels,
        "fpn_hidden_size": 128,
    }
    # an object: transformers 5.17 makes the wrong one of a dictionary
    decoder = {
        "sam2": transformers.Sam2VideoMaskDecoderConfig,
        "edgetam": transformers.EdgeTamVideoMaskDecoderConfig,
    }[kind]
    shared = {
        "vision_config": vision,
        "image_size": SIDE,
        "prompt_encoder_config": {"hidden_size": 128, "image_size": SIDE},
        "mask_decoder_config": decoder(hidden_size=128, mlp_dim=16, num_attention_heads=2),
        "num_maskmem": MEMORIES,
        "max_object_pointers_in_encoder": POINTERS,
        "memory_attention_hidden_size": 128,
        "memory_attention_num_layers": 1,
        "memory_attention_rope_feat_sizes": levels[-1],
        "memory_encoder_hidden_size": 128,
        "mask_downsampler_embed_dim": 128,
        "memory_fuser_embed_dim": 128,
        "memory_fuser_intermediate_dim": 16,
    }
    if kind == "sam2":
        sam2 = {"memory_attention_feed_forward_hidden_size": 16}
        return transformers.Sam2VideoConfig(**{**shared, **sam2, **options})
    edgetam = {
        "memory_attention_mlp_hidden_size": 16,
        "memory_attention_rope_k_sizes": [2, 2],
        "perceiver_resampler_num_latents": 4,
        "perceiver_resampler_num_latents_2d": 4,
    }
    return transformers.EdgeTamVideoConfig(**{**shared, **edgetam, **options})


def random_model(kind: str = "sam2", **options):
    torch.manual_seed(0)
    models = {"sam2": transformers.Sam2VideoModel, "edgetam": transformers.EdgeTamVideoModel}
    model = models[kind](config(kind, **options)).eval()
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "norm" not in name:
                weights.normal_(0, weights[0].numel() ** -0.5 if weights.ndim > 1 else 0)
        model.mask_decoder.pred_obj_score_head.proj_out.bias.fill_(1.0)
    return model

"""Eight learned decoders of moments on one core, and what trains, reads and writes them.

names → ``model("qd", members, dimension)``; torch is imported where a model is made.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from dejacue.errors import extra, need, unknown

if TYPE_CHECKING:
    from dejacue_paper.learn.decoders.core import DecoderModel

REMEDY = extra("learn", "dejacue-paper")
# name → module, class, the name in the published tables, and how it is printed
DECODERS = {
    "moment": ("moment", "MomentDETR", "moment_detr", "Moment-DETR"),
    "qd": ("qd", "QDDETR", "qd_detr", "QD-DETR"),
    "eatr": ("eatr", "EaTR", "eatr", "EaTR"),
    "cg": ("cg", "CGDETR", "cg_detr", "CG-DETR"),
    "uvcom": ("uvcom", "UVCOM", "uvcom", "UVCOM"),
    "tr": ("tr", "TRDETR", "tr_detr", "TR-DETR"),
    "taskweave": ("taskweave", "TaskWeave", "taskweave_mr2hd", "TaskWeave"),
    "sim": ("sim", "SimDETR", "sim_detr", "Sim-DETR"),
}


def model_class(name: str) -> type[DecoderModel]:
    if name not in DECODERS:
        raise unknown("decoder", name, DECODERS)
    need("torch", REMEDY)
    module, kind = DECODERS[name][:2]
    decoder: type[DecoderModel] = getattr(
        importlib.import_module(f"dejacue_paper.learn.decoders.{module}"), kind
    )
    return decoder


def model(name: str, members: int, dimension: int, as_published: bool = False) -> DecoderModel:
    """Return a decoder without weights; ``layers.start`` or a checkpoint gives it some."""
    return model_class(name)(members, dimension, as_published)

"""The paper of dejacue: its release, data sets, tables, ablations, studies, learned decoders."""

from typing import TYPE_CHECKING

from dejacue._lazy import lazy_names

if TYPE_CHECKING:
    from dejacue_paper.data.dataset import evaluate_dataset as evaluate_dataset
    from dejacue_paper.data.layouts import open_dataset as open_dataset
    from dejacue_paper.data.release import load_release as load_release
    from dejacue_paper.data.synthetic import generate as generate
    from dejacue_paper.method.nonoverlap import NonOverlap as NonOverlap
    from dejacue_paper.method.ordered import Ordered as Ordered
    from dejacue_paper.method.readouts import Boxcar as Boxcar
    from dejacue_paper.method.readouts import MaxFrame as MaxFrame
    from dejacue_paper.method.readouts import MeanWindow as MeanWindow
    from dejacue_paper.method.readouts import Peak as Peak

__all__, __getattr__ = lazy_names(
    __name__,
    {
        "data.release": "load_release",
        "data.synthetic": "generate",
        "data.layouts": "open_dataset",
        "data.dataset": "evaluate_dataset",
        "method.readouts": "MeanWindow Boxcar MaxFrame Peak",
        "method.nonoverlap": "NonOverlap",
        "method.ordered": "Ordered",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)

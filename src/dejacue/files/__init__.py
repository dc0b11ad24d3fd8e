"""Read and write histories, vocabularies, timelines and references."""

from typing import TYPE_CHECKING

from dejacue._lazy import lazy_names

if TYPE_CHECKING:  # the same for type checkers
    from dejacue.files.histories import read_history as read_history
    from dejacue.files.histories import read_vocabulary as read_vocabulary
    from dejacue.files.histories import write_history as write_history
    from dejacue.files.histories import write_vocabulary as write_vocabulary
    from dejacue.files.results import read_references as read_references
    from dejacue.files.results import read_timelines as read_timelines
    from dejacue.files.results import write_references as write_references
    from dejacue.files.results import write_timelines as write_timelines

__all__, __getattr__ = lazy_names(
    __name__,
    {
        "histories": "read_history read_vocabulary write_history write_vocabulary",
        "results": "read_references read_timelines write_references write_timelines",
    },
)

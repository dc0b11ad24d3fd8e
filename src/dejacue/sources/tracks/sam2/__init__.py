"""SAM 2.1 and EdgeTAM through transformers, with memory that does not grow (``dejacue[track]``).

    load         a name → a tracker                                             loading.py
    Sam2Tracker  a model on a device, in a precision; makes sessions            tracker.py
    Sam2Session  frames one after another → masks                               tracker.py

What goes into the model and comes out lies in images.py.
"""

from dejacue.sources.tracks.sam2.loading import DEFAULT, REPOSITORIES, load
from dejacue.sources.tracks.sam2.tracker import Sam2Session, Sam2Tracker

__all__ = ["DEFAULT", "REPOSITORIES", "Sam2Session", "Sam2Tracker", "load"]

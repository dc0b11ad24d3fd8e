"""Following an object through a video from a click, a box or a mask.

    Prompt         where an object is, in one frame                       base.py
    load_tracker   a name → a Tracker (base.py), such as sam2            loading.py
    track          a video and prompts → the masks of each frame          propagate.py
    write_track    the same into files; goes on, and redoes only what changed   follow.py
    read_notes     what is known of such masks: presence, doubts          notes.py
    match_of       how open_masks is to find the masks of frames          notes.py

What people write becomes prompts in prompts.py; doubts.py says where to look.
"""

from dejacue.sources.tracks.base import Prompt, Tracker
from dejacue.sources.tracks.follow import check_target, open_written, write_track
from dejacue.sources.tracks.loading import check_tracker, default_tracker, load_tracker
from dejacue.sources.tracks.notes import TrackNotes, match_of, read_notes
from dejacue.sources.tracks.prompts import RawPrompt
from dejacue.sources.tracks.propagate import TrackRequest, track

__all__ = [
    "TrackNotes",
    "Prompt",
    "RawPrompt",
    "TrackRequest",
    "Tracker",
    "check_target",
    "check_tracker",
    "default_tracker",
    "load_tracker",
    "match_of",
    "open_written",
    "read_notes",
    "track",
    "write_track",
]

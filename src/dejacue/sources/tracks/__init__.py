"""Following an object through a video from a click, a box or a mask.

    Prompt         where an object is, in one frame                       base.py
    load_tracker   a name → a Tracker (base.py)                           light.py, sam2
    track          a video and prompts → the masks of each frame          tracking.py
    write_track    the same into files; goes on, and redoes only what changed   writing.py
    read_notes     what is known of such masks: presence, doubts          notes.py
    match_of       how open_masks is to find the masks of frames          notes.py

What people write becomes prompts in prompts.py; backwards.py reverses a video, partial.py keeps
what a stopped run has done, and doubts.py says where to look.
"""

from dejacue.sources.tracks.base import Prompt, Seen, Session, Tracker
from dejacue.sources.tracks.doubts import Doubt
from dejacue.sources.tracks.notes import Notes, match_of, read_notes
from dejacue.sources.tracks.prompts import place, read_prompts
from dejacue.sources.tracks.tracking import Plan, Tracked, load_tracker, track
from dejacue.sources.tracks.writing import write_track

__all__ = [
    "Prompt",
    "Seen",
    "Session",
    "Tracker",
    "Tracked",
    "Doubt",
    "Notes",
    "Plan",
    "load_tracker",
    "track",
    "write_track",
    "read_prompts",
    "place",
    "read_notes",
    "match_of",
]

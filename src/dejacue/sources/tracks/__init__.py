"""Following an object through a video from a click, a box or a mask.

    Prompt         where an object is, in one frame                       base.py
    load_tracker   a name → a Tracker (base.py): box.py, sam2             loading.py
    track          a video and prompts → the masks of each frame          propagate.py
    write_track    the same into files; goes on, and redoes only what changed   output.py
    read_notes     what is known of such masks: presence, doubts          notes.py
    match_of       how open_masks is to find the masks of frames          notes.py

What people write (prompt_text.py) becomes prompts in prompts.py; doubts.py says where to look. The
rest of dejacue imports from here only.
"""

from dejacue.sources.tracks.base import Observation, Prompt, Session, Tracker, bounding_box
from dejacue.sources.tracks.doubts import Doubt, Series, colour_signature, find_doubts
from dejacue.sources.tracks.loading import default_tracker, load_tracker
from dejacue.sources.tracks.notes import Notes, TrackedObject, match_of, notes_path, read_notes
from dejacue.sources.tracks.output import check_target, open_written, partial_path, write_track
from dejacue.sources.tracks.prompt_text import Lineages, RawPrompt, read_prompts
from dejacue.sources.tracks.prompts import check_prompts, drop_repeated_pieces, resolve_prompts
from dejacue.sources.tracks.propagate import PRESENCE, TrackedFrame, TrackRequest, track

__all__ = [
    "PRESENCE",
    "Doubt",
    "Lineages",
    "Notes",
    "Observation",
    "Prompt",
    "RawPrompt",
    "Series",
    "Session",
    "TrackRequest",
    "TrackedFrame",
    "TrackedObject",
    "Tracker",
    "bounding_box",
    "check_prompts",
    "check_target",
    "colour_signature",
    "default_tracker",
    "drop_repeated_pieces",
    "find_doubts",
    "load_tracker",
    "match_of",
    "notes_path",
    "open_written",
    "partial_path",
    "read_notes",
    "read_prompts",
    "resolve_prompts",
    "track",
    "write_track",
]

"""Following an object through a video from a click, a box or a mask.

    Prompt         where an object is, in one frame                       base.py
    load_tracker   a name → a Tracker (base.py), such as sam2            propagate.py
    track          a video and prompts → the masks of each frame          propagate.py
    write_track    the same into files; goes on, and redoes only what changed   follow.py
    read_notes     what is known of such masks: presence, doubts          notes.py
    match_of       how open_masks is to find the masks of frames          notes.py

What people write becomes prompts in prompts.py; doubts.py says where to look.
"""

from dejacue.sources.tracks.base import Prompt as Prompt
from dejacue.sources.tracks.base import Tracker as Tracker
from dejacue.sources.tracks.follow import check_target as check_target
from dejacue.sources.tracks.follow import open_written as open_written
from dejacue.sources.tracks.follow import write_track as write_track
from dejacue.sources.tracks.notes import TrackNotes as TrackNotes
from dejacue.sources.tracks.notes import match_of as match_of
from dejacue.sources.tracks.notes import read_notes as read_notes
from dejacue.sources.tracks.prompts import RawPrompt as RawPrompt
from dejacue.sources.tracks.propagate import TrackRequest as TrackRequest
from dejacue.sources.tracks.propagate import check_tracker as check_tracker
from dejacue.sources.tracks.propagate import default_tracker as default_tracker
from dejacue.sources.tracks.propagate import load_tracker as load_tracker
from dejacue.sources.tracks.propagate import track as track

"""Following an object through a video from a click, a box or a mask.

    Prompt         where an object is, in one frame                       base.py
    load_tracker   a name → a Tracker (base.py), such as sam2             propagate.py
    track          a video and prompts → the masks of each frame          propagate.py
    follow         the same into files; redoes only what changed          follow.py
    read_notes     what is known of such masks: presence, doubts          notes.py
    match_of       how open_masks is to find the masks of frames          notes.py

What people write becomes prompts in prompts.py; doubts.py says where to look.
"""

from dejacue.models.trackers.base import Prompt as Prompt
from dejacue.models.trackers.base import Tracker as Tracker
from dejacue.models.trackers.follow import check_target as check_target
from dejacue.models.trackers.follow import open_written as open_written
from dejacue.models.trackers.notes import TrackNotes as TrackNotes
from dejacue.models.trackers.notes import match_of as match_of
from dejacue.models.trackers.notes import read_notes as read_notes
from dejacue.models.trackers.propagate import TrackerOptions as TrackerOptions
from dejacue.models.trackers.propagate import check_tracker as check_tracker
from dejacue.models.trackers.propagate import default_tracker as default_tracker
from dejacue.models.trackers.propagate import load_tracker as load_tracker
from dejacue.models.trackers.propagate import track as track

"""The paper's method on records: numpy and the compiled kernel only, no files, no torch.

coordinates → calibration → scan (or another readout) → localization
"""

from dejacue.method.contrast import Contrast
from dejacue.method.live import LiveReading
from dejacue.method.localization import candidates, evidence, locate, locate_many
from dejacue.method.questions import Question, next_question
from dejacue.method.scan_readout import Grid, Scan
from dejacue.method.segmentation import segments
from dejacue.method.teaching import Teacher
from dejacue.method.timeline import Reading
from dejacue.records import Diagnostics, Evidence, Window

__all__ = [
    "Contrast",
    "Diagnostics",
    "Evidence",
    "Grid",
    "Reading",
    "LiveReading",
    "Question",
    "Scan",
    "Teacher",
    "Window",
    "candidates",
    "evidence",
    "locate",
    "locate_many",
    "next_question",
    "segments",
]

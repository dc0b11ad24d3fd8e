"""Finding objects in a video by their names.

Detector        a picture and names → boxes with scores                 base.py
load_detector   a name or a folder → a Detector                        loading.py, zero_shot.py
find_shots      a video → its shots                                    shots.py
find_objects    a video and names → where to start following objects   search.py, looks.py
"""

from dejacue.sources.detectors.base import Detection, Detector, ExampleDetector
from dejacue.sources.detectors.loading import load_detector
from dejacue.sources.detectors.search import Instance, Look, ObjectSearch, find_objects, find_shots

__all__ = [
    "Detection",
    "Detector",
    "ExampleDetector",
    "Instance",
    "Look",
    "ObjectSearch",
    "find_objects",
    "find_shots",
    "load_detector",
]

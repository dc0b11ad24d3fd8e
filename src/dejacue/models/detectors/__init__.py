"""Finding objects in a video by their names.

Detector        a picture and names → boxes with scores                 base.py
load_detector   a name or a folder → a Detector                        search.py, zero_shot.py
find_shots      a video → its shots                                    search.py
find_objects    a video and names → where to start following objects   search.py
"""

from dejacue.models.detectors.base import Detection as Detection
from dejacue.models.detectors.base import Detector as Detector
from dejacue.models.detectors.base import ExampleDetector as ExampleDetector
from dejacue.models.detectors.search import ObjectSearch as ObjectSearch
from dejacue.models.detectors.search import find_objects as find_objects
from dejacue.models.detectors.search import load_detector as load_detector

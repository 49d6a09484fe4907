"""misdetect finds, explains and fixes the failures of object detectors.

import misdetect as md
detector = md.load_detector("zoo:yolox")
detections = detector.detect([md.load_data("rooms:val")[0].image])
"""

from misdetect.data import load_data
from misdetect.detections import Detections, Truth
from misdetect.detectors import load_detector
from misdetect.errors import MisdetectError

__all__ = ["Detections", "MisdetectError", "Truth", "load_data", "load_detector"]

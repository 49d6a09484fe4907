"""A detector that takes its time, so that a run can be killed in the middle; it appends a line for each image asked."""

import os
import time
from pathlib import Path

from misdetect.nouns.detections import Detections


class Slow:
    names = ("chair",)
    batch_size = 1
    fingerprint = "slow"

    def detect(self, images):
        time.sleep(float(os.environ.get("SLOW_SECONDS", "0.05")))
        with Path(os.environ["SLOW_LOG"]).open("a") as log:
            log.write("asked\n" * len(images))
        return [Detections([[0, 0, 8, 8]], [round(float(image.mean()) / 255, 3)], [0]) for image in images]

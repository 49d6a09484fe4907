"""A detector that takes its time, so that a run can be killed in the middle; it appends a line for each image asked.
``SLOW_SECONDS`` says how much time, ``SLOW_AFTER`` how many images it answers at once before."""

import os
import time
from pathlib import Path

from misdetect.nouns.detections import Detections


class Slow:
    names = ("chair",)
    batch_size = 1
    fingerprint = "slow"

    def detect(self, images):
        asked, first = Path(os.environ["SLOW_LOG"]), int(os.environ.get("SLOW_AFTER", "0"))
        if not first or (asked.exists() and asked.stat().st_size >= first * len("asked\n")):
            time.sleep(float(os.environ.get("SLOW_SECONDS", "0.05")))
        with asked.open("ab") as log:
            log.write(b"asked\n" * len(images))
        return [Detections([[0, 0, 8, 8]], [round(float(image.mean()) / 255, 3)], [0]) for image in images]

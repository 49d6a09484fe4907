"""What the command line's tests work on: a tiny COCO set, a user's detector, and a command in its own process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

DETECTOR = '''
import time
from pathlib import Path

class Mine:
    """One box per image whose score is the mean of its pixels; how it behaves is read from files beside it."""
    names = ["Thing", "unknown to the data"]
    batch_size = 2
    def __init__(self, fingerprint=""):
        self.here = Path(__file__).parent
        if fingerprint:
            self.fingerprint = fingerprint
    def detect(self, images):
        log = self.here / "asked"
        while (self.here / "hold").exists() and log.exists() and log.stat().st_size >= 3:
            time.sleep(0.02)
        with open(log, "a") as file:
            file.write("." * len(images))
        if any(image.mean() >= float((self.here / "fails_at").read_text()) for image in images):
            raise RuntimeError("out of [bold]luck[/nope]")
        return [([[1, 2, 11, 12], [0, 0, 3, 3]], [image.mean() / 255, 0.25], [0, 1]) for image in images]
'''


class World:
    """A folder with ``data.json`` (6 images, classes other and thing), ``mine.py`` and ``results.json`` as oracle."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        images, self.expected = [], []
        for i in range(6):
            pixels = np.random.default_rng(i).integers(0, 40 * (i + 1), (24, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"{i}.png")
            images.append({"id": 10 + i, "file_name": f"{i}.png", "width": 32, "height": 24})
            score = round(float(pixels.mean()) / 255, 4)  # as the engine takes it
            self.expected.append({"image_id": 10 + i, "category_id": 9, "bbox": [1.0, 2.0, 10.0, 10.0], "score": score})
        truth = [
            {"id": 1 + i, "image_id": 10 + i, "category_id": 9, "bbox": [1, 2, 10, 10], "area": 100, "iscrowd": 0}
            for i in range(6)
        ]
        categories = [{"id": 4, "name": "other"}, {"id": 9, "name": "thing"}]
        document = {"images": images, "annotations": truth, "categories": categories}
        (folder / "data.json").write_text(json.dumps(document))
        (folder / "mine.py").write_text(DETECTOR)
        self.behave()

    def behave(self, *, fails_at: float = 999) -> None:
        """From which mean on the detector fails."""
        (self.folder / "fails_at").write_text(str(fails_at))

    @property
    def data(self) -> str:
        return f"coco:{self.folder / 'data.json'}"

    @property
    def asked(self) -> int:
        """How many images the detector was shown so far."""
        log = self.folder / "asked"
        return log.stat().st_size if log.exists() else 0

    def detect(self, out: Path, *more: str, fingerprint: str = "") -> list[str]:
        spec = f"python:{self.folder / 'mine.py'}:Mine" + (f",fingerprint={fingerprint}" if fingerprint else "")
        return ["detect", "--detector", spec, "--data", self.data, "--out", str(out), *more]


def start(*arguments: str, **environment: str) -> "subprocess.Popen[str]":
    """The command in a process of its own."""
    command = [sys.executable, "-c", "from misdetect.cli import main; main()", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env={**os.environ, **environment})


def finish(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err

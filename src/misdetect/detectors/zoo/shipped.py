"""``zoo:NAME``: small detectors of five families, trained by this project and shipped inside the package.

``manifest.json`` beside the weights says of each its classes, size, scores and checksum; a file whose checksum differs
is refused before it is read. How they are trained is in ``misdetect.training.zoo`` and docs/zoo.md.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from misdetect.detectors.family import TORCH
from misdetect.nouns.detections import PRESENT
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec, BadWeights

if TYPE_CHECKING:  # listing the zoo must not wait for torch
    from misdetect.detectors.torch_detector import TorchDetector
    from misdetect.detectors.zoo.graph import GraphDetector

FOLDER = Path(__file__).parent / "weights"
"""Where the shipped weights and their manifest are."""
BATCH = 8
"""Images computed together: twice as fast as one by one."""
SCORE = 0.01
"""Above which YOLOX reports a detection unless told otherwise; other families have their own."""


@dataclass(frozen=True)
class Entry:
    """One detector of the zoo: its architecture ``family``, the data it is trained on, where only objects in certain
    ``states`` are taught, those; and of a robust detector its ``twin``, the one that its training starts from."""

    family: str
    data: str
    states: tuple[str, ...] | None = None
    twin: str | None = None

    @property
    def whole(self) -> bool:
        """Whether it answers with whole images, being a classifier."""
        return self.family == "mcml"


ZOO: Mapping[str, Entry] = {
    "ssd": Entry("ssd", "rooms"),
    "faster-rcnn": Entry("faster-rcnn", "rooms"),
    "retinanet": Entry("retinanet", "rooms"),
    "yolox": Entry("yolox", "rooms"),
    "deformable-detr": Entry("deformable-detr", "rooms"),
    "faster-rcnn-bikes": Entry("faster-rcnn", "bikes", PRESENT),
    "retinanet-bikes": Entry("retinanet", "bikes", PRESENT),
    "yolox-bikes": Entry("yolox", "bikes", PRESENT),
    "mcml-bikes": Entry("mcml", "bikes", PRESENT),
    "ssd-robust": Entry("ssd", "rooms", twin="ssd"),
    "faster-rcnn-robust": Entry("faster-rcnn", "rooms", twin="faster-rcnn"),
    "yolox-robust": Entry("yolox", "rooms", twin="yolox"),
    "deformable-detr-robust": Entry("deformable-detr", "rooms", twin="deformable-detr"),
}


@cache
def manifest(folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """What is shipped: by name ``sha256``, ``bytes``, ``parameters``, ``names``, ``scores``, ``data``, ``recipe``, and
    where it has one the ``twin`` that it started from, with the ``change`` of its training in ``recipe``."""
    path = folder / "manifest.json"
    if not path.exists():
        return {}
    found: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def checksum(path: Path) -> str:
    """SHA-256 of the file, as the manifest states it."""
    return sha256(path.read_bytes()).hexdigest()


def checked_weights(name: str, folder: Path = FOLDER) -> Path:
    """The shipped weights of ``name``, unless they are missing or not the ones the manifest describes."""
    path = folder / f"{name}.safetensors"
    if not path.is_file():
        raise BadWeights(f"{path}: there is no such file, though the manifest lists it; install misdetect again.")
    if (found := checksum(path)) != (stated := manifest(folder)[name]["sha256"]):
        raise BadWeights(
            f"{path} is not the file that was shipped: its SHA-256 is {found[:16]}…, the manifest states "
            f"{stated[:16]}…; install misdetect again, or name your own weights with weights=FILE."
        )
    return path


def load_zoo(spec: Spec) -> "TorchDetector | GraphDetector":
    """The detector of ``zoo:NAME[,score=…][,weights=FILE]``; ``weights`` are those of another training of it. Where
    it computes: see ``where``. Without torch, a YOLOX is run by ONNX Runtime."""
    name = spec.target
    if name not in ZOO:
        raise BadSpec(f"{spec.text!r}: there is no {name!r} in the zoo (there are {', '.join(ZOO)}).")
    own, score = spec.take("weights", ""), spec.take("score", SCORE)
    if not own and "weights" in spec.options:
        raise BadSpec(f"{spec.text!r}: weights= should name a file.")
    if not 0 <= score <= 1:
        raise BadSpec(f"{spec.text!r}: score={score:g} should be between 0 and 1.")
    if any(find_spec(module) is None for module in TORCH):
        from misdetect.detectors.zoo.graph import load_graph

        return load_graph(spec, score)
    from misdetect.detectors.where import Where

    where = Where.take(spec, BATCH)
    spec.finish()
    shipped = manifest().get(name)
    if shipped is None and not own:
        raise BadSpec(
            f"{spec.text!r}: no weights are shipped for {name!r} yet; make them with 'misdetect zoo train {name} "
            f"--out FOLDER' and name them: zoo:{name},weights=FOLDER/weights.safetensors."
        )
    path = Path(own) if own else checked_weights(name)
    from misdetect.detectors.zoo.models import build

    entry = ZOO[name]
    names = shipped["names"] if shipped is not None else class_names(name)
    detector = build(
        entry.family, names, data=entry.data, spec=spec.text, score=score if "score" in spec.options else None
    )
    detector.load(path)
    return where.put(detector, side=128)


def class_names(name: str) -> tuple[str, ...]:
    """The classes that ``name`` is trained on."""
    from misdetect.data import load_data

    return load_data(f"{ZOO[name].data}:train").names

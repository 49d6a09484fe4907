"""Checkpoints of Ultralytics are not loaded: they are pickles of its classes, which run code, and its code is AGPL.
This recognises them without unpickling, and says how to export them once and which spec to use then."""

import zipfile
from pathlib import Path
from typing import NoReturn

from misdetect.detectors.family import Family, named
from misdetect.detectors.files import kind_of_file
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec

FAMILY = Family(
    "checkpoints of Ultralytics: says how to export them",
    "none",
    "ultralytics:yolo11n.pt",
    "misdetect.detectors.ultralytics:load_ultralytics",
    recognises=named(".pt"),
    place=100,
)
_LIMIT = 64 << 20
_MODULES = (b"ultralytics.", b"models.yolo")
"""Where the pickled classes are from: the package, or YOLOv5's own repository."""
_WITHOUT_NMS = ("yolov10", "yolo26")


def load_ultralytics(spec: Spec) -> NoReturn:
    """Say how to export the checkpoint; of a file that is none, what else it may be."""
    path = Path(spec.target)
    if path.is_file() and not is_ultralytics(path):
        raise BadSpec(
            f"{spec.text!r}: {path} is not a checkpoint of Ultralytics ({_kind(path)}); say what it is: "
            f"'yolox:{path},names=coco' reads official checkpoints of YOLOX, "
            f"'torchscript:{path},trust=yes,decoder=NAME' a TorchScript archive."
        )
    raise export_first(spec)


def export_first(spec: Spec) -> BadSpec:
    """The error that says how to export the checkpoint that ``spec`` names, and what to use afterwards."""
    return BadSpec(f"{spec.text!r}: {how_to_export(Path(spec.target or 'yolo11n.pt'))}")


def how_to_export(path: Path) -> str:
    """What to do with an Ultralytics checkpoint instead of loading it."""
    ends = path.stem.lower().startswith(_WITHOUT_NMS)
    decoder = "nms,preset=ultralytics" if ends else "yolo11" if "11" in path.stem else "yolov8"
    return (
        "a checkpoint of Ultralytics is a pickle that runs code, so it is not loaded; export it once, where "
        f"Ultralytics is installed, with `yolo export model={path} format=onnx`, then use "
        f"'onnx:{path.with_suffix('.onnx')},decoder={decoder}'."
    )


def _kind(path: Path) -> str:
    if not zipfile.is_zipfile(path):
        return kind_of_file(path)
    with zipfile.ZipFile(path) as archive:
        members = {name.partition("/")[2] for name in archive.namelist()}
    if "constants.pkl" in members:
        return "it is a TorchScript archive"
    return "it is a torch checkpoint of weights" if "data.pkl" in members else "it is a zip archive of something else"


def is_ultralytics(path: Path) -> bool:
    """Whether the torch checkpoint in ``path`` pickles classes of Ultralytics; nothing of it is unpickled."""
    try:
        with zipfile.ZipFile(path) as archive:
            inside = next((i for i in archive.infolist() if i.filename.endswith("/data.pkl")), None)
            if inside is None or inside.file_size > _LIMIT:
                return False
            content = archive.read(inside)
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return False
    return any(module in content for module in _MODULES)

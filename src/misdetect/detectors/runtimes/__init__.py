"""Networks in files, by what runs them: how a file is opened, which input is the image, how a batch is run. What they
share is in ``exported``."""

import zipfile
from pathlib import Path

from misdetect.detectors.family import CODE, Family, named


def _is_savedmodel(path: Path) -> bool:
    return (path / "saved_model.pb").is_file()


def _is_openvino(path: Path) -> bool:
    """A graph, or the folder of one; other XML files are annotations."""
    if path.is_dir():
        return any(each.with_suffix(".bin").is_file() for each in path.glob("*.xml"))
    if path.suffix.lower() != ".xml" or not path.is_file():
        return False
    with path.open("rb") as file:
        return b"<net" in file.read(512)


def _is_torchscript(path: Path) -> bool:
    """By its name, or by what is in the archive: other files of torch are archives with the same endings."""
    if path.suffix.lower() not in (".pt", ".ptl", ".jit") or not path.is_file() or not zipfile.is_zipfile(path):
        return path.suffix.lower() == ".torchscript"
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("/constants.pkl") for name in archive.namelist())


TFLITE = Family(
    "TensorFlow Lite files, float or quantised",
    "Detector",
    "tflite:FILE",
    "misdetect.detectors.runtimes.tflite:load_tflite",
    recognises=named(".tflite"),
    look="misdetect.detectors.runtimes.tflite:look_into",
    needs=("ai_edge_litert",),
    extra="tflite",
    place=60,
)
SAVEDMODEL = Family(
    "folders of the TensorFlow Object Detection API",
    "Detector",
    "savedmodel:FOLDER,names=coco91",
    "misdetect.detectors.runtimes.savedmodel:load_savedmodel",
    recognises=_is_savedmodel,
    look="misdetect.detectors.runtimes.savedmodel:look_into",
    needs=("tensorflow",),
    extra="tensorflow",
    place=70,
)
OPENVINO = Family(
    "OpenVINO's XML files, with a decoder",
    "Detector",
    "openvino:FILE.xml,decoder=yolo11,names=coco",
    "misdetect.detectors.runtimes.openvino:load_openvino",
    recognises=_is_openvino,
    look="misdetect.detectors.runtimes.openvino:look_into",
    needs=("openvino",),
    extra="openvino",
    place=80,
)
TORCHSCRIPT = Family(
    "TorchScript archives that you trust, with a decoder",
    "Detector",
    "torchscript:FILE,trust=yes,decoder=yolo11,size=640,names=coco",
    "misdetect.detectors.runtimes.torchscript:load_torchscript",
    recognises=_is_torchscript,
    look="misdetect.detectors.runtimes.torchscript:look_into",
    needs=("torch",),
    extra="torch",
    reach=lambda spec: CODE,
    place=90,
)

"""Every detector family: its scheme, what it is, which level it reaches, what it needs, and where its loader is.

This is the one table behind both ``load_detector`` and ``misdetect detectors``. Nothing is imported by looking at it,
so the list is complete whatever is installed.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from misdetect.data import unseen


@dataclass(frozen=True)
class Family:
    """A scheme of detector specs. ``needs`` are importable modules, brought by ``extra``; ``loader`` is
    ``module:function``, called with a ``Spec``."""

    what: str
    level: str
    example: str
    loader: str
    needs: tuple[str, ...] = ()
    extra: str | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """The modules that are not installed."""
        return tuple(module for module in self.needs if find_spec(module) is None)

    @property
    def install(self) -> str | None:
        """The command that installs what is missing, or ``None``."""
        return f"pip install 'misdetect[{self.extra}]'" if self.extra and self.missing else None


_HERE = "misdetect.detectors"
_TORCH = ("torch", "torchvision", "safetensors")
_HTTP = f"{_HERE}.http.endpoint:load_http"
_CLOUD = f"{_HERE}.cloud.services:load_cloud"

FAMILIES: dict[str, Family] = {
    "zoo": Family(
        "small detectors trained by this project",
        "Trainable",
        "zoo:yolox",
        f"{_HERE}.zoo.shipped:load_zoo",
        _TORCH,
        "torch",
    ),
    "torchvision": Family(
        "SSD, SSDlite, Faster and Mask R-CNN, RetinaNet, FCOS",
        "Trainable",
        "torchvision:fasterrcnn_resnet50_fpn,weights=FILE",
        f"{_HERE}.torchvision.load:load_torchvision",
        _TORCH,
        "torch",
    ),
    "hf": Family(
        "the DETR family of transformers",
        "Trainable",
        "hf:PATH-OR-ID",
        f"{_HERE}.hf.detector:load_hf",
        ("torch", "safetensors", "transformers"),
        "hf",
    ),
    "yolox": Family(
        "YOLOX with official checkpoints",
        "Trainable",
        "yolox:CHECKPOINT",
        f"{_HERE}.yolox.detector:load_yolox",
        _TORCH,
        "torch",
    ),
    "onnx": Family(
        "any ONNX file, with a decoder; opened as a white box by misdetect[onnx-torch]",
        "Detector",
        "onnx:yolox_nano.onnx,decoder=yolox,names=coco",
        f"{_HERE}.onnx.detector:load_onnx",
        ("onnxruntime",),
        "onnx",
    ),
    "tflite": Family(
        "TensorFlow Lite files, float or quantised",
        "Detector",
        "tflite:FILE,names=FILE",
        f"{_HERE}.tflite:load_tflite",
        ("ai_edge_litert",),
        "tflite",
    ),
    "savedmodel": Family(
        "folders of the TensorFlow Object Detection API",
        "Detector",
        "savedmodel:FOLDER,names=coco91",
        f"{_HERE}.savedmodel:load_savedmodel",
        ("tensorflow",),
        "tensorflow",
    ),
    "openvino": Family(
        "OpenVINO's XML files, with a decoder",
        "Detector",
        "openvino:FILE.xml,decoder=yolo11,names=coco",
        f"{_HERE}.openvino:load_openvino",
        ("openvino",),
        "openvino",
    ),
    "torchscript": Family(
        "TorchScript archives that you trust, with a decoder",
        "Detector",
        "torchscript:FILE,trust=yes,decoder=yolo11,size=640,names=coco",
        f"{_HERE}.torchscript:load_torchscript",
        ("torch",),
        "torch",
    ),
    "ultralytics": Family(
        "checkpoints of Ultralytics: says how to export them",
        "none",
        "ultralytics:yolo11n.pt",
        f"{_HERE}.ultralytics:load_ultralytics",
    ),
    "http": Family("any HTTP endpoint", "Detector", "http://localhost:8000/detect,format=NAME", _HTTP),
    "https": Family("any HTTPS endpoint", "Detector", "https://example.org/detect,format=NAME", _HTTP),
    "rekognition": Family(
        "Amazon Rekognition; AWS profiles and roles by misdetect[cloud]", "Detector", "rekognition:eu-west-1", _CLOUD
    ),
    "google-vision": Family(
        "Google Vision; application default credentials by misdetect[cloud]", "Detector", "google-vision:", _CLOUD
    ),
    "azure-vision": Family("Azure Vision", "Detector", "azure-vision:https://NAME.cognitiveservices.azure.com", _CLOUD),
    "max": Family("IBM MAX object detector", "Detector", "max:http://127.0.0.1:5000", _CLOUD),
    "python": Family(
        "your own: an object with names and detect(images)",
        "what it offers",
        "python:package.module:factory",
        f"{_HERE}.python:load_python",
    ),
    "predictions": Family(
        "stored COCO results, for what needs no model",
        "none",
        "predictions:results.json",
        f"{_HERE}.predictions:load_predictions",
    ),
    "glassbox": Family(
        "the ground truth with planted faults, to test diagnoses",
        "Traced",
        "glassbox:none,data=rooms:val",
        f"{_HERE}.glassbox.detector:load_glassbox",
    ),
}


def extra_of(module: str) -> str | None:
    """The smallest extra that brings ``module`` (dotted or not), or ``None``: "torch" for "torch.nn"."""
    package = module.partition(".")[0]
    return next((family.extra for family in FAMILIES.values() if package in family.needs), None)


def reach(spec: str) -> str | None:
    """What loading ``spec`` would do beyond this machine's own files, which nobody should do because a stranger's file
    says so; ``None`` if nothing."""
    scheme, _, target = spec.strip().partition(":")
    scheme = scheme.lower()
    if "python:" in spec.lower() or scheme == "torchscript" or "trust=" in spec:
        return "is code and would be run"
    if scheme in FAMILIES and FAMILIES[scheme].loader in (_HTTP, _CLOUD):
        return "would be sent images, and the secrets that its spec names"
    if "weights=hub" in spec or (scheme == "hf" and not Path(target.partition(",")[0]).exists()):
        return "would be downloaded"
    _, _, data = spec.partition("data=")  # of a glass box
    return None if (place := unseen(data)) is None else f"would be read from {place}, with your credentials"


def catalogue() -> list[dict[str, Any]]:
    """One JSON-able record per family, in the order of ``FAMILIES``."""
    return [
        {
            "scheme": scheme,
            "what": family.what,
            "level": family.level,
            "installed": not family.missing,
            "missing": list(family.missing),
            "extra": family.extra,
            "install": family.install,
            "example": family.example,
        }
        for scheme, family in FAMILIES.items()
    ]

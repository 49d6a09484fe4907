"""Specs of one network in every format and of one detector of every family, what they load, and what they must say.

Shared by ``test_formats.py`` (the laws), ``test_formats_files.py`` (bad files, what files say of themselves) and
``test_formats_tensorflow.py``.
"""

import json
import subprocess
import sys

import exported_models as models
import numpy as np
import pytest

from misdetect.detectors import load_detector
from misdetect.said.errors import MisdetectError

FORMATS = {
    "onnx": "onnx:{here}/raw.onnx,decoder=yolov8,{wired}",
    "openvino": "openvino:{here}/raw.xml,decoder=yolov8,{wired}",
    "torchscript": "torchscript:{here}/raw.torchscript,trust=yes,decoder=yolov8,{wired}",
    "torchscript-found": "torchscript:{here}/found.torchscript,trust=yes,nms=0.6,{wired}",
    "tflite": "tflite:{kept}/raw.tflite,decoder=yolov8,{wired}",
    "tflite-suppressed": "tflite:{kept}/suppressed.tflite,{wired}",
}
"""One network, each as a user would name it."""
QUERIES = {
    "onnx": "onnx:{here}/queries.onnx,decoder=rtdetr,nms=0.6,{wired}",
    "openvino": "openvino:{here}/queries.xml,decoder=rtdetr,nms=0.6,{wired}",
    "torchscript": "torchscript:{here}/queries.torchscript,trust=yes,decoder=rtdetr,outputs=logits,boxes,"
    "nms=0.6,{wired}",
    "tflite-int8": "tflite:{kept}/queries_int8.tflite,decoder=rtdetr,nms=0.6,{wired}",
}
"""The same network with its outputs apart: every pair of a query and a class counts."""
FAMILIES = {
    "zoo": "zoo:ssd",
    "yolox": "yolox:{here}/yolox.safetensors,names={here}/names.txt,size=64,depth=0.33,width=0.125,classes=3",
    "hf": "hf:{here}/hf",
    "torchvision": "torchvision:ssdlite320_mobilenet_v3_large,weights={here}/lite.safetensors,names={here}/names.txt",
    "python": "python:{here}/mine.py:Mine",
    "http": "{address},names={here}/names.txt,version=1",
}
EVERY = {
    **{f"format-{name}": spec for name, spec in FORMATS.items()},
    "format-tflite-int8": QUERIES["tflite-int8"],
    **FAMILIES,
}
TENSORFLOW = {
    "format-savedmodel": "savedmodel:{tensorflow}/detections,names={here}/names.txt",
    "format-savedmodel-raw": "savedmodel:{tensorflow}/raw,decoder=yolov8,{wired}",
}
ALL = EVERY | TENSORFLOW
ELSEWHERE = {
    "https": "is http",
    **dict.fromkeys(("rekognition", "google-vision", "azure-vision", "max"), "has its own tests, in cloud/"),
    "glassbox": "knows only the images of its own data",
    **dict.fromkeys(("predictions", "ultralytics"), "is no detector"),
}
"""Families that the table leaves out, and why."""
CASES = [*EVERY, *(pytest.param(name, marks=pytest.mark.heavy) for name in TENSORFLOW)]
GRID = 1e-3
MINE = """
import numpy as np

class Mine:
    names = ["bright", "dark"]
    fingerprint = "mine"

    def __init__(self, score="0.01"):
        self.score = float(score)

    def detect(self, images):
        found = []
        for image in images:
            height, width = image.shape[:2]
            scores = np.array([image.mean() / 255, 1 - image.mean() / 255])
            kept = [i for i in np.argsort(-scores) if scores[i] >= self.score]
            boxes = np.array([[0, 0, width / 2, height], [width / 4, 0, width, height]])[kept].reshape(-1, 4)
            found.append((boxes, scores[kept], np.array(kept, int)))
        return found
"""


def make_models(folder):
    """Every model that the tests here load, but for those kept in ``models/``."""
    import torch

    from misdetect.detectors.weights import write_weights
    from misdetect.detectors.yolox.net import YOLOX, Shape

    folder.mkdir()
    (folder / "names.txt").write_text("\n".join(models.NAMES))
    (folder / "mine.py").write_text(MINE)
    for kind in ("raw", "shares", "queries"):
        models.write_onnx(folder / f"{kind}.onnx", kind)
        models.write_openvino(folder / f"{kind}.xml", folder / f"{kind}.onnx")
        models.write_torchscript(folder / f"{kind}.torchscript", kind)
    models.write_torchscript(folder / "found.torchscript", "found")
    torch.manual_seed(0)
    module = YOLOX(3, Shape(0.33, 0.125))
    for layer in (*module.head.cls_preds, *module.head.obj_preds):
        torch.nn.init.normal_(layer.weight, 0, 3)
        torch.nn.init.zeros_(layer.bias)
    write_weights(module, folder / "yolox.safetensors")
    load_detector(f"torchvision:ssdlite320_mobilenet_v3_large,weights=random,names={folder}/names.txt").save(
        folder / "lite.safetensors"
    )
    from hf_models import build

    build("detr").save_pretrained(folder / "hf")
    (folder / "hf/preprocessor_config.json").write_text(json.dumps({"size": {"height": 64, "width": 96}}))


def make_tensorflow(folder):
    """What TensorFlow makes, in a process of its own: it would keep its threads, and its memory."""
    subprocess.run([sys.executable, models.__file__, str(folder)], check=True, capture_output=True)


def by_hand(photo, multilabel, agnostic=False):
    """Boxes, scores and labels of the network as NumPy computes it, suppressed by the book, best first."""
    boxes, scores = models.by_hand(models.shrunk(photo))
    ratio = min(models.WIDTH / photo.shape[1], models.HEIGHT / photo.shape[0])
    width, height = (max(1, int(side * ratio + 0.5)) for side in photo.shape[1::-1])
    left, top = (models.WIDTH - width) // 2, (models.HEIGHT - height) // 2
    boxes = boxes * ([models.WIDTH, models.HEIGHT] * 2)
    corners = np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1)
    pairs = [(s, row, label) for row, each in enumerate(scores) for label, s in enumerate(each)]
    if not multilabel:
        pairs = [(each.max(), row, int(each.argmax())) for row, each in enumerate(scores)]
    kept = []
    for score, row, label in sorted(pairs, reverse=True):
        if score >= 0.01 and not any(
            (agnostic or k[2] == label) and overlap(corners[k[1]], corners[row]) > 0.6 for k in kept
        ):
            kept.append((score, row, label))
    back = [
        (corners[row] - [left, top] * 2) / ([width / photo.shape[1], height / photo.shape[0]] * 2) for _, row, _ in kept
    ]
    inside = np.clip(back, 0, [photo.shape[1], photo.shape[0]] * 2)
    return inside[:100], np.array([k[0] for k in kept])[:100], np.array([k[2] for k in kept])[:100]


def overlap(a, b):
    sides = np.maximum(0, np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return sides.prod() / (sum(areas) - sides.prod())


def assert_same(found, expected, scores_within=1e-4, boxes_within=2e-2):
    """The same detections, in any order among equal scores."""
    boxes, scores, labels = expected
    assert len(found) == len(scores) > 0
    np.testing.assert_allclose(found.scores, scores, atol=scores_within)
    left = set(range(len(found)))
    for box, score, label in zip(boxes, scores, labels, strict=True):
        far = {i: np.abs(found.boxes[i] - box).max() for i in left if found.labels[i] == label}
        far = {i: distance for i, distance in far.items() if abs(found.scores[i] - score) <= scores_within}
        closest = min(far, key=far.get, default=None)
        assert closest is not None, (box, score, label)
        assert far[closest] <= boxes_within
        left.remove(closest)


def refused(spec):
    """The sentence with which a spec is refused."""
    with pytest.raises(MisdetectError) as caught:
        load_detector(spec)
    said = str(caught.value)
    assert caught.value.exit_code == 2, said
    assert "\n" not in said
    assert said.endswith(".")
    return said

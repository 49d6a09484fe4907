"""Detectors that are wired wrongly in one known way, for ``doctor`` to name: the tests' and the benchmark's.

Each mistake wraps a detector that is wired right. ``Remembering`` asks that one only once about each picture, so that
thirty mistakes cost little more than one.
"""

from pathlib import Path

import cv2
import numpy as np

import misdetect as md
from misdetect.compose.resend import EDITS
from misdetect.nouns.detections import Truth
from misdetect.nouns.picture import digest

FIXTURES = Path(__file__).parents[3] / "shared" / "fixtures"
COCO66 = f"coco:{FIXTURES}/coco66/instances.json,images={FIXTURES}/coco66/images"
YOLOX = f"onnx:{FIXTURES}/models/yolox_nano.onnx,decoder=yolox,names=coco"
_DECODE = Path(__file__).parents[2] / "examples" / "fastestdet.py"
FASTESTDET = (
    f"onnx:{FIXTURES}/models/fastestdet.onnx,decoder=python:{_DECODE}:decode,resize=stretch,colour=bgr,scale=1/255,"
    "names=coco,score=0.05"
)


class Remembering:
    """``model``, asked once about each picture."""

    def __init__(self, model):
        self.model, self.names, self._known = model, tuple(model.names), {}

    def detect(self, images):
        keys = [digest(image) for image in images]
        new = {key: image for key, image in zip(keys, images, strict=True) if key not in self._known}
        if new:
            self._known.update(zip(new, self.model.detect(list(new.values())), strict=True))
        return [self._known[key] for key in keys]


class Wrong:
    """``model`` with ``see`` between the picture and it, and ``say`` between its answer and whoever asked."""

    def __init__(self, model, see=None, say=None, names=None):
        self.model, self.see, self.say = model, see, say
        self.names = tuple(names or model.names)

    def detect(self, images):
        seen = images if self.see is None else [np.ascontiguousarray(self.see(image)) for image in images]
        found = [(f.boxes, f.scores, f.labels) for f in self.model.detect(seen)]
        if self.say is None:
            return found
        return [self.say(*answer, image.shape[1], image.shape[0]) for answer, image in zip(found, images, strict=True)]


def boxes(change):
    """A mistake in the boxes alone: ``change(boxes, width, height)``."""
    return {"say": lambda b, s, n, w, h: (change(b, w, h), s, n)}


def scores(change):
    return {"say": lambda b, s, n, w, h: (b, change(s), n)}


def labels(change):
    return {"say": lambda b, s, n, w, h: (b, s, change(n))}


def _wh(w, h):
    return np.array([w, h, w, h])


def _border(w, h):
    side = max(w, h)
    return np.array([(side - w) / 2, (side - h) / 2] * 2)


def _crowded(b, s, n, w, h):
    """Without suppression an object has many boxes."""
    noise = np.random.default_rng(0).normal(0, 0.04, (6, len(b), 4))
    sides = np.tile(b[:, 2:] - b[:, :2], 2)
    many = np.concatenate([b, *(b + each * sides for each in noise)])
    many = np.concatenate([np.minimum(many[:, :2], many[:, 2:]), np.maximum(many[:, :2], many[:, 2:])], axis=1)
    return many, np.concatenate([s, *(s * (1 - 0.02 * i) for i in range(1, 7))]), np.tile(n, 7)


def _above(least):
    return {"say": lambda b, s, n, w, h: (b[s >= least], s[s >= least], n[s >= least])}


def _best(most):
    return {"say": lambda b, s, n, w, h: tuple(x[np.argsort(-s, kind="stable")[:most]] for x in (b, s, n))}


def _squeezed(image):
    """Stretched to a square, as most who forget the letterbox do it."""
    return cv2.resize(image, (max(image.shape[:2]),) * 2)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _logit(s):
    return np.log(np.clip(s, 1e-6, 1 - 1e-6) / (1 - np.clip(s, 1e-6, 1 - 1e-6)))


SQUARE = {
    "xywh for xyxy": ("boxes", "x, y, width, height", boxes(lambda b, w, h: np.c_[b[:, :2], b[:, 2:] - b[:, :2]])),
    "cxcywh for xyxy": (
        "boxes",
        "centre",
        boxes(lambda b, w, h: np.c_[(b[:, :2] + b[:, 2:]) / 2, b[:, 2:] - b[:, :2]]),
    ),
    "y before x": ("boxes", "y before x", boxes(lambda b, w, h: b[:, [1, 0, 3, 2]])),
    "x0 x1 y0 y1": ("boxes", "x0, x1, y0, y1", boxes(lambda b, w, h: b[:, [0, 2, 1, 3]])),
    "normalised": ("boxes", "shares", boxes(lambda b, w, h: b / _wh(w, h))),
    "normalised cxcywh": (
        "boxes",
        "centre, width, height and boxes are shares",
        boxes(lambda b, w, h: np.c_[(b[:, :2] + b[:, 2:]) / 2, b[:, 2:] - b[:, :2]] / _wh(w, h)),
    ),
    "thousandths": ("boxes", "thousandths", boxes(lambda b, w, h: b / _wh(w, h) * 1000)),
    "left in network pixels": ("boxes", "416 x 416", boxes(lambda b, w, h: b * (416 / max(w, h)))),
    "boxes mirrored": ("boxes", "mirrored", boxes(lambda b, w, h: np.c_[w - b[:, 2], b[:, 1], w - b[:, 0], b[:, 3]])),
    "labels from 1": ("labels", "count from 1", labels(lambda n: n + 1)),
    "labels one too low": ("labels", "one too low", labels(lambda n: n - 1)),
    "two classes exchanged": ("labels", "permuted", labels(lambda n: np.where(n == 1, 3, np.where(n == 3, 1, n)))),
    "scores in percent": ("scores", "percent", scores(lambda s: 100 * s)),
    "sigmoid missing": ("scores", "logits", scores(_logit)),
    "sigmoid twice": ("scores", "twice", scores(_sigmoid)),
    "scores reversed": ("scores", "highest where nothing is", scores(lambda s: 1 - s)),
    "suppression missing": ("suppression", "missing", {"say": _crowded}),
    "threshold of one half": ("threshold", "below 0.5", _above(0.5)),
    "cap of three": ("cap", "more than 3", _best(3)),
    "channels swapped": ("channels", "wrong order", {"see": lambda i: i[:, :, ::-1]}),
    "ImageNet's mean and deviation": ("normalisation", "ImageNet's mean", {"see": EDITS["sharpen-imagenet"].draw}),
    "-1..1 for 0..1": ("normalisation", "-1..1", {"see": EDITS["sharpen-symmetric"].draw}),
    "reshaped for transposed": (
        "layout",
        "layout is wrong",
        {"see": lambda i: i.reshape(3, *i.shape[:2]).transpose(1, 2, 0)},
    ),
    "rows for columns": ("layout", "rows and columns", {"see": lambda i: i.transpose(1, 0, 2)}),
    "upside down": ("orientation", "upside down", {"see": lambda i: i[::-1, ::-1]}),
    "turned by 90 degrees": ("orientation", "turned to the right", {"see": lambda i: np.rot90(i, 3)}),
}
"""Mistakes that square pictures show: kind, a word of the sentence, and what is done to the detector."""

WIDE = {
    "border not taken off": ("boxes", "shifted by the letterbox", boxes(lambda b, w, h: b + _border(w, h))),
    "letterbox undone as stretch": (
        "boxes",
        "as if the image had been stretched",
        boxes(lambda b, w, h: (b + _border(w, h)) / max(w, h) * _wh(w, h)),
    ),
    "width and height exchanged": ("boxes", "exchanged", boxes(lambda b, w, h: b / _wh(w, h) * _wh(h, w))),
    "stretched for letterboxed": (
        "resize",
        "stretched",
        {"see": _squeezed, "say": lambda b, s, n, w, h: (b * _wh(w, h) / max(w, h), s, n)},
    ),
}
"""Those that only oblong pictures show."""

ONNX = {
    "YOLOX: RGB for BGR": (YOLOX + ",colour=rgb", "channels"),
    "YOLOX: ImageNet's mean and deviation": (
        YOLOX + ",preset=detr,resize=letterbox-topleft,colour=bgr",
        "normalisation",
    ),
    "YOLOX: 0..1 for 0..255": (YOLOX + ",scale=1/255", "normalisation"),
    "YOLOX: decoder of YOLOv5": (YOLOX.replace("decoder=yolox", "decoder=yolov5,preset=yolox"), "decoder"),
    "YOLOX: threshold of one half": (YOLOX + ",score=0.5", "threshold"),
    "YOLOX: cap of two": (YOLOX + ",max=2", "cap"),
    "YOLOX: no suppression": (YOLOX + ",nms=1", "suppression"),
    "YOLOX: suppression at .05": (YOLOX + ",nms=0.05", "suppression"),
    "FastestDet: RGB for BGR": (FASTESTDET.replace("bgr", "rgb"), "channels"),
    "FastestDet: 0..255 for 0..1": (FASTESTDET.replace("scale=1/255", "scale=1"), "normalisation"),
    "FastestDet: ImageNet's mean and deviation": (
        FASTESTDET + ",mean=0.485,0.456,0.406,std=0.229,0.224,0.225",
        "normalisation",
    ),
}
"""Options of the fixtures' specs, with the kind of the finding."""


def oblong(data, count=200, height=64):
    """Pictures of ``data`` cut to ``height`` in the middle, with what is left of at least half an object."""
    pairs = []
    for i in range(min(count, len(data))):
        sample = data[i]
        top = (sample.height - height) // 2
        truth = sample.truth
        cut = truth.boxes - [0, top, 0, top]
        cut[:, 1::2] = np.clip(cut[:, 1::2], 0, height)
        whole = (truth.boxes[:, 3] - truth.boxes[:, 1]).clip(1)
        keep = (cut[:, 3] - cut[:, 1]) / whole >= 0.6
        pairs.append((sample.image[top : top + height], Truth(cut[keep], truth.labels[keep])))
    return md.load_data(pairs, data.names)

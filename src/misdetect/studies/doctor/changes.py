"""What could be wrong with what a detector is *sent*, and how to make up for it: an edit of the picture, or, where the
wiring is misdetect's own (networks in files), another option of the spec.

A change costs questions, so there are few; what could be wrong with the answers is in ``readings`` and costs none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from misdetect.compose.resend import EDITS
from misdetect.detectors.onnx.decoders import DECODERS
from misdetect.detectors.onnx.heads import ANCHORS
from misdetect.detectors.preprocess import IMAGENET_MEAN, IMAGENET_STD
from misdetect.nouns.spec import Spec
from misdetect.studies.doctor.bench import Bench, Options, rewired


@dataclass(frozen=True)
class Change:
    """A mistake (``change`` says it in words, ``kind`` in one) and what undoes it: an ``edit`` of the picture or
    ``options`` of the spec. ``fix`` is the line of code or the spec. ``tunes``: also a detector that is wired right may
    gain a little by it, so it must gain more to count."""

    name: str
    kind: str
    change: str
    fix: str
    edit: str = ""
    options: Options = ()
    tunes: bool = False

    def document(self) -> dict[str, Any]:
        """For ``run.json``."""
        return asdict(self) | {"options": [list(pair) for pair in self.options]}

    @classmethod
    def of(cls, document: dict[str, Any]) -> "Change":
        """The reverse of ``document``."""
        return cls(**{**document, "options": tuple((name, value) for name, value in document["options"])})


_EDITS: dict[str, tuple[str, str, str]] = {
    "swap": (
        "channels",
        "the colour channels reach the network in the wrong order, RGB for BGR or the reverse",
        "image = image[:, :, ::-1]  # before the network",
    ),
    "pad": (
        "resize",
        "images are stretched, but the network wants them letterboxed",
        "ratio = size / max(height, width); resize by ratio and pad with 114",
    ),
    "stretch": (
        "resize",
        "images are letterboxed, but the network wants them stretched",
        "image = cv2.resize(image, (size, size))  # without keeping the aspect ratio",
    ),
    "grey-imagenet": (
        "normalisation",
        "ImageNet's mean and deviation are applied, but the network wants 0..1",
        "x = image / 255  # without mean and std",
    ),
    "grey-symmetric": (
        "normalisation",
        "pixels are scaled to -1..1, but the network wants 0..1",
        "x = image / 255  # instead of image / 127.5 - 1",
    ),
    "sharpen-imagenet": (
        "normalisation",
        "pixels are scaled to 0..1, but the network wants ImageNet's mean and deviation too",
        "x = (image / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]",
    ),
    "sharpen-symmetric": (
        "normalisation",
        "pixels are scaled to 0..1, but the network wants -1..1",
        "x = image / 127.5 - 1",
    ),
    "planar": (
        "layout",
        "the layout is wrong: pixels are read as planes, reshaped instead of transposed",
        "x = image.transpose(2, 0, 1)  # instead of image.reshape(3, height, width)",
    ),
    "transpose": (
        "layout",
        "rows and columns are exchanged on the way to the network",
        "x = image.transpose(2, 0, 1)  # channels, height, width",
    ),
    "left": (
        "orientation",
        "images reach the network turned to the right by 90 degrees (EXIF)",
        "image = np.rot90(image)",
    ),
    "right": (
        "orientation",
        "images reach the network turned to the left by 90 degrees (EXIF)",
        "image = np.rot90(image, 3)",
    ),
    "round": ("orientation", "images reach the network upside down (EXIF)", "image = np.rot90(image, 2)"),
    "mirror": ("orientation", "images reach the network mirrored (EXIF)", "image = image[:, ::-1]"),
    "flip": ("orientation", "images reach the network with top and bottom exchanged", "image = image[::-1]"),
    "half": ("size", "images are too large for the network: it does better at half their size", "use a smaller size"),
    "double": ("size", "images are too small for the network: it does better at twice their size", "use a larger size"),
}
assert _EDITS.keys() == EDITS.keys()
_FORMATS = {"xyxy": "x0, y0, x1, y1", "yxyx": "y before x", "xywh": "x, y, width, height", "cxcywh": "centre and size"}
_RESIZES = {
    "letterbox": "letterboxed, centred",
    "letterbox-topleft": "letterboxed, at the top left",
    "stretch": "stretched",
}
_TUNING = ("half", "double", "mirror")
_LEAST_TUNED = 0.3
"""Overlap from which on suppression is a choice; a detector that lets boxes overlap less is wired wrong."""


def changes_for(bench: Bench, square: bool) -> list[Change]:
    """What can be changed of what ``bench`` is sent; ``square``: so are all pictures."""
    if bench.spec is not None and "preprocess" in bench.settings:
        return [change for change in _of_file(bench) if bench.loads(change.options)]
    return [
        Change(name, kind, change, fix, edit=name, tunes=name in _TUNING)
        for name, (kind, change, fix) in _EDITS.items()
        if not (square and EDITS[name].square)
    ]


def _numbers(values: Sequence[float]) -> str:
    return ",".join(f"{value:g}" for value in values)


def _conventions(colour: str) -> dict[str, Options]:
    """The usual ways to make numbers of pixels, in the order of channels of ``colour``."""
    order = 1 if colour == "rgb" else -1
    mean, std = _numbers(IMAGENET_MEAN[::order]), _numbers(IMAGENET_STD[::order])
    caffe = _numbers((123.675, 116.28, 103.53)[::order])
    return {
        "0..255": (("scale", "1"), ("mean", "0"), ("std", "1")),
        "0..1": (("scale", "1/255"), ("mean", "0"), ("std", "1")),
        "-1..1": (("scale", "1/255"), ("mean", "0.5"), ("std", "0.5")),
        "ImageNet's mean and deviation": (("scale", "1/255"), ("mean", mean), ("std", std)),
        "ImageNet's mean alone, 0..255": (("scale", "1"), ("mean", caffe), ("std", "1")),
    }


def _is(own: dict[str, Any], options: Options) -> bool:
    """Whether ``options`` are what a network is fed already."""
    values = {name: [float(Fraction(part)) for part in text.split(",")] for name, text in options}
    same = [np.allclose(own[name], values[name], rtol=1e-3) for name in ("scale", "mean", "std")]
    return all(same)


def _of_file(bench: Bench) -> Iterator[Change]:
    """The options of the spec of a network in a file, turned one group at a time."""
    assert bench.spec is not None
    settings, spec = bench.settings, Spec.parse(bench.spec)
    own = settings["preprocess"]

    def change(kind: str, text: str, *options: tuple[str, str], tunes: bool = False) -> Change:
        name = ",".join(f"{key}={value}" for key, value in options)
        return Change(name, kind, text, rewired(spec.text, options), options=options, tunes=tunes)

    other = "rgb" if own["colour"] == "bgr" else "bgr"
    yield change("channels", f"the network wants {other.upper()}, not {own['colour'].upper()}", ("colour", other))
    for name, options in _conventions(own["colour"]).items():
        if own["dtype"] != "uint8" and not _is(own, options):
            yield change("normalisation", f"the network wants pixels as {name}", *options)
    padding = () if "pad" in own and own["resize"] != "stretch" else (("pad", "114"),)
    for resize, what in _RESIZES.items():
        if resize != own["resize"]:
            more = () if resize == "stretch" else padding
            yield change("resize", f"the network wants images {what}, not {own['resize']}", ("resize", resize), *more)
    if "layout" in spec.options:
        layout = "nhwc" if own["layout"] == "nchw" else "nchw"
        yield change("layout", f"the network's input is {layout.upper()}", ("layout", layout))
    if "size" in spec.options:
        for size in (320, 416, 512, 640):
            if size != own["width"]:
                yield change("size", f"the network wants {size} x {size} pixels", ("size", str(size)), tunes=True)
    yield from _of_decoder(change, settings)
    yield from _of_limits(change, settings)


def _of_decoder(change: Any, settings: dict[str, Any]) -> Iterator[Change]:
    decoder = settings["decoder"]
    for name in DECODERS:
        if name not in (decoder, "yolo11", "nms"):
            yield change("decoder", f"the output is that of decoder={name}", ("decoder", name))
            if settings["preset"] and settings["preset"] != DECODERS[name].preset:
                text = f"the output is that of decoder={name}, the input as it is now"
                yield change("decoder", text, ("decoder", name), ("preset", settings["preset"]))
    if decoder in ("yolox", "yolov5", "yolov8", "yolo11"):
        turned = "none" if settings.get("activation") == "sigmoid" else "sigmoid"
        text = "are logits: the sigmoid is missing" if turned == "sigmoid" else "are probabilities already: no sigmoid"
        yield change("activation", f"the network's scores {text}", ("activation", turned))
    if decoder == "boxes-scores":  # whether they are shares is seen when the file is loaded
        for boxes, text in _FORMATS.items():
            if boxes != settings.get("boxes", "xyxy"):
                yield change("boxes", f"the graph's boxes are {text}", ("boxes", boxes))
    if decoder == "nanodet":
        middle = "0.5" if float(settings.get("middle", 0)) == 0 else "0"
        yield change("cells", f"a cell's candidate sits at {middle} of it", ("middle", middle))
    if "anchors" in settings:
        for anchors in ANCHORS:
            if anchors != settings["anchors"]:
                yield change("anchors", f"the anchors are those of {anchors}", ("anchors", anchors))
    if decoder == "nms":
        for boxes, text in _FORMATS.items():
            for units in ("pixels", "shares"):
                if (boxes, units) != (settings.get("boxes", "xyxy"), settings.get("units", "pixels")):
                    said = f"the graph's boxes are {text}, in {units}"
                    yield change("boxes", said, ("boxes", boxes), ("units", units))
        first = "0" if str(settings.get("labels_from", "0")) == "1" else "1"
        yield change("labels", f"the graph's labels start at {first}", ("labels_from", first))


def _of_limits(change: Any, settings: dict[str, Any]) -> Iterator[Change]:
    nms, score, most = settings["nms"], settings["score"], settings["max"]
    if nms < 0.5:
        text = f"non-maximum suppression at {nms:g} removes neighbours"
        yield change("suppression", text, ("nms", "0.65"), tunes=nms >= _LEAST_TUNED)
    if nms >= 0.9:
        yield change("suppression", "non-maximum suppression is missing", ("nms", "0.6"), tunes=True)
    if settings["agnostic"]:
        yield change("suppression", "suppression across classes removes neighbours", ("agnostic", "no"), tunes=True)
    if score > 0.05:
        yield change("threshold", f"the score threshold of {score:g} cuts what AP counts", ("score", "0.01"))
    if most < 100:
        yield change("cap", f"the cap of {most} detections per image cuts", ("max", "100"))

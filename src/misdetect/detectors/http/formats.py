"""How an image becomes an HTTP request and a JSON answer becomes detections: one ``Format`` per kind of endpoint.

Pure functions of bytes and parsed JSON that know nothing of sockets, retries or money (``http.py`` does). An answer is
untrusted: every number is checked, and what is wrong is said in one sentence (``BadArray``) that the transport wraps.
"""

import base64
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import cv2
import numpy as np

from misdetect.detectors.names import COCO_IDS
from misdetect.detectors.outputs import CORNERS
from misdetect.nouns.detections import Detections
from misdetect.nouns.picture import Pixels, check_pixels
from misdetect.said.errors import BadArray, BadSpec

UNITS = ("pixels", "relative")
IDS = ("zero", "one", "coco91")
_FARTHEST = 1e7  # no image is ten million pixels wide: such a coordinate is a broken answer


@dataclass(frozen=True)
class Image:
    """One image on its way out: its ``pixels`` ``[H, W, 3]`` and the same ``encoded`` as a file of ``media`` type."""

    pixels: Pixels = field(repr=False)
    encoded: bytes = field(repr=False)
    media: str

    @property
    def width(self) -> int:
        return int(self.pixels.shape[1])

    @property
    def height(self) -> int:
        return int(self.pixels.shape[0])

    @property
    def base64(self) -> str:
        return base64.b64encode(self.encoded).decode()


@dataclass(frozen=True)
class Request:
    """What is sent: ``content`` with its ``headers``; ``path`` is added to the endpoint's address."""

    content: bytes
    headers: Mapping[str, str]
    path: str = ""
    method: str = "POST"


@dataclass(frozen=True)
class Found:
    """What an answer says, not yet trusted: ``boxes`` ``[N, 4]`` in the format's layout and units, ``scores`` ``[N]``,
    and ``labels`` ``[N]``, each a class name or a number."""

    boxes: Sequence[Any]
    scores: Sequence[Any]
    labels: Sequence[Any]


@dataclass(frozen=True)
class Format:
    """Two functions and what they mean by a box: ``layout`` (a key of ``CORNERS``), ``units``, and which number is the
    first class (``ids``; empty where only the user can know)."""

    request: Callable[[Image], Request]
    answer: Callable[[Any, Image], Found]
    layout: str = "xyxy"
    units: str = "pixels"
    ids: str = "zero"


@dataclass(frozen=True)
class Reading:
    """How ``Found`` becomes ``Detections``; ``unknown`` (``error`` or ``drop``) is for labels not in ``names``."""

    names: tuple[str, ...]
    layout: str = "xyxy"
    units: str = "pixels"
    ids: str = "zero"
    unknown: str = "error"

    def detections(self, found: Found, image: Image) -> Detections:
        """``found`` checked, in pixels of ``image``, with labels as indices into ``names``."""
        if not len(found.boxes) == len(found.scores) == len(found.labels):
            lengths = f"{len(found.boxes)} boxes, {len(found.scores)} scores and {len(found.labels)} labels"
            raise BadArray(f"expected as many scores and labels as boxes; found {lengths}")
        labels = [self._label(label) for label in found.labels]
        known = [i for i, label in enumerate(labels) if label is not None]
        if len(known) < len(labels) and self.unknown != "drop":
            strange = next(found.labels[i] for i, label in enumerate(labels) if label is None)
            raise BadArray(
                f"the label {_show(strange)} is none of the {len(self.names)} names "
                "(correct names= or ids=, or give unknown=drop)"
            )
        if not known:
            return Detections.empty()
        raw = [four(found.boxes[i], f"the box of detection {i}") for i in known]
        boxes = CORNERS[self.layout](np.array(raw, dtype=np.float64))
        if self.units == "relative":
            boxes = boxes * np.tile([image.width, image.height], 2)
        scores = [number(found.scores[i], f"the score of detection {i}") for i in known]
        return Detections(boxes, np.array(scores), np.array([labels[i] for i in known], dtype=np.int64))

    def _label(self, label: Any) -> int | None:
        if isinstance(label, str):
            return self._index.get(label)
        value = number(label, "a label that is not a name")
        if not self.ids:
            raise BadArray(f"the label {_show(label)} is a number; give ids={'|'.join(IDS)} to say which class it is")
        if self.ids == "coco91":
            index = COCO_IDS.index(int(value)) if value in COCO_IDS else -1
        else:
            index = int(value) - (self.ids == "one") if value.is_integer() else -1
        return index if 0 <= index < len(self.names) else None

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: i for i, name in reversed(list(enumerate(self.names)))}


def encode(pixels: Pixels, kind: str, quality: int) -> Image:
    """``pixels`` as a ``png`` (lossless) or as a ``jpeg`` of ``quality`` 1..100."""
    check_pixels(pixels)
    if not pixels.size:
        raise BadArray(f"Expected an image of at least one pixel. Got {list(pixels.shape)}.")
    options = [cv2.IMWRITE_JPEG_QUALITY, quality] if kind == "jpeg" else []
    done, data = cv2.imencode(f".{kind}", cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR), options)
    if not done:
        raise BadArray(f"Expected an image that can be written as {kind}. Got one of shape {list(pixels.shape)}.")
    return Image(pixels, data.tobytes(), f"image/{kind}")


def parse_json(body: bytes) -> Any:
    """The JSON document in ``body``; NaN, infinity, bottomless nesting and endless numbers are refused."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    try:
        return json.loads(body, parse_constant=refuse)
    except RecursionError:
        raise BadArray("the JSON is nested too deeply") from None
    except ValueError as error:
        raise BadArray(f"that is not JSON ({str(error)[:80]}; it begins with {_show(body[:60])})") from None


def number(value: Any, what: str) -> float:
    """``value`` as a finite float of sensible size."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadArray(f"{what} should be a number; found {_show(value)}")
    if not -_FARTHEST <= value <= _FARTHEST or math.isnan(value):
        raise BadArray(f"{what} should be a number of sensible size; found {_show(value)}")
    return float(value)


def four(value: Any, what: str) -> list[float]:
    """``value`` as the four numbers of a box."""
    if not isinstance(value, list | tuple) or len(value) != 4:
        raise BadArray(f"{what} should be four numbers; found {_show(value)}")
    return [number(v, what) for v in value]


def _show(value: Any) -> str:
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # int with more digits than Python prints
        text = type(value).__name__
    return text if len(text) <= 80 else f"{text[:80]}…"


def member(document: Any, key: str, kind: type, what: str = "the answer") -> Any:
    """``document[key]``, which must be there and be a ``kind``."""
    if not isinstance(document, dict):
        raise BadArray(f"{what} should be an object with {key!r}; found {_show(document)}")
    if not isinstance(document.get(key), kind):
        found = _show(document[key]) if key in document else f"only the fields {_show(sorted(document))}"
        raise BadArray(f"{what} should have {key!r} as a {kind.__name__}; found {found}")
    return document[key]


def records(items: Any, box: str, score: str, *label: str, what: str = "the answer") -> Found:
    """A list of objects, each with its ``box``, ``score`` and the first of the fields ``label`` that it has."""
    if not isinstance(items, list):
        raise BadArray(f"{what} should be a list of detections; found {_show(items)}")
    boxes, scores, labels = [], [], []
    for i, item in enumerate(items):
        name = next((name for name in label if isinstance(item, dict) and name in item), label[0])
        for key in (box, score, name):
            if not isinstance(item, dict) or key not in item:
                raise BadArray(f"detection {i} should have {key!r}; found {_show(item)}")
        boxes.append(item[box])
        scores.append(item[score])
        labels.append(item[name])
    return Found(boxes, scores, labels)


def send_file(image: Image) -> Request:
    """The image file itself as the body."""
    return Request(image.encoded, {"Content-Type": image.media})


def send_json(document: Any) -> Request:
    """``document`` as a JSON body."""
    return Request(json.dumps(document, allow_nan=False).encode(), {"Content-Type": "application/json"})


def _send_base64(image: Image) -> Request:
    return send_json({"image": image.base64})


def _send_form(image: Image) -> Request:
    return Request(image.base64.encode(), {"Content-Type": "application/x-www-form-urlencoded"})


def _send_tensor(image: Image, name: str = "image", tensor: str = "base64") -> Request:
    if tensor == "pixels":
        shape = [1, image.height, image.width, 3]
        data = {"shape": shape, "datatype": "UINT8", "data": image.pixels.ravel().tolist()}
    else:
        data = {"shape": [1], "datatype": "BYTES", "data": [image.base64]}
    return send_json({"inputs": [{"name": name} | data]})


def read_names_field(document: Any) -> tuple[str, ...]:
    """The class names in ``{"names": […]}``."""
    names = member(document, "names", list)
    wrong = [name for name in names if not isinstance(name, str) or not name]
    if wrong or not names:
        raise BadArray(f"'names' should be a list of class names; found {_show(wrong[0]) if wrong else 'none'}")
    return tuple(names)


def _read_misdetect(document: Any, image: Image) -> Found:
    found = records(member(document, "detections", list), "box", "score", "label")
    if "names" not in document:
        return found
    # An answer that brings its own names means its numbers by them, whatever the order of ours.
    names = read_names_field(document)
    strange = [i for i in found.labels if type(i) is int and not 0 <= i < len(names)]
    if strange:
        raise BadArray(f"the label {strange[0]} is outside the {len(names)} names of the answer itself")
    return Found(found.boxes, found.scores, [names[i] if type(i) is int else i for i in found.labels])


def _read_coco(document: Any, image: Image) -> Found:
    return records(document, "bbox", "score", "category_name", "category", "category_id")


def _read_torchserve(document: Any, image: Image) -> Found:
    """``[{"person": [x0, y0, x1, y1], "score": 0.9}, …]``, also when wrapped once more as a batch of one."""
    if isinstance(document, list) and len(document) == 1 and isinstance(document[0], list):
        document = document[0]
    if not isinstance(document, list):
        raise BadArray(f"the answer should be a list of detections; found {_show(document)}")
    flat = []
    for i, item in enumerate(document):
        others = [key for key in item if key != "score"] if isinstance(item, dict) else []
        if len(others) != 1 or "score" not in item:
            raise BadArray(f"detection {i} should have a score and one label with its box; found {_show(item)}")
        flat.append({"label": others[0], "box": item[others[0]], "score": item["score"]})
    return records(flat, "box", "score", "label")


def _read_kserve(document: Any, image: Image) -> Found:
    """Open Inference Protocol v2: output tensors ``boxes``, ``scores`` and ``labels``, their data flat or nested."""
    tensors: dict[str, list[Any]] = {}
    for output in member(document, "outputs", list):
        name = member(output, "name", str, "an output")
        tensors[name] = _flat(member(output, "data", list, f"the output {name!r}"))
    missing = [name for name in ("boxes", "scores", "labels") if name not in tensors]
    if missing:
        raise BadArray(f"the output {missing[0]!r} is missing; found {_show(sorted(tensors))}")
    flat = tensors["boxes"]
    if len(flat) % 4:
        raise BadArray(f"the output 'boxes' should hold four numbers per box; found {len(flat)}")
    return Found([flat[i : i + 4] for i in range(0, len(flat), 4)], tensors["scores"], tensors["labels"])


def _flat(data: list[Any]) -> list[Any]:
    while data and all(isinstance(item, list) for item in data):
        data = [item for inner in data for item in inner]
    return data


def _read_roboflow(document: Any, image: Image) -> Found:
    """Centres and sizes, in pixels of the image as the endpoint saw it, whose size it reports."""
    items = member(document, "predictions", list)
    for i, item in enumerate(items):
        if not isinstance(item, dict) or not {"x", "y", "width", "height"} <= item.keys():
            raise BadArray(f"prediction {i} should have x, y, width and height; found {_show(item)}")
    sx = sy = 1.0
    if isinstance(document.get("image"), dict):
        seen = [number(document["image"].get(k), f"the {k} of the image") for k in ("width", "height")]
        if min(seen) <= 0:
            raise BadArray(f"the size of the image should be positive; found {seen}")
        sx, sy = image.width / seen[0], image.height / seen[1]
    boxed = [
        item | {"box": [number(item[k], k) * s for k, s in (("x", sx), ("y", sy), ("width", sx), ("height", sy))]}
        for item in items
    ]
    return records(boxed, "box", "confidence", "class", "class_id")


FORMATS: dict[str, Format] = {
    "misdetect": Format(send_file, _read_misdetect),
    "json-base64": Format(_send_base64, _read_misdetect),
    "coco": Format(send_file, _read_coco, layout="xywh", ids=""),
    "torchserve": Format(send_file, _read_torchserve),
    "kserve": Format(_send_tensor, _read_kserve),
    "roboflow": Format(_send_form, _read_roboflow, layout="cxcywh"),
}
"""The formats a spec can name; ``python:module:factory`` brings another."""


def kserve(name: str, tensor: str) -> Format:
    """The ``kserve`` format with its input tensor's ``name``, sent as a ``base64`` string or as raw ``pixels``."""
    return Format(partial(_send_tensor, name=name, tensor=tensor), _read_kserve)


def own_format(made: Any, where: str) -> Format:
    """The user's format: an object with ``request(image)`` and ``answer(document, image)``.

    ``request`` returns a ``Request``, the body as bytes, or a document to send as JSON; ``answer`` returns a ``Found``
    or a list of ``{"box", "score", "label"}``. ``layout``, ``units`` and ``ids`` are read where the object has them.
    """
    if isinstance(made, Format):
        return made
    for name in ("request", "answer"):
        if not callable(getattr(made, name, None)):
            raise BadSpec(f"{where!r}: the format should have {name}(…). Got {type(made).__name__} without it.")

    words = {name: str(getattr(made, name)) for name in ("layout", "units", "ids") if hasattr(made, name)}
    allowed = {"layout": tuple(CORNERS), "units": UNITS, "ids": ("", *IDS)}
    for name, word in words.items():
        if word not in allowed[name]:
            raise BadSpec(f"{where!r}: the format's {name} {word!r} is not one of {', '.join(allowed[name])}.")
    return Format(partial(_own_request, made), partial(_own_answer, made), **words)


def _own_request(made: Any, image: Image) -> Request:
    sent = made.request(image)
    if isinstance(sent, Request):
        return sent
    return Request(sent, {"Content-Type": image.media}) if isinstance(sent, bytes) else send_json(sent)


def _own_answer(made: Any, document: Any, image: Image) -> Found:
    said = made.answer(document, image)
    return said if isinstance(said, Found) else records(said, "box", "score", "label", what="what answer() returned")

"""Every format says the same two detections in its own way, and refuses what is not an answer.

No server here: what would be sent is decoded, and answers in the shape each service is known to give are read. None
was checked against a live service.
"""

import base64
import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.detectors.http.endpoint import HttpDetector, load_http
from misdetect.detectors.http.formats import FORMATS, Found, Reading, encode, parse_json
from misdetect.nouns.detections import Detections
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadArray, DetectorFailed

Make = Callable[[str], HttpDetector]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    (tmp_path / "names.txt").write_text("\n".join(NAMES))

    def build(options: str) -> HttpDetector:
        options = options if "names=" in options else f"names={tmp_path / 'names.txt'},{options}".rstrip(",")
        return load_http(Spec.parse(f"http://h/x,{options}"))

    return build


def read(detector: HttpDetector, document: Any) -> Any:
    """What ``detect`` makes of an answer."""
    return detector._read(json.dumps(document).encode(), IMAGE)


NAMES = ["cat", "dog", "bird"]
IMAGE = encode(np.random.default_rng(0).integers(0, 256, (30, 40, 3), dtype=np.uint8), "png", 95)
BOX = [4.0, 6.0, 20.0, 24.0]  # x0, y0, x1, y1 in a picture 40 wide and 30 high
WANTED = Detections(np.array([BOX, [0, 0, 40, 30]]), np.array([0.75, 0.5]), np.array([1, 0]))


def raw(body: bytes) -> bytes:
    return body


FORMAT_CASES: list[tuple[str, str, Callable[[bytes], bytes], Any]] = [
    (
        "names and numbers",
        "format=misdetect",
        raw,
        {
            "names": ["bird", "cat", "dog"],
            "detections": [
                {"box": BOX, "score": 0.75, "label": 2},
                {"box": [0, 0, 40, 30], "score": 0.5, "label": "cat"},
            ],
        },
    ),
    (
        "relative, rows first, one-based",
        "format=json-base64,layout=yxyx,units=relative,ids=one",
        lambda body: base64.b64decode(json.loads(body)["image"]),
        {
            "detections": [
                {"box": [6 / 30, 4 / 40, 24 / 30, 20 / 40], "score": 0.75, "label": 2},
                {"box": [0, 0, 1, 1], "score": 0.5, "label": 1},
            ]
        },
    ),
    (
        "COCO by id",
        "format=coco,ids=one",
        raw,
        [
            {"image_id": 3, "category_id": 2, "bbox": [4, 6, 16, 18], "score": 0.75},
            {"image_id": 3, "category_id": 1, "bbox": [0, 0, 40, 30], "score": 0.5},
        ],
    ),
    (
        "COCO by name",
        "format=coco",
        raw,
        [
            {"category_name": "dog", "category_id": 77, "bbox": [4, 6, 16, 18], "score": 0.75},
            {"category": "cat", "bbox": [0, 0, 40, 30], "score": 0.5},
        ],
    ),
    ("TorchServe", "format=torchserve", raw, [{"dog": BOX, "score": 0.75}, {"cat": [0, 0, 40, 30], "score": 0.5}]),
    (
        "TorchServe batch",
        "format=torchserve",
        raw,
        [[{"dog": BOX, "score": 0.75}, {"score": 0.5, "cat": [0, 0, 40, 30]}]],
    ),
    (
        "KServe flat",
        "format=kserve",
        lambda body: base64.b64decode(json.loads(body)["inputs"][0]["data"][0]),
        {
            "model_name": "m",
            "outputs": [
                {"name": "labels", "shape": [1, 2], "datatype": "INT64", "data": [1, 0]},
                {"name": "boxes", "shape": [1, 2, 4], "datatype": "FP32", "data": [*BOX, 0, 0, 40, 30]},
                {"name": "scores", "shape": [1, 2], "datatype": "FP32", "data": [0.75, 0.5]},
            ],
        },
    ),
    (
        "KServe nested, names, raw pixels",
        "format=kserve,input=x,tensor=pixels",
        lambda body: (
            encode(
                np.array(json.loads(body)["inputs"][0]["data"], np.uint8).reshape(
                    json.loads(body)["inputs"][0]["shape"]
                )[0],
                "png",
                95,
            ).encoded
        ),
        {
            "outputs": [
                {"name": "boxes", "datatype": "FP32", "data": [[BOX, [0, 0, 40, 30]]]},
                {"name": "scores", "datatype": "FP32", "data": [[0.75, 0.5]]},
                {"name": "labels", "datatype": "BYTES", "data": [["dog", "cat"]]},
            ]
        },
    ),
    (
        "Roboflow, which shrank the image by two",
        "format=roboflow",
        base64.b64decode,
        {
            "image": {"width": 20, "height": 15},
            "predictions": [
                {"x": 6, "y": 7.5, "width": 8, "height": 9, "class": "dog", "class_id": 9, "confidence": 0.75},
                {"x": 10, "y": 7.5, "width": 20, "height": 15, "class": "cat", "class_id": 8, "confidence": 0.5},
            ],
        },
    ),
    (
        "the user's own",
        "format=python:{here}:Own",
        lambda body: bytes.fromhex(json.loads(body)["hex"]),
        {"hits": [["dog", 0.75, 12, 15, 16, 18], ["cat", 0.5, 20, 15, 40, 30]]},
    ),
]


class Own:
    """What a user writes for an endpoint of their own: two functions, and what a box means."""

    layout = "cxcywh"

    def request(self, image: Any) -> Any:
        return {"hex": image.encoded.hex()}

    def answer(self, document: Any, image: Any) -> Any:
        return [{"label": name, "score": score, "box": box} for name, score, *box in document["hits"]]


@pytest.mark.parametrize(
    ("what", "options", "image_in", "answer"), FORMAT_CASES, ids=[case[0] for case in FORMAT_CASES]
)
def test_each_format_sends_the_image_and_reads_the_same_detections(
    make: Make, what: str, options: str, image_in: Callable[[bytes], bytes], answer: Any
) -> None:
    detector = make(options.format(here=__file__))
    sent = detector.format.request(IMAGE)
    assert np.array_equal(cv2.imdecode(np.frombuffer(image_in(sent.content), np.uint8), 1)[:, :, ::-1], IMAGE.pixels)
    found = read(detector, answer)
    assert isinstance(found, Detections), str(found)
    np.testing.assert_allclose(found.boxes, WANTED.boxes)
    assert (found.scores.tolist(), found.labels.tolist()) == (WANTED.scores.tolist(), WANTED.labels.tolist())
    again = pickle.loads(pickle.dumps(detector))  # noqa: S301
    assert (again.format.request(IMAGE), read(again, answer)) == (sent, found)


@pytest.mark.parametrize(
    ("what", "options", "image_in", "answer"), FORMAT_CASES, ids=[case[0] for case in FORMAT_CASES]
)
def test_each_format_refuses_what_it_does_not_understand(
    make: Make, what: str, options: str, image_in: Any, answer: Any
) -> None:
    """Any one field of a good answer left out or replaced: a failure entry or detections, and nothing else."""
    broken: list[Any] = [
        None,
        3,
        "x",
        [3],
        [None],
        [[]],
        {},
        {"detections": {}},
        {"outputs": [3]},
        {"predictions": [3]},
    ]
    broken += list(spoilt(answer))
    detector = make(options.format(here=__file__))
    answers = [read(detector, document) for document in broken]
    assert all(isinstance(a, Detections | DetectorFailed) for a in answers)
    assert all(str(a).startswith("http://h/x ") for a in answers if isinstance(a, DetectorFailed))
    assert sum(isinstance(a, DetectorFailed) for a in answers) >= 8 + 6


def spoilt(document: Any) -> Iterator[Any]:
    """``document`` with each part in turn left out or replaced by a wrong one."""
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in list(items):
        for wrong in (None, "?", [], {}, -1e9):
            copy = dict(document) if isinstance(document, dict) else list(document)
            copy[key] = wrong
            yield copy
        if isinstance(document, dict):
            yield {k: v for k, v in document.items() if k != key}
        for inner in spoilt(value):
            copy = dict(document) if isinstance(document, dict) else list(document)
            copy[key] = inner
            yield copy


def test_coco_ids_are_never_guessed(make: Make) -> None:
    def records(category: int) -> Any:
        return [{"category_id": category, "bbox": [1, 1, 5, 5], "score": 0.5}]

    assert "give ids=zero|one|coco91" in str(read(make("format=coco,names=coco"), records(13)))
    detector = make("format=coco,names=coco,ids=coco91")
    assert read(detector, records(13)).labels.tolist() == [11]  # stop sign: category 12 is unused in COCO
    assert "the label 12 is none of the 80 names" in str(read(detector, records(12)))


def test_unknown_labels_can_be_dropped(make: Make) -> None:
    hits = [{"box": [1, 1, 5, 5], "score": 0.5, "label": label} for label in ("unicorn", "dog", 17, "cat")]
    assert read(make("unknown=drop"), {"detections": hits}).labels.tolist() == [1, 0]
    assert "'unicorn' is none of the 3 names" in str(read(make(""), {"detections": hits}))


@given(
    st.lists(
        st.tuples(*[st.floats(0, 0.5)] * 2, *[st.floats(0.01, 0.5)] * 2, st.floats(0, 1), st.integers(0, 2)), max_size=6
    )
)
def test_every_layout_and_unit_says_the_same(hits: list[tuple[float, float, float, float, float, int]]) -> None:
    image = encode(np.zeros((32, 64, 3), np.uint8), "png", 95)
    layouts = {
        "xyxy": lambda x, y, w, h: [x, y, x + w, y + h],
        "yxyx": lambda x, y, w, h: [y, x, y + h, x + w],
        "xywh": lambda x, y, w, h: [x, y, w, h],
        "cxcywh": lambda x, y, w, h: [x + w / 2, y + h / 2, w, h],
    }
    for layout, write in layouts.items():
        for units, (sx, sy) in {"relative": (1, 1), "pixels": (64, 32)}.items():
            boxes = [write(x * sx, y * sy, w * sx, h * sy) for x, y, w, h, _, _ in hits]
            found = Found(boxes, [hit[4] for hit in hits], [NAMES[hit[5]] for hit in hits])
            got = Reading(tuple(NAMES), layout, units).detections(found, image)
            wanted = [[x * 64, y * 32, (x + w) * 64, (y + h) * 32] for x, y, w, h, _, _ in hits]
            np.testing.assert_allclose(got.boxes, np.array(wanted).reshape(-1, 4), atol=1e-9)
            assert got.labels.tolist() == [hit[5] for hit in hits]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["box", "score", "label", "x"]), inner),
)


@given(JSON)
def test_any_json_is_detections_or_a_plain_refusal(document: Any) -> None:
    for wrapped in (document, {"detections": document}, {"outputs": document}, {"predictions": document}):
        for format in FORMATS.values():
            reading = Reading(tuple(NAMES), format.layout, format.units, format.ids)
            with suppress(BadArray):
                found = reading.detections(format.answer(parse_json(json.dumps(wrapped).encode()), IMAGE), IMAGE)
                assert isinstance(found, Detections)

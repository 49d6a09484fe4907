"""The four cloud services when things go wrong, over real HTTP: overload, silence, refusals, answers that are none."""

import copy
import json
import pickle
import time
from collections.abc import Callable
from typing import Any

import pytest
from cloud_services import CLOUDS, HEIGHT, SCENE, WIDTH, Cloud, paint, same, wanted
from hypothesis import given
from hypothesis import strategies as st
from loopback import Server

from misdetect.detectors import load_detector
from misdetect.detectors.cloud.services import CloudDetector
from misdetect.detectors.http.formats import encode
from misdetect.nouns.detections import Detections
from misdetect.said.errors import DetectorFailed

Make = Callable[..., CloudDetector]
ALL = pytest.mark.parametrize("cloud", CLOUDS.values(), ids=CLOUDS)


@pytest.mark.sampled(4)
@ALL
@pytest.mark.parametrize("after", [None, "0.2"])
@pytest.mark.parametrize("status", [429, 500, 503])
def test_overload_is_waited_out(server: Server, make: Make, cloud: Cloud, status: int, after: str | None) -> None:
    detector = make(cloud)
    headers = {"Retry_After": after} if after else {}

    def script(handler: Any, n: int, body: bytes) -> None:
        if n == 0:
            handler.reply(cloud.error(status, "slow down"), status, **headers)
        else:
            cloud.script(handler, n, body)

    server.script = script
    assert same(detector.detect([paint(SCENE)])[0], wanted(SCENE))
    assert len(server.requests) == 2
    assert server.times[1] - server.times[0] >= float(after or 0)


@pytest.mark.sampled(1)
@ALL
def test_silence_and_broken_connections_are_retried(server: Server, make: Make, cloud: Cloud) -> None:
    detector = make(cloud, ",timeout=0.7")

    def script(handler: Any, n: int, body: bytes) -> None:
        if n == 0:
            time.sleep(1.2)
        elif n == 1:
            handler.reply(cloud.answer(SCENE, WIDTH, HEIGHT), length=100_000)  # cut off before its end
            handler.hang_up()
        else:
            cloud.script(handler, n, body)

    server.script = script
    assert same(detector.detect([paint(SCENE)])[0], wanted(SCENE))
    assert len(server.requests) == 3


@pytest.mark.sampled(8)
@ALL
@pytest.mark.parametrize("status", [401, 403, 404, 413])
def test_refusals_are_said_once(server: Server, make: Make, cloud: Cloud, status: int) -> None:
    detector = make(cloud)
    server.script = lambda handler, n, body: handler.reply(cloud.error(status, "no such permission"), status)
    (failure,) = detector.detect([paint(SCENE)])
    assert isinstance(failure, DetectorFailed)
    assert str(failure).startswith(detector.transport.url)
    assert f"refused with status {status}" in str(failure)
    assert "no such permission" in str(failure)
    assert len(server.requests) == 1


@ALL
def test_truncated_json_costs_its_own_image_only(server: Server, make: Make, cloud: Cloud) -> None:
    detector = make(cloud, ",concurrency=1")

    def script(handler: Any, n: int, body: bytes) -> None:
        raw = json.dumps(cloud.answer(SCENE, WIDTH, HEIGHT)).encode()
        handler.reply(raw[: len(raw) // 2] if n == 1 else raw)

    server.script = script
    first, second, third = detector.detect([paint(SCENE)] * 3)
    assert same(first, wanted(SCENE))
    assert same(third, wanted(SCENE))
    assert isinstance(second, DetectorFailed)
    assert "gave an answer that cannot be used: that is not JSON" in str(second)
    assert len(server.requests) == 3  # it was paid for: asking again would pay twice


@pytest.mark.parametrize("kind", ["ThrottlingException", "com.amazonaws.x#ProvisionedThroughputExceededException"])
def test_rekognition_throttles_with_a_bad_request(server: Server, make: Make, kind: str) -> None:
    cloud = CLOUDS["rekognition"]
    detector = pickle.loads(pickle.dumps(make(cloud, ",retries=3")))  # noqa: S301  as a worker gets it

    def script(handler: Any, n: int, body: bytes) -> None:
        if n < 2:
            handler.reply({"__type": kind, "Message": "Rate exceeded"}, 400)
        else:
            cloud.script(handler, n, body)

    server.script = script
    assert same(detector.detect([paint(SCENE)])[0], wanted(SCENE))
    assert len(server.requests) == 3
    server.script = lambda handler, n, body: handler.reply({"__type": kind}, 400)
    (failure,) = detector.detect([paint(SCENE)])
    assert "status 400" in str(failure)
    assert "(the last of 4 attempts)" in str(failure)
    server.script = lambda handler, n, body: handler.reply({"__type": "InvalidImageFormatException"}, 400)
    before = len(server.requests)
    (failure,) = detector.detect([paint(SCENE)])
    assert "refused with status 400" in str(failure)
    assert len(server.requests) == before + 1
    detector.close()


def test_google_reports_one_images_error_inside_a_success(server: Server, make: Make) -> None:
    cloud = CLOUDS["google"]
    detector = make(cloud)
    bad = {"responses": [{"error": {"code": 3, "message": "Bad image data."}}]}
    server.script = lambda handler, n, body: handler.reply(bad)
    (failure,) = detector.detect([paint(SCENE)])
    assert "cannot be used: it is an error: Bad image data. (code 3)" in str(failure)
    assert len(server.requests) == 1
    busy = {"responses": [{"error": {"code": 14, "message": "The service is unavailable."}}]}
    server.script = lambda handler, n, body: handler.reply(busy) if n < 3 else cloud.script(handler, n, body)
    assert same(detector.detect([paint(SCENE)])[0], wanted(SCENE))
    assert len(server.requests) == 4


def test_azure_boxes_of_another_size_are_refused(server: Server, make: Make) -> None:
    """Pixels of a scaled image would be silently wrong boxes."""
    for name in ("azure 4.0", "azure 3.2"):
        detector = make(CLOUDS[name])
        answer = CLOUDS[name].answer(SCENE, WIDTH * 2, HEIGHT * 2)
        server.script = lambda handler, n, body, answer=answer: handler.reply(answer)  # type: ignore[misc]
        (failure,) = detector.detect([paint(SCENE)])
        assert "it is about an image of 260 x 180; 130 x 90 was sent" in str(failure)


WRONG: list[tuple[str, Callable[[Any], Any], str]] = [
    ("rekognition", lambda d: d.pop("Labels"), "should have 'Labels'"),
    ("rekognition", lambda d: d["Labels"][0].pop("Name"), "should have 'Name'"),
    ("rekognition", lambda d: d["Labels"][0].update(Instances="none"), "should have 'Instances' as a list"),
    ("rekognition", lambda d: d["Labels"][0]["Instances"][0].pop("BoundingBox"), "should have 'BoundingBox'"),
    ("rekognition", lambda d: d["Labels"][0]["Instances"][0]["BoundingBox"].update(Left="0"), "Left of the box"),
    ("rekognition", lambda d: d["Labels"][0]["Instances"][0]["BoundingBox"].update(Width=-0.1), "should have a size"),
    (
        "rekognition",
        lambda d: d["Labels"][0]["Instances"][0].pop("Confidence"),
        "the Confidence of an instance of 'Person'",
    ),
    ("google", lambda d: d.update(responses=[]), "should hold one answer; found 0"),
    ("google", lambda d: d["responses"].append({}), "should hold one answer; found 2"),
    ("google", lambda d: things("google", d)[0]["boundingPoly"].pop("normalizedVertices"), "normalizedVertices"),
    (
        "google",
        lambda d: things("google", d)[0].update(boundingPoly={"normalizedVertices": []}),
        "four normalizedVertices",
    ),
    ("google", lambda d: things("google", d)[0].update(name=7), "should have 'name' as a str"),
    ("google", lambda d: things("google", d)[0].update(score="high"), "the score of detection 0 (Man)"),
    ("azure 4.0", lambda d: d.pop("objectsResult"), "should have 'objectsResult'"),
    ("azure 4.0", lambda d: things("azure 4.0", d)[0].update(tags=[]), "should have a tag"),
    ("azure 4.0", lambda d: things("azure 4.0", d)[0]["boundingBox"].pop("w"), "w of the box of object 0"),
    ("azure 4.0", lambda d: things("azure 4.0", d)[0]["tags"][0].update(confidence=None), "the score of detection 0"),
    ("azure 3.2", lambda d: things("azure 3.2", d)[1]["parent"].pop("object"), "should have 'object'"),
    (
        "azure 3.2",
        lambda d: things("azure 3.2", d)[0].update(rectangle=[0, 0, 1, 1]),
        "should have 'rectangle' as a dict",
    ),
    ("max", lambda d: d.update(status="error", message="Unable to read"), "it is an error: Unable to read"),
    ("max", lambda d: things("max", d)[0].update(detection_box=[0, 0, 1]), "should be four numbers"),
    ("max", lambda d: things("max", d)[0].update(probability=91), "score"),
]


def things(name: str, document: Any) -> list[Any]:
    return CLOUDS[name].things(document)


@pytest.mark.sampled(15)
@pytest.mark.parametrize(("name", "break_it", "says"), WRONG, ids=[f"{name}: {says}" for name, _, says in WRONG])
def test_wrong_types_are_one_sentence(server: Server, make: Make, name: str, break_it: Any, says: str) -> None:
    detector = make(CLOUDS[name])
    answer = copy.deepcopy(CLOUDS[name].answer(SCENE, WIDTH, HEIGHT))
    break_it(answer)
    server.script = lambda handler, n, body: handler.reply(answer)
    (failure,) = detector.detect([paint(SCENE)])
    assert isinstance(failure, DetectorFailed)
    assert str(failure).startswith(f"{detector.transport.url} gave an answer that cannot be used: ")
    assert says in str(failure)
    assert len(server.requests) == 1


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**400) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("name", CLOUDS)
def test_any_answer_is_detections_or_a_sentence(server: Server, name: str) -> None:
    """However one part of an answer is replaced, reading it never raises anything else."""
    cloud = CLOUDS[name]
    detector = load_detector(cloud.spec.format(url=server.url))
    assert isinstance(detector, CloudDetector)
    image = encode(paint(SCENE), "png", 95)

    @given(st.data())
    def law(data: st.DataObject) -> None:
        root: Any = {"": copy.deepcopy(cloud.answer(SCENE, WIDTH, HEIGHT))}
        node, key = root, ""
        while isinstance(node[key], dict | list) and node[key] and data.draw(st.integers(0, 4)):
            node = node[key]
            key = data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
        node[key] = data.draw(VALUES)
        body = json.dumps(root[""]).encode()
        assert isinstance(detector._read(body, image), Detections | DetectorFailed)

    law()

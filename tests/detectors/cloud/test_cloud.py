"""The four cloud services over real HTTP: what they are asked, what their answers mean, limits, money, addresses."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cloud_services import (
    CLOUDS,
    HEIGHT,
    SCENE,
    WIDTH,
    Cloud,
    Thing,
    coco,
    paint,
    same,
    wanted,
)
from loopback import Server

from misdetect.detectors import load_detector
from misdetect.detectors.cloud.labels import OTHER_THINGS, SYNONYMS, Sighting, service_labels
from misdetect.detectors.cloud.services import CloudDetector
from misdetect.detectors.names import COCO
from misdetect.nouns.detections import Detections
from misdetect.nouns.labels import plain_name
from misdetect.said.errors import BadData, BadSpec, BudgetSpent, DetectorFailed

Make = Callable[..., CloudDetector]
ALL = pytest.mark.parametrize("cloud", CLOUDS.values(), ids=CLOUDS)


def scenes(n: int) -> list[list[Thing]]:
    """Scenes of 0 to 4 things, by label (a service groups them so)."""
    rng = np.random.default_rng(3)
    made = []
    for _ in range(n):
        corners = [(int(x), int(y)) for x in (0, 50, 100) for y in (0, 40)]
        places = rng.permutation(len(corners))[: rng.integers(0, 5)]
        sizes = rng.integers(5, 30, (len(places), 2))
        boxes = [
            (*corners[p], int(corners[p][0] + w), int(corners[p][1] + h))
            for p, (w, h) in zip(places, sizes, strict=True)
        ]
        made.append(sorted((int(rng.integers(0, 4)), int(rng.integers(55, 100)), box) for box in boxes))
    return made


# ------------------------------------------------------------------------------------------------- what is asked


@ALL
def test_boxes_scores_and_names_are_those_in_the_picture(make: Make, cloud: Cloud) -> None:
    detector = make(cloud)
    (found,) = detector.detect([paint(SCENE)])
    assert same(found, wanted(SCENE))
    assert found.boxes[0].tolist() == [0, 0, 40, 60]  # the corner, whose zeros Google does not write


@pytest.mark.sampled(2)
@ALL
def test_many_pictures_come_back_in_order_at_any_size(make: Make, cloud: Cloud) -> None:
    detector = make(cloud, ",concurrency=3")
    made = scenes(12)
    assert {len(scene) for scene in made} == {0, 1, 2, 3, 4}
    found = detector.detect([paint(scene, WIDTH + i, HEIGHT + 3 * i) for i, scene in enumerate(made)])
    assert all(same(one, wanted(scene)) for one, scene in zip(found, made, strict=True))
    assert len(detector.names) == 80


@ALL
def test_it_works_from_a_pickle_that_holds_no_key(make: Make, cloud: Cloud) -> None:
    copied = pickle.loads(pickle.dumps(make(cloud)))  # noqa: S301
    assert same(copied.detect([paint(SCENE)])[0], wanted(SCENE))
    copied.close()


def test_options_reach_the_services(server: Server, make: Make) -> None:
    make(CLOUDS["rekognition"], ",score=0.07,max=12").detect([paint(SCENE)])
    make(CLOUDS["google"], ",max=7").detect([paint(SCENE)])
    make(CLOUDS["max"], ",score=0.25").detect([paint(SCENE)])
    make(CLOUDS["azure 4.0"], ",model=2023-10-01,encode=jpeg,quality=60").detect([paint(SCENE)])
    aws, google, ibm, azure = server.requests
    assert {k: v for k, v in json.loads(aws[3]).items() if k != "Image"} == {"MaxLabels": 12, "MinConfidence": 7}
    assert json.loads(google[3])["requests"][0]["features"][0]["maxResults"] == 7
    assert ibm[1] == "/model/predict?threshold=0.25"
    assert azure[1].endswith("&model-version=2023-10-01")
    assert azure[3][:2] == b"\xff\xd8"


# ---------------------------------------------------------------------------------------------------- label maps


def test_synonyms_are_of_coco_and_of_one_class_each() -> None:
    """No word means two classes, none takes the place of another class's own name, and each is reached as it is."""
    for service, tables in SYNONYMS.items():
        said = [(word, name) for table in tables for name, words in table.items() for word in words.split("|")]
        assert {name for _, name in said} <= set(COCO)
        assert len({plain_name(word) for word, _ in said}) == len(said)
        assert not {plain_name(word) for word, _ in said} & {plain_name(name) for name in COCO}
        labels = service_labels(service, COCO, {}, strict=True)
        words = [*said, *((name.title(), name) for name in COCO if name not in OTHER_THINGS.get(service, ()))]
        sightings = [Sighting([0, 0, 1, i + 1], [(word.upper(), 0.5)]) for i, (word, _) in enumerate(words)]
        assert labels.found(sightings).labels == [name for _, name in words]


def test_what_has_no_name_is_left_out_and_counted(make: Make) -> None:
    counted = {}
    for name, cloud in CLOUDS.items():
        detector = make(cloud)
        detector.detect([paint(SCENE), paint(SCENE)])
        counted[name] = dict(detector.left_out)
    assert counted == {
        "rekognition": {"Adult": 2, "Tire": 2},  # people again, under another label
        "google": {"Mouse": 2},  # the animal, which COCO's mouse is not
        "azure 4.0": {"kitchen appliance": 2},
        "azure 3.2": {"stove": 2},
        "max": {"street sign": 2},
    }


def test_a_label_without_a_name_can_be_an_error(make: Make) -> None:
    (failure,) = make(CLOUDS["max"], ",unknown=error").detect([paint(SCENE)])
    assert "the label 'street sign' has no class name (add it by labels=" in str(failure)


def test_own_names_and_labels(make: Make, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("stove\nfurniture\nCELL_PHONE\n")
    (tmp_path / "labels.yaml").write_text("Kitchen Appliance: stove\ndining table: furniture\nperson: null\n")
    detector = make(
        CLOUDS["azure 4.0"], f",names={tmp_path / 'names.txt'},labels={tmp_path / 'labels.yaml'},unknown=error"
    )
    (found,) = detector.detect([paint(SCENE)])
    assert [detector.names[label] for label in found.labels] == ["furniture", "CELL_PHONE", "stove"]
    assert detector.left_out == {"person": 1}
    assert detector.settings["labels"] == str(tmp_path / "labels.yaml")


def test_the_same_box_under_two_names_is_one_and_under_one_name_two(server: Server, make: Make) -> None:
    """Identical boxes under synonyms are one object (the best score); a box reported twice stays twice."""
    detector = make(CLOUDS["google"])
    honest = CLOUDS["google"].answer(SCENE[:1], WIDTH, HEIGHT)
    (man,) = honest["responses"][0]["localizedObjectAnnotations"]
    said = [man, man | {"name": "Person", "score": 0.97}, man | {"score": 0.6}, man | {"name": "Car", "score": 0.5}]
    honest["responses"][0]["localizedObjectAnnotations"] = said
    server.script = lambda handler, n, body: handler.reply(honest)
    (found,) = detector.detect([paint(SCENE[:1])])
    assert [(detector.names[i], s) for i, s in zip(found.labels, found.scores, strict=True)] == [
        ("person", 0.97),
        ("person", 0.6),
        ("car", 0.5),
    ]


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("l.json", '{"Sofa": "settee"}', "gives 'Sofa' the name 'settee', which is none of the 80 names"),
        ("l.json", '["Sofa"]', "should map labels to class names"),
        ("l.json", "{", "is not valid JSON"),
        ("l.yaml", "a: !!python/object/apply:os.system ['x']", "is not valid yaml"),
        ("l.yaml", "1: person", "gives '1' the name"),
        ("l.yaml", "", "Got nothing"),
    ],
)
def test_files_that_hold_no_labels(tmp_path: Path, file: str, content: str, says: str) -> None:
    (tmp_path / file).write_text(content)
    with pytest.raises((BadSpec, BadData)) as refused:
        load_detector(f"max:http://127.0.0.1:9,labels={tmp_path / file}")
    assert says in str(refused.value)


# -------------------------------------------------------------------------------------- limits, money, addresses


@pytest.mark.parametrize(
    ("name", "shape", "says"),
    [
        (
            "rekognition",
            (79, 300),
            "the image has 300 x 79 pixels, and Amazon Rekognition takes none with a side below 80",
        ),
        (
            "rekognition",
            (80, 10_001),
            "the image has 10001 x 80 pixels, and Amazon Rekognition takes none with a side above",
        ),
        ("azure 4.0", (49, 50), "the image has 50 x 49 pixels, and Azure Vision takes none with a side below 50"),
    ],
)
def test_what_a_service_would_refuse_is_not_sent(
    server: Server, make: Make, name: str, shape: tuple[int, int], says: str
) -> None:
    detector = make(CLOUDS[name], ",max_requests=5")
    small, fine = detector.detect([np.zeros((*shape, 3), dtype=np.uint8), paint(SCENE)])
    assert isinstance(small, DetectorFailed)
    assert str(small).startswith(f"{detector.transport.url} was not asked: {says}")
    assert same(fine, wanted(SCENE))
    assert len(server.requests) == 1
    assert detector.budget is not None
    assert detector.budget.spent["queries"] == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "side", "limit"), [("rekognition", 1400, "5"), ("azure 3.2", 1300, "4"), ("google", 1700, "10")]
)
def test_files_that_are_too_large_are_not_sent(server: Server, make: Make, name: str, side: int, limit: str) -> None:
    """Noise does not compress: its PNG is larger than what the service takes, its JPEG is not."""
    noise = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    (failure,) = make(CLOUDS[name]).detect([noise])
    assert f"takes {limit}: give encode=jpeg" in str(failure)
    assert server.requests == []
    detector = make(CLOUDS[name], ",encode=jpeg,quality=50")
    server.script = lambda handler, n, body: handler.reply(CLOUDS[name].answer([], side, side))
    assert same(detector.detect([noise])[0], Detections.empty())


def test_a_budget_in_dollars_needs_no_price(server: Server, make: Make) -> None:
    """The list price is the default; a query that the dollars do not cover is not sent."""
    for name, price in (("rekognition", 0.001), ("google", 0.00225), ("azure 4.0", 0.001)):
        detector = make(CLOUDS[name], ",usd=0.0045")
        assert detector.limits == {"queries": None, "usd": 0.0045, "price": price}
        before = len(server.requests)
        answers = detector.detect([paint(SCENE)] * 6)
        affordable = int(0.0045 / price)
        assert len(server.requests) - before == affordable == sum(isinstance(a, Detections) for a in answers)
        assert sum(isinstance(answer, BudgetSpent) for answer in answers) == 6 - affordable
    mine = make(CLOUDS["google"], ",price=0.0015")
    mine.detect([paint(SCENE)] * 2)
    assert mine.budget is not None
    assert mine.budget.spent == {"queries": 2, "usd": 0.003}
    with pytest.raises(BadSpec, match="needs the price"):
        make(CLOUDS["max"], ",usd=1")


def test_a_version_names_what_answered(make: Make, tmp_path: Path) -> None:
    (tmp_path / "labels.json").write_text('{"Tire": "car"}')
    cloud = CLOUDS["rekognition"]
    assert make(cloud).fingerprint is None
    first = make(cloud, ",version=1").fingerprint
    assert first is not None
    assert make(cloud, ",version=1,retries=1,concurrency=2").fingerprint == first
    others = [
        ",version=2",
        ",version=1,score=0.5",
        f",version=1,labels={tmp_path / 'labels.json'}",
        ",version=1,encode=jpeg",
    ]
    assert len({first, *(make(cloud, other).fingerprint for other in others)}) == 5


def test_addresses(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def url(spec: str) -> str:
        detector = load_detector(spec)
        assert isinstance(detector, CloudDetector)
        return detector.transport.url

    assert url("rekognition:eu-west-1") == "https://rekognition.eu-west-1.amazonaws.com/"
    assert url("rekognition:cn-north-1") == "https://rekognition.cn-north-1.amazonaws.com.cn/"
    assert url("google-vision:") == "https://vision.googleapis.com/v1/images:annotate"
    assert url("google-vision:,endpoint=https://eu-vision.googleapis.com").startswith(
        "https://eu-vision.googleapis.com/v1"
    )
    assert (
        url("max:http://h:5000/model/predict/")
        == url("max:http://h:5000")
        == "http://h:5000/model/predict?threshold=0.7"
    )
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-2")
    assert url("rekognition:") == "https://rekognition.us-east-2.amazonaws.com/"
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    assert url("rekognition:") == "https://rekognition.us-west-2.amazonaws.com/"
    monkeypatch.setenv("VISION_ENDPOINT", "https://mine.cognitiveservices.azure.com/")
    assert url("azure-vision:").startswith(
        "https://mine.cognitiveservices.azure.com/computervision/imageanalysis:analyze?"
    )


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("rekognition:", "expected a region"),
        ("rekognition:evil.example/", "expected a region"),
        ("google-vision:eu", "write google-vision: alone"),
        ("azure-vision:", "expected the resource's address"),
        ("azure-vision:https://a,endpoint=https://b", "gives two addresses"),
        ("azure-vision:https://a,api=5", "api=5 is not one of 4.0, 3.2"),
        ("azure-vision:https://a,model=new&x=1", "should be latest or a date"),
        ("azure-vision:https://a,score=0.5", "unknown option 'score'"),
        ("max:", "expected the server's address"),
        ("max:localhost:5000", "Expected an address"),
        ("max:http://me:pw@h", "holds a user or password"),
        ("max:http://h/?token=K123", "holds 'token'"),
        ("max:http://h/?a=1", "without '?'"),
        ("max:http://h,score=1.5", "score=1.5 should be from 0 to 1"),
        ("max:http://h,names=nowhere.txt", "nor a file that exists"),
        ("max:http://h,labels=nowhere.json", "is not a file of labels"),
        ("max:http://h,key=K123", "unknown option 'key'"),
    ],
)
def test_specs_that_are_refused(server: Server, spec: str, says: str) -> None:
    with pytest.raises(BadSpec) as refused:
        load_detector(spec)
    assert says in str(refused.value)


# -------------------------------------------------------------------------------------------------- command line


def test_the_command_line_from_pictures_to_coco_results(
    server: Server, tmp_path: Path, run: Callable[..., tuple[int, str, str]]
) -> None:
    """``misdetect detect`` against the server gives the truth that was painted, one query for each image."""
    server.script = CLOUDS["max"].script
    painted = scenes(5)
    expected = [
        (i + 1, (1, 67, 77)[label], percent / 100, [x0, y0, x1 - x0, y1 - y0])
        for i, scene in enumerate(painted)
        for label, percent, (x0, y0, x1, y1) in scene
        if label < 3
    ]
    data, out = coco(tmp_path, [paint(scene) for scene in painted]), tmp_path / "out.json"
    code, said, err = run("detect", "--detector", f"max:{server.url}", "--data", data, "--out", out, "--json")
    assert code == 0, err
    assert json.loads(said)["engine"]["queries"] == len(server.requests) == 5
    results = json.loads(out.read_text())
    assert sorted((r["image_id"], r["category_id"], r["score"]) for r in results) == sorted(e[:3] for e in expected)
    boxes = {(r["image_id"], r["category_id"], r["score"]): r["bbox"] for r in results}
    assert all(np.allclose(boxes[e[:3]], e[3], atol=0.01) for e in expected)


def test_a_program_that_asked_ends_in_silence(server: Server) -> None:
    """The threads that sign requests neither keep a program from ending nor leave a warning."""
    server.script = CLOUDS["azure 4.0"].script
    program = f"""
import numpy as np
from misdetect.detectors import load_detector
detector = load_detector("azure-vision:{server.url}")
assert len(detector.detect([np.zeros((90, 130, 3), np.uint8)])[0]) == 0
"""
    environment = {k: v for k, v in os.environ.items() if "proxy" not in k.lower()}
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")

"""``checkup`` on detectors whose right answer is known: the glass box."""

import html
import json
import re

import numpy as np
import pytest

import misdetect as md
from misdetect.data.memory import from_pairs
from misdetect.detectors.glassbox.detector import GlassBox
from misdetect.report.findings import findings
from misdetect.studies.contract import Examined, Pace
from misdetect.studies.kinds import kind_of
from misdetect.suites.checkup.plan import _seconds, plan_for, planned
from misdetect.suites.checkup.settings import CheckupSettings

ROOMS = "rooms:val,count=40"
KEYS = {"detector", "data", "findings", "studies", "skipped", "settings", "report", "out"}
ALL = ["doctor", "detect", "score", "explain", "confusion", "scan", "fuzz"]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A checkup of a detector without a fault, planned here: the detector is so fast that it would be asked much."""
    folder = tmp_path_factory.mktemp("checkup") / "up"
    folder.mkdir()
    asked = {"minutes": 0.1, "limit": None, "images": 40}
    plan = {"images": 16, "scan": 50, "fuzz": 60, "attack": 4}
    (folder / "plan.json").write_text(json.dumps({"for": asked, "plan": plan}))
    return md.checkup(f"glassbox:none,data={ROOMS}", ROOMS, minutes=0.1, pictures=1, out=folder)


def test_a_perfect_detector_has_no_finding(sound):
    document = sound.document
    assert set(document) == KEYS
    assert document["findings"] == []
    assert document["studies"]["score"]["ap"]["AP"] == pytest.approx(1)
    assert list(document["studies"]) == list(sound.runs) == ALL
    assert {each["study"] for each in document["skipped"]} == {"verify", "attack"}
    assert any(each["why"].startswith("attack needs a detector that gives gradients") for each in document["skipped"])
    assert "Nothing is wrong" in repr(sound)
    stored = json.loads((sound.path / "checkup.json").read_text())
    assert stored["studies"]["score"] == document["studies"]["score"]
    assert "timing" not in stored["studies"]["detect"]


def test_the_report_is_one_page_that_loads_nothing(sound):
    page = sound.report.read_text()
    assert "Nothing is wrong that these studies could find" in page
    for study in ALL:
        assert f'id="{study}"><h2>' in page
    assert "not run: no part of the data has a state" in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert "Content-Security-Policy" in page
    assert page.count("data:image/") >= 2
    assert len(page) < 25_000_000


@pytest.mark.heavy
def test_its_parts_are_runs_of_their_own_and_a_second_sitting_changes_nothing(sound):
    for study in ALL:
        assert md.open(sound.path / study).document["study"] == study
    before = (sound.path / "checkup.json").read_bytes(), sound.report.read_bytes()
    again = md.checkup(f"glassbox:none,data={ROOMS}", ROOMS, minutes=0.1, pictures=1, out=sound.path)
    assert ((again.path / "checkup.json").read_bytes(), again.report.read_bytes()) == before
    by_file = md.score(sound.path / "results.json", ROOMS, limit=sound.document["settings"]["plan"]["images"]).document
    assert by_file["ap"] == sound.document["studies"]["score"]["ap"]


BIKES = "bikes:val,count=24"
HEAVY = pytest.mark.heavy


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("fault", "data", "study", "says"),
    [
        pytest.param("no-proposal/rate=.4", ROOMS, "explain", "nothing was proposed", marks=HEAVY),
        pytest.param("shift/rate=.4", ROOMS, "explain", "the box was moved away", marks=HEAVY),
        pytest.param("other-class/rate=.4", ROOMS, "explain", "another class scored higher", marks=HEAVY),
        pytest.param("sink/rate=.4", ROOMS, "explain", "their score sank into the background", marks=HEAVY),
        pytest.param("misrank/rate=.4", ROOMS, "explain", "a worse one suppressed it"),
        pytest.param("top-k/k=3", ROOMS, "explain", "not among the candidates that reach suppression", marks=HEAVY),
        pytest.param("cap/cap=3", ROOMS, "explain", "the cap on detections cut it off", marks=HEAVY),
        pytest.param("vanish-near", ROOMS, "scan", "because their score sank into the background", marks=HEAVY),
        pytest.param("move-near", ROOMS, "scan", "because the box was moved away", marks=HEAVY),
        pytest.param("rename-near", ROOMS, "scan", "Most of these are given another class", marks=HEAVY),
        pytest.param("hallucinate", BIKES, "verify", "are reported as present.", marks=HEAVY),
        pytest.param("hallucinate-context", BIKES, "verify", "hang on the parts around them", marks=HEAVY),
        pytest.param("hallucinate-position", BIKES, "verify", "hang on their place in the picture", marks=HEAVY),
        pytest.param("hallucinate-appearance", BIKES, "verify", "hang on the pixels in their place", marks=HEAVY),
        pytest.param("hallucinate-part", BIKES, "verify", "hang on the parts around them", marks=HEAVY),
        pytest.param("none", BIKES, None, None, marks=HEAVY),
    ],
)
def test_the_worst_finding_names_the_planted_fault(fault, data, study, says):
    """Every kind of fault that the glass box has; one without any on rooms is ``sound``."""
    up = md.checkup(f"glassbox:{fault},data={data}", data, minutes=0.1, pictures=0)
    found = up.document["findings"]
    if study is None:
        assert found == []
        assert "Nothing is wrong that these studies could find" in up.report.read_text()
        return
    first = found[0]
    assert says in first["sentence"]
    assert first["study"] == study
    low, high = first["interval"]
    assert 0 < low <= first["value"] <= high
    assert first["advice"]
    assert up.report.read_text().index(html.escape(first["sentence"])) > 0


def test_findings_are_in_the_order_of_what_is_at_stake():
    tide = {"Cls": 2.0, "Loc": 30.0, "Both": 0.2, "Dupe": 0.0, "Bkg": 5.0}
    ends = {"tide": {name: [0.5 * points, 2 * points] for name, points in tide.items()}}
    found = findings({"score": {"tide": tide, "intervals": ends}})
    assert [each["value"] for each in found] == [0.3, 0.05, 0.02], "what costs less than a point is none"
    assert "boxes that fit badly cost 30.0 points" in found[0]["sentence"].lower()


def plan_of(seconds, query, images, inside=None):
    return planned(Pace(seconds, query, query if inside is None else inside, images))


def test_a_slow_detector_is_asked_less():
    fast, slow = plan_of(300, 0.005, 1000), plan_of(300, 0.5, 1000)
    assert (fast["images"], fast["attack"]) == (1000, 24)
    assert slow["images"] == 75
    assert (slow["scan"], slow["fuzz"]) == (60, 120)
    assert plan_of(300, 0.5, 10)["images"] == 10


@pytest.mark.parametrize(
    ("seconds", "query", "images", "plan"),
    [
        (300, 0.05, 5000, (750, 450, 1200, 8)),  # shares of the time; an attack takes 144 questions an image
        (300, 0.05, 6, (6, 450, 1200, 6)),
        (300, 0.001, 5000, (1000, 3000, 1500, 24)),  # at most
        (60, 0.05, 5000, (150, 90, 240, 4)),
        (6, 2.0, 5000, (16, 60, 60, 4)),  # at least
        (6, 2.0, 3, (3, 60, 60, 3)),
    ],
)
def test_the_time_is_divided_among_the_studies(seconds, query, images, plan):
    found = plan_of(seconds, query, images)
    assert tuple(found[name] for name in ("images", "scan", "fuzz", "attack")) == plan
    assert found == plan_of(seconds, query, images, inside=query)


def test_a_detector_that_is_slower_inside_is_looked_into_less():
    assert plan_of(300, 0.05, 5000, inside=0.075) == {"images": 600, "scan": 450, "fuzz": 1200, "attack": 5}


@pytest.mark.parametrize(("width", "height", "positions"), [(640, 480, 3000), (1920, 1080, 60), (64, 48, 3000)])
def test_the_step_is_the_smallest_that_asks_no_more_than_planned(width, height, positions):
    """Six pairs; steps of less than 4 px show nothing new."""
    data = from_pairs([(np.zeros((height, width, 3), np.uint8), {"boxes": [], "labels": []})], ["cup"])
    examined = Examined(data, False, False, {"images": 1, "scan": positions}, {}, None)
    step = kind_of("scan").checkup.settings(examined)["step"]
    assert 6 * width * height / step**2 <= positions
    assert step == 4 or 6 * width * height / (step - 1) ** 2 > positions


class Paid:
    names, budget = ("cup",), object()

    def detect(self, images):
        raise AssertionError("nothing was to be asked")


def test_a_plan_is_for_all_minutes_and_workers_and_kept_for_the_next_sitting(tmp_path):
    data, how = md.load_data("rooms:val,count=40"), CheckupSettings(minutes=2, workers=4)
    plan = plan_for(Paid(), data, tmp_path / "up", how)
    assert plan == plan_of(120, 0.5 / 4, 40)
    assert plan["fuzz"] == 192
    kept = json.loads((tmp_path / "up" / "plan.json").read_text())
    kept["plan"]["fuzz"] = 77
    (tmp_path / "up" / "plan.json").write_text(json.dumps(kept))
    assert plan_for(Paid(), data, tmp_path / "up", how)["fuzz"] == 77
    assert plan_for(Paid(), data, tmp_path / "up", CheckupSettings(minutes=3, workers=4))["fuzz"] == 288


def test_what_costs_money_is_not_asked_how_fast_it_is():
    assert _seconds(Paid(), md.load_data("rooms:val,count=2")) == 0.5
    quick = md.load_detector(lambda images: [([], [], [])] * len(images), names=["cup"])
    assert _seconds(quick, md.load_data("rooms:val,count=2")) < 0.5


@pytest.mark.heavy
def test_in_python_it_takes_objects_and_needs_no_folder():
    data = md.load_data("rooms:val,count=12")
    found = md.checkup(GlassBox(data, []), data, cache=False, minutes=0.1, pictures=0)
    assert found.document["studies"]["score"]["ap"]["AP"] == pytest.approx(1)
    assert found.document["detector"]["spec"] is None
    assert found.report.is_file()


def test_data_without_truth_gets_the_studies_that_need_none(tmp_path):
    from PIL import Image

    for sample in md.load_data("rooms:val,count=4"):
        Image.fromarray(sample.image).save(tmp_path / f"{sample.id}.png")
    found = md.checkup("zoo:yolox", f"folder:{tmp_path}", minutes=0.1, pictures=0)
    assert {"detect", "explain"} <= set(found.document["studies"])
    assert "score" not in found.document["studies"]
    assert {"attack", "verify"} <= {each["study"] for each in found.document["skipped"]}
    assert all(each["why"].endswith(".") for each in found.document["skipped"])


def test_stored_predictions_cannot_be_checked_up(run, tmp_path):
    (tmp_path / "r.json").write_text("[]")
    code, _, err = run(
        "checkup", "--detector", f"predictions:{tmp_path / 'r.json'}", "--data", ROOMS, "--out", tmp_path / "up"
    )
    assert code == 2
    assert "needs a detector" in err
    assert not (tmp_path / "up").exists()


def test_images_that_cannot_be_read_are_refused_and_leave_nothing(run, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").write_text("no image")
    spec = f"glassbox:none,data={ROOMS}"
    code, _, err = run(
        "checkup", "--detector", spec, "--data", f"folder:{tmp_path / 'photos'}", "--out", tmp_path / "up"
    )
    assert code == 2
    assert "a.png is not an image" in err
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


@pytest.mark.heavy
def test_a_detector_that_finds_nothing_is_told_so_first_and_the_limit_holds_for_all(tmp_path):
    detector = md.load_detector(lambda images: [([], [], [])] * len(images), names=["chair", "table"])
    found = md.checkup(detector, md.load_data(ROOMS), minutes=0.1, pictures=0, limit=10)
    first = found.document["findings"][0]
    assert first["study"] == "doctor"
    assert "finds nothing on any of 10 images." in first["sentence"]
    assert ".." not in first["sentence"]

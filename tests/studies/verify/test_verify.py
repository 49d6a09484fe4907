"""verify on pictures with three parts whose answers are written down: every number by hand, and every edit by its
pixels."""

import json

import numpy as np
import pytest
from verify_toys import BOXES, NAMES, SIZE, STATES, Noise, Told, data, sample

import misdetect as md
from misdetect.data.dataset import Sample
from misdetect.nouns.detections import Detections, Truth
from misdetect.said.errors import BadData, BadSpec
from misdetect.studies.verify import VERIFY

FAR = [50.0, 50, 60, 60]
ANSWERS = [
    ([BOXES[0], BOXES[1], FAR], [0.9, 0.8, 0.9], [0, 1, 2]),  # finds the bell, hallucinates the lock, saddle elsewhere
    ([BOXES[2], FAR], [0.7, 0.6], [2, 1]),  # finds the saddle, hallucinates the lock far from where it would be
    ([BOXES[0], BOXES[1]], [0.4, 0.55], [0, 1]),  # the bell below the threshold, finds the lock
    ([], [], []),
]


@pytest.fixture(scope="module")
def run():
    return md.verify(Told(ANSWERS), data(), cache=False)


@pytest.mark.parametrize("names", [("saddle", "bell", "lock"), ("lock", "wheel", "saddle", "bell")])
def test_a_detector_may_number_the_parts_in_its_own_way(run, names):
    own = [(boxes, scores, [names.index(NAMES[label]) for label in labels]) for boxes, scores, labels in ANSWERS]
    if "wheel" in names:  # which the data does not have
        own = [([*boxes, FAR], [*scores, 0.99], [*labels, 1]) for boxes, scores, labels in own]
    found = md.verify(Told(own, names=names), data(), cache=False).document
    for key in ("with_localisation", "without_localisation", "by_part", "causes"):
        assert found[key] == run.document[key]


def test_an_edit_is_judged_by_the_present_parts_that_were_found(run):
    """Of the bell and the saddle of p0, both present, only the bell is found where it is."""
    edits = [row for row in run.rows().to_pylist() if row["kind"] == "edit" and row["image"] == "p0"]
    assert {row["edit"]: row["before"] for row in edits if row["edit"] in ("moved", "flipped")} == {
        "moved": 1,
        "flipped": 1,
    }


def test_table_1_by_hand(run):
    """7 present parts: found with localisation are the bell of p0, the saddle of p1 and the lock of p2; without it also
    the saddle of p0. 5 missing: the lock of p0 is hallucinated; without localisation also that of p1."""
    d = run.document
    row = d["with_localisation"]
    assert (row["present_found"], row["present"], row["missing_found"], row["missing"]) == (3, 7, 1, 5)
    assert row["present_recall"] == pytest.approx(3 / 7)
    assert row["f_vv"] == pytest.approx(1.01 * (3 / 7) * 0.8 / (0.01 * 0.8 + 3 / 7))
    row = d["without_localisation"]
    assert (row["present_found"], row["missing_found"]) == (4, 2)
    assert (d["images"], d["present"], d["missing"], d["parts"]) == (4, 7, 5, 12)
    for number, ends in row["intervals"].items():
        assert ends[0] <= row[number] <= ends[1]


def test_curves_and_parts_by_hand(run):
    d = run.document
    recall = dict(map(tuple, d["missing_recall_curve"]))
    assert recall[0.0] == pytest.approx(2 / 5)
    assert recall[0.05] == recall[1.0] == pytest.approx(1 / 5)
    curve = {score: (present, missing) for score, present, missing in d["recall_curves"]["with_localisation"]}
    assert curve[0.4] == pytest.approx((4 / 7, 1 / 5))
    assert curve[0.41] == pytest.approx((3 / 7, 1 / 5))
    assert curve[0.9] == pytest.approx((1 / 7, 0))
    assert dict(map(tuple, d["f_vv_curve"]))[0.5] == pytest.approx(d["with_localisation"]["f_vv"])
    lock = d["by_part"]["lock"]
    assert lock["states"] == {"absent": 3, "intact": 1}
    assert lock["with_localisation"]["missing_recall"] == pytest.approx(1 / 3)
    assert lock["AP50"] == pytest.approx(1 / 3, abs=0.02), "two hallucinations rank above the one that is right"
    assert d["states"]["absent"] == {"count": 4, "share": pytest.approx(4 / 12)}


def test_the_prior_is_told_beside_the_likely_box(run):
    prior = run.document["prior"]
    assert np.array(prior["by_part"]["bell"]["box"]) * SIZE == pytest.approx(BOXES[0])
    lock = prior["by_part"]["lock"]
    assert lock["hallucinated"] == 2
    assert lock["iou_likely"] == lock["iou_prior"] == pytest.approx(0.5), "one fits both perfectly, one fits neither"
    assert prior["hallucinated"] == 2
    assert prior["by_part"]["bell"]["hallucinated"] == 0
    assert prior["by_part"]["bell"]["nearer"] is None


def test_what_it_costs(run):
    again = md.verify(Told(ANSWERS), data(), cache=False, false_present=7, check=2)
    cost = again.document["cost"]["with_localisation"]
    curve = dict(map(tuple, cost["curve"]))
    assert curve[0.5] == pytest.approx((7 * 1 + 2 * 4) / 4)
    assert curve[1.0] == pytest.approx(2 * 7 / 4)
    assert (cost["false_present"], cost["check"]) == (7, 2)
    assert run.document["cost"]["with_localisation"]["false_present"] == pytest.approx(10), "1/β"
    assert cost["saving"] == pytest.approx(cost["at_score"] - cost["per_image"])


def test_one_image_has_no_other_half_to_tell_a_threshold_on():
    alone = md.verify(Told(ANSWERS), data(1), cache=False, context=False).document
    for name in ("with_localisation", "without_localisation"):
        assert set(alone["best_threshold"][name].values()) == {None}
        cost = alone["cost"][name]
        assert {key for key, value in cost.items() if value is not None} == {"false_present", "check", "curve"}
    assert VERIFY.numbers(alone)["best_f_vv"].value is None
    assert not any("one half of the images" in each for each in VERIFY.sentences(alone))


def test_the_best_threshold_is_chosen_on_one_half_and_told_on_the_other():
    """On every image a hallucination of .6 and a find of .9: the best threshold lies between them on both halves."""
    box = [BOXES[0], BOXES[1]]
    answers = [(box, [0.9, 0.6], [0, 1])] * 8
    told = md.verify(
        Told(answers), data(8, lambda i: sample(i, ("intact", "absent", "absent"))), cache=False, context=False
    )
    best = told.document["best_threshold"]["with_localisation"]
    assert 0.6 < best["score"] <= 0.9
    assert best["f_vv"] == pytest.approx(1)
    assert (best["present"], best["missing"]) == (4, 8), "half of the images"
    assert best["at_score"] < best["f_vv"]


def test_a_hallucination_is_looked_into_with_edits_that_do_what_they_say():
    told = Told(ANSWERS)
    found = md.verify(told, data(), cache=False)
    (row,) = found.query("SELECT * FROM rows WHERE kind = 'hallucination'").to_pylist()
    assert (row["image"], row["label"], row["state"], row["score"]) == ("p0", "lock", "absent", 0.8)
    assert (row["cause"], row["reason"]) == ("none", "fragile"), "this detector knows no edited image"
    assert len(told.asked) == 4 + 5
    clean = Noise(0).read()
    edits = [image for image in told.asked if not any(np.array_equal(image, Noise(i).read()) for i in range(4))]
    moved = [
        e for e in edits if np.array_equal(e[: SIZE - 6], clean[6:]) or np.array_equal(e[:, 6:], clean[:, : SIZE - 6])
    ]
    flipped = [e for e in edits if np.array_equal(e, clean[:, ::-1])]
    assert len(moved) == len(flipped) == 1
    x0, y0, x1, y1 = BOXES[1].astype(int)
    inside = np.zeros((SIZE, SIZE), bool)
    inside[y0:y1, x0:x1] = True
    local = [e for e in edits if e is not moved[0] and e is not flipped[0]]
    patched = [e for e in local if (e != clean)[inside].any()]
    assert len(patched) == 1
    assert np.array_equal(patched[0][~inside], clean[~inside]), "only the pixels in the box are another's"
    donor = next(i for i in range(4) if f"p{i}" == row["donor"])
    assert STATES[donor][1] == "absent"
    assert np.array_equal(patched[0][inside], Noise(donor).read()[inside])
    covered, control = (e for e in local if e is not patched[0])
    for edit in (covered, control):
        assert np.array_equal(edit[inside], clean[inside]), "the pixels in the box are left alone"
    bell = tuple(slice(int(a), int(b)) for a, b in ((BOXES[0, 1], BOXES[0, 3]), (BOXES[0, 0], BOXES[0, 2])))
    hidden = sorted((e[bell] != clean[bell]).any(axis=2).mean() for e in (covered, control))
    assert hidden[1] > 0.9
    assert hidden[0] < 0.5


@pytest.mark.parametrize(
    ("keeps", "cause"),
    [("all", "none"), ("not covered", "context"), ("not patched", "appearance"), ("not moved", "position")],
)
def test_the_edit_that_ends_it_names_the_cause(keeps, cause):
    """The study without a detector: send it answers."""
    from misdetect.compose.cover import Covered
    from misdetect.compose.move import Flipped, Moved
    from misdetect.compose.paste import Paste
    from misdetect.data.opened import Opened
    from misdetect.engine.requests import Case, Detect
    from misdetect.studies.verify.settings import VerifySettings
    from misdetect.studies.verify.study import VerifyStudy

    study = VerifyStudy(Opened(data()), NAMES, VerifySettings())
    steps = study.run(Case(0, "p0"))
    assert isinstance(next(steps), Detect)
    asks = steps.send(Detections(BOXES[[0, 1]], [0.9, 0.8], [0, 1]))
    control = [ask.picture for ask in asks if isinstance(ask.picture, Covered)][-1]

    def answer(picture):
        gone = {
            "not covered": isinstance(picture, Covered) and picture is not control,
            "not patched": isinstance(picture, Paste),
            "not moved": isinstance(picture, Moved),
        }.get(keeps, False)
        boxes = picture.boxes(BOXES[[1]], SIZE, SIZE) if isinstance(picture, (Moved, Flipped)) else BOXES[[1]]
        return Detections.empty() if gone else Detections(boxes, [0.8], [1])

    with pytest.raises(StopIteration) as ended:
        steps.send([answer(ask.picture) for ask in asks])
    (row,) = (row for row in ended.value.value if row["kind"] == "hallucination")
    assert row["cause"] == cause


def test_states_are_grouped_as_told():
    def grouped(**settings):
        d = md.verify(Told(ANSWERS), data(), cache=False, context=False, **settings).document
        return d["present"], d["missing"], d["ignored"]

    assert grouped() == (7, 5, {})
    assert grouped(missing=("absent",)) == (8, 4, {})
    assert grouped(missing=("absent",), ignored=("occluded",)) == (7, 4, {"ignored-state": 1})
    assert grouped(missing=("absent", "occluded", "damaged")) == (5, 7, {})
    with pytest.raises(BadSpec, match="both missing and ignored"):
        grouped(ignored=("absent",))


def odd(**kinds):
    """Data whose second picture is odd."""
    return data(3, lambda i: sample(i, **kinds) if i == 1 else sample(i))


TWICE = np.concatenate([BOXES, BOXES[:1]])
BAD = {
    "unknown states": (odd(states=("intact", "lost", "stolen")), r"2 of 9 parts have a state .*1 'lost', 1 'stolen'"),
    "a part twice": (
        odd(labels=(0, 1, 2, 0), boxes=TWICE, states=("intact",) * 4),
        r"1 times in all .*'bell' 2 times in image 'p1'",
    ),
    "no states": (
        data(2, lambda i: Sample(f"p{i}", Noise(i), Truth(BOXES, [0, 1, 2]), SIZE, SIZE)),
        "2 of 2 images have no states of parts",
    ),
    "no parts": (data(2, lambda i: Sample(f"p{i}", Noise(i), Truth.empty(), SIZE, SIZE)), "no states of parts"),
}


@pytest.mark.parametrize(("made", "says"), BAD.values(), ids=BAD)
def test_bad_data_is_one_sentence_with_counts_and_leaves_nothing(made, says, tmp_path):
    with pytest.raises(BadData, match=says):
        md.verify(Told(ANSWERS), made, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_cannot_be_judged_is_counted():
    flat = BOXES.copy()
    flat[1, 2:] = flat[1, :2]
    d = md.verify(Told([], names=("bell", "lock")), odd(boxes=flat), cache=False, context=False).document
    assert d["ignored"] == {"no-box": 1, "unknown-class": 3}
    assert d["parts"] == 9 - 4
    assert any("3 parts are of classes that the detector does not have" in note for note in d["notes"])
    assert any("1 parts have a box without area" in note for note in d["notes"])


def test_no_missing_part_means_no_f_vv():
    d = md.verify(Told(ANSWERS), data(2, lambda i: sample(i, ("intact",) * 3)), cache=False).document
    assert d["with_localisation"]["f_vv"] is d["with_localisation"]["missing_recall"] is None
    assert d["best_threshold"]["with_localisation"]["score"] is None
    assert any("nothing can be hallucinated" in note for note in d["notes"])
    json.dumps(d, allow_nan=False)


def test_the_ledger_has_every_part_and_every_edit(run):
    rows = run.ledger().to_pylist()
    clean = [row for row in rows if row["condition"] == "clean"]
    outcomes = {(row["image"], row["label"]): (row["outcome"], row["harm"]) for row in clean}
    assert len(clean) == 12
    assert outcomes["p0", "bell"] == ("found", "harmless")
    assert outcomes["p0", "lock"] == ("extra", "harmful")
    assert outcomes["p0", "saddle"] == ("missed", "harmful")
    assert outcomes["p1", "lock"] == ("ignored", "harmless"), "what is detected elsewhere is not at its likely box"
    (ghost,) = (row for row in clean if row["outcome"] == "extra")
    assert (ghost["mechanism"], ghost["reason"], ghost["state"]) == ("none", "fragile", "absent")
    assert json.loads(ghost["evidence"])["covered"] == 0
    edits = {row["condition"]: row for row in rows if row["condition"] != "clean"}
    assert edits.keys() == {"covered", "moved", "flipped", "patched", "control"}
    assert edits["control"]["control"]
    assert {row["object"] for row in edits.values()} == {ghost["object"]}


def test_the_document_is_that_of_the_directory(run, tmp_path):
    kept = md.verify(Told(ANSWERS), data(), cache=False, out=tmp_path / "run")
    assert md.open(tmp_path / "run").document == kept.document
    assert {k: v for k, v in kept.document.items() if k != "detector"} == {
        k: v for k, v in run.document.items() if k != "detector"
    }


def test_figures_and_comparison(run, tmp_path):
    names = {path.name for path in run.figures(2)}
    assert names >= {"states.png", "prior.png", "ap.png", "missing-recall.png", "f_vv.png", "causes.png", "none.png"}
    one = md.verify(Told(ANSWERS), data(), cache=False, out=tmp_path / "one")
    nothing = [([], [], [])] * 4
    two = md.verify(Told(nothing), data(), cache=False, out=tmp_path / "two")
    compared = md.compare(one, two)
    (difference,) = compared.document["differences"]
    assert compared.document["paired"]
    found = difference["with_localisation"]["f_vv"]
    assert found["difference"] == pytest.approx(-one.document["with_localisation"]["f_vv"])
    assert {path.name for path in compared.figures(tmp_path / "c")} == {"ap.png", "missing-recall.png", "f_vv.png"}


def test_a_classifier_is_asked_without_localisation():
    """A class is said of the whole image; that is no place, so with localisation nothing is found."""

    def detect(images):
        return [Detections.of_whole_image([0.9, 0.7, 0.2], image.shape[1], image.shape[0]) for image in images]

    d = md.verify(md.load_detector(detect, names=list(NAMES)), data(), cache=False, missing_iou=0).document
    assert d["without_localisation"]["present_found"] == 4, "three bells and a lock"
    assert d["without_localisation"]["missing_found"] == 4
    assert d["with_localisation"]["present_found"] == 0
    assert d["hallucinations"] == 4
    assert d["causes"]["none"]["reasons"] == {"steady": 3, "untested": 1}, "nobody else misses its bell"


def test_a_run_that_was_stopped_ends_as_one_that_was_not(run, tmp_path):
    """A budget ends it in the middle of the edits; what is missing is asked in the next sitting."""
    stopped = md.verify(Told(ANSWERS), data(), cache=False, out=tmp_path / "run", queries=6)
    assert not stopped.document["finished"]
    assert stopped.document["parts"] < 12
    whole = md.verify(Told(ANSWERS), data(), cache=False, out=tmp_path / "run", queries=100)
    for key in ("with_localisation", "by_part", "causes", "edits", "cost", "f_vv_curve", "finished"):
        assert whole.document[key] == run.document[key]

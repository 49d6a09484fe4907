"""Every number of a confusion document, computed a second time in plain loops from the rows, or by the run of another
policy."""

from collections import Counter

import numpy as np
import pytest
from explain_toys import NAMES, Random, dataset

import misdetect as md
from misdetect.engine.store import Run
from misdetect.studies.confusion import CONFUSION

CLASSES = ("vase", *NAMES)
LABELS = (*CLASSES, "background")
CONFIDENCE, SEED, SCORE = 0.8, 7, 0.1
POLICIES = ("paper", "greedy", "optimal")


@pytest.fixture(scope="module")
def runs():
    """By policy, on data that has a class more than the detector."""
    data = dataset(60, seed=3, names=CLASSES)
    how = {"score": SCORE, "confidence": CONFIDENCE, "seed": SEED, "background": "hard"}
    return {policy: md.confusion(Random(data), data, policy=policy, **how) for policy in POLICIES}


@pytest.fixture(scope="module", params=POLICIES)
def made(request, runs):
    """The document, and the rows of objects and of detections in cells."""
    rows = runs[request.param].rows().to_pylist()
    there = [row for row in rows if row["kind"] == "object"]
    return runs[request.param].document, there, [row for row in rows if row["actual"] is not None], rows


def rate(rows, hit):
    """Hits / all with the interval, drawing images again, those without any row too."""
    if not rows:
        return {"value": None, "interval": None}
    images = 1 + max(row["case_index"] for row in rows)
    above, below = np.zeros(images), np.zeros(images)
    for row in rows:
        above[row["case_index"]] += hit(row)
        below[row["case_index"]] += 1
    return {"value": pytest.approx(above.sum() / below.sum()), "interval": pytest.approx(ends(above, below, images))}


def ends(above, below, images):
    draws = np.random.default_rng(SEED).multinomial(images, [1 / images] * images, size=1000)
    rates = [draw @ above / (draw @ below) for draw in draws if draw @ below]
    return np.quantile(rates, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]).tolist()


def test_recall_and_precision_are_counted_row_by_row(made):
    document, there, placed, _ = made
    said = [row for row in placed if row["predicted"] != "background"]
    assert document["detections"] == len(said)
    known = [row for row in there if row["label"] != "vase"]
    assert document["recall"] == rate(known, lambda row: row["outcome"] == "right")
    assert document["precision"] == rate(said, lambda row: row["actual"] == row["predicted"])
    assert document["outcomes"] == Counter(row["outcome"] for row in there)
    last = max(row["case_index"] for row in known)
    for name, told in document["by_class"].items():
        own = [row for row in there if row["label"] == name]
        reported = [row for row in said if row["predicted"] == name]
        assert told["known"] == (name != "vase")
        assert told["objects"] == len(own)
        assert told["detections"] == len(reported)
        for key in ("right", "confused", "background", "missed"):
            assert told[key] == sum(row["outcome"] == key for row in own)
        if name == "vase":
            assert (told["recall"], told["recall_interval"], told["precision"]) == (None, None, None)
            continue
        assert told["recall"] == pytest.approx(told["right"] / told["objects"])
        assert told["precision"] == pytest.approx(sum(row["actual"] == name for row in reported) / len(reported))
        above, below = np.zeros(last + 1), np.zeros(last + 1)
        for row in own:
            above[row["case_index"]] += row["outcome"] == "right"
            below[row["case_index"]] += 1
        assert told["recall_interval"] == pytest.approx(ends(above, below, last + 1))


def test_pairs_of_classes_are_counted_the_most_frequent_first(made):
    document, there, placed, _ = made
    wrong = [row for row in placed if row["actual"] != row["predicted"] and "background" not in
             (row["actual"], row["predicted"])]  # fmt: skip
    cells = Counter((row["actual"], row["predicted"]) for row in wrong)
    assert {(each["actual"], each["predicted"]): each["count"] for each in document["confusions"]} == cells
    counts = [each["count"] for each in document["confusions"]]
    assert counts == sorted(counts, reverse=True)
    assert len(set(counts)) > 3
    dependent = {(each["actual"], each["predicted"]) for each in document["policy_dependent"]}
    for each in document["confusions"]:
        pair = each["actual"], each["predicted"]
        behind = [row for row in wrong if (row["actual"], row["predicted"]) == pair]
        assert each["confidence"] == pytest.approx(sum(row["score"] for row in behind), abs=1e-4)
        assert each["objects"] == sum((row["label"], row["became"]) == pair for row in there)
        assert each["policy_dependent"] == (pair in dependent)


def test_another_policy_counts_what_its_own_run_counts(runs, made):
    document = made[0]
    tables = {policy: np.array(run.document["counts"]) for policy, run in runs.items()}
    places = {policy: Counter(_cells(run)) for policy, run in runs.items()}
    told = {(each["actual"], each["predicted"]): each["counts"] for each in document["policy_dependent"]}
    differ = {
        cell for policy in POLICIES for one, n in places[policy].items() for cell in [one[:2]]
        if any(places[other][one] != n for other in POLICIES)
    }  # fmt: skip
    assert set(told) == differ
    for (actual, predicted), counts in told.items():
        at = LABELS.index(actual), LABELS.index(predicted)
        assert counts == {policy: table[at] for policy, table in tables.items()}
    spread = [max(counts.values()) - min(counts.values()) for counts in told.values()]
    assert spread == sorted(spread, reverse=True)
    assert spread[0] > spread[-1]
    assert document["missed_by_policy"] == {
        policy: sum(run.document["missed"].values()) for policy, run in runs.items()
    }


def _cells(run):
    """Where each detection is counted."""
    rows = run.rows().to_pylist()
    return [(r["actual"], r["predicted"], r["image"], r["id"]) for r in rows if r["actual"] is not None]


def test_only_cells_that_hold_something_have_a_histogram(made):
    document, _, placed, _ = made
    check_histograms(document, placed)
    assert document["missed"] == {name: document["by_class"][name]["missed"] for name in CLASSES}


def test_steps_of_recall_are_shares_of_the_objects_of_known_classes(made):
    document, there, _, _ = made
    known = sum(row["label"] != "vase" for row in there)
    for step in document["recall_steps"]:
        assert step["recall"] == pytest.approx(step["objects"] / known)


def test_a_score_that_is_just_enough_is_enough(runs):
    scores = sorted(row["score"] for row in runs["paper"].rows().to_pylist() if row["kind"] == "detection")
    least = scores[len(scores) // 2]
    data = dataset(60, seed=3, names=CLASSES)
    told = md.confusion(Random(data), data, score=least).document["conservation"]
    assert told["detections"]["below_score"] == sum(score < least for score in scores)
    assert told["holds"]


def test_a_detector_that_reports_nothing_has_no_precision():
    class Silent:
        names = NAMES

        def detect(self, images):
            return [([], [], []) for _ in images]

    document = md.confusion(Silent(), dataset(4, seed=3, names=NAMES), cache=False).document
    assert document["precision"] == {"value": None, "interval": None}
    assert {each["precision"] for each in document["by_class"].values()} == {None}
    assert document["recall"]["value"] == 0
    assert document["outcomes"]["missed"] == document["objects"] > 0


def test_a_cell_with_one_detection_has_a_histogram():
    data = dataset(6, seed=1, names=CLASSES)
    run = md.confusion(Random(data), data, score=SCORE)
    placed = [row for row in run.rows().to_pylist() if row["actual"] is not None]
    assert 1 in check_histograms(run.document, placed).values()


def test_a_run_that_does_not_say_how_many_images_there_are_is_read(runs):
    directory = runs["paper"].directory
    unknown = Run(directory.path, {**directory.about, "cases": None})
    assert CONFUSION.document(unknown)["counts"] == runs["paper"].document["counts"]


def check_histograms(document, placed):
    told = {(a, b): counts for a, b, counts in document["iou_histograms"]["cells"]}
    cells = Counter((row["actual"], row["predicted"]) for row in placed)
    assert {cell: sum(counts) for cell, counts in told.items()} == cells
    assert document["iou_histograms"]["edges"] == pytest.approx([i / 10 for i in range(11)])
    return cells


def test_notes_and_sentences_say_what_was_counted(made):
    document, there, placed, rows = made
    sunk = sum(row["predicted"] == "background" for row in placed)
    crowds = sum((row["kind"], row["reason"]) == ("detection", "crowd") for row in rows)
    left = sum(row["kind"] == "left-out" for row in rows)
    assert [note.split()[0] for note in document["notes"]] == [str(sunk), "here", str(left), str(crowds)]
    assert "here the objects of vase, which" in document["notes"][1]
    says, counts, total = CONFUSION.sentences(document), document["outcomes"], len(there)
    share = {name: f"{counts[name]} ({100 * counts[name] / total:.1f} %)" for name in counts}
    assert says[0] == (
        f"Of {total} objects {share['right']} are right, {share['confused']} are taken for another class, "
        f"{share['background']} for background, {share['missed']} are missed."
    )
    low, high = document["recall"]["interval"]
    recall, precision = (100 * document[name]["value"] for name in ("recall", "precision"))
    assert says[1] == f"Recall {recall:.1f} % ({100 * low:.0f} to {100 * high:.0f}), precision {precision:.1f} %."
    worst = document["confusions"][0]
    assert says[2] == f"Most often {worst['actual']} is taken for {worst['predicted']}: {worst['count']} detections."
    assert says[3:] == document["notes"]
    numbers = CONFUSION.numbers(document)
    assert {name: each.value for name, each in numbers.items() if name.startswith("share.")} == {
        f"share.{name}": n / total for name, n in counts.items()
    }
    for name in ("recall", "precision"):
        assert (numbers[name].value, numbers[name].interval) == tuple(document[name].values())


def test_sentences_without_detections_or_objects():
    """One detection is one; where nothing is reported there is no precision; where nothing is annotated, nothing."""
    document = {
        "objects": 4, "outcomes": {"right": 0, "confused": 1, "background": 0, "missed": 3}, "notes": [],
        "recall": {"value": 0.0, "interval": [0.0, 0.25]}, "precision": {"value": None, "interval": None},
        "confusions": [{"actual": "cup", "predicted": "bowl", "count": 1}],
    }  # fmt: skip
    _, recall, worst = CONFUSION.sentences(document)
    assert recall == "Recall 0.0 % (0 to 25)."
    assert worst == "Most often cup is taken for bowl: 1 detection."
    unknown = document | {"recall": {"value": None, "interval": None}, "confusions": []}
    assert len(CONFUSION.sentences(unknown)) == 1
    nothing = document | {"objects": 0}
    assert CONFUSION.sentences(nothing) == ["Nothing is annotated here that could be confused."]
    assert CONFUSION.numbers(nothing)["share.right"].value is None

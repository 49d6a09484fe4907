"""What annotations say of detections and changes, worked out again one by one on data that is partly wrong."""

import numpy as np
import pytest
from fuzz_toys import BlotDetector, misannotated, naive_iou, nervous_campaign
from PIL import Image

import misdetect as md
from misdetect.data import load_data
from misdetect.metrics import metamorphic
from misdetect.nouns.detections import Detections, Truth
from misdetect.nouns.labels import Joined
from misdetect.studies.fuzz.truth import Judge

SIDES = ("x0", "y0", "x1", "y1")
EFFECTS = {
    ("missed", True, None): ("lost right", "harmful"),
    ("missed", False, None): ("lost wrong", "improvement"),
    ("extra", None, True): ("found missed", "improvement"),
    ("extra", None, False): ("new hallucination", "harmful"),
    ("renamed", True, True): ("renamed to right", "harmless"),
    ("renamed", False, True): ("renamed to right", "improvement"),
    ("renamed", True, False): ("renamed to wrong", "harmful"),
    ("renamed", False, False): ("renamed to wrong", "harmless"),
    ("moved", True, True): ("moved", "harmless"),
    ("moved", True, False): ("lost right", "harmful"),
    ("moved", False, True): ("found missed", "improvement"),
    ("moved", False, False): ("moved", "harmless"),
}


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    pool = md.pool("rooms:val,count=24", keep=1.0, border=0, min_side=10)
    run = nervous_campaign(tmp_path_factory.mktemp("truth") / "run", pool, relocate=False, shrink=False)
    data = misannotated(load_data("rooms:val,count=24"))
    rows = run.rows().to_pylist()
    return data, [r for r in rows if r["phase"] == "clean"], [r for r in rows if r["phase"] == "insertion"]


def annotations(data, row):
    truth = data[row["number"]].truth
    columns = zip(truth.ids.tolist(), truth.boxes.tolist(), truth.labels.tolist(), truth.crowd.tolist(), strict=True)
    return [{"id": i, "box": box, "label": data.names[label], "crowd": crowd} for i, box, label, crowd in columns]


def box_of(record):
    return [record[side] for side in SIDES]


def share(box, of):
    """How much of ``box`` lies inside ``of``."""
    width, height = min(box[2], of[2]) - max(box[0], of[0]), min(box[3], of[3]) - max(box[1], of[1])
    return max(width, 0) * max(height, 0) / ((box[2] - box[0]) * (box[3] - box[1]))


def standing(box, label, truths, taken):
    """The annotation that a detection finds and whether it is right, given the objects that are taken."""
    same = [truth for truth in truths if truth["label"] == label]
    free = [t for t in same if not t["crowd"] and t["id"] not in taken and naive_iou(box, t["box"]) >= 0.5]
    if free:
        return max(free, key=lambda truth: naive_iou(box, truth["box"]))["id"], True
    excused = any(truth["crowd"] and share(box, truth["box"]) >= 0.5 for truth in same)
    return None, None if excused else False


def test_clean_detections_are_matched_with_the_annotations(campaign):
    data, clean, _ = campaign
    seen = set()
    for row in clean:
        truths, taken = annotations(data, row), set()
        for found in sorted(row["detections"], key=lambda found: -found["score"]):
            number, right = standing(box_of(found), found["label"], truths, taken)
            assert (found["object"], found["right"]) == (number, right)
            taken |= {number}
            seen.add(right)
    assert seen == {True, False, None}


def originals(row):
    return [found for found in row["detections"] if found["score"] >= 0.5]


def now(change, row, before):
    """What is in the place of a change now, or ``None``."""
    if change["type"] == "missed":
        return None
    if change["type"] == "extra":
        return change
    wanted = change["became"] or change["label"]
    kept = [(found["label"], box_of(found)) for found in before]
    others = [f for f in row["found"] if f["score"] >= 0.5 and f["label"] == wanted and (wanted, box_of(f)) not in kept]
    return max(others, key=lambda found: naive_iou(box_of(found), box_of(change)))


def test_each_change_has_the_effect_that_the_annotations_give_it(campaign):
    data, clean, insertions = campaign
    backgrounds = {row["image"]: row for row in clean}
    seen = []
    for row in insertions:
        background = backgrounds[row["image"]]
        before, truths = originals(background), annotations(data, background)
        pasted = [row["x"], row["y"], row["x"] + row["width"], row["y"] + row["height"]]
        for change in row["changes"]:
            original = None if change["type"] == "extra" else before[change["thing"]]
            held = {found["object"] for found in before if found is not original and found["object"] is not None}
            there = now(change, row, before)
            number, right = (None, None)
            if there is not None:
                number, right = standing(box_of(there), there["label"], truths, held)
                if original is None and share(box_of(there), pasted) >= 0.5:
                    number, right = None, None  # on the inserted object itself
            was = None if original is None else original["right"]
            judged = was is not None if there is None else right is not None
            judged = judged and (original is None or was is not None)
            wanted = EFFECTS[change["type"], was, right] if judged else (None, "unknown")
            if change["type"] == "renamed" and not judged and (was or right):  # the data lacks the other name
                wanted = ("lost right", "harmful") if was else ("found missed", "improvement")
            assert (change["effect"], change["harm"]) == wanted
            before_it = None if original is None else original["object"]
            assert change["object"] == (before_it if before_it is not None else number)
            seen.append((change["type"], *wanted))
    assert len(set(seen)) >= 11, "every change of the table, but for what a box that moves cannot do here"


def detected(*things):
    """Detections of ``(label, box)``; each is less sure than the one before."""
    return Detections([box for _, box in things], 0.95 - 0.01 * np.arange(len(things)), [label for label, _ in things])


CUP, BOWL, GHOST = 0, 1, 2
ORIGINALS = ((CUP, [0, 0, 20, 20]), (BOWL, [30, 30, 50, 50]), (CUP, [80, 80, 99, 99]), (BOWL, [60, 0, 80, 20]))
PASTED = [25, 25, 60, 60]


@pytest.mark.parametrize(
    ("lost", "new", "change"),
    [
        (0, (), ("missed", 10, "lost right", "harmful")),
        (1, (), ("missed", 11, "lost right", "harmless")),  # the inserted object hides it
        (2, (), ("missed", None, "lost wrong", "improvement")),
        (3, (), ("missed", 13, "lost right", "harmful")),
        (None, [(CUP, [0, 50, 20, 70])], ("extra", 12, "found missed", "improvement")),
        (None, [(BOWL, [80, 30, 99, 50])], ("extra", None, "new hallucination", "harmful")),
        (None, [(GHOST, [80, 30, 99, 50])], ("extra", None, None, "unknown")),  # the data knows no ghosts
        (None, [(CUP, [30, 30, 50, 50])], ("extra", None, None, "unknown")),  # on the inserted object
        (0, [(BOWL, [0, 0, 20, 20])], ("renamed", 10, "renamed to wrong", "harmful")),
        (2, [(BOWL, [80, 80, 99, 99])], ("renamed", None, "renamed to wrong", "harmless")),
    ],
)
def test_one_change_on_an_image_with_four_objects(lost, new, change):
    """A cup, a bowl and another are found; a cup is missed, and one is seen where there is nothing."""
    boxes = [[0, 0, 20, 20], [30, 30, 50, 50], [0, 50, 20, 70], [60, 0, 80, 20]]
    truth = Truth(boxes, [CUP, BOWL, CUP, BOWL], ids=np.arange(10, 14))
    judge = Judge(truth, Joined.loosely(("cup", "bowl", "ghost"), ("cup", "bowl")), 0.5)
    before = detected(*ORIGINALS)
    known = list(judge.detections(before))
    assert [each["object"] for each in known] == [10, 11, None, 13]
    assert [each["right"] for each in known] == [True, True, False, True]
    after = detected(*(each for i, each in enumerate(ORIGINALS) if i != lost), *new)
    verdict = metamorphic.judge(before, after, PASTED, metamorphic.Oracle(strict=True))
    given = [each["object"] for each in known], [each["right"] for each in known]
    (found,) = judge.changes(verdict, *given, PASTED)
    assert (verdict.changes[0].type, found["object"], found["effect"], found["harm"]) == change


@pytest.mark.heavy
def test_without_truth_nothing_is_judged(tmp_path):
    """Photos without annotations: all can be tested, nothing can be called harmful."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for sample in load_data("rooms:val,count=6"):
        Image.fromarray(np.ascontiguousarray(sample.image)).save(folder / f"{sample.id}.png")
    run = md.fuzz(
        BlotDetector(), f"folder:{folder}", pool="rooms:train,count=12", strategy="guided", queries=120, reach=1,
        backgrounds=6, cache=False, out=tmp_path / "run",
    )  # fmt: skip
    rows = run.rows().to_pylist()
    assert run.document["attributable"] > 0
    assert {c["harm"] for row in rows for c in row["changes"] or ()} == {"unknown"}
    assert {(d["object"], d["right"]) for row in rows for d in row["detections"] or ()} == {(None, None)}
    assert run.document["harm"]["unknown"] == run.document["attributable"]

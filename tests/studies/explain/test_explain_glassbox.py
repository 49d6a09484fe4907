"""Planted faults are found again: the mechanism, the reason and the TIDE type that explain names are those planted."""

from collections import Counter

import pytest

import misdetect as md
from misdetect.compose.paste import Paste
from misdetect.data import load_data
from misdetect.data.cutouts import cutouts
from misdetect.detectors.glassbox.detector import GlassBox
from misdetect.detectors.glassbox.faults import (
    Cap,
    Misrank,
    MoveNear,
    NoProposal,
    OtherClass,
    RenameNear,
    Shift,
    Sink,
    TopK,
    VanishNear,
)
from misdetect.metrics.mechanisms import MECHANISMS, attribute, missed

FAULTS = (NoProposal(), Shift(), OtherClass(), Sink(), Misrank(), TopK(k=3), Cap(cap=3))
MIXED = (NoProposal(rate=0.2), Shift(rate=0.25), OtherClass(rate=0.3), Sink(rate=0.4), Misrank(rate=0.6))


@pytest.fixture(scope="module")
def rooms():
    return load_data("rooms:val").limit(40)


def explained(data, faults, folder):
    box = GlassBox(data, faults)
    run = md.explain(box, data, out=folder / "run", cache=False)
    rows = {(r["image"], r["id"]): r for r in run.rows().to_pylist() if r["kind"] == "object"}
    return box, rows, run.document


@pytest.mark.sampled(1)
@pytest.mark.parametrize("faults", [*((fault,) for fault in FAULTS), MIXED], ids=[*(f.name for f in FAULTS), "mixed"])
def test_each_planted_fault_is_named(rooms, faults, tmp_path):
    box, rows, document = explained(rooms, faults, tmp_path)
    confusion, reasons, types = Counter(), Counter(), Counter()
    hit = set()
    for planted in box.planted_table():
        row = rows[planted["sample"], planted["object"]]
        if planted["mechanism"] is None:
            continue
        hit.add((planted["sample"], planted["object"]))
        confusion[planted["mechanism"], row["mechanism"]] += 1
        if planted["reason"] is not None:
            reasons[planted["reason"].replace("_", "-") == row["reason"]] += 1
        if planted["tide"] is not None:
            types[planted["tide"] == row["tide"]] += 1
    named = sum(n for (a, b), n in confusion.items() if a == b)
    assert sum(confusion.values()) > 20, "too few objects were hit to say anything"
    assert named >= 0.99 * sum(confusion.values()), confusion
    assert reasons[True] >= 0.99 * sum(reasons.values())
    assert types[True] >= 0.99 * sum(types.values())
    assert {key for key, row in rows.items() if not row["found"]} == hit, "nothing is missed but what was hit"
    assert document["missed"] == len(hit)


def test_a_perfect_detector_misses_nothing(rooms, tmp_path):
    _, rows, document = explained(rooms, (), tmp_path)
    assert document["missed"] == 0
    assert all(row["found"] for row in rows.values())
    assert document["potential"]["none"]["recall"] == 1
    assert sum(document["mechanisms"].values()) == sum(document["tide"].values()) == 0


@pytest.mark.heavy
def test_a_planted_slice_comes_first(rooms, tmp_path):
    common = Counter(r["label"] for r in explained(rooms, (), tmp_path)[1].values()).most_common(1)[0][0]
    _, _, document = explained(rooms, (Sink(classes=(common,)), OtherClass(rate=0.1)), tmp_path / "again")
    first = document["slices"][0]
    assert (first["attribute"], first["value"]) == ("class", common)
    assert first["mechanism"] in ("background", "missed")
    assert first["certain"]
    assert first["rate"] > 0.9


@pytest.mark.heavy
@pytest.mark.parametrize("fault", [VanishNear(distance=40), MoveNear(distance=40), RenameNear(distance=40)])
def test_faults_that_wait_for_a_pasted_neighbour_are_named_too(rooms, fault):
    box = GlassBox(rooms, [fault])
    thing = next(cutouts(rooms, min_area=100))
    told = Counter()
    for sample in rooms:
        for x in range(0, sample.width - thing.size[0], 20):
            picture = Paste(sample, thing, (x, sample.height // 2))
            inside = box.trace_pictures([picture])[0]
            ids = sample.truth.ids.tolist()
            for planted in box.truth_of_fault(picture):
                if planted.object in ids and planted.mechanism is not None:
                    at = ids.index(planted.object)
                    truth, label = sample.truth.boxes[[at]], sample.truth.labels[[at]]
                    assert missed(inside.select(), truth, label).all()
                    told[planted.mechanism == MECHANISMS[attribute(inside, truth, label)[0]]] += 1
    assert told.total() > 100
    assert told[True] >= 0.99 * told.total()

"""A detector that is perfect but for a planted non-local fault: the scan finds radius and rate, and nothing else."""

import numpy as np
import pytest
from scan_toys import scan_of
from scan_toys import scanned as run_of

from misdetect.data import load_data
from misdetect.detectors.glassbox.detector import GlassBox
from misdetect.detectors.glassbox.faults import RenameNear, VanishNear
from misdetect.studies.documents import document_of
from misdetect.studies.scan.pairs import candidates, choose_pairs
from misdetect.studies.scan.settings import TAUS

RADIUS, STEP = 18, 12


@pytest.fixture(scope="module")
def rooms():
    return load_data("rooms:val").limit(12)


def scanned(rooms, faults, folder, trace=False):
    box = GlassBox(rooms, faults)
    pairs = choose_pairs(rooms, 3, candidates(rooms, 4), seed=4)
    study = scan_of(rooms, pairs, box.names, step=STEP, trace=trace)
    return box, study, run_of(study, box, folder / "run").run


def originals(run):
    return [thing for row in run.table().to_pylist() for thing in row["objects"]]


def test_without_a_fault_nothing_is_affected_without_occlusion(rooms, tmp_path):
    _, _, run = scanned(rooms, [], tmp_path)
    table = document_of(run)
    for tau in TAUS:
        assert table["no_occlusion"][f"{tau:g}"] == 0
        assert table["control"]["no_occlusion"][f"{tau:g}"] == 0
    assert set(table["distance"]["farthest"].values()) <= {0.0, None}
    assert table["harm"]["object"] == table["harm"]["control"] == 0, "it loses only what is hidden"
    assert {row["right"] for row in originals(run)} == {True}


@pytest.mark.heavy
def test_a_planted_radius_and_rate_are_recovered(rooms, tmp_path):
    box, study, run = scanned(rooms, [VanishNear(distance=RADIUS)], tmp_path, trace=True)
    table = document_of(run)
    farthest = table["distance"]["farthest"]
    assert RADIUS - STEP < farthest["object"] <= RADIUS
    assert not farthest["control"], "the control disturbs nobody"
    lost = expected = within = 0
    for row in run.query("SELECT pair, x, y, objects FROM rows WHERE condition = 'object'").to_pylist():
        planted = box.truth_of_fault(study.open_pair(row["pair"]).picture("object", row["x"], row["y"], 0))
        expected += len(planted)
        lost += sum(thing["outcome"] != "kept" and thing["coverage"] == 0 for thing in row["objects"])
        within += sum(0 < thing["distance"] <= RADIUS for thing in row["objects"])
        beyond = [thing for thing in row["objects"] if thing["distance"] > RADIUS]
        assert all(thing["outcome"] == "kept" for thing in beyond)
    assert 0 < lost <= expected
    assert lost >= 0.9 * within, (
        "nearly everything within the radius is hit; the glass box spares what would be ambiguous"
    )
    assert table["no_occlusion"]["0.95"] > 20
    assert all(rate == 0 for rate in table["control"]["no_occlusion"].values())
    assert table["suppression"]["uncovered"].keys() == {"score"}, "sunk scores are not blamed on suppression"
    assert table["mechanisms"]["uncovered"].keys() == {"background"}
    vanished = [thing for thing in originals(run) if thing["outcome"] == "lost" and thing["coverage"] == 0]
    assert {(thing["effect"], thing["harm"]) for thing in vanished} == {("lost right", "harmful")}
    assert table["harm"]["intervals"]["difference"][0] > 0, "the object harms, its control does not"
    assert not run.query(
        "SELECT * FROM rows WHERE len([1 FOR n IN new IF n.effect = 'new hallucination']) > 0"
    ).num_rows


@pytest.mark.heavy
def test_a_planted_renaming_is_called_one(rooms, tmp_path):
    _, _, run = scanned(rooms, [RenameNear(distance=RADIUS, to="cat")], tmp_path)
    table = document_of(run)
    assert table["outcomes"]["object"]["renamed"] > 10
    assert table["outcomes"]["control"]["renamed"] == 0
    named = run.query(
        "SELECT DISTINCT o.new_label AS label FROM (SELECT unnest(objects) AS o FROM rows) "
        "WHERE o.outcome = 'renamed' AND o.label <> 'cat'"
    )["label"].to_pylist()
    assert named == ["cat"]
    renamed = [thing for thing in originals(run) if thing["outcome"] == "renamed"]
    assert {(thing["effect"], thing["harm"]) for thing in renamed} == {("renamed to wrong", "harmful")}
    assert table["effects"]["object"]["renamed to wrong"] > 0 == table["effects"]["control"]["renamed to wrong"]
    assert table["effects"]["object"]["new hallucination"] == 0, "a new name is no new thing"
    assert np.mean(list(table["affected"].values())) > np.mean(list(table["class_agnostic"].values()))

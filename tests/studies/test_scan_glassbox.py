"""A detector that is perfect but for a planted non-local fault: the scan finds radius and rate, and nothing else."""

import numpy as np
import pytest

from misdetect.data import load_data
from misdetect.detectors.glassbox.detector import GlassBox
from misdetect.detectors.glassbox.faults import RenameNear, VanishNear
from misdetect.engine import run_study
from misdetect.studies.scan import Scanning, ScanStudy, choose_pairs
from misdetect.studies.scan.effects import mechanisms, outcomes, over_distance, suppression
from misdetect.studies.scan.pairs import candidates
from misdetect.studies.scan.results import TAUS, View, table_one

RADIUS, STEP = 18, 12


@pytest.fixture(scope="module")
def rooms():
    return load_data("rooms:val").limit(12)


def scanned(rooms, faults, folder, trace=False):
    box = GlassBox(rooms, faults)
    pairs = choose_pairs(rooms, 3, candidates(rooms, 4), seed=4)
    study = ScanStudy(rooms, pairs, box.names, Scanning(step=STEP, trace=trace))
    return box, study, run_study(study, box, folder / "run", {}, cached=False).run


def test_without_a_fault_nothing_is_affected_without_occlusion(rooms, tmp_path):
    _, _, run = scanned(rooms, [], tmp_path)
    table = table_one(run, View())
    for tau in TAUS:
        assert table["no_occlusion"][f"{tau:g}"] == 0
        assert table["null_control"]["no_occlusion"][f"{tau:g}"] == 0
    assert over_distance(run)["farthest"] == {"object": 0.0, "null": 0.0} or all(
        d in (0.0, None) for d in over_distance(run)["farthest"].values()
    )


def test_a_planted_radius_and_rate_are_recovered(rooms, tmp_path):
    box, study, run = scanned(rooms, [VanishNear(distance=RADIUS)], tmp_path, trace=True)
    farthest = over_distance(run)["farthest"]
    assert RADIUS - STEP < farthest["object"] <= RADIUS
    assert not farthest["null"], "the null control disturbs nobody"
    lost = expected = within = 0
    for row in run.query("SELECT pair, x, y, objects FROM rows WHERE condition = 'object'").to_pylist():
        planted = box.truth_of_fault(study.scene(row["pair"]).picture("object", row["x"], row["y"], 0))
        expected += len(planted)
        lost += sum(thing["outcome"] != "kept" and thing["coverage"] == 0 for thing in row["objects"])
        within += sum(0 < thing["distance"] <= RADIUS for thing in row["objects"])
        beyond = [thing for thing in row["objects"] if thing["distance"] > RADIUS]
        assert all(thing["outcome"] == "kept" for thing in beyond)
    assert 0 < lost <= expected
    assert lost >= 0.9 * within, (
        "nearly everything within the radius is hit; the glass box spares what would be ambiguous"
    )
    table = table_one(run, View())
    assert table["no_occlusion"]["0.95"] > 20
    assert all(rate == 0 for rate in table["null_control"]["no_occlusion"].values())
    assert suppression(run)["uncovered"].keys() == {"score"}, "sunk scores are not blamed on suppression"
    assert mechanisms(run)["uncovered"].keys() == {"background"}


def test_a_planted_renaming_is_called_one(rooms, tmp_path):
    _, _, run = scanned(rooms, [RenameNear(distance=RADIUS, to="cat")], tmp_path)
    found = outcomes(run)
    assert found["object"]["renamed"] > 10
    assert found["null"]["renamed"] == 0
    cat = list(rooms.names).index("cat")
    named = run.query(
        "SELECT DISTINCT o.new_label AS label FROM (SELECT unnest(objects) AS o FROM rows) "
        "WHERE o.outcome = 'renamed' AND o.label <> ?",
        [cat],
    )["label"].to_pylist()
    assert named == [cat]
    table = table_one(run, View())
    assert np.mean(list(table["affected"].values())) > np.mean(list(table["class_agnostic"].values()))

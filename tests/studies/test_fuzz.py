"""Campaigns: the planted fault is found, nothing else is; rows do not depend on how the run was divided."""

import numpy as np
import pytest
from fuzz_toys import BlotDetector, Restless, make_blots, naive_fails

from misdetect.boxes import gaps
from misdetect.budget import Budget
from misdetect.data import load_data
from misdetect.detectors.glassbox.detector import GlassBox
from misdetect.detectors.glassbox.faults import RenameNear, VanishNear
from misdetect.engine import run_study
from misdetect.errors import BadData, BadSpec
from misdetect.metrics.metamorphic import Oracle
from misdetect.pool.pool import Refinement, build_pool
from misdetect.studies.fuzz.replay import failing_images
from misdetect.studies.fuzz.results import Campaign, summarise
from misdetect.studies.fuzz.rows import BOX, CLEAN, INSERTION, RELOCATION, SHRINKING, Insertion
from misdetect.studies.fuzz.settings import STRATEGIES, Fuzzing
from misdetect.studies.fuzz.study import FuzzStudy

SPEC = "rooms:val,count=24"


@pytest.fixture(scope="module")
def rooms():
    return load_data(SPEC)


@pytest.fixture(scope="module")
def pool(rooms):
    return build_pool(rooms, refinement=Refinement(keep=1.0, border=0, min_side=10))


def campaign(rooms, pool, detector, folder, **settings):
    fuzzing = Fuzzing(**{"queries": 150, "relocate": False, "shrink": False, "seed": 1, **settings})
    study = FuzzStudy(rooms, pool, detector.names, fuzzing)
    outcome = run_study(study, detector, folder, {"settings": study.settings()}, cached=False)
    return study, outcome, Campaign.of(outcome.run, fuzzing)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_detector_without_a_fault_never_fails(rooms, pool, tmp_path, strategy):
    study, _, found = campaign(rooms, pool, GlassBox(rooms, []), tmp_path / "run", strategy=strategy, reach=3)
    summary = summarise(found, study.names, None)
    assert summary["insertions"] > 40
    assert summary["raw_failures"] == summary["failures"] == summary["attributable"] == 0


@pytest.mark.parametrize("strategy", ["guided", "adaptive"])
def test_a_planted_proximity_fault_is_found_and_named(rooms, pool, tmp_path, strategy):
    box = GlassBox(rooms, [VanishNear(distance=12)])
    study, _, found = campaign(rooms, pool, box, tmp_path / "run", strategy=strategy, reach=3)
    summary = summarise(found, study.names, None)
    assert summary["attributable"] >= 10
    assert summary["null_failures"] == 0, "the background's own texture is no object and disturbs nobody"
    assert summary["attributable_by_type"]["missed"] == summary["attributable"] == summary["unique_failures"]
    for row in found.failing:
        for change in row["changes"]:
            inserted = np.array([Insertion.of_row(row).box], dtype=float)
            assert gaps(np.array([[change[name] for name in BOX]]), inserted)[0, 0] <= 12


def test_a_planted_renaming_is_typed_as_one(rooms, pool, tmp_path):
    box = GlassBox(rooms, [RenameNear(distance=12, to="cat")])
    study, _, found = campaign(rooms, pool, box, tmp_path / "run", strategy="guided", reach=3)
    by_type = summarise(found, study.names, None)["attributable_by_type"]
    assert by_type["renamed"] >= 5
    assert by_type["missed"] == by_type["moved"] == 0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_naive_oracle_agrees_on_every_case(rooms, pool, tmp_path, strategy):
    detector = BlotDetector()
    study, _, found = campaign(rooms, pool, detector, tmp_path / "run", strategy=strategy, reach=2, queries=200)
    failing = 0
    for row in found.asked:
        insertion = Insertion.of_row(row)
        sample = rooms[insertion.image]
        before, after = detector.detect([sample.image, study.picture(insertion).render()])
        fails = naive_fails(before, after, insertion.box)
        failing += fails
        assert row["failed"] == fails
        if row["null_failed"] is not None:
            null = detector.detect([study.control(insertion).render()])[0]
            assert naive_fails(before, null, insertion.box) or not row["null_failed"]
    assert 5 < failing < len(found.asked)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("reach", [0, 3])
def test_insertions_lie_inside_over_nothing_and_never_come_from_the_image_itself(
    rooms, pool, tmp_path, strategy, reach
):
    _, _, found = campaign(rooms, pool, GlassBox(rooms, []), tmp_path / "run", strategy=strategy, reach=reach)
    detections = {row["image"]: row["detections"] for row in found.clean}
    assert found.asked
    for row in found.asked:
        insertion = Insertion.of_row(row)
        x0, y0, x1, y1 = insertion.box
        sample = rooms[insertion.image]
        assert 0 <= x0 < x1 <= sample.width
        assert 0 <= y0 < y1 <= sample.height
        assert row["source"] != sample.id
        assert row["level"] <= reach
        for thing in detections[insertion.image]:
            if thing["score"] >= 0.5:
                apart = thing["x1"] <= x0 or thing["x0"] >= x1 or thing["y1"] <= y0 or thing["y0"] >= y1
                assert apart


def everything(outcome):
    return outcome.run.table().to_pylist()


@pytest.mark.parametrize("strategy", ["guided", "adaptive"])
def test_rows_do_not_depend_on_interruptions_or_workers(rooms, pool, tmp_path, strategy):
    fuzzing = Fuzzing(strategy, queries=120, reach=2, seed=3)

    def run(name, **options):
        study = FuzzStudy(SPEC, pool, BlotDetector.names, fuzzing)
        return run_study(study, BlotDetector(), tmp_path / name, {}, cached=False, **options)

    whole = run("whole", batch_size=1)
    assert {row["phase"] for row in everything(whole)} == {CLEAN, INSERTION, RELOCATION, SHRINKING}
    stops = [run("parts", budget=Budget(queries=most)).stopped for most in (7, 20, 1, 23)]
    assert stops == ["budget"] * 4
    assert everything(run("parts")) == everything(whole)
    assert everything(run("two", make_detector=make_blots, workers=2)) == everything(whole)


@pytest.mark.parametrize("queries", [3, 10, 57, 200])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_campaign_never_asks_more_than_its_budget(rooms, pool, tmp_path, queries, strategy):
    study = FuzzStudy(rooms, pool, BlotDetector.names, Fuzzing(strategy, queries, reach=1))
    outcome = run_study(study, BlotDetector(), tmp_path / "run", {}, cached=False, budget=Budget(queries=queries))
    assert outcome.stopped is None, "what it plans, it can pay for"
    assert outcome.stats["queries"] <= queries
    assert Campaign.of(outcome.run, study.fuzzing).queries <= queries


def test_a_larger_budget_goes_on_where_the_smaller_one_ended(rooms, pool, tmp_path):
    fuzzing = Fuzzing("adaptive", queries=60, reach=2)
    for more in ((), (120,)):
        study = FuzzStudy(rooms, pool, BlotDetector.names, fuzzing, more=more)
        outcome = run_study(study, BlotDetector(), tmp_path / "run", {}, cached=False)
        if not more:
            first = everything(outcome)
    rows = everything(outcome)
    assert rows[: len(first)] == first
    assert 60 < sum(row["queries"] for row in rows) <= 120


def test_the_noise_of_a_restless_detector_is_counted_and_failures_must_repeat(rooms, pool, tmp_path):
    study, _, found = campaign(rooms, pool, Restless(), tmp_path / "run", strategy="guided")
    noise = summarise(found, study.names, None)["noise"]
    assert noise["asked_twice"] == 5
    assert noise["differing"] == 5
    assert noise["failing"] > 0
    asked = [row["queries"] for row in found.asked if row["null_failed"] is not None]
    assert asked
    assert set(asked) == {3}


def test_flicker_counts_only_when_asked(rooms, pool, tmp_path):
    numbers = []
    for count in (False, True):
        study, _, found = campaign(
            rooms, pool, BlotDetector(), tmp_path / str(count), strategy="guided", count_flicker=count
        )
        numbers.append(summarise(found, study.names, None))
    apart, counted = numbers
    assert apart["flicker"] > 0
    assert apart["failures"] + apart["flicker"] == apart["raw_failures"]
    assert counted["failures"] == counted["raw_failures"]


def test_the_strict_oracle_sees_at_least_what_map_sees(rooms, pool, tmp_path):
    failing = []
    for strict in (False, True):
        _, _, found = campaign(
            rooms, pool, BlotDetector(), tmp_path / str(strict), strategy="random", oracle=Oracle(strict=strict),
            queries=None, per_object=1,
        )  # fmt: skip
        failing.append({row["case"] for row in found.asked if row["failed"]})
    assert failing[0] < failing[1]


def test_unnatural_insertions_are_not_asked_about(rooms, pool, tmp_path):
    _, outcome, found = campaign(rooms, pool, BlotDetector(), tmp_path / "run", strategy="guided", min_naturalness=0.97)
    assert found.unnatural > 0
    assert all(row["naturalness"] >= 0.97 for row in found.asked)
    assert outcome.stats["queries"] == found.queries


def test_failing_images_keep_the_labels_of_their_background(rooms, pool, tmp_path):
    box = GlassBox(rooms, [VanishNear(distance=12)])
    study, _, found = campaign(rooms, pool, box, tmp_path / "run", strategy="guided", reach=3)
    plain = failing_images(study, found, attributable=True, label_inserted=False)
    labelled = failing_images(study, found, attributable=True, label_inserted=True)
    row = found.failing[0]
    insertion = Insertion.of_row(row)
    assert plain[0].truth is rooms[insertion.image].truth or len(plain[0].truth) == len(rooms[insertion.image].truth)
    assert len(labelled[0].truth) == len(plain[0].truth) + 1
    assert tuple(labelled[0].truth.boxes[-1]) == insertion.box
    assert (plain[0].image == study.picture(insertion).render()).all()


def test_impossible_campaigns_are_refused(rooms, pool):
    with pytest.raises(BadSpec, match="adaptive"):
        Fuzzing("adaptive")
    with pytest.raises(BadSpec, match="at least 3"):
        Fuzzing("guided", queries=2)
    with pytest.raises(BadData, match="no label in common"):
        FuzzStudy(rooms, pool, ["zebra"], Fuzzing("guided"))


def test_backgrounds_without_detections_are_said_to_be_so(rooms, pool, tmp_path):
    class Blind(BlotDetector):
        fingerprint = "blind"

        def detect(self, images):
            return [d[:0] for d in super().detect(images)]

    with pytest.raises(BadData, match="no detections"):
        campaign(rooms, pool, Blind(), tmp_path / "run", strategy="guided")

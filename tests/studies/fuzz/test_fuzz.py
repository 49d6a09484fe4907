"""Campaigns: the planted fault is found, nothing else is; rows do not depend on how the run was divided."""

from itertools import islice

import numpy as np
import pytest
from fuzz_toys import SPEC, BlotDetector, Restless, Twofold, cut_out, make_blots, naive_fails, without_searches
from toys import taken

import misdetect as md
from misdetect.data import load_data
from misdetect.data.opened import Opened
from misdetect.detectors.glassbox.detector import GlassBox
from misdetect.detectors.glassbox.faults import RenameNear, VanishNear
from misdetect.engine import run_study
from misdetect.engine.backend import Asking
from misdetect.kept.budget import Budget
from misdetect.nouns.boxes import boxes_of, gaps
from misdetect.nouns.picture import digest
from misdetect.pools.pool import load_pool
from misdetect.said.errors import BadData, BadSpec
from misdetect.studies.documents import document_of
from misdetect.studies.fuzz.campaign import rebuild
from misdetect.studies.fuzz.images import images
from misdetect.studies.fuzz.results import Campaign
from misdetect.studies.fuzz.rows import CLEAN, INSERTION, RELOCATION, SHRINKING, Insertion
from misdetect.studies.fuzz.settings import STRATEGIES, FuzzSettings
from misdetect.studies.fuzz.study import FuzzStudy


@pytest.fixture(scope="module")
def rooms():
    return load_data(SPEC)


@pytest.fixture(scope="module")
def pool(rooms, tmp_path_factory):
    return cut_out(rooms, tmp_path_factory.mktemp("pool"))


def fuzz(rooms, pool, detector, folder, **settings):
    """A campaign without searches, and its rows."""
    run = md.fuzz(detector, rooms, pool=pool, out=folder, **without_searches(settings))
    return run, Campaign.of(run.directory)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_detector_without_a_fault_never_fails(rooms, pool, tmp_path, strategy):
    run, _ = fuzz(rooms, pool, GlassBox(rooms, []), tmp_path / "run", strategy=strategy, reach=3)
    found = run.document
    assert found["insertions"] > 40
    assert found["raw_failures"] == found["failing_insertions"] == found["attributable"] == 0
    assert found["distinct"] == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("strategy", ["guided", "adaptive"])
def test_a_planted_proximity_fault_is_found_and_named(rooms, pool, tmp_path, strategy):
    """Its victims are annotated and were found: each is an object that is lost, and named by its annotation."""
    box = GlassBox(rooms, [VanishNear(distance=12)])
    run, campaign = fuzz(rooms, pool, box, tmp_path / "run", strategy=strategy, reach=3)
    found = run.document
    assert found["attributable"] >= 10
    assert found["control_failures"] == 0, "the background's own texture is no object and disturbs nobody"
    assert found["attributable_by_type"]["missed"] == found["attributable"] == found["unique_failures"]
    assert found["harm"]["harmful"] == found["effects"]["lost right"] == found["attributable"]
    for row in campaign.failing:
        truth = rooms[row["number"]].truth
        for change in row["changes"]:
            inserted = np.array([Insertion.of_row(row).box], dtype=float)
            assert gaps(boxes_of([change]), inserted)[0, 0] <= 12
            (own,) = np.flatnonzero(np.asarray(truth.ids) == change["object"])
            assert rooms.names[truth.labels[own]] == change["label"]


@pytest.mark.heavy
def test_a_planted_renaming_is_typed_as_one_and_does_harm(rooms, pool, tmp_path):
    box = GlassBox(rooms, [RenameNear(distance=12, to="cat")])
    run, _ = fuzz(rooms, pool, box, tmp_path / "run", strategy="guided", reach=3)
    by_type = run.document["attributable_by_type"]
    assert by_type["renamed"] >= 5
    assert by_type["missed"] == by_type["moved"] == 0
    assert run.document["effects"]["renamed to wrong"] == by_type["renamed"] == run.document["harm"]["harmful"]
    renamed = [entry for entry in run.document["distinct"] if entry["label"] != "cat"]
    assert {entry["became"] for entry in renamed} == {"cat"}


def places(found):
    return {(*box, label) for box, label in zip(found.boxes.tolist(), found.labels.tolist(), strict=True)}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_naive_oracle_agrees_on_every_case(rooms, pool, tmp_path, strategy):
    detector = BlotDetector()
    run, campaign = fuzz(rooms, pool, detector, tmp_path / "run", strategy=strategy, reach=2, queries=200)
    bench = rebuild(run.directory, rooms).bench
    failing = 0
    for row in campaign.asked:
        insertion = Insertion.of_row(row)
        sample = rooms[insertion.image]
        before, after = map(taken, detector.detect([sample.image, bench.picture(insertion).render()]))
        fails = naive_fails(before, after, insertion.box)
        failing += fails
        assert row["failed"] == fails
        lost = [change for change in row["changes"] if change["type"] != "extra"]  # which every oracle minds
        asked = [change["patches"] for change in lost if change["patches"]]
        for turn, patch in enumerate(islice(bench.controls(insertion), max(map(len, asked), default=0))):
            null = taken(detector.detect([patch.render()])[0])
            assert naive_fails(before, null, insertion.box) or not any(seen[turn] for seen in asked)
    assert 5 < failing < len(campaign.asked)


@pytest.mark.heavy
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("reach", [0, 3])
def test_insertions_lie_inside_over_nothing_and_never_come_from_the_image_itself(
    rooms, pool, tmp_path, strategy, reach
):
    _, campaign = fuzz(rooms, pool, GlassBox(rooms, []), tmp_path / "run", strategy=strategy, reach=reach)
    detections = {row["image"]: row["detections"] for row in campaign.clean}
    assert campaign.asked
    for row in campaign.asked:
        insertion = Insertion.of_row(row)
        x0, y0, x1, y1 = insertion.box
        sample = rooms[insertion.image]
        assert 0 <= x0 < x1 <= sample.width
        assert 0 <= y0 < y1 <= sample.height
        assert row["image"] == sample.id != row["source"]
        assert row["reach"] <= reach
        firm = [thing for thing in detections[row["image"]] if thing["score"] >= 0.5]
        assert firm
        for thing in firm:
            assert thing["x1"] <= x0 or thing["x0"] >= x1 or thing["y1"] <= y0 or thing["y0"] >= y1
        beside = None if strategy == "random" else detections[row["image"]][row["beside"]]
        assert (row["beside"] is None) == (strategy == "random")
        if strategy == "guided" and reach == 0:
            assert beside["label"] == row["label"], "the paper's rule"


def test_classes_are_named_and_what_is_no_class_is_null(rooms, pool, tmp_path):
    run, campaign = fuzz(rooms, pool, BlotDetector(), tmp_path / "run", strategy="guided", reach=2)
    names, data = set(BlotDetector.names), set(rooms.names)
    assert {found["label"] for row in campaign.clean for found in row["detections"]} == names
    offered = {offer["label"] for row in campaign.clean for offer in row["offers"]}
    assert offered == names | {None}
    changes = [change for row in campaign.asked for change in row["changes"]]
    assert {change["label"] for change in changes} <= names
    for change in changes:
        assert (change["became"] is None) == (change["type"] != "renamed")
        assert (change["thing"] is None) == (change["type"] == "extra")
    assert {row["label"] for row in campaign.asked} <= data
    assert run.directory.about["identity"]["detector"]["names"] == list(BlotDetector.names)


@pytest.mark.heavy
def test_two_classes_of_one_name_are_one(rooms, pool, tmp_path):
    """Rows could not tell them apart, so answers are not told apart either: nothing is renamed to its own name."""
    one, first = fuzz(rooms, pool, BlotDetector(), tmp_path / "one", strategy="guided")
    two, second = fuzz(rooms, pool, Twofold(), tmp_path / "two", strategy="guided")
    assert {found["label"] for row in second.clean for found in row["detections"]} == set(BlotDetector.names)
    assert one.rows() == two.rows()
    assert first.failing


def everything(run):
    return run.table().to_pylist()


@pytest.mark.parametrize("strategy", [pytest.param("guided", marks=pytest.mark.heavy), "adaptive"])
def test_rows_do_not_depend_on_interruptions_or_workers(pool, tmp_path, strategy):
    how = FuzzSettings(strategy=strategy, queries=240, reach=2, seed=3)

    def run(name, budget=None, batch_size=None, **options):
        study = FuzzStudy(Opened(SPEC), load_pool(pool), BlotDetector.names, how)
        asking = Asking(batch_size, cached=False, budget=budget)
        return run_study(study, BlotDetector(), tmp_path / name, asking=asking, **options)

    whole = run("whole", batch_size=1)
    assert whole.run.finished
    assert {row["phase"] for row in everything(whole.run)} == {CLEAN, INSERTION, RELOCATION, SHRINKING}
    for most in (7, 23):
        part = run("parts", Budget(queries=most))
        assert (part.stopped, part.run.finished) == ("budget", False)
    assert everything(run("parts").run) == everything(whole.run)
    assert everything(run("two", make_detector=make_blots, workers=2).run) == everything(whole.run)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("queries", [7, 16, 57, 200])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_campaign_never_asks_more_than_its_budget(rooms, tmp_path, queries, strategy):
    run = md.fuzz(BlotDetector(), rooms, strategy=strategy, queries=queries, reach=1, cache=False, out=tmp_path / "run")
    assert run.outcome.stopped is None, "what it plans, it can pay for"
    assert run.document["finished"]
    assert run.outcome.stats["queries"] == run.document["cost"]["queries"] <= run.document["queries"] <= queries


@pytest.mark.heavy
@pytest.mark.parametrize("strategy", [pytest.param("guided", marks=pytest.mark.heavy), "adaptive"])
def test_a_larger_budget_goes_on_where_the_smaller_one_ended(rooms, tmp_path, strategy):
    """Also twice, and with smaller ones between: what was done stays, and is planned again just so."""
    some = {"strategy": strategy, "reach": 2, "backgrounds": 8, "cache": False, "out": tmp_path / "run"}
    before, asked = [], []
    for queries in (60, 90, 60, 150, 100):
        run = md.fuzz(BlotDetector(), rooms, queries=queries, **some)
        rows = everything(run.directory)
        assert rows[: len(before)] == before
        assert run.document["finished"]
        assert run.document["cases"] == len(rows)
        assert sum(row["queries"] for row in rows) <= 150
        before = rows
        asked.append(run.outcome.stats["queries"])
    assert [bool(n) for n in asked] == [True, True, False, True, False]
    assert sorted({row["budget"] for row in rows if row["budget"] is not None}) == [60, 90, 150]
    assert run.directory.settings["queries"] == 60, "what the run is known by"


def test_an_unlimited_campaign_draws_all_and_counts_what_found_no_place(rooms, pool, tmp_path):
    run, campaign = fuzz(
        rooms, pool, BlotDetector(), tmp_path / "run", strategy="guided", queries=None, per_object=2, backgrounds=6
    )
    objects = sum(found["score"] >= 0.5 for row in campaign.clean for found in row["detections"])
    dropped = run.document["coverage"]["dropped"]
    assert dropped > 0
    assert run.document["insertions"] + dropped == 2 * objects
    assert run.document["finished"]


class Faulty(BlotDetector):
    """Fails on a third of all pictures, by their content, until it is mended."""

    def __init__(self):
        self.mended = False

    def detect(self, images):
        if not self.mended and any(int(digest(image)[:4], 16) % 3 == 0 for image in images):
            raise RuntimeError("out of luck")
        return super().detect(images)


@pytest.mark.heavy
@pytest.mark.parametrize("strategy", [pytest.param("guided", marks=pytest.mark.heavy), "adaptive"])
def test_failed_cases_asked_again_do_not_change_the_plan(pool, tmp_path, strategy):
    """Backgrounds and insertions alike: what was planned without them stays, and so does what comes later."""
    detector, how = Faulty(), FuzzSettings(strategy=strategy, queries=120, reach=2, backgrounds=9)

    def sitting(name, most=120, **options):
        study = FuzzStudy(Opened(SPEC), load_pool(pool), BlotDetector.names, how, most)
        asking = Asking(1, cached=False)  # a budget would also pay for what fails
        return run_study(study, detector, tmp_path / name, asking=asking, **options).run

    first = sitting("run")
    failed = {row["case"] for row in first.errors().to_pylist()}
    assert {case.split("/")[0] for case in failed} >= {"clean", "insertion"}
    assert first.finished
    before = {row["case"]: row for row in everything(first)}
    sitting("whole")
    detector.mended = True
    again = sitting("run", retry_failed=True)
    assert (again.finished, again.failed(), again.cases) == (True, set(), first.cases)
    after = {row["case"]: row for row in everything(again)}
    assert {case: after[case] for case in before} == before
    assert set(after) - set(before) == failed
    document = document_of(again)
    assert (document["failed"], document["backgrounds"], document["finished"]) == (0, 9, True)
    more = sitting("run", 200), sitting("whole", 200)
    rows = [[row for row in everything(run) if row["case"] not in failed] for run in more]
    assert rows[0] == rows[1], "a campaign whose failed cases were asked again goes on like one whose were not"
    assert len(rows[0]) > len(before)


def test_the_noise_of_a_restless_detector_is_counted_and_failures_must_repeat(rooms, pool, tmp_path):
    run, campaign = fuzz(rooms, pool, Restless(), tmp_path / "run", strategy="guided")
    noise = run.document["noise"]
    assert noise["asked_twice"] == noise["differing"] == 5
    assert noise["failing"] > 0
    (note,) = run.document["notes"]
    assert note.startswith("the detector is not deterministic: 5 of 5 answers differ")
    assert note in run.sentences
    failing = [row for row in campaign.asked if row["control_failed"] is not None]
    assert any(row["queries"] > 2 for row in failing)
    for row in failing:
        patches = max(len(change["patches"]) for change in row["changes"])
        assert row["queries"] - 1 - patches in (0, 1), "the insertion, its patches, and what is new once more"


@pytest.mark.heavy
def test_flicker_counts_only_when_asked(rooms, pool, tmp_path):
    apart, counted = (
        fuzz(rooms, pool, BlotDetector(), tmp_path / str(count), strategy="guided", count_flicker=count)[0].document
        for count in (False, True)
    )
    assert apart["flicker"] > 0
    assert apart["failing_insertions"] + apart["flicker"] == apart["raw_failures"]
    assert counted["failing_insertions"] == counted["raw_failures"]


@pytest.mark.heavy
def test_the_strict_oracle_sees_at_least_what_map_sees(rooms, pool, tmp_path):
    failing = []
    for oracle in ("paper", "strict"):
        _, campaign = fuzz(
            rooms, pool, BlotDetector(), tmp_path / oracle, strategy="random", oracle=oracle, queries=None, per_object=1
        )  # fmt: skip
        failing.append({row["case"] for row in campaign.asked if row["failed"]})
    assert failing[0] < failing[1]


def test_unnatural_insertions_are_not_asked_about(rooms, pool, tmp_path):
    run, campaign = fuzz(rooms, pool, BlotDetector(), tmp_path / "run", strategy="guided", min_naturalness=0.98)
    assert run.document["coverage"]["unnatural"] > 0
    assert all(row["naturalness"] >= 0.98 for row in campaign.asked)
    assert run.outcome.stats["queries"] == run.document["queries"]


def test_failing_images_keep_the_labels_of_their_background(rooms, pool, tmp_path):
    box = GlassBox(rooms, [VanishNear(distance=12)])
    run, campaign = fuzz(rooms, pool, box, tmp_path / "run", strategy="guided", reach=3)
    plain = images(run.directory, rooms, None, "unlabelled", "drop").dataset()
    labelled = images(run.directory, rooms, None, "labelled", "drop").dataset()
    insertion = Insertion.of_row(campaign.failing[0])
    assert np.array_equal(plain[0].truth.boxes, rooms[insertion.image].truth.boxes)
    assert len(labelled[0].truth) == len(plain[0].truth) + 1
    assert tuple(labelled[0].truth.boxes[-1]) == insertion.box
    assert (plain[0].image == rebuild(run.directory, rooms).bench.picture(insertion).render()).all()


def test_impossible_campaigns_are_refused(rooms, pool, tmp_path):
    with pytest.raises(BadSpec, match="adaptive strategy decides what to do with a budget"):
        md.fuzz(BlotDetector(), rooms, out=tmp_path / "run")
    with pytest.raises(BadSpec, match="queries should be at least 7"):
        FuzzSettings(queries=6)
    with pytest.raises(BadSpec, match="strategy should be random or guided or adaptive"):
        FuzzSettings(strategy="lucky")
    with pytest.raises(BadSpec, match="destination should be centroid or centre or two whole numbers"):
        FuzzSettings(destination=(1, 2, 3))
    with pytest.raises(BadSpec, match="iou should be above 0"):
        FuzzSettings(iou=0)
    with pytest.raises(BadData, match="no label in common"):
        FuzzStudy(Opened(rooms), load_pool(pool), ["zebra"], FuzzSettings(strategy="guided"))
    assert list(tmp_path.iterdir()) == []


def test_data_that_shares_no_class_is_tested_but_cannot_be_judged(rooms, pool, tmp_path):
    names = tuple(f"other {name}" for name in rooms.names)
    strange = rooms[:]
    strange.names = names
    run = md.fuzz(
        BlotDetector(), strange, pool=pool, strategy="guided", queries=120, reach=2, cache=False, out=tmp_path / "run"
    )
    found = run.document
    assert found["harm"] == {"harmful": 0, "harmless": 0, "improvement": 0, "unknown": found["attributable"]}
    assert found["attributable"] > 0
    assert run.sentences[0].startswith(f"{found['attributable']} distinct failures are the inserted objects' doing")
    assert "nothing is annotated here that could say whether a failure does harm." in run.sentences

"""Whose doing is a failure? Planted ones: some that only an object makes, some that any patch makes at a known rate,
some that a detector's own threshold makes of flicker."""

import fuzz_toys
import numpy as np
import pytest
from fuzz_toys import SPEC, BlotDetector, Hiding, Shaky, cut_out, make_blots, without_searches

import misdetect as md
from misdetect.data import load_data
from misdetect.data.opened import Opened
from misdetect.detectors import load_detector
from misdetect.detectors.glassbox.detector import GlassBox
from misdetect.detectors.glassbox.faults import VanishNear
from misdetect.engine import run_study
from misdetect.engine.backend import Asking
from misdetect.metrics.control import posterior
from misdetect.pools.pool import load_pool
from misdetect.studies.fuzz.results import Campaign
from misdetect.studies.fuzz.settings import FuzzSettings
from misdetect.studies.fuzz.study import FuzzStudy
from misdetect.studies.running import showing_faint


@pytest.fixture(scope="module")
def rooms():
    return load_data(SPEC)


@pytest.fixture(scope="module")
def pool(rooms, tmp_path_factory):
    return cut_out(rooms, tmp_path_factory.mktemp("pool"))


def fuzz(rooms, pool, detector, **settings):
    return md.fuzz(detector, rooms, pool=pool, **without_searches(settings))


def changes(run):
    return [change for row in Campaign.of(run.directory).asked for change in row["changes"]]


@pytest.mark.heavy
@pytest.mark.parametrize("strategy", ["guided", "adaptive"])
def test_what_only_an_object_makes_is_cleared_by_four_patches(rooms, pool, strategy):
    run = fuzz(rooms, pool, GlassBox(rooms, [VanishNear(distance=12)]), strategy=strategy, reach=3)
    assert run.document["by_control"] == {"cleared": run.document["attributable"], "shared": 0, "unclear": 0}
    for entry in run.document["distinct"]:
        assert (entry["patches_failing"], entry["attributable"]) == (0, True)
        assert entry["patches"] >= 4
        assert entry["chance_interval"][0] < 0.01 < entry["chance"] < 0.3
    rows = [row for row in Campaign.of(run.directory).failing if row["attributable"]]
    assert {row["queries"] for row in rows} == {1 + 4}, "the insertion and its patches"


@pytest.mark.heavy
@pytest.mark.parametrize("rate", [0.2, 0.5, 0.8])
def test_the_posterior_holds_the_rate_at_which_any_patch_makes_it(rooms, pool, rate):
    """The first patch of each failure is asked whatever comes of it: together they tell the rate. Of the failures'
    own intervals (90 %) most hold it too, though asking was stopped where it was clear."""
    run = fuzz(rooms, pool, Shaky(rooms, rate), strategy="random", queries=250)
    asked = [change["patches"] for change in changes(run) if change["patches"]]
    assert len(asked) > 50
    first = [seen[0] for seen in asked]
    _, low, high = posterior(len(first), sum(first), 0.999)
    assert low < rate < high
    ends = [entry["chance_interval"] for entry in run.document["distinct"] if entry["chance_interval"] is not None]
    assert np.mean([low <= rate <= high for low, high in ends]) > 0.75
    if rate >= 0.5:
        assert run.document["attributable"] <= 0.15 * run.document["unique_failures"]
    assert run.document["by_control"]["shared"] > 0


@pytest.mark.heavy
def test_more_certainty_asks_more_patches_and_clears_fewer(rooms, pool):
    shaky = Shaky(rooms, 0.2)
    loose, strict = (
        fuzz(rooms, pool, shaky, strategy="random", queries=200, **rule)
        for rule in ({"patches": 1, "sure": 0.6}, {"patches": 20, "sure": 0.99})
    )
    assert all(len(change["patches"] or ()) <= 1 for change in changes(loose))
    assert max(len(change["patches"] or ()) for change in changes(strict)) > 10
    shares = [each.document["attributable"] / each.document["unique_failures"] for each in (loose, strict)]
    assert shares[0] > 0.5 > shares[1]


@pytest.mark.heavy
def test_patches_are_the_same_for_any_number_of_workers_and_batch(pool, tmp_path):
    how = FuzzSettings(strategy="guided", queries=80, reach=2, seed=3, relocate=False, shrink=False)

    def run(name, **options):
        study = FuzzStudy(Opened(SPEC), load_pool(pool), BlotDetector.names, how)
        return run_study(study, BlotDetector(), tmp_path / name, **options).run.table()

    one = run("one", asking=Asking(1, cached=False))
    assert any(len(change["patches"] or ()) > 1 for row in one.to_pylist() for change in row["changes"] or ()), (
        "some needed more than one"
    )
    assert one == run("two", asking=Asking(8, cached=False), make_detector=make_blots, workers=2)


@pytest.mark.heavy
@pytest.mark.parametrize("strategy", ["guided", "adaptive"])
def test_where_low_scores_are_hidden_nothing_is_called_attributable(rooms, pool, strategy):
    """The same detector shows some failures to be flicker; behind a threshold of its own all look firm."""
    some = {"strategy": strategy, "reach": 2}
    open_, hiding = (fuzz(rooms, pool, each, **some) for each in (BlotDetector(), Hiding(BlotDetector(), 0.5)))
    assert open_.document["scores"]["flicker_told"]
    assert open_.document["scores"]["least"] < 0.2
    assert open_.document["attributable"] > 0
    assert open_.document["notes"] == []
    found = hiding.document
    assert found["scores"]["flicker_told"] is False
    assert 0.5 <= found["scores"]["least"] < 0.52
    assert found["attributable"] == found["harm"]["harmful"] == 0
    assert found["by_control"]["cleared"] > 0, "they are listed, and what patches say of them"
    assert not any(change["attributable"] for change in changes(hiding))
    (note,) = found["notes"]
    assert "reported no score below 0.50" in note
    assert "--score 0.55 or more" in note
    assert "flicker cannot be told" in hiding.sentences[0]
    higher = fuzz(rooms, pool, Hiding(BlotDetector(), 0.5), score=0.56, **some)
    assert higher.document["scores"]["flicker_told"]
    assert higher.document["notes"] == []


def test_a_spec_that_can_show_low_scores_is_asked_to(rooms, pool, tmp_path):
    spec = f"python:{fuzz_toys.__file__}:Adjustable"
    some = {"pool": pool, "strategy": "guided", "queries": 40, "cache": False}
    run = md.fuzz(f"{spec},score=0.5", rooms, out=tmp_path / "run", **some)
    assert run.document["detector"] == f"{spec},score=0.05"
    assert run.document["scores"]["flicker_told"]
    assert any("asked for scores from 0.05 on, not 0.5" in note for note in run.outcome.notes)
    again = md.fuzz(f"{spec},score=0.5", rooms, out=tmp_path / "run", **some)
    assert again.outcome.stats["queries"] == 0, "it is the same run"
    assert again.document == run.document


@pytest.mark.parametrize("own", [0.45, 0.51])
def test_a_detector_is_left_alone_that_shows_enough_or_reports_less_than_what_counts(own):
    detector = load_detector(f"python:{fuzz_toys.__file__}:Adjustable,score={own}")
    assert showing_faint(detector, FuzzSettings(strategy="guided").faint) == (detector, None)


@pytest.mark.heavy
@pytest.mark.parametrize("strategy", ["random", "guided", "adaptive"])
@pytest.mark.parametrize("queries", [40, pytest.param(150, marks=pytest.mark.heavy)])
def test_a_budget_is_spent(rooms, pool, tmp_path, strategy, queries):
    """What relocation and shrinking do not need goes back to insertions; what is left would not clear a failure."""
    for detector in (GlassBox(rooms, []), BlotDetector()):
        run = md.fuzz(
            detector, rooms, pool=pool, strategy=strategy, reach=3, queries=queries, per_object=50, cache=False
        )
        assert queries - FuzzSettings().control.fewest <= run.document["queries"] <= queries
        assert run.document["finished"]


@pytest.mark.heavy
@pytest.mark.parametrize("strategy", ["guided", "adaptive"])
def test_a_larger_budget_reaches_new_backgrounds(rooms, tmp_path, strategy):
    some = {"strategy": strategy, "reach": 2, "cache": False, "out": tmp_path / "run"}
    seen = []
    for queries in (60, 120, 60):
        run = md.fuzz(BlotDetector(), rooms, queries=queries, **some)
        rows = run.directory.table().to_pylist()
        seen.append({row["image"] for row in rows if row["phase"] == "insertion"})
        assert run.document["queries"] <= 120
    assert [run.document["backgrounds"], len([row for row in rows if row["phase"] == "clean"])] == [12, 12]
    assert len(seen[0]) <= 6 < len(seen[1])
    assert seen[0] < seen[1] == seen[2]
    twice = [row["image"] for row in rows if row["differs"] is not None]
    assert len(twice) == 5


@pytest.mark.heavy
def test_progress_counts_queries_against_the_budget(rooms, pool, tmp_path):
    seen = []
    run = fuzz(rooms, pool, BlotDetector(), strategy="guided", progress=lambda *told: seen.append(told))
    done = [each[0] for each in seen]
    assert {each[1] for each in seen} == {150}
    assert {each[2]["of"] for each in seen} == {"queries"}
    assert done == sorted(done)
    assert done[-1] == run.document["queries"]
    endless = []
    md.fuzz(
        BlotDetector(), rooms, pool=pool, strategy="guided", per_object=1, backgrounds=3, cache=False,
        progress=lambda *told: endless.append(told),
    )  # fmt: skip
    assert {each[1] for each in endless} == {0}, "nobody knows how many there will be"

"""Adaptive scanning: it asks less, says how well it knows the rates, and the full scan's rates lie where it says."""

import numpy as np
import pytest
from scan_toys import TileDetector, make_tiles

from misdetect.data import load_data
from misdetect.engine import run_study
from misdetect.errors import BadSpec
from misdetect.studies.scan import Scanning, ScanStudy, choose_pairs
from misdetect.studies.scan.adaptive import AdaptiveScan, Search
from misdetect.studies.scan.pairs import candidates, grid
from misdetect.studies.scan.results import ROWS, TAUS, View, table_one
from misdetect.studies.scan.strata import Strata

ROOMS = "rooms:val,size=96,count=6"


@pytest.fixture(scope="module")
def pairs():
    rooms = load_data(ROOMS)
    return choose_pairs(rooms, 4, candidates(rooms, 0))


def adaptive(pairs, precision, seed=0):
    scanning = Scanning(step=3, seed=seed, null=False)
    return AdaptiveScan(ROOMS, pairs, TileDetector.names, scanning, search=Search(precision))


def test_full_scan_lies_within_the_stated_interval(pairs, tmp_path):
    full = run_study(
        ScanStudy(ROOMS, pairs, TileDetector.names, Scanning(step=3, null=False)),
        TileDetector(),
        tmp_path / "full",
        {},
        cached=False,
    ).run
    truth = table_one(full, View(repeats=1))
    study = adaptive(pairs, 6.0)
    outcome = run_study(study, TileDetector(), tmp_path / "adaptive", {}, cached=False)
    known = study.uncertainty(outcome.run, "positions")
    assert known["asked"] < 0.35 * study.positions
    assert outcome.stats["queries"] == known["asked"] + len(pairs)
    table = table_one(outcome.run, View(repeats=1))
    inside = [
        abs(table[row][f"{tau:g}"] - truth[row][f"{tau:g}"]) <= known["half_width"][row][f"{tau:g}"] + 0.01
        for row in ROWS
        for tau in TAUS
        if truth[row][f"{tau:g}"] is not None
    ]
    assert np.mean(inside) >= 0.9


@pytest.mark.parametrize("precision", [3.0, 10.0])
def test_no_rate_is_known_worse_than_promised(precision, pairs, tmp_path):
    """Pairs differ in size and in how much each row of Table I counts; the promise is about all of them together."""
    scanning = Scanning(step=3, null=False)
    study = AdaptiveScan(ROOMS, [*pairs, pairs[0]], TileDetector.names, scanning, search=Search(precision))
    outcome = run_study(study, TileDetector(), tmp_path / "run", {}, cached=False)
    known = study.uncertainty(outcome.run, "positions")
    widths = [width for row in known["half_width"].values() for width in row.values()]
    assert max(widths) <= precision
    assert known["asked"] < study.positions
    assert outcome.stats["queries"] <= known["asked"] + len(pairs), "what two pairs ask alike is asked once"


def test_a_clean_image_that_fails_costs_its_own_pair_only(pairs, tmp_path):
    bad = load_data(ROOMS)[pairs[1].background].image.sum()

    class Blind(TileDetector):
        fingerprint = None

        def detect(self, images):
            if any(image.sum() == bad for image in images):
                raise ValueError("no")
            return super().detect(images)

    study = adaptive(pairs, 10.0)
    outcome = run_study(study, Blind(), tmp_path / "run", {}, cached=False)
    assert outcome.run.errors()["case"].to_pylist() == ["1"]
    assert {row["pair"] for row in outcome.run.query("SELECT DISTINCT pair FROM rows").to_pylist()} == {0, 2, 3}


def test_weights_stand_for_the_whole_grid(pairs, tmp_path):
    study = adaptive(pairs, 8.0, seed=2)
    run = run_study(study, TileDetector(), tmp_path / "run", {}, cached=False).run
    for number, size in enumerate(study.sizes):
        rows = run.query("SELECT sum(weight) AS w, count(*) AS n FROM rows WHERE pair = ?", [number]).to_pylist()[0]
        assert rows["w"] == pytest.approx(size)
        assert rows["n"] < size
    two = run_study(study, TileDetector(), tmp_path / "two", {}, make_detector=make_tiles, workers=2, cached=False).run
    assert two.table().equals(run.table())


def test_null_control_is_asked_at_the_same_positions(pairs, tmp_path):
    scanning = Scanning(step=6, null=True)
    study = AdaptiveScan(ROOMS, pairs[:2], TileDetector.names, scanning, search=Search(20.0))
    run = run_study(study, TileDetector(), tmp_path / "run", {}, cached=False).run
    both = run.query(
        "SELECT count(*) AS n, count(DISTINCT condition) AS c, min(weight) AS low, max(weight) AS high FROM rows "
        "GROUP BY pair, x, y"
    ).to_pylist()
    assert all(row["n"] == row["c"] == 2 and row["low"] == row["high"] for row in both)


def planted(places, radius):
    """A map with a disc in which every position is affected."""
    inside = np.hypot(*(places - places.mean(axis=0)).T) < radius
    return np.repeat(np.repeat(inside[:, None, None], 2, axis=1), 1, axis=2)


def test_estimates_are_unbiased_and_their_errors_honest():
    """Over many random orders the mean of the estimates is the truth, and they scatter as they say."""
    places = grid(200, 160, (20, 20), 4)
    coverage = np.zeros(len(places))
    truth = planted(places, 33.0)
    share = truth[:, 0, 0].mean()
    estimates, said = [], []
    for seed in range(120):
        strata = Strata(places, coverage, 4, 4, 1)
        order = np.random.default_rng(seed).permutation(len(places))
        queue = [[i for i in order if strata.of[i] == h] for h in range(len(strata.size))]
        wanted = np.arange(len(strata.size))
        for _ in range(4):
            asked = np.array([queue[h].pop(0) for h in wanted])
            strata.record(asked, truth[asked])
            wanted = strata.most_telling(0, 0, 20)
        weights = strata.weights()
        estimates.append(float((weights * truth[strata.asked][:, 0, 0]).sum() / len(places)))
        said.append(float(np.sqrt(strata.errors()[0][0, 0]) / len(places)))
    scatter = np.std(estimates)
    assert np.mean(estimates) == pytest.approx(share, abs=3.5 * scatter / np.sqrt(120))
    assert 0.9 * scatter < np.mean(said) < 3 * scatter, "rather too wide than too narrow"


def test_it_refines_where_the_map_changes():
    places = grid(200, 160, (20, 20), 4)
    truth = planted(places, 40.0)
    strata = Strata(places, np.zeros(len(places)), 4, 4, 1)
    first = np.array([np.flatnonzero(strata.of == h)[0] for h in range(len(strata.size))])
    strata.record(first, truth[first])
    mixed = np.array([truth[strata.of == h][:, 0, 0].std() > 0 for h in range(len(strata.size))])
    telling = strata.most_telling(0, 0, 30)
    assert mixed[telling].mean() > 2 * mixed.mean()


def test_precision_is_checked():
    with pytest.raises(BadSpec, match="precision lies in"):
        Search(0)

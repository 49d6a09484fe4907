"""Adaptive scanning: it asks less, says how well it knows the rates, and the full scan's rates lie where it says."""

from collections import Counter
from statistics import NormalDist

import numpy as np
import pytest
from scan_toys import TileDetector, make_tiles, random_run, scan_of, scanned

from misdetect.data import load_data
from misdetect.said.errors import BadSpec
from misdetect.studies.documents import document_of
from misdetect.studies.scan.adaptive import errors, uncertainty
from misdetect.studies.scan.pairs import candidates, choose_pairs, grid
from misdetect.studies.scan.settings import TAUS, ScanSettings
from misdetect.studies.scan.strata import Strata
from misdetect.studies.scan.table import ROWS, table_one

ROOMS = "rooms:val,size=96,count=6"


@pytest.fixture(scope="module")
def pairs():
    rooms = load_data(ROOMS)
    return choose_pairs(rooms, 4, candidates(rooms, 0))


def adaptive(pairs, precision, **settings):
    return scan_of(ROOMS, pairs, **{"step": 3, "control": False, "adaptive": True, "precision": precision, **settings})


@pytest.mark.heavy
def test_full_scan_lies_within_the_stated_interval(pairs, tmp_path):
    full = scanned(scan_of(ROOMS, pairs, step=3, control=False), TileDetector(), tmp_path / "full").run
    truth = table_one(full, ScanSettings())
    study = adaptive(pairs, 6.0)
    outcome = scanned(study, TileDetector(), tmp_path / "adaptive")
    known = uncertainty(outcome.run, "positions")
    assert known["asked"] < 0.35 * study.positions
    assert outcome.stats["queries"] == known["asked"] + len(pairs)
    table = table_one(outcome.run, ScanSettings())
    inside = [
        abs(table[row][f"{tau:g}"] - truth[row][f"{tau:g}"]) <= known["half_width"][row][f"{tau:g}"] + 0.01
        for row in ROWS
        for tau in TAUS
        if truth[row][f"{tau:g}"] is not None
    ]
    assert np.mean(inside) >= 0.9


@pytest.mark.heavy
@pytest.mark.parametrize("precision", [pytest.param(3.0, marks=pytest.mark.heavy), 10.0])
def test_no_rate_is_known_worse_than_promised(precision, pairs, tmp_path):
    """Pairs differ in size and in how much each row of Table I counts; the promise is about all of them together."""
    study = adaptive([*pairs, pairs[0]], precision)
    outcome = scanned(study, TileDetector(), tmp_path / "run")
    known = uncertainty(outcome.run, "positions")
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
    outcome = scanned(study, Blind(), tmp_path / "run")
    assert outcome.run.errors()["case"].to_pylist() == ["1"]
    assert {row["pair"] for row in outcome.run.query("SELECT DISTINCT pair FROM rows").to_pylist()} == {0, 2, 3}
    document = document_of(outcome.run)
    assert document["failed"] == 1
    assert document["pairs"][1]["asked"] == 0
    assert document["adaptive"]["asked"] == outcome.run.table().num_rows


def test_weights_stand_for_the_whole_grid(pairs, tmp_path):
    study = adaptive(pairs, 8.0, seed=2)
    run = scanned(study, TileDetector(), tmp_path / "run").run
    for number, size in enumerate(each.positions for each in study.transplants):
        rows = run.query("SELECT sum(weight) AS w, count(*) AS n FROM rows WHERE pair = ?", [number]).to_pylist()[0]
        assert rows["w"] == pytest.approx(size)
        assert rows["n"] < size


@pytest.mark.heavy
def test_two_workers_ask_and_find_the_same(pairs, tmp_path):
    study = adaptive(pairs, 8.0, seed=2)
    one = scanned(study, TileDetector(), tmp_path / "one").run
    two = scanned(study, TileDetector(), tmp_path / "two", make_detector=make_tiles, workers=2).run
    assert two.table().equals(one.table())


def test_control_is_asked_at_the_same_positions(pairs, tmp_path):
    run = scanned(adaptive(pairs[:2], 20.0, step=6, control=True), TileDetector(), tmp_path / "run").run
    both = run.query(
        "SELECT count(*) AS n, count(DISTINCT condition) AS c, min(weight) AS low, max(weight) AS high FROM rows "
        "GROUP BY pair, x, y"
    ).to_pylist()
    assert all(row["n"] == row["c"] == 2 and row["low"] == row["high"] for row in both)


def planted(places, radius):
    """A map with a disc in which every position is affected."""
    inside = np.hypot(*(places - places.mean(axis=0)).T) < radius
    return np.repeat(np.repeat(inside[:, None, None], 2, axis=1), 1, axis=2)


@pytest.mark.heavy
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
    with pytest.raises(BadSpec, match="precision should be from"):
        ScanSettings(precision=0)


def naive_half_widths(run, rows):
    """The stratified estimate's error, stratum by stratum: N² (1 − n/N) S²/n · N/(N − 1), with S² judged from the
    stratum's answers, its neighbours' with half the weight, and one answer of the kind's mean."""
    search, step = run.settings["adaptive"], run.settings["step"]
    totals, wholes = Counter(), Counter()
    for number, each in enumerate(run.settings["transplants"]):
        here = [row for row in rows if row["pair"] == number and row["condition"] == "object" and row["before"]]
        if not here:
            continue
        size = each["t_width"], each["t_height"]
        strata = {}
        for x, y in grid(each["width"], each["height"], size, step).tolist():
            covered = max(coverage_of(o, (x, y, x + size[0], y + size[1])) for o in here[0]["objects"])
            kind = 0 if covered == 0 else 1 if covered <= 0.2 else 2
            strata.setdefault((kind, y // (step * 4), x // (step * 4)), []).append((x, y))
        answers = {(row["x"], row["y"]): row for row in here}
        for row_name, column, kinds in (
            ("affected", "score", (0, 1, 2)),
            ("class_agnostic", "agnostic", (0, 1, 2)),
            ("occlusion_20", "score", (0, 1)),
            ("no_occlusion", "score", (0,)),
        ):
            for tau in search["tau"]:
                hits = {
                    key: [answers[place][column] < tau for place in places if place in answers]
                    for key, places in strata.items()
                }
                for key, places in strata.items():
                    if key[0] not in kinds:
                        continue
                    alike = [h for other, found in hits.items() if other[0] == key[0] for h in found]
                    mean = (sum(alike) + 0.5) / (len(alike) + 1)
                    near = [
                        h
                        for other, found in hits.items()
                        if other != key
                        and other[0] == key[0]
                        and max(abs(a - b) for a, b in zip(other[1:], key[1:], strict=True)) <= 1
                        for h in found
                    ]
                    own, total = hits[key], len(places)
                    judged = (0.5 * sum(near) + sum(own) + mean) / (0.5 * len(near) + len(own) + 1)
                    asked = max(len(own), 1)
                    spread = judged * (1 - judged) * total / max(total - 1, 1)
                    totals[row_name, tau] += total * (total - min(asked, total)) / asked * spread
                    wholes[row_name, tau] += total
    z = NormalDist().inv_cdf((1 + search["confidence"]) / 2)
    return {key: 100 * z * np.sqrt(value) / wholes[key] for key, value in totals.items()}


def coverage_of(thing, t):
    width = min(thing["x1"], t[2]) - max(thing["x0"], t[0])
    height = min(thing["y1"], t[3]) - max(thing["y0"], t[1])
    return max(width, 0) * max(height, 0) / ((thing["x1"] - thing["x0"]) * (thing["y1"] - thing["y0"]))


@pytest.mark.parametrize("fail", [(), (2, 3)], ids=["whole", "a pair failed"])
def test_uncertainty_of_an_adaptive_scan_from_its_rows(tmp_path, fail):
    run = random_run(tmp_path / "run", 5, adaptive=True, fail=fail)
    rows, document = run.table().to_pylist(), document_of(run)
    known = document["adaptive"]
    asked = sum(row["condition"] == "object" and row["before"] > 0 for row in rows)
    assert (known["asked"], known["positions"]) == (asked, document["positions"])
    assert known["share"] == pytest.approx(100 * asked / document["positions"], abs=0.0051)
    assert (known["precision"], known["confidence"]) == (7.0, 0.95)
    expected = naive_half_widths(run, rows)
    assert len(expected) == 4 * len(TAUS)
    for (row, tau), width in expected.items():
        assert known["half_width"][row][f"{tau:g}"] == pytest.approx(width, abs=0.0051)


def test_the_error_of_a_mean_over_images_is_that_of_their_rates():
    """Images of 10, 20, no and one positions, variances 4, 9, 0 and 0 of the counts: each rate's error is σ / N, and
    an image without positions has none."""
    variances, wholes = np.array([4.0, 9, 0, 0]).reshape(4, 1, 1), np.array([[10.0], [20], [0], [1]])
    assert errors(variances, wholes, "images") == pytest.approx(np.hypot(2 / 10, 3 / 20) / 3)
    assert errors(variances, wholes, "positions") == pytest.approx(np.hypot(2, 3) / 31)

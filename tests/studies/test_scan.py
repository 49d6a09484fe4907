"""The scan against a naive second implementation on every position, and the promises of the engine kept."""

import numpy as np
import pytest
from scan_toys import TileDetector, make_tiles, naive_positions

from misdetect.data import load_data
from misdetect.engine import run_study
from misdetect.errors import BadData, BadSpec
from misdetect.studies.scan import Pair, Scanning, ScanStudy, Sizes, choose_pairs
from misdetect.studies.scan.backgrounds import with_detections
from misdetect.studies.scan.pairs import candidates, find_image, find_object, grid
from misdetect.studies.scan.results import PAPER, ROWS, TAUS, View, table_one

ROOMS = "rooms:val,size=64,count=8"


@pytest.fixture(scope="module")
def rooms():
    return load_data(ROOMS)


@pytest.fixture(scope="module")
def pairs(rooms):
    return choose_pairs(rooms, 3, candidates(rooms, 0))


@pytest.fixture(scope="module")
def run(rooms, pairs, tmp_path_factory):
    study = ScanStudy(ROOMS, pairs, TileDetector.names, Scanning(step=7, seed=3))
    return run_study(study, TileDetector(), tmp_path_factory.mktemp("scan") / "run", {}, cached=False).run


def test_every_position_agrees_with_the_naive_scan(rooms, pairs, run):
    for number, pair in enumerate(pairs):
        expected = naive_positions(rooms, pair, 7, 0.5, TileDetector())
        rows = run.query(
            "SELECT x, y, score, agnostic, coverage, class_difference FROM rows "
            "WHERE pair = ? AND condition = 'object'",
            [number],
        ).to_pylist()
        assert {(row["x"], row["y"]) for row in rows} == set(expected)
        for row in rows:
            found = (row["score"], row["agnostic"], row["coverage"], row["class_difference"])
            assert found == pytest.approx(expected[row["x"], row["y"]], abs=1e-9)
        assert len({round(value[0], 6) for value in expected.values()}) > 3, (
            "a scan in which nothing changes shows little"
        )


def test_table_one_is_the_share_of_such_positions(rooms, pairs, run):
    positions = [p for pair in pairs for p in naive_positions(rooms, pair, 7, 0.5, TileDetector()).values()]
    table = table_one(run, View())
    for tau in TAUS:
        kept = {
            "affected": [s < tau for s, _, _, _ in positions],
            "class_agnostic": [a < tau for _, a, _, _ in positions],
            "occlusion_20": [s < tau for s, _, c, _ in positions if c <= 0.2],
            "no_occlusion": [s < tau for s, _, c, _ in positions if c == 0],
        }
        for row, hits in kept.items():
            expected = pytest.approx(100 * np.mean(hits), abs=0.006) if hits else None
            assert table[row][f"{tau:g}"] == expected


def test_laws_of_table_one(run):
    table = table_one(run, View())
    for part in (table, table["null_control"]):
        for row in ROWS:
            rates = list(part[row].values())
            assert rates == sorted(rates), "a stricter tau affects no less"
        assert all(part["class_agnostic"][t] <= part["affected"][t] for t in part["affected"])
    for row in ROWS:
        for tau in table[row]:
            ends = table["intervals"][row][tau]
            assert (ends is None) == (table[row][tau] is None)
            if row != "class_agnostic" and table[row][tau] is not None:
                assert table["flicker"][row][tau] <= table[row][tau] + 0.01
            if table["difference"][row][tau] is not None:
                expected = table[row][tau] - table["null_control"][row][tau]
                assert table["difference"][row][tau] == pytest.approx(expected, abs=0.011)


def test_the_papers_own_table_keeps_the_same_laws():
    for rates in PAPER.values():
        assert list(rates) == sorted(rates)
    assert all(np.array(PAPER["class_agnostic"]) <= np.array(PAPER["affected"]))
    assert all(np.array(PAPER["no_occlusion"]) <= np.array(PAPER["occlusion_20"]))


def test_workers_and_interruptions_change_no_row(pairs, run, tmp_path):
    study = ScanStudy(ROOMS, pairs, TileDetector.names, Scanning(step=7, seed=3))
    two = run_study(study, TileDetector(), tmp_path / "two", {}, make_detector=make_tiles, workers=2, cached=False).run
    assert two.table().equals(run.table())

    class Stops(TileDetector):
        asked = 0

        def detect(self, images):
            Stops.asked += len(images)
            if Stops.asked > 60:
                raise KeyboardInterrupt
            return super().detect(images)

    with pytest.raises(KeyboardInterrupt):
        run_study(study, Stops(), tmp_path / "resumed", {}, cached=False, flush_seconds=0)
    resumed = run_study(study, TileDetector(), tmp_path / "resumed", {}, cached=False)
    assert 0 < resumed.stats["queries"] < 2 * study.positions
    assert resumed.run.table().equals(run.table())


def test_identical_composites_are_asked_once(pairs, tmp_path):
    doubled = ScanStudy(ROOMS, [*pairs[:1], *pairs[:1]], TileDetector.names, Scanning(step=7, null=False))
    outcome = run_study(doubled, TileDetector(), tmp_path / "run", {}, cached=False)
    assert outcome.stats["queries"] == doubled.positions // 2 + 1


def test_null_control_has_the_same_mask_and_positions_but_other_pixels(rooms, pairs, run):
    same = run.query(
        "SELECT count(*) AS n FROM rows a JOIN rows b USING (pair, x, y) WHERE a.condition = 'object' AND "
        "b.condition = 'null' AND a.coverage = b.coverage"
    )["n"][0].as_py()
    study = ScanStudy(ROOMS, pairs, TileDetector.names, Scanning(step=7, seed=3))
    assert same == study.positions
    scene = study.scene(0)
    clean = scene.background.image
    width, height = scene.cutout.size
    for x, y in scene.positions[::5].tolist():
        edited = scene.picture("null", x, y, 3).render()
        where = np.zeros(clean.shape[:2], bool)
        where[y : y + height, x : x + width] = scene.cutout.mask
        assert np.array_equal(edited[~where], clean[~where]), "only the mask is painted"
        patch = edited[y : y + height, x : x + width][scene.cutout.mask]
        corners = [
            (u, v)
            for v in range(clean.shape[0] - height + 1)
            for u in range(clean.shape[1] - width + 1)
            if np.array_equal(clean[v : v + height, u : u + width][scene.cutout.mask], patch)
        ]
        assert any(abs(u - x) >= width or abs(v - y) >= height for u, v in corners) or 3 * width > 64 or 3 * height > 64


def test_grid_is_the_papers():
    found = grid(35, 22, (10, 12), 10).tolist()
    assert found == [[x, y] for y in (0, 10) for x in (0, 10, 20)]
    assert grid(10, 10, (10, 10), 5).tolist() == [[0, 0]]
    assert not len(grid(9, 10, (10, 10), 5))


def test_pairs_keep_the_limits_and_the_seed(rooms):
    sizes = Sizes(min_area=0.02, max_side=0.4)
    found = choose_pairs(rooms, 20, candidates(rooms, 1), seed=1, sizes=sizes)
    assert found == choose_pairs(rooms, 20, candidates(rooms, 1), seed=1, sizes=sizes)
    assert found != choose_pairs(rooms, 20, candidates(rooms, 1), seed=2, sizes=sizes)
    assert len(set(found)) == len(found)
    for pair in found:
        assert pair.source != pair.background
        truth = rooms[pair.source].truth
        assert truth.areas[pair.truth] >= 0.02 * 64 * 64
        assert (truth.boxes[pair.truth][2:] - truth.boxes[pair.truth][:2]).max() <= 0.4 * 64
    assert {p.background for p in choose_pairs(rooms, 8, range(8))} == set(range(8)), "every image before any twice"
    for pair in choose_pairs(rooms, 5, range(8), same_image=True):
        assert pair.source == pair.background


class Blind(TileDetector):
    fingerprint = None

    def detect(self, images):
        return [found[:0] for found in super().detect(images)]


def test_bad_input_is_one_sentence(rooms, pairs, tmp_path):
    with pytest.raises(BadData, match="widen them"):
        choose_pairs(rooms, 1, [0], sizes=Sizes(min_area=0.99, max_side=1))
    with pytest.raises(BadData, match=r"no detections of score 0\.5 or more"):
        with_detections(Blind(), rooms, 3, 0.5, cached=False)
    with pytest.raises(BadSpec, match=r"1 positions .* choose a smaller step"):
        ScanStudy(rooms, pairs[:1], TileDetector.names, Scanning(step=64)).sizes  # noqa: B018
    with pytest.raises(BadSpec, match="no image 'nowhere'"):
        find_image(rooms, "nowhere")
    with pytest.raises(BadSpec, match="no annotation 123456"):
        find_object(rooms, 123456)
    with pytest.raises(BadSpec, match="every tau"):
        View(taus=(0.0,))
    study = ScanStudy(rooms, pairs[:1], TileDetector.names, Scanning(step=20, null=False))
    outcome = run_study(study, Blind(), tmp_path / "blind", {}, cached=False)
    with pytest.raises(BadData, match="lower --score"):
        table_one(outcome.run, View())


def test_object_too_large_for_the_image_has_no_position(rooms):
    large = Pair(0, 1, 0)
    study = ScanStudy(rooms, [large], TileDetector.names, Scanning(step=5))
    scene = study.scene(0)
    assert not len(grid(scene.cutout.size[0] - 1, 64, scene.cutout.size, 5))
    with pytest.raises(BadData, match="too small or too large"):
        choose_pairs(rooms, 1, [0], sizes=Sizes(max_side=0.01), thing=(1, 0))

"""The scan against a naive second implementation on every position, and the promises of the engine kept."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from scan_toys import TileDetector, make_tiles, naive_positions, scan_of, scanned

from misdetect.data import load_data
from misdetect.data.cutouts import cut
from misdetect.engine.backend import Asking
from misdetect.said.errors import BadData, BadSpec, DetectorFailed
from misdetect.studies.documents import document_of
from misdetect.studies.scan import SCAN
from misdetect.studies.scan.pairs import Sizes, candidates, choose_pairs, find_image, find_object, grid, transplants
from misdetect.studies.scan.prepare import with_detections
from misdetect.studies.scan.settings import TAUS, ScanSettings, settings_of
from misdetect.studies.scan.table import PAPER, ROWS

ROOMS = "rooms:val,size=64,count=8"


@pytest.fixture(scope="module")
def rooms():
    return load_data(ROOMS)


@pytest.fixture(scope="module")
def pairs(rooms):
    return choose_pairs(rooms, 3, candidates(rooms, 0))


@pytest.fixture(scope="module")
def run(rooms, pairs, tmp_path_factory):
    study = scan_of(ROOMS, pairs, step=7, seed=3)
    return scanned(study, TileDetector(), tmp_path_factory.mktemp("scan") / "run").run


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
    table = document_of(run)
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
    table = document_of(run)
    for part in (table, table["control"]):
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
                expected = table[row][tau] - table["control"][row][tau]
                assert table["difference"][row][tau] == pytest.approx(expected, abs=0.011)


def test_the_papers_own_table_is_that_of_the_documentation():
    lines = (Path(__file__).parents[3] / "docs" / "scan.md").read_text(encoding="utf-8").splitlines()
    printed = [line.split("|")[2:7] for line in lines if line.endswith("|") and ", paper |" in line]
    assert [[float(cell) for cell in cells] for cells in printed] == [list(PAPER[row]) for row in ROWS]


def test_the_papers_own_table_keeps_the_same_laws():
    for rates in PAPER.values():
        assert list(rates) == sorted(rates)
    assert all(np.array(PAPER["class_agnostic"]) <= np.array(PAPER["affected"]))
    assert all(np.array(PAPER["no_occlusion"]) <= np.array(PAPER["occlusion_20"]))


@pytest.mark.heavy
def test_workers_change_no_row(pairs, run, tmp_path):
    study = scan_of(ROOMS, pairs, step=7, seed=3)
    two = scanned(study, TileDetector(), tmp_path / "two", make_detector=make_tiles, workers=2).run
    assert two.table().equals(run.table())


def test_a_study_that_travels_leaves_its_pixels_behind(rooms, pairs):
    """A worker gets the study itself, and opens pairs there."""
    study = scan_of(ROOMS, pairs, step=7, seed=3)
    here = study.open_pair(0).picture("control", *study.open_pair(0).positions[0].tolist(), 3)
    sent = pickle.dumps(study)
    assert len(sent) < rooms[0].image.nbytes
    there = pickle.loads(sent)  # noqa: S301
    assert list(there.cases()) == list(study.cases())
    assert there.open_pair(0).picture("control", *study.open_pair(0).positions[0].tolist(), 3).key == here.key


def test_interruptions_change_no_row(pairs, run, tmp_path):
    study = scan_of(ROOMS, pairs, step=7, seed=3)

    class Stops(TileDetector):
        asked = 0

        def detect(self, images):
            Stops.asked += len(images)
            if Stops.asked > 60:
                raise KeyboardInterrupt
            return super().detect(images)

    with pytest.raises(KeyboardInterrupt):
        scanned(study, Stops(), tmp_path / "resumed", flush_seconds=0)
    resumed = scanned(study, TileDetector(), tmp_path / "resumed")
    assert 0 < resumed.stats["queries"] < 2 * study.positions
    assert resumed.run.table().equals(run.table())


def test_identical_composites_are_asked_once(pairs, tmp_path):
    doubled = scan_of(ROOMS, [*pairs[:1], *pairs[:1]], step=7, control=False)
    outcome = scanned(doubled, TileDetector(), tmp_path / "run")
    assert outcome.stats["queries"] == doubled.positions // 2 + 1


def test_control_has_the_same_mask_and_positions_but_other_pixels(rooms, pairs, run):
    same = run.query(
        "SELECT count(*) AS n FROM rows a JOIN rows b USING (pair, x, y) WHERE a.condition = 'object' AND "
        "b.condition = 'control' AND a.coverage = b.coverage"
    )["n"][0].as_py()
    study = scan_of(ROOMS, pairs, step=7, seed=3)
    assert same == study.positions
    pair = study.open_pair(0)
    clean = pair.background.image
    width, height = pair.cutout.size
    for x, y in pair.positions[::5].tolist():
        edited = pair.picture("control", x, y, 3).render()
        where = np.zeros(clean.shape[:2], bool)
        where[y : y + height, x : x + width] = pair.cutout.mask
        assert np.array_equal(edited[~where], clean[~where]), "only the mask is painted"
        patch = edited[y : y + height, x : x + width][pair.cutout.mask]
        corners = [
            (u, v)
            for v in range(clean.shape[0] - height + 1)
            for u in range(clean.shape[1] - width + 1)
            if np.array_equal(clean[v : v + height, u : u + width][pair.cutout.mask], patch)
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


def test_transplants_say_what_the_data_says(rooms, pairs):
    for pair, found in zip(pairs, transplants(rooms, pairs, 7), strict=True):
        background, source = rooms[pair.background], rooms[pair.source]
        rows, columns = np.nonzero(source.truth.masks[pair.truth])
        assert (found.background, found.source) == (background.id, source.id)
        assert found.annotation == source.truth.ids[pair.truth]
        assert found.label == rooms.names[source.truth.labels[pair.truth]]
        assert (found.width, found.height) == (64, 64)
        assert found.size == (np.ptp(columns) + 1, np.ptp(rows) + 1)
        assert found.positions == len(found.grid(7)) == len(grid(64, 64, found.size, 7))
        assert found.pair == pair
        assert type(found).of(found.document()) == found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("adaptive", [False, True])
def test_a_study_is_made_again_from_its_run(rooms, pairs, tmp_path, adaptive):
    """The same cases and the same settings, so that a case can be run again and pictures drawn."""
    settings = {"step": 9, "seed": 3, "own": "matched", "kept_iou": 0.8, "adaptive": adaptive, "precision": 20.0}
    settings |= {"tau": (0.2, 0.6), "policy": "caption"}
    study = scan_of(rooms, pairs, **settings)
    run = scanned(study, TileDetector(), tmp_path / "run", view=study.how.document("view")).run
    again = SCAN.rebuild(run, rooms)
    assert again.settings() == study.settings() == run.settings
    assert list(again.cases()) == list(study.cases())
    how = settings_of(run)
    assert how.rules == study.how.rules
    assert (how.adaptive, how.tau, how.policy) == (adaptive, (0.2, 0.6), "caption")
    assert bool(run.settings["adaptive"]) == adaptive
    rows = scanned(again, TileDetector(), tmp_path / "again").run.table()
    assert rows.equals(run.table())


class Blind(TileDetector):
    fingerprint = None

    def detect(self, images):
        return [found[:0] for found in super().detect(images)]


class Broken(TileDetector):
    """Cannot be asked about images whose mean is even."""

    fingerprint = None

    def detect(self, images):
        if any(int(image.mean()) % 2 == 0 for image in images):
            raise ValueError("no")
        return super().detect(images)


ALONE = Asking(cached=False, batch_size=1)


def test_backgrounds_are_those_with_detections(rooms):
    found = with_detections(TileDetector(), rooms, 3, 0.9, seed=2, asking=ALONE)
    seen = [i for i in candidates(rooms, 2) if (TileDetector().detect([rooms[i].image])[0].scores >= 0.9).any()]
    assert found == seen[:3]
    assert with_detections(TileDetector(), rooms, 3, 0.5, only=4, asking=ALONE) == [4]
    odd = [i for i in candidates(rooms, 0) if int(rooms[i].image.mean()) % 2]
    assert 0 < len(odd) < len(rooms)
    assert with_detections(Broken(), rooms, 8, 0.5, asking=ALONE) == odd, "one that fails is passed over"
    even = next(i for i in range(len(rooms)) if i not in odd)
    with pytest.raises(DetectorFailed, match="no image could be asked about"):
        with_detections(Broken(), rooms, 1, 0.5, only=even, asking=ALONE)


def test_bad_input_is_one_sentence(rooms, pairs, tmp_path):
    with pytest.raises(BadData, match="widen them"):
        choose_pairs(rooms, 1, [0], sizes=Sizes(min_area=0.99, max_side=1))
    with pytest.raises(BadData, match=r"no detections of score 0\.5 or more"):
        with_detections(Blind(), rooms, 3, 0.5, asking=ALONE)
    with pytest.raises(BadSpec, match=r"1 positions .* choose a smaller step"):
        transplants(rooms, pairs[:1], 64)
    with pytest.raises(BadSpec, match="no image 'nowhere'"):
        find_image(rooms, "nowhere")
    with pytest.raises(BadSpec, match="no annotation 123456"):
        find_object(rooms, 123456)
    for tau in ((0.0,), (), (1.1,), "high"):
        with pytest.raises(BadSpec, match="tau takes numbers above 0 and up to 1"):
            ScanSettings(tau=tau)
    run = scanned(scan_of(rooms, pairs[:1], step=20, control=False), Blind(), tmp_path / "blind").run
    document = document_of(run)
    assert document["affected"]["0.5"] is None
    assert "No detections on any of the clean images" in SCAN.sentences(document)[-1]


def test_object_too_large_for_the_image_has_no_position(rooms):
    size = cut(rooms[1], 0, rooms.names).size
    assert not len(grid(size[0] - 1, 64, size, 5))
    with pytest.raises(BadData, match="too small or too large"):
        choose_pairs(rooms, 1, [0], sizes=Sizes(max_side=0.01), thing=(1, 0))

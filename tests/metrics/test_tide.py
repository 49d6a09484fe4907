"""TIDE: tidecv is the oracle; planted errors and conservation laws are the arguments it cannot give."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_oracles import MAIN_AND_SPECIAL, cocoapi100, columns, random_coco, tidecv_run

from misdetect.metrics import tide
from misdetect.metrics.columns import DetectionColumns, ImageRow, TruthColumns
from misdetect.metrics.tide import DETECTION_TYPES, TRUTH_TYPES, TideSettings, assign, costs
from misdetect.said.errors import BadArray

LIKE_TIDECV = TideSettings(cap=100)


def check_against_tidecv(truth, records, folder, *, masks=False, atol=1e-6):
    both = columns(truth, records, folder, masks=masks)
    assignment = assign(*both, LIKE_TIDECV)
    result = costs(assignment, *both, LIKE_TIDECV)
    base, expected, counts = tidecv_run(truth, records, masks=masks)
    assert result.base == pytest.approx(base, abs=atol)
    assert [result.delta[k] for k in MAIN_AND_SPECIAL] == pytest.approx(
        [max(expected[k], 0) for k in MAIN_AND_SPECIAL], abs=atol
    )
    # tidecv counts ignored detections among the errors, too: `error` is the type without regard to crowds
    found = {name: int((assignment.error == DETECTION_TYPES.index(name)).sum()) for name in MAIN_AND_SPECIAL[:5]}
    assert found | {"Miss": assignment.counts()["Miss"]} == counts


@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_agrees_with_tidecv_on_cocoapi100(tmp_path, kind):
    check_against_tidecv(*cocoapi100(kind), tmp_path, masks=kind == "segm")


@pytest.mark.sampled(10)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"crowd": 0.25},
        {"decimals": 1, "crowd": 0.1},
        {"without_truth": 2, "classes": 6, "crowd": 0.1},
        {"objects": 30, "images": 6, "copies": 12, "classes": 2},
    ],
    ids=["plain", "crowds", "tied scores", "classes without truth", "more than 100 per image"],
)
def test_agrees_with_tidecv_on_random_data(tmp_path, seed, shape):
    check_against_tidecv(*random_coco(seed, **shape), tmp_path)


@pytest.mark.parametrize("seed", range(4))
def test_leaving_out_classes_without_truth_agrees_with_hotcoco(tmp_path, monkeypatch, seed):
    hotcoco = pytest.importorskip("hotcoco")
    if not hasattr(hotcoco.COCO, "update_anns"):
        pytest.skip("the TIDE of older ones is another")
    truth, records = random_coco(seed, without_truth=2, classes=6)
    both = columns(truth, records, tmp_path)
    # COCO's recall grid differs from tidecv's in the last bit, which moves small classes by tenths of a point
    monkeypatch.setattr(tide, "RECALLS", np.linspace(0, 1, 101))
    settings = TideSettings(classes="with-truth", ties="file")
    ours = costs(assign(*both, settings), *both, settings)
    ground = hotcoco.COCO(truth)
    evaluation = hotcoco.COCOeval(ground, ground.load_res(records), "bbox")
    evaluation.evaluate()
    theirs = evaluation.tide_errors()
    names = {"FalsePos": "FP", "FalseNeg": "FN"}
    expected = [100 * theirs["delta_ap"][names.get(k, k)] for k in MAIN_AND_SPECIAL]
    assert [ours.delta[k] for k in MAIN_AND_SPECIAL] == pytest.approx(expected, abs=1e-6)
    assert ours.base == pytest.approx(100 * theirs["ap_base"], abs=1e-6)


def truth_of(boxes, labels, *, crowd=(), names=("cat", "dog"), images=1, image=None):
    n = len(boxes)
    corners = np.array(boxes, dtype=float).reshape(-1, 4)
    return TruthColumns(
        tuple(ImageRow(str(i), i, 1000, 1000) for i in range(images)),
        names,
        np.zeros(n, dtype=int) if image is None else np.array(image),
        np.array(labels, dtype=int),
        corners,
        np.ones(n),
        np.isin(np.arange(n), crowd),
        np.arange(n) + 100,
    )


def test_each_planted_error_is_found_and_points_at_its_truth():
    truth = truth_of(
        [
            [0, 0, 10, 10],
            [100, 0, 110, 10],
            [200, 0, 210, 10],
            [300, 0, 310, 10],
            [400, 0, 500, 100],
            [600, 0, 610, 10],
        ],
        [0, 0, 0, 0, 1, 0],
        crowd=[4],
    )
    planted = [
        ("TP", 0, [0, 0, 10, 10], 0, 0),
        ("Dupe", 0, [0, 0, 10, 9], 0, 0),
        ("Loc", 0, [104, 0, 114, 10], 0, 1),  # IoU 6/14
        ("Cls", 1, [200, 0, 210, 10], 0, 2),
        ("Both", 1, [304, 0, 314, 10], 0, 3),  # wrong class and IoU 6/14
        ("Bkg", 0, [700, 700, 710, 710], 0, -1),
        ("ignored", 1, [410, 10, 420, 20], 0, 4),
    ]
    detections = DetectionColumns.of(
        [0] * 7, [p[1] for p in planted], [p[2] for p in planted], np.linspace(0.9, 0.3, 7)
    )
    found = assign(truth, detections)
    assert [DETECTION_TYPES[i] for i in found.detection_type] == [p[0] for p in planted]
    assert found.truth_of.tolist() == [p[4] for p in planted]
    assert found.overlap == pytest.approx([1, 0.9, 6 / 14, 1, 6 / 14, 0, 1])
    # truth 3 only has a Both error about it, which mends nothing: it is missed, like truth 5
    assert [TRUTH_TYPES[i] for i in found.truth_type] == ["found", "Loc", "Cls", "Miss", "ignored", "Miss"]
    assert found.detection_of.tolist() == [0, 2, 3, -1, -1, -1]


def test_loc_wins_over_cls_and_counts_taken_truths():
    # tidecv's order: an overlap of 0.1..0.5 with the own class, even a taken one, is asked for before the other class
    truth = truth_of([[0, 0, 10, 10], [3, 0, 13, 10]], [0, 1])
    detections = DetectionColumns.of([0, 0], [0, 0], [[0, 0, 10, 10], [5, 0, 15, 10]], [0.9, 0.8])
    assert [DETECTION_TYPES[i] for i in assign(truth, detections).detection_type] == ["TP", "Loc"]


def test_perfect_predictions_have_no_error_however_many_objects():
    grid = np.array([[20 * (i % 20), 20 * (i // 20)] for i in range(300)], dtype=float)
    truth = truth_of(np.hstack([grid, grid + 10]), np.arange(300) % 2)
    detections = DetectionColumns.of(np.zeros(300, int), truth.label, truth.boxes, np.linspace(0.9, 0.1, 300))
    found = assign(truth, detections)
    result = costs(found, truth, detections)
    assert result.base == 100
    assert set(result.delta.values()) == {0.0}
    assert found.counts() == dict.fromkeys(found.counts(), 0) | {"TP": 300}
    capped = assign(truth, detections, LIKE_TIDECV).counts()
    assert (capped["TP"], capped["capped"], capped["Miss"]) == (100, 200, 200)


boxes = st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(1, 9), st.integers(1, 9)).map(
    lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3])
)


@st.composite
def scene_sets(draw):
    there = draw(st.lists(st.tuples(st.integers(0, 2), boxes, st.integers(0, 2), st.booleans()), max_size=10))
    there.sort(key=lambda t: t[0])
    found = draw(st.lists(st.tuples(st.integers(0, 2), boxes, st.integers(0, 2), st.integers(0, 4)), max_size=14))
    truth = truth_of(
        [t[1] for t in there],
        [t[2] for t in there],
        crowd=[i for i, t in enumerate(there) if t[3] and i % 3 == 0],
        names=("a", "b", "c"),
        images=3,
        image=np.array([t[0] for t in there], dtype=int),
    )
    detections = DetectionColumns.of(
        [f[0] for f in found],
        [f[2] for f in found],
        np.array([f[1] for f in found]).reshape(-1, 4),
        [f[3] / 4 for f in found],
    )
    return truth, detections


@given(scene_sets(), st.sampled_from([None, 1, 3]))
def test_every_detection_and_truth_is_counted_once(scene, cap):
    truth, detections = scene
    found = assign(truth, detections, TideSettings(cap=cap))
    counts = found.counts()
    assert sum(counts[k] for k in DETECTION_TYPES) == len(detections)
    real = int((~truth.crowd).sum())
    assert counts["TP"] + counts["covered"] + counts["Miss"] == real
    # a found truth and its detection name each other, and nobody else does
    hits = np.flatnonzero(found.detection_type == tide.TP)
    assert found.detection_of[found.truth_of[hits]].tolist() == hits.tolist()
    # whoever points at a truth is in its image, and types that need a truth have one
    linked = np.flatnonzero(found.truth_of >= 0)
    assert (truth.image[found.truth_of[linked]] == detections.image[linked]).all()
    assert ((found.truth_of >= 0) | np.isin(found.detection_type, [tide.BKG, tide.CAPPED])).all()


@given(scene_sets())
def test_fixing_never_costs_and_never_passes_100(scene):
    found = assign(*scene)
    result = costs(found, *scene)
    if not (~scene[0].crowd).any():
        assert result.base is None
        assert set(result.delta.values()) == {None}
    else:
        assert all(0 <= v <= 100 - result.base + 1e-9 for v in result.delta.values())


@given(scene_sets())
def test_the_size_of_blocks_does_not_matter(scene):
    whole = assign(*scene)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tide, "PAIRS_AT_ONCE", 1)
        pieces = assign(*scene)
    for name in vars(whole):
        np.testing.assert_array_equal(getattr(whole, name), getattr(pieces, name))


def test_the_order_of_the_file_does_not_matter_without_ties(tmp_path):
    truth, records = random_coco(4, crowd=0.1)
    first = columns(truth, records, tmp_path)
    second = columns(truth, records[::-1], tmp_path)
    assert assign(*first).counts() == assign(*second).counts()
    assert costs(assign(*first), *first).delta == pytest.approx(costs(assign(*second), *second).delta)


def test_ties_in_file_order_leave_costs_where_errors_are():
    # one object found and one false detection of the same score, the false one later in the file
    truth = truth_of([[0, 0, 10, 10], [50, 0, 60, 10]], [0, 0], names=("cat",))
    detections = DetectionColumns.of(
        [0, 0, 0], [0, 0, 0], [[0, 0, 10, 10], [80, 80, 90, 90], [50, 0, 60, 10]], [0.5, 0.5, 0.5]
    )
    in_file_order = TideSettings(ties="file")
    found = assign(truth, detections, in_file_order)
    cost = costs(found, truth, detections, in_file_order)
    # by hand: precision 1 up to recall 0.5 (51 of 101 points), then 2/3 (50 points)
    assert cost.base == pytest.approx((51 + 50 * 2 / 3) / 101 * 100)
    assert cost.delta["Bkg"] == pytest.approx(100 - cost.base)
    assert cost.delta["FalseNeg"] == 0


def test_the_costs_per_class_average_to_the_whole(tmp_path):
    both = columns(*random_coco(2), tmp_path)
    result = costs(assign(*both), *both)
    for name, value in result.delta.items():
        assert np.mean(result.delta_by_class[name]) == pytest.approx(value, abs=1e-9)


def test_no_predictions_are_all_misses(tmp_path):
    both = columns(random_coco(0)[0], [], tmp_path)
    found = assign(*both)
    result = costs(found, *both)
    assert found.counts()["Miss"] == len(both[0])
    assert result.base == 0
    assert (result.delta["Miss"], result.delta["FalseNeg"], result.delta["Bkg"]) == (100, 100, 0)


def test_no_truth_makes_everything_background_and_costs_undefined(tmp_path):
    truth, records = random_coco(0)
    both = columns({**truth, "annotations": []}, records, tmp_path)
    found = assign(*both)
    assert found.counts()["Bkg"] == len(records)
    assert set(costs(found, *both).delta.values()) == {None}


def test_masks_decide_where_boxes_cannot(tmp_path):
    # two triangles that share a box: IoU 1 by boxes, none by masks
    size = {"width": 40, "height": 40}
    upper, lower = [[0, 0, 30, 0, 0, 30]], [[30, 30, 30, 1, 1, 30]]
    truth = {
        "images": [{"id": 1, "file_name": "1.jpg", **size}],
        "categories": [{"id": 1, "name": "sail"}],
        "annotations": [
            {
                "id": 1,
                "image_id": 1,
                "category_id": 1,
                "bbox": [0, 0, 30, 30],
                "area": 450.0,
                "iscrowd": 0,
                "segmentation": upper,
            }
        ],
    }
    records = [{"image_id": 1, "category_id": 1, "bbox": [0, 0, 30, 30], "score": 0.9, "segmentation": lower}]
    assert assign(*columns(truth, records, tmp_path)).counts()["TP"] == 1
    by_mask = columns(truth, records, tmp_path, masks=True)
    assert assign(*by_mask).counts()["Bkg"] == 1
    assert assign(by_mask[0], replace(by_mask[1], segments=None)).counts()["TP"] == 1


@pytest.mark.parametrize("bad", [{"background": 0.6}, {"background": 0}, {"foreground": 1.5}, {"cap": 0}])
def test_impossible_settings_are_refused(bad):
    with pytest.raises(BadArray, match="Got"):
        TideSettings(**bad)

"""Laws of box geometry, and agreement with a scalar loop, with pycocotools and with brute force."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from pycocotools import mask as coco_mask

from misdetect.nouns import boxes as geometry
from misdetect.said.errors import BadArray

coordinates = st.floats(-1e4, 1e4, width=32)
types = st.sampled_from([np.float32, np.float64])


@st.composite
def box_sets(draw, max_size=6):
    """``[N, 4]`` boxes, flat ones included, float32 or float64."""
    corners = draw(st.lists(st.tuples(*[coordinates] * 4), max_size=max_size))
    rows = [(min(a, c), min(b, d), max(a, c), max(b, d)) for a, b, c, d in corners]
    return np.array(rows, dtype=draw(types)).reshape(-1, 4)


def scalar_overlap(a, b) -> tuple[float, float, float]:
    """Intersection and the two areas, one pair at a time, in Python floats."""
    a, b = [float(v) for v in a], [float(v) for v in b]
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    shared = width * height if width > 0 and height > 0 else 0.0
    return shared, (a[2] - a[0]) * (a[3] - a[1]), (b[2] - b[0]) * (b[3] - b[1])


@given(box_sets(), box_sets())
def test_iou_and_coverage_agree_with_a_scalar_loop(a, b):
    iou, coverage = geometry.iou(a, b), geometry.coverage(a, b)
    assert iou.shape == coverage.shape == (len(a), len(b))
    for i, one in enumerate(a):
        for j, other in enumerate(b):
            shared, left, right = scalar_overlap(one, other)
            union = left + right - shared
            # float32 loses digits where large coordinates differ little; compare in units of what is compared
            assert iou[i, j] == pytest.approx(shared / union if union else 0, abs=2e-3)
            assert coverage[i, j] == pytest.approx(shared / left if left else 0, abs=2e-3)


@given(box_sets(), box_sets())
def test_iou_is_symmetric_and_both_ratios_stay_within_0_and_1(a, b):
    """Exactly, not nearly: also where one side is float32 and its area rounds otherwise than the intersection."""
    iou = geometry.iou(a, b)
    np.testing.assert_array_equal(iou, geometry.iou(b, a).T)
    for ratio in (iou, geometry.coverage(a, b), geometry.coverage(b, a)):
        assert np.isfinite(ratio).all()
        assert ((ratio >= 0) & (ratio <= 1)).all()
    assert (geometry.coverage(a, b) >= iou - 1e-6).all()


@given(box_sets())
def test_a_box_is_itself(a):
    solid = geometry.area(a) > 0
    np.testing.assert_array_equal(np.diag(geometry.iou(a, a)), solid.astype(a.dtype))
    np.testing.assert_array_equal(np.diag(geometry.coverage(a, a)), solid.astype(a.dtype))


def test_a_float32_box_does_not_exceed_its_float64_self():
    """Planted: the float32 area of this box rounds down, its float64 intersection does not."""
    narrow = np.array([[0, 0, 4099, 4099]], dtype=np.float32)
    wide = np.array([[-1.0, -1.0, 9000.0, 9000.0]])
    assert geometry.area(narrow)[0] < geometry.area(narrow.astype(np.float64))[0]
    assert geometry.coverage(narrow, wide)[0, 0] == 1
    assert geometry.iou(narrow, narrow.astype(np.float64))[0, 0] == 1


@given(st.integers(0, 2**32 - 1))
def test_iou_agrees_with_pycocotools(seed):
    rng = np.random.default_rng(seed)
    start = rng.uniform(0, 50, (7, 2))
    xywh = np.concatenate([start, rng.uniform(0.1, 40, (7, 2))], axis=1)
    crowd = rng.random(3) < 0.5
    expected = coco_mask.iou(xywh[:4], xywh[4:], crowd.astype(np.uint8).tolist())
    a, b = geometry.xywh_to_xyxy(xywh[:4]), geometry.xywh_to_xyxy(xywh[4:])
    ours = np.where(crowd, geometry.coverage(a, b), geometry.iou(a, b))  # COCO measures crowds by coverage
    np.testing.assert_allclose(ours, expected, atol=1e-12)


@given(box_sets())
def test_conversions_are_inverse(a):
    a = a.astype(np.float64)
    np.testing.assert_allclose(geometry.xywh_to_xyxy(geometry.xyxy_to_xywh(a)), a, atol=1e-9)
    centred = np.concatenate([(a[:, :2] + a[:, 2:]) / 2, a[:, 2:] - a[:, :2]], axis=1)
    np.testing.assert_allclose(geometry.cxcywh_to_xyxy(centred), a, atol=1e-9)


@given(box_sets(), st.integers(1, 500), st.integers(1, 500))
def test_clipping_keeps_exactly_what_the_image_covers(a, width, height):
    original = a.copy()
    cut = geometry.clip(a, width, height)
    np.testing.assert_array_equal(a, original)
    image = np.array([[0, 0, width, height]], dtype=a.dtype)
    np.testing.assert_allclose(geometry.area(cut), geometry.intersection(a, image)[:, 0], rtol=1e-5)
    np.testing.assert_array_equal(geometry.clip(cut, width, height), cut)


weights = arrays(
    np.float64,
    array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=5),
    elements=st.sampled_from([0.0, 0.0, 0.25, 0.5, 0.5, 0.75, 1.0, 3.0]),
)


@given(weights)
def test_matching_is_the_best_of_all_permutations(w):
    rows, columns = geometry.match(w)
    assert len(set(rows.tolist())) == len(rows)
    assert len(set(columns.tolist())) == len(columns)
    assert (np.diff(rows) > 0).all()
    assert (w[rows, columns] > 0).all()
    square = np.zeros((5, 5))
    square[: w.shape[0], : w.shape[1]] = w
    best = max(square[np.arange(5), list(order)].sum() for order in permutations(range(5)))
    assert w[rows, columns].sum() == best


def test_forbidden_pairs_are_never_matched():
    w = np.array([[0.9, 0.0], [0.8, 0.0]])
    rows, columns = geometry.match(w)
    assert (rows.tolist(), columns.tolist()) == ([0], [0])


@pytest.mark.parametrize(
    ("weights", "says"),
    [([1.0, 2.0], r"\[N, M\].*\[2\]"), ([[np.nan]], "nan"), ([[-0.5]], "-0.5"), ([[np.inf]], "inf")],
)
def test_weights_that_have_no_best_matching_are_refused(weights, says):
    with pytest.raises(BadArray, match=says):
        geometry.match(weights)


@pytest.mark.parametrize(
    ("boxes", "says"),
    [
        ([[1, 2, 3]], r"\[1, 3\]"),
        ([1, 2, 3, 4], r"\[4\]"),
        ([[1, 2, 3, 4], [5]], "different lengths"),
        ([["a", "b", "c", "d"]], "numbers"),
        ([["1", "2", "3", "4"]], "numbers"),
        ([[1j, 2, 3, 4]], "complex"),
        ([[None, 2, 3, 4]], "object"),
    ],
)
def test_what_is_no_box_is_refused_with_its_shape(boxes, says):
    with pytest.raises(BadArray, match=says):
        geometry.iou(boxes, [[0, 0, 1, 1]])


@pytest.mark.parametrize("nothing", [[], np.zeros((0, 4)), np.zeros(0, np.float32), ()])
def test_empty_is_always_legal(nothing):
    assert geometry.iou(nothing, [[0, 0, 1, 1]]).shape == (0, 1)
    assert geometry.coverage([[0, 0, 1, 1]], nothing).shape == (1, 0)
    assert geometry.area(nothing).shape == (0,)
    assert geometry.xyxy_to_xywh(nothing).shape == geometry.clip(nothing, 5, 5).shape == (0, 4)
    assert [len(side) for side in geometry.match(np.zeros((0, 3)))] == [0, 0]

"""Decoders against per-candidate loops that follow each family's published formula, on random outputs."""

import math

import numpy as np
import pytest

from misdetect.detectors.onnx.decoders import BoxesAndScores, ClassChannels, Objectness, Queries, UserDecoder
from misdetect.detectors.onnx.suppressed import GraphWithNms
from misdetect.detectors.outputs import Frame
from misdetect.said.errors import BadSpec, DetectorFailed

CLASSES, WIDTH, HEIGHT = 5, 96, 64


def frame(score=0.3, outputs=("output",), **more):
    return Frame(WIDTH, HEIGHT, CLASSES, score, outputs, "onnx:test.onnx", **more)


def as_set(found):
    """Order-free and rounded: (label, score, box)."""
    return {
        (int(label), round(float(score), 3), *(round(float(v), 2) for v in box))
        for box, score, label in zip(found.boxes, found.scores, found.labels, strict=True)
    }


def corners(cx, cy, w, h):
    return cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2


def agrees(found, candidates, threshold, multilabel):
    """``found`` is what a loop over ``(class scores, box)`` candidates finds, in any order."""
    expected = []
    for scores, box in candidates:
        labels = range(CLASSES) if multilabel else [max(range(CLASSES), key=lambda c: scores[c])]
        expected += [(label, scores[label], *box) for label in labels if scores[label] >= threshold]
    rows = np.column_stack([found.labels, found.scores, found.boxes]).reshape(-1, 6)
    np.testing.assert_allclose(
        rows[np.lexsort((rows[:, 1], rows[:, 0]))], np.array(sorted(expected)).reshape(-1, 6), rtol=1e-4, atol=1e-4
    )
    return len(rows)


@pytest.mark.parametrize("multilabel", [False, True])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.8])
def test_yolox_is_offsets_from_grid_cells_and_log_sizes(threshold, multilabel):
    rng = np.random.default_rng(0)
    cells = [(s, x, y) for s in (8, 16, 32) for y in range(HEIGHT // s) for x in range(WIDTH // s)]
    raw = rng.random((1, len(cells), 5 + CLASSES)).astype(np.float32)
    candidates = []
    for (stride, x, y), row in zip(cells, raw[0], strict=True):
        box = corners(
            (row[0] + x) * stride, (row[1] + y) * stride, math.exp(row[2]) * stride, math.exp(row[3]) * stride
        )
        candidates.append(([row[4] * s for s in row[5:]], box))
    found = Objectness(frame(threshold, multilabel=multilabel), "yolox", (8, 16, 32)).decode([raw])
    agrees(found, candidates, threshold, multilabel)
    assert found.boxes.dtype == np.float32


@pytest.mark.parametrize("multilabel", [False, True])
def test_yolov5_is_pixels_with_objectness(multilabel):
    rng = np.random.default_rng(1)
    raw = rng.random((1, 200, 5 + CLASSES)).astype(np.float32)
    raw[..., :4] *= 60
    candidates = [([row[4] * s for s in row[5:]], corners(*row[:4])) for row in raw[0]]
    found = Objectness(frame(multilabel=multilabel), "yolov5").decode([raw])
    assert agrees(found, candidates, 0.3, multilabel) > 20


@pytest.mark.parametrize("multilabel", [False, True])
def test_yolov8_is_channels_first_without_objectness(multilabel):
    rng = np.random.default_rng(2)
    raw = rng.random((1, 4 + CLASSES, 200)).astype(np.float32) ** 2
    raw[:, :4] *= 60
    candidates = [(raw[0, 4:, n], corners(*raw[0, :4, n])) for n in range(200)]
    found = ClassChannels(frame(0.6, multilabel=multilabel), "yolov8").decode([raw])
    assert agrees(found, candidates, 0.6, multilabel) > 20


def test_yolo_decoders_do_not_write_into_the_outputs():
    raw = np.random.default_rng(3).random((1, 126, 5 + CLASSES)).astype(np.float32)
    before = raw.copy()
    Objectness(frame(0.0), "yolox", (8, 16, 32)).decode([raw])
    np.testing.assert_array_equal(raw, before)


@pytest.mark.parametrize("threshold", [0.0, 0.2, 1.0])
def test_detr_with_softmax_takes_each_query_s_best_class_but_no_object(threshold):
    rng = np.random.default_rng(4)
    logits, boxes = rng.normal(size=(1, 30, CLASSES + 1)) * 2, rng.random((1, 30, 4))
    candidates = []
    for row, (cx, cy, w, h) in zip(logits[0], boxes[0], strict=True):
        total = sum(math.exp(v) for v in row)
        box = corners(cx * WIDTH, cy * HEIGHT, w * WIDTH, h * HEIGHT)
        candidates.append(([math.exp(v) / total for v in row[:-1]], box))
    decoder = Queries(frame(threshold, ("pred_boxes", "other", "logits")), "detr", "softmax", "")
    found = decoder.decode([boxes.astype(np.float32), np.zeros((1, 1), np.float32), logits.astype(np.float32)])
    agrees(found, candidates, threshold, False)


@pytest.mark.parametrize("threshold", [0.0, 0.5, 1.0])
def test_detr_with_sigmoid_takes_every_query_and_class(threshold):
    rng = np.random.default_rng(5)
    logits, boxes = rng.normal(size=(1, 30, CLASSES)).astype(np.float32), rng.random((1, 30, 4)).astype(np.float32)
    candidates = [
        ([1 / (1 + math.exp(-v)) for v in row], corners(cx * WIDTH, cy * HEIGHT, w * WIDTH, h * HEIGHT))
        for row, (cx, cy, w, h) in zip(logits[0], boxes[0], strict=True)
    ]
    found = Queries(frame(threshold, ("a", "b")), "rtdetr", "sigmoid", "logits,boxes").decode([logits, boxes])
    agrees(found, candidates, threshold, True)


TABLE = np.array([[1, 2, 31, 42, 0.9, 3], [5, 6, 7, 8, 0.1, 1], [0, 0, 9, 9, 0.4, 0]], np.float32)
EXPECTED = {(3, 0.9, 1.0, 2.0, 31.0, 42.0), (0, 0.4, 0.0, 0.0, 9.0, 9.0)}


def table7(batch):
    return np.concatenate([np.full((3, 1), batch), TABLE[:, :4], TABLE[:, 5:], TABLE[:, 4:5]], axis=1).astype(
        np.float32
    )


@pytest.mark.parametrize("table", [TABLE, TABLE[None], TABLE[None, None], table7(0), table7(0)[None]])
def test_graph_with_nms_as_one_table(table):
    decoder = GraphWithNms(frame(), "", "")
    (only,) = decoder.split([table], 1)
    assert as_set(decoder.decode(only)) == EXPECTED


def test_graph_with_nms_columns_as_stated():
    ssd = np.concatenate([np.zeros((3, 1)), TABLE[:, 5:] + 1, TABLE[:, 4:5], TABLE[:, :4] / 100], axis=1)
    decoder = GraphWithNms(frame(), "batch,class,score,x0,y0,x1,y1", "", units="shares", labels_from=1)
    expected = {(3, 0.9, 0.96, 1.28, 29.76, 26.88), (0, 0.4, 0.0, 0.0, 8.64, 5.76)}
    assert as_set(decoder.decode([ssd.astype(np.float32)])) == expected


def test_graph_with_nms_splits_a_flat_table_by_its_batch_column():
    decoder = GraphWithNms(frame(), "", "")
    flat = np.concatenate([table7(1), table7(0)[:1]])
    first, second, third = decoder.split([flat], 3)
    assert as_set(decoder.decode(first)) == {(3, 0.9, 1.0, 2.0, 31.0, 42.0)}
    assert as_set(decoder.decode(second)) == EXPECTED
    assert as_set(decoder.decode(third)) == set()


@pytest.mark.parametrize("batched", [False, True])
def test_graph_with_nms_as_separate_outputs(batched):
    boxes, scores, labels = TABLE[:, :4], TABLE[:, 4], TABLE[:, 5].astype(np.int64)
    parts = [boxes[None], scores[None], labels[None]] if batched else [boxes, scores, labels]
    by_name = GraphWithNms(frame(outputs=("boxes", "scores", "labels")), "", "")
    assert as_set(by_name.decode(by_name.split(parts, 1)[0])) == EXPECTED
    stated = GraphWithNms(frame(outputs=("a", "b", "c")), "", "boxes,scores,labels")
    assert as_set(stated.decode(stated.split(parts, 1)[0])) == EXPECTED


def test_graph_with_nms_reads_only_as_many_rows_as_are_counted():
    names = ("num_dets", "det_boxes", "det_scores", "det_classes")
    padded = [np.array([[1]]), TABLE[None, :, :4], TABLE[None, :, 4], TABLE[None, :, 5]]
    assert as_set(GraphWithNms(frame(outputs=names), "", "").decode(padded)) == {(3, 0.9, 1.0, 2.0, 31.0, 42.0)}


def test_graph_with_nms_reads_boxes_that_carry_their_score():
    decoder = GraphWithNms(frame(outputs=("dets", "labels")), "", "")
    assert as_set(decoder.decode([TABLE[None, :, :5], TABLE[None, :, 5].astype(np.int64)])) == EXPECTED


@pytest.mark.parametrize(
    ("box_format", "convert"),
    [
        ("yxyx", lambda b: b[:, [1, 0, 3, 2]]),
        ("xywh", lambda b: np.c_[b[:, :2], b[:, 2:] - b[:, :2]]),
        ("cxcywh", lambda b: np.c_[(b[:, :2] + b[:, 2:]) / 2, b[:, 2:] - b[:, :2]]),
    ],
)
def test_graph_with_nms_box_formats(box_format, convert):
    decoder = GraphWithNms(frame(), "", "", boxes=box_format)
    assert as_set(decoder.decode([np.c_[convert(TABLE[:, :4]), TABLE[:, 4:]].astype(np.float32)])) == EXPECTED


def test_user_decoder_by_labels_and_by_class_scores_agree():
    boxes, table = TABLE[:, :4], np.zeros((3, CLASSES))
    table[np.arange(3), TABLE[:, 5].astype(int)] = TABLE[:, 4]
    sizes = []

    def labelled(outputs, size):
        sizes.append(size)
        return boxes, TABLE[:, 4], TABLE[:, 5]

    by_label = UserDecoder(frame(), labelled).decode([TABLE])
    by_class = UserDecoder(frame(), lambda outputs, size: (boxes, table)).decode([TABLE])
    assert as_set(by_label) == as_set(by_class) == EXPECTED
    assert sizes == [(WIDTH, HEIGHT)]


def fails():
    raise KeyError("no such thing")


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (lambda o, s: fails(), "raised KeyError"),
        (lambda o, s: None, "expected the decoder to return"),
        (lambda o, s: (TABLE, TABLE[:, 4], TABLE[:, 5]), r"\[3, 6\]"),
        (lambda o, s: (TABLE[:, :4], TABLE[:2, 4], TABLE[:, 5]), r"scores \[2\]"),
        (lambda o, s: (TABLE[:, :4], TABLE[:, :4]), r"scores \[3, 4\]"),
        (lambda o, s: (TABLE[:, :4], TABLE[:, 4], TABLE[:, 5] + 4), "indices of the 5 names"),
        (lambda o, s: (TABLE[:, :4], TABLE[:, 4], TABLE[:, 5] + 0.5), "indices of the 5 names"),
        (lambda o, s: (TABLE[:, :4], TABLE[:, 4] * np.nan, TABLE[:, 5]), "NaN"),
    ],
)
def test_a_user_s_mistakes_are_named(result, says):
    with pytest.raises(DetectorFailed, match=says):
        UserDecoder(frame(), result).decode([TABLE])


NAN = np.full((1, 126, 5 + CLASSES), np.nan, np.float32)


@pytest.mark.parametrize(
    ("decode", "kind", "says"),
    [
        (lambda: Objectness(frame(), "yolox", (8, 16, 32)).decode([NAN[:, :100]]), BadSpec, r"\[1, 126, 10\]"),
        (lambda: Objectness(frame(), "yolov5").decode([NAN[:, :, :9]]), BadSpec, "5 names"),
        (lambda: Objectness(frame(), "yolov5").decode([NAN]), DetectorFailed, "NaN"),
        (lambda: ClassChannels(frame(), "yolov8").decode([NAN]), BadSpec, r"\[1, 9, N\]"),
        (lambda: ClassChannels(frame(), "yolov8").decode([NAN[0]]), BadSpec, r"\[126, 10\]"),
        (lambda: Objectness(frame(), "yolov5").split([NAN], 2), BadSpec, "batch=1"),
        (lambda: Queries(frame(outputs=("a", "b")), "detr", "softmax", ""), BadSpec, "outputs=logits,boxes"),
        (lambda: Queries(frame(outputs=("a", "b")), "detr", "softmax", "logits,cats"), BadSpec, "outputs=logits,cats"),
        (
            lambda: Queries(frame(outputs=("logits", "pred_boxes")), "detr", "softmax", "").decode(
                [np.zeros((1, 9, CLASSES)), np.zeros((1, 9, 4))]
            ),
            BadSpec,
            "check names=",
        ),
        (lambda: GraphWithNms(frame(), "", "").decode([TABLE[:, [0, 1, 2, 3, 5, 4]]]), BadSpec, "columns="),
        (lambda: GraphWithNms(frame(), "", "").decode([TABLE[:, :5]]), BadSpec, "columns="),
        (lambda: GraphWithNms(frame(), "x0,y0,x1,y1,score,what", "").decode([TABLE]), BadSpec, "columns="),
        (lambda: GraphWithNms(frame(), "", "").decode([TABLE + np.eye(1, 6, 5)[0] * 4]), DetectorFailed, "label 7"),
        (lambda: GraphWithNms(frame(), "", "").split([TABLE], 2), BadSpec, "batch=1"),
        (lambda: GraphWithNms(frame(outputs=("a", "b", "c")), "", ""), BadSpec, "which output holds boxes and labels"),
        (
            lambda: GraphWithNms(frame(outputs=("boxes", "scores", "labels")), "", "").decode(
                [TABLE[:, :4], TABLE[:2, 4], TABLE[:, 5]]
            ),
            BadSpec,
            r"scores \[2\]",
        ),
    ],
)
def test_outputs_that_do_not_fit_are_named(decode, kind, says):
    with pytest.raises(kind, match=says):
        decode()


UNITS = {
    "yolov8": (lambda units: ClassChannels(frame(), "yolov8", units=units), lambda b, s: [np.concatenate([b, s], 1)]),
    "yolov5": (
        lambda units: Objectness(frame(), "yolov5", units=units),
        lambda b, s: [np.concatenate([b, s[:, :1], s], 1)],
    ),
    "boxes-scores": (
        lambda units: BoxesAndScores(frame(outputs=("boxes", "scores")), "none", "", units=units),
        lambda b, s: [b, s],
    ),
}


@pytest.mark.parametrize("name", UNITS)
def test_boxes_that_cannot_be_pixels_are_an_error_until_some_can(name):
    """A network's boxes are all shares or all pixels; a small one among large ones is none to complain of."""
    make, join = UNITS[name]
    rng = np.random.default_rng(3)
    shares, scores = rng.random((30, 4), np.float32), rng.random((30, CLASSES), np.float32)

    def decoded(decoder, boxes):
        arrays = [each[None] for each in join(boxes, scores)]
        return decoder.decode([arrays[0].swapaxes(1, 2)] if name == "yolov8" else arrays)

    with pytest.raises(BadSpec, match="shares of the image and not pixels; give units=shares"):
        decoded(make(""), shares)
    size = np.float32([WIDTH, HEIGHT] * 2)
    unsure = make("")
    pixels = decoded(unsure, shares * size)
    np.testing.assert_allclose(decoded(make("shares"), shares).boxes, pixels.boxes, rtol=1e-4, atol=1e-3)
    assert len(decoded(unsure, shares)) == len(decoded(make("pixels"), shares)) == len(pixels)

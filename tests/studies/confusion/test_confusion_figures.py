"""The pictures of a confusion matrix: which cell is drawn where, what merging keeps, that thresholds are there."""

import cv2
import numpy as np
import pytest
from chart_parts import bar_lengths, words
from explain_toys import Random, dataset

import misdetect as md
from misdetect.drawing import charts
from misdetect.drawing.merged import Shown, shares
from misdetect.studies.confusion.figures import draw, worst
from misdetect.studies.confusion.plots import footer, iou_figure, matrix_figure, top_figure

NAMES = ("cat", "dog", "owl")


def document(names=NAMES, cell=(0, 2), count=40):
    """Ten right of each class, ``count`` in one ``cell``, five false ones called as the second class, three of the
    first missed."""
    labels, n = [*names, "background"], len(names)
    counts = np.zeros((n + 1, n + 1), dtype=int)
    counts[range(n), range(n)] = 10
    counts[cell] = count
    counts[n, 1] = 5
    became = np.zeros((n, n + 2), dtype=int)
    became[:, : n + 1] = counts[:n]
    became[0, n + 1] = 3
    histogram = [0] * 9 + [1]
    return {
        "detector": "onnx:/some/where/model.onnx,decoder=yolox",
        "data": "coco:/else/where/instances.json",
        "labels": labels,
        "counts": counts.tolist(),
        "confidence": (counts / 2).tolist(),
        "became": became.tolist(),
        "missed": {name: 3 * (i == 0) for i, name in enumerate(names)},
        "policy_dependent": [{"actual": labels[n], "predicted": labels[1], "counts": {}}],
        "iou_histograms": {"cells": [[labels[a], labels[b], histogram] for a, b in np.argwhere(counts).tolist()]},
        "confusions": [
            {"actual": labels[cell[0]], "predicted": labels[cell[1]], "count": count, "confidence": count / 2,
             "policy_dependent": True}
        ],
        "conservation": {"detections": {"all": 99, "in_cells": 90, "in_crowds": 2, "below_score": 4, "left_out": 3}},
        "settings": {"score": 0.31, "iou": 0.52, "policy": "greedy", "background": "hard", "detector": {"nms": 0.63}},
    }  # fmt: skip


def pixels(figure, folder):
    return cv2.imread(str(charts.save(folder / "figure.png", figure)))[:, :, ::-1].astype(int)


def at(image, axes, x, y):
    """The colour drawn at the place ``x, y`` of ``axes``."""
    across, up = axes.transData.transform((x, y))
    return image[round(image.shape[0] - 1 - up), round(across)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("cell", [(0, 2), (2, 0), (1, 0)])
def test_a_cell_is_drawn_in_the_row_of_the_actual_and_the_column_of_the_predicted_class(cell, tmp_path):
    figure = matrix_figure(document(cell=cell))
    image = pixels(figure, tmp_path)
    for axes in figure.axes:
        assert (axes.get_ylabel(), axes.get_xlabel()) == ("actual", "predicted")
        assert [label.get_text() for label in axes.get_yticklabels()] == [*NAMES, "background"]
        assert [label.get_text() for label in axes.get_xticklabels()] == [*NAMES, "background", "missed"]
        # rows go down as one reads
        assert axes.transData.transform((0, 0))[1] > axes.transData.transform((0, 2))[1]
        drawn = at(image, axes, cell[1] + 0.3, cell[0] + 0.3)
        other = at(image, axes, cell[0] + 0.3, cell[1] + 0.3)
        assert drawn[0] > drawn[2] + 60, "a wrong cell is orange"
        assert other.min() > 240, "its mirror is empty"
        right = at(image, axes, 1.3, 1.3)
        assert right[2] > right[0] + 40, "a right cell is blue"
    numbers = {(round(t.get_position()[0]), round(t.get_position()[1])): t.get_text() for t in figure.axes[0].texts}
    assert numbers[cell[1], cell[0]] == "40"
    assert numbers[1, 3] == "5"
    assert numbers[4, 0] == "3", "missed objects stand beside the matrix"


def test_the_share_on_the_diagonal_is_the_recall():
    axes = matrix_figure(document()).axes[1]
    numbers = {(round(t.get_position()[0]), round(t.get_position()[1])): t.get_text() for t in axes.texts}
    assert numbers[0, 0] == f"{100 * 10 / 53:.0f}"
    assert numbers[1, 1] == "100"


def test_merging_adds_up_what_is_merged():
    """Class by class, on random counts: those that are confused most stay by themselves, in their order."""
    rng, names, most = np.random.default_rng(1), [f"c{i}" for i in range(9)], 5
    counts, became = rng.integers(0, 9, (10, 10)), rng.integers(0, 9, (9, 11))
    weight = [sum(counts[i, j] + counts[j, i] for j in range(9) if j != i) for i in range(9)]
    counts[range(9), range(9)] = 1000 - 5 * np.array(weight)  # what is right is no confusion
    whole = document(names) | {"counts": counts.tolist(), "became": became.tolist()}
    shown = Shown.of(whole, most)
    kept = sorted(sorted(range(9), key=lambda i: (-weight[i], -became[i].sum()))[: most - 1])
    assert shown.names == [*(names[i] for i in kept), "5 others"]
    place = [kept.index(i) if i in kept else most - 1 for i in range(9)] + [most, most + 1]
    expected, objects = np.zeros((most + 1, most + 1)), np.zeros((most, most + 2))
    for (a, b), n in np.ndenumerate(counts):
        expected[place[a], place[b]] += n
    for (a, b), n in np.ndenumerate(became):
        objects[place[a], place[b]] += n
    assert shown.counts.tolist() == expected.tolist()
    assert shown.became.tolist() == objects.tolist()
    assert np.argwhere(shown.marked).tolist() == [[most, place[1]]]
    assert len(Shown.of(whole, 9).names) == 9


def test_colours_are_shares_of_the_row_with_the_missed():
    found = shares(np.array([[6.0, 2.0], [0.0, 0.0]]), np.array([[6.0, 2.0, 4.0]]))
    assert found.tolist() == [[0.5, pytest.approx(1 / 6), pytest.approx(1 / 3)], [0, 0, 0]]


@pytest.mark.parametrize(
    ("value", "text"), [(0, ""), (0.04, ""), (0.06, "0.1"), (3, "3"), (9.4, "9.4"), (9.6, "10"), (120.4, "120")]
)
def test_numbers_in_cells_are_short(value, text):
    counts = [[value, 0], [0, 0]]
    shown = document(("cat",), cell=(0, 0)) | {"counts": counts, "policy_dependent": [], "became": [[0, 0, 0]]}
    shown |= {"labels": ["cat", "background"]}
    texts = {t.get_position(): t.get_text() for t in matrix_figure(shown).axes[0].texts}
    assert texts.get((0, 0), "") == text


def test_pairs_are_bars_with_their_confidence_and_a_mark_where_the_policy_decides():
    pair = {"actual": "cat", "predicted": "owl", "count": 4, "confidence": 2.25, "policy_dependent": False}
    (axes,) = top_figure(document() | {"confusions": [*document()["confusions"], pair]}).axes
    assert bar_lengths(axes) == [4, 40]
    assert words(axes) == [" 4, Σ confidence 2.2", " 40 *, Σ confidence 20.0"]
    assert [t.get_position() for t in axes.texts] == [(4, 0), (40, 1)]
    assert axes.get_xlim()[1] > 40


def test_ious_are_bars_in_their_cell():
    histogram = [0, 2, 0, 0, 0, 0, 0, 0, 0, 4]
    (axes,) = iou_figure(document() | {"iou_histograms": {"cells": [["cat", "owl", histogram]]}}).axes
    bars = [patch for patch in axes.patches if patch.get_width() < 0.5]
    assert [round(bar.get_height() / 0.55, 6) for bar in bars] == [n / 4 for n in histogram]
    for step, bar in enumerate(bars):
        assert 1.5 < bar.get_x() < bar.get_x() + bar.get_width() < 2.5, "the column of what was predicted"
        assert bar.get_x() == pytest.approx(bars[0].get_x() + 0.09 * step)
        assert -0.5 < bar.get_y() <= bar.get_y() + bar.get_height() == pytest.approx(0.45)
    assert [(t.get_text(), round(t.get_position()[0])) for t in axes.texts] == [("20.0", 2)]
    assert len(axes.patches) - len(bars) == 16
    assert (axes.get_xlim(), axes.get_ylim()) == ((-0.5, 3.5), (3.5, -0.5)), "all cells are within it"


def test_a_corner_marks_the_cell_that_another_policy_fills_otherwise():
    marked = [{"actual": "cat", "predicted": "background"}, {"actual": "owl", "predicted": "dog"}]
    axes = matrix_figure(document() | {"policy_dependent": marked}).axes[0]
    corners = [patch.get_xy() for patch in axes.patches if not hasattr(patch, "get_width")]
    cells = [(xy.mean(axis=0).round().tolist(), np.ptp(xy, axis=0).max() < 0.5) for xy in corners]
    assert sorted(cells) == [([1, 2], True), ([3, 0], True)]
    assert axes.get_xlim()[1] > 4.8, "the missed stand behind the background, with a gap"
    assert (axes.get_xlim()[0], axes.get_ylim()) == (-0.5, (3.5, -0.5))


def test_colours_of_confidence_are_shares_of_the_row():
    confidence = [[1, 1, 0, 0], [30, 30, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    (axes,) = iou_figure(document() | {"confidence": confidence, "iou_histograms": {"cells": []}}).axes
    paint = {(p.get_y() + 0.5, p.get_x() + 0.5): p.get_facecolor() for p in axes.patches}
    assert len(paint) == 16
    assert paint[0, 1] == paint[1, 0] != paint[0, 0] == paint[1, 1]
    assert paint[0, 2] == paint[2, 0] == paint[2, 2] == (1, 1, 1, 1), "nothing is white"
    assert {p.get_width() for p in axes.patches} == {p.get_height() for p in axes.patches} == {1}


def test_the_largest_wrong_cells_come_first_and_missed_objects_are_one():
    made = document(cell=(2, 0), count=1) | {"missed": {"cat": 3, "dog": 1, "owl": 0}}
    assert worst(made) == [
        (("background", "dog"), 5), (("cat", "missed"), 3), (("dog", "missed"), 1), (("owl", "cat"), 1)
    ]  # fmt: skip


def test_many_classes_are_merged_and_none_is_lost():
    names = [f"class {i}" for i in range(40)]
    whole = document(names, cell=(37, 5))
    shown = Shown.of(whole)
    assert len(shown.names) == 16
    assert {"class 37", "class 5"} < set(shown.names)
    assert shown.names[-1] == "25 others"
    assert shown.counts.sum() == np.sum(whole["counts"])
    assert shown.became.sum() == np.sum(whole["became"])
    assert shown.became[:, -1].sum() == 3
    assert shown.counts[shown.names.index("class 37"), shown.names.index("class 5")] == 40
    assert shown.counts[-1].sum() == 5, "background is never merged"
    assert shown.marked.sum() == 1


def test_every_threshold_is_on_the_figures():
    for figure in (matrix_figure(document()), top_figure(document()), iou_figure(document())):
        words = figure.get_supxlabel()
        for said in ("score ≥ 0.31", "IoU ≥ 0.52", "nms 0.63", "greedy", "hard", "4 below score", "3 left out"):
            assert said in words
    assert "/some/where" not in matrix_figure(document()).get_suptitle()
    assert iou_figure(document()).get_supxlabel() == footer(document())


@pytest.mark.heavy
def test_strange_class_names_are_drawn_as_they_are(tmp_path):
    names = ("$\\frac{1", "two\nlines " * 20, "犬")
    for figure in (matrix_figure(document(names)), top_figure(document(names)), iou_figure(document(names))):
        assert charts.save(tmp_path / "f.png", figure).stat().st_size > 1000


@pytest.mark.heavy
def test_a_run_draws_its_matrix_and_the_worst_of_its_cells(tmp_path):
    data = dataset(images=10, seed=1)
    run = md.confusion(Random(data), data, score=0.1, out=tmp_path / "run")
    names = [path.name for path in run.figures(2)]
    assert names[:3] == ["confusion.png", "confusions.png", "confusion-iou.png"]
    assert len(names) == 5
    assert all(name.startswith("cell-") for name in names[3:])
    sheet = cv2.imread(str(tmp_path / "run" / "images" / names[3]))[:, :, ::-1].reshape(-1, 3)
    assert (sheet == (30, 150, 70)).all(axis=1).sum() + (sheet == (230, 60, 60)).all(axis=1).sum() > 200
    assert draw(run.directory, data, 1)[0].is_file()

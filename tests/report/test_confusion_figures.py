"""The pictures of a confusion matrix: which cell is drawn where, what merging keeps, that thresholds are there."""

import cv2
import numpy as np
import pytest
from explain_toys import Random, dataset

import misdetect as md
from misdetect.report import charts
from misdetect.report.confusion import draw
from misdetect.report.confusion_figures import Shown, footer, iou_figure, matrix_figure, top_figure

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


def test_strange_class_names_are_drawn_as_they_are(tmp_path):
    names = ("$\\frac{1", "two\nlines " * 20, "犬")
    for figure in (matrix_figure(document(names)), top_figure(document(names)), iou_figure(document(names))):
        assert charts.save(tmp_path / "f.png", figure).stat().st_size > 1000


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

"""Charts of a confusion matrix, drawn with matplotlib: rows are actual classes, columns predicted ones.

Missed objects stand beside the matrix, and every threshold below it. Functions of a document; they read no run and no
photo.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from misdetect.drawing import charts
from misdetect.drawing.matrix import Shown, labelled, matrix, painted, readable, shares, told

if TYPE_CHECKING:  # figures in files are an extra
    from matplotlib.figure import Figure

_MODES = {
    "hard": "predicted background where that outscores every class",
    "soft": "scores spread over all columns",
    "reported": "labels as reported",
}
_POLICIES = {
    "paper": "each detection belongs to the object it overlaps most",
    "greedy": "one to one, by falling score",
    "optimal": "one to one, largest sum of IoUs",
}

Document = Mapping[str, Any]


def matrix_figure(document: Document) -> Figure:
    """Both views: how many detections are in each cell, and what share of each class's objects became what."""
    shown = Shown.of(document)
    side = 2.2 + 0.46 * (len(shown.names) + 2)
    figure = charts.new(2 * side + 0.6, side + 0.9)
    left, right = figure.subplots(1, 2)
    absolute = np.hstack([shown.counts, np.append(shown.became[:, -1], np.nan)[:, None]])
    title = "detections in each cell, and missed objects"
    matrix(left, shown.names, absolute, shares(shown.counts, shown.became), title, shown.marked)
    every = np.vstack([shown.became, [*shown.counts[-1], np.nan]])
    of_objects = every / np.maximum(np.nansum(every, axis=1, keepdims=True), 1)
    title = "what objects became, % of each row (diagonal: recall)"
    matrix(right, shown.names, 100 * of_objects, of_objects, title)
    words = footer(document)
    if shown.marked.any():
        words += "\ncorner: under another matching policy the cell holds other detections"
    figure.suptitle(f"{_called(document['detector'])} on {_called(document['data'])}", fontsize=11)
    return charts.caption(figure, words)


def footer(document: Document) -> str:
    """Every threshold behind the numbers, one kind a line."""
    settings, counts = document["settings"], document["conservation"]["detections"]
    of = settings.get("detector") or {}
    own = ", ".join(f"{name} {of[name]}" for name in ("score", "nms", "max", "cap", "topk") if name in of)
    lines = (
        f"score ≥ {settings['score']:g}, IoU ≥ {settings['iou']:g}; the detector's own: {own or 'not known'}",
        f"matching {settings['policy']}: {_POLICIES[settings['policy']]}",
        f"background {settings['background']}: {_MODES[settings['background']]}",
        "detections: " + ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in counts.items()),
    )
    return "\n".join(lines)


def _called(spec: str | None) -> str:
    """A detector or data by its spec, files without their folders."""
    return readable(re.sub(r"[^:,=]*/", "", spec or "a detector"), 70)


def top_figure(document: Document) -> Figure:
    """The pairs of classes that are confused most, as bars."""
    pairs = document["confusions"][::-1]
    figure = charts.new(7.5, 1.9 + 0.27 * len(pairs))
    axes = figure.subplots()
    axes.barh(range(len(pairs)), [each["count"] for each in pairs], color=charts.BAD)
    for i, each in enumerate(pairs):
        mark = " *" if each["policy_dependent"] else ""
        words = f" {told(each['count'])}{mark}, Σ confidence {each['confidence']:.1f}"
        axes.text(each["count"], i, words, va="center", fontsize=8)
    axes.set_yticks(
        range(len(pairs)), [f"{readable(e['actual'])} → {readable(e['predicted'])}" for e in pairs], fontsize=8
    )
    axes.set_xlim(0, 1.45 * max((each["count"] for each in pairs), default=1))
    axes.set_xlabel("detections (actual → predicted); * depends on the matching policy", fontsize=8)
    charts.plain(axes, f"Taken for another class: {_called(document['detector'])}")
    return charts.caption(figure, footer(document))


def iou_figure(document: Document) -> Figure:
    """The paper's own view: in each cell the sum of confidences (colour and number) and the distribution of IoUs."""
    labels = document["labels"]
    n, place = len(labels), {name: i for i, name in enumerate(labels)}
    confidence = np.array(document["confidence"], dtype=float)
    tone = confidence / np.maximum(confidence.sum(axis=1, keepdims=True), 1e-9)
    side = 2 + 0.62 * n
    figure = charts.new(max(side, 6), side + 0.8)
    from matplotlib.patches import Rectangle

    axes = figure.subplots()
    for row in range(n):
        for column in range(n):
            paint = painted(row == column)(0.75 * float(np.sqrt(tone[row, column])))
            axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=paint, edgecolor="#cccccc"))
    for actual, predicted, histogram in document["iou_histograms"]["cells"]:
        x, y = place[predicted] - 0.45, place[actual] + 0.45
        for step, count in enumerate(histogram):
            high = 0.55 * count / max(histogram)
            axes.add_patch(Rectangle((x + 0.09 * step, y - high), 0.08, high, facecolor="#222222"))
        axes.text(x + 0.45, y - 0.74, f"{confidence[place[actual], place[predicted]]:.1f}", ha="center", fontsize=6.5)
    axes.set_xlim(-0.5, n - 0.5)
    axes.set_ylim(n - 0.5, -0.5)
    names = [readable(name) for name in labels]
    title = "Σ confidence, and detections by IoU, from 0 (left) to 1 (right) in steps of .1"
    labelled(axes, names, names, range(n), title)
    return charts.caption(figure, footer(document))

"""Charts of a confusion matrix, drawn with matplotlib: rows are actual classes, columns predicted ones.

Missed objects stand beside the matrix, and every threshold below it. Functions of a document; they read no run and no
photo.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle

from misdetect.nouns.boxes import Bools, Floats
from misdetect.report import charts

SHOWN = 16
"""Classes that are shown one by one; where there are more, those that are confused most, and the others together."""
_RIGHT = LinearSegmentedColormap.from_list("right", ["#ffffff", charts.SERIES[0]])
_WRONG = LinearSegmentedColormap.from_list("wrong", ["#ffffff", charts.BAD])
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


@dataclass(frozen=True, eq=False)
class Shown:
    """The matrix as it is shown: ``names`` of its classes (the last may stand for several), ``counts``
    ``[N + 1, N + 1]`` of detections, ``became`` ``[N, N + 2]`` of objects, ``marked`` ``[N + 1, N + 1]``."""

    names: list[str]
    counts: Floats
    became: Floats
    marked: Bools

    @classmethod
    def of(cls, document: Document, most: int = SHOWN) -> "Shown":
        labels = document["labels"]
        counts, became = np.array(document["counts"], dtype=float), np.array(document["became"], dtype=float)
        place = {name: i for i, name in enumerate(labels)}
        marked = np.zeros(counts.shape, dtype=np.bool_)
        for each in document["policy_dependent"]:
            marked[place[each["actual"]], place[each["predicted"]]] = True
        classes = len(labels) - 1
        if classes <= most:
            return cls(list(labels[:-1]), counts, became.reshape(classes, classes + 2), marked)
        return cls._merged(labels, counts, became, marked, most)

    @classmethod
    def _merged(cls, labels: Sequence[str], counts: Floats, became: Floats, marked: Bools, most: int) -> "Shown":
        """The ``most`` - 1 classes that are confused most, in the data's order, and the others as one."""
        classes = len(labels) - 1
        between = counts[:-1, :-1] * (1 - np.eye(classes))
        weight = between.sum(axis=0) + between.sum(axis=1) + 1e-6 * became.sum(axis=1)
        kept = np.sort(np.argsort(-weight, kind="stable")[: most - 1])
        group = np.full(classes + 2, most - 1)
        group[kept] = np.arange(most - 1)
        group[classes:] = most, most + 1
        join = np.eye(most + 2)[group]  # [C + 2, most + 2]: background and missed stay by themselves
        rows, columns = join[: classes + 1, : most + 1], join[: classes + 1, : most + 1]
        names = [*(labels[i] for i in kept), f"{classes - most + 1} others"]
        return cls(
            names,
            rows.T @ counts @ columns,
            join[:classes, :most].T @ became @ join,
            (rows.T @ marked.astype(float) @ columns) > 0,
        )


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


def shares(counts: Floats, became: Floats) -> Floats:
    """Each cell ``[N + 1, N + 2]`` as a share of its row with the missed objects; the colour of the absolute view."""
    whole = np.hstack([counts, np.append(became[:, -1], 0)[:, None]])
    return np.asarray(whole / np.maximum(whole.sum(axis=1, keepdims=True), 1))


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


def matrix(
    axes: Axes, names: Sequence[str], values: Floats, tone: Floats, title: str, marked: Bools | None = None
) -> None:
    """One matrix ``[N + 1, N + 2]``: text from ``values``, colour from ``tone`` in 0..1; NaN is no cell."""
    n = len(names)  # its limits are stated: with add_patch, each cell would measure itself
    rows = [*map(readable, names), "background"]
    columns = [*rows, "missed"]
    for row in range(n + 1):
        for column in range(n + 2):
            if np.isnan(values[row, column]):
                continue
            x = column + (0.35 if column == n + 1 else 0)  # missed objects are in no cell of the matrix
            right = row == column
            paint = (_RIGHT if right else _WRONG)(float(np.sqrt(tone[row, column])))
            axes.add_artist(Rectangle((x - 0.5, row - 0.5), 1, 1, facecolor=paint, edgecolor="#dddddd", linewidth=0.6))
            if marked is not None and column <= n and marked[row, column]:
                corner = [(x + 0.5, row - 0.5), (x + 0.2, row - 0.5), (x + 0.5, row - 0.2)]
                axes.add_artist(Polygon(corner, facecolor="#333333"))
            if text := _number(values[row, column]):
                ink = "white" if tone[row, column] > 0.45 else "#1a1a1a"
                axes.text(x, row, text, ha="center", va="center", fontsize=7.5, color=ink)
    axes.set_xlim(-0.5, n + 1.9)
    axes.set_ylim(n + 0.5, -0.5)
    axes.set_aspect("equal")
    axes.set_xticks([*range(n + 1), n + 1.35], columns, rotation=60, ha="right", rotation_mode="anchor", fontsize=8)
    axes.set_yticks(range(n + 1), rows, fontsize=8)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlabel("predicted")
    axes.set_ylabel("actual")
    axes.set_title(title, fontsize=9)


def readable(name: str, most: int = 28) -> str:
    """A class name as a label: one short line, and never a formula, whatever a stranger's file calls its classes."""
    line = " ".join(name.split())
    return (line if len(line) <= most else line[: most - 1] + "…").replace("$", r"\$")


def _called(spec: str | None) -> str:
    """A detector or data by its spec, files without their folders."""
    return readable(re.sub(r"[^:,=]*/", "", spec or "a detector"), 70)


def _number(value: float) -> str:
    if value < 0.05:  # nothing, or in soft mode next to nothing
        return ""
    if float(value).is_integer():
        return str(int(value))
    return f"{value:.0f}" if value >= 9.5 else f"{value:.1f}"


def top_figure(document: Document) -> Figure:
    """The pairs of classes that are confused most, as bars."""
    pairs = document["confusions"][::-1]
    figure = charts.new(7.5, 1.9 + 0.27 * len(pairs))
    axes = figure.subplots()
    axes.barh(range(len(pairs)), [each["count"] for each in pairs], color=charts.BAD)
    for i, each in enumerate(pairs):
        mark = " *" if each["policy_dependent"] else ""
        words = f" {_number(each['count'])}{mark}, Σ confidence {each['confidence']:.1f}"
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
    axes = figure.subplots()
    for row in range(n):
        for column in range(n):
            paint = (_RIGHT if row == column else _WRONG)(0.75 * float(np.sqrt(tone[row, column])))
            axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=paint, edgecolor="#cccccc"))
    for actual, predicted, histogram in document["iou_histograms"]["cells"]:
        x, y = place[predicted] - 0.45, place[actual] + 0.45
        for step, count in enumerate(histogram):
            high = 0.55 * count / max(histogram)
            axes.add_patch(Rectangle((x + 0.09 * step, y - high), 0.08, high, facecolor="#222222"))
        axes.text(x + 0.45, y - 0.74, f"{confidence[place[actual], place[predicted]]:.1f}", ha="center", fontsize=6.5)
    axes.set_xlim(-0.5, n - 0.5)
    axes.set_ylim(n - 0.5, -0.5)
    axes.set_aspect("equal")
    names = [readable(name) for name in labels]
    axes.set_xticks(range(n), names, rotation=60, ha="right", rotation_mode="anchor", fontsize=8)
    axes.set_yticks(range(n), names, fontsize=8)
    axes.set_xlabel("predicted")
    axes.set_ylabel("actual")
    axes.set_title("Σ confidence, and detections by IoU, from 0 (left) to 1 (right) in steps of .1", fontsize=9)
    return charts.caption(figure, footer(document))

"""A confusion matrix drawn with matplotlib: rows are actual classes, columns predicted ones, and missed objects beside
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from misdetect.drawing import charts
from misdetect.nouns.boxes import Bools, Floats

if TYPE_CHECKING:  # figures in files are an extra
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

Document = Mapping[str, Any]
SHOWN = 16
"""Classes that are shown one by one; where there are more, those that are confused most, and the others together."""


@cache
def painted(right: bool) -> Colormap:
    """The colours of cells that are ``right``, or wrong, by a tone in 0..1."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(str(right), ["#ffffff", charts.SERIES[0] if right else charts.BAD])


@dataclass(frozen=True, eq=False)
class Shown:
    """The matrix as it is shown: ``names`` of its classes (the last may stand for several), ``counts``
    ``[N + 1, N + 1]`` of detections, ``became`` ``[N, N + 2]`` of objects, ``marked`` ``[N + 1, N + 1]``."""

    names: list[str]
    counts: Floats
    became: Floats
    marked: Bools

    @classmethod
    def of(cls, document: Document, most: int = SHOWN) -> Shown:
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
    def _merged(cls, labels: Sequence[str], counts: Floats, became: Floats, marked: Bools, most: int) -> Shown:
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


def shares(counts: Floats, became: Floats) -> Floats:
    """Each cell ``[N + 1, N + 2]`` as a share of its row with the missed objects; the colour of the absolute view."""
    whole = np.hstack([counts, np.append(became[:, -1], 0)[:, None]])
    return np.asarray(whole / np.maximum(whole.sum(axis=1, keepdims=True), 1))


def matrix(
    axes: Axes, names: Sequence[str], values: Floats, tone: Floats, title: str, marked: Bools | None = None
) -> None:
    """One matrix ``[N + 1, N + 2]``: text from ``values``, colour from ``tone`` in 0..1; NaN is no cell."""
    from matplotlib.patches import Polygon, Rectangle

    n = len(names)  # its limits are stated: with add_patch, each cell would measure itself
    rows = [*map(readable, names), "background"]
    columns = [*rows, "missed"]
    for row in range(n + 1):
        for column in range(n + 2):
            if np.isnan(values[row, column]):
                continue
            x = column + (0.35 if column == n + 1 else 0)  # missed objects are in no cell of the matrix
            right = row == column
            paint = painted(right)(float(np.sqrt(tone[row, column])))
            axes.add_artist(Rectangle((x - 0.5, row - 0.5), 1, 1, facecolor=paint, edgecolor="#dddddd", linewidth=0.6))
            if marked is not None and column <= n and marked[row, column]:
                corner = [(x + 0.5, row - 0.5), (x + 0.2, row - 0.5), (x + 0.5, row - 0.2)]
                axes.add_artist(Polygon(corner, facecolor="#333333"))
            if text := told(values[row, column]):
                ink = "white" if tone[row, column] > 0.45 else "#1a1a1a"
                axes.text(x, row, text, ha="center", va="center", fontsize=7.5, color=ink)
    axes.set_xlim(-0.5, n + 1.9)
    axes.set_ylim(n + 0.5, -0.5)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    labelled(axes, rows, columns, [*range(n + 1), n + 1.35], title)


def labelled(axes: Axes, rows: Sequence[str], columns: Sequence[str], places: Sequence[float], title: str) -> None:
    """The classes of the rows, from above, and of the columns, at their ``places``."""
    axes.set_aspect("equal")
    axes.set_xticks(places, columns, rotation=60, ha="right", rotation_mode="anchor", fontsize=8)
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
    axes.set_xlabel("predicted")
    axes.set_ylabel("actual")
    axes.set_title(title, fontsize=9)


def readable(name: str, most: int = 28) -> str:
    """A class name as a label: one short line, and never a formula, whatever a stranger's file calls its classes."""
    line = " ".join(name.split())
    return (line if len(line) <= most else line[: most - 1] + "…").replace("$", r"\$")


def told(value: float) -> str:
    if value < 0.05:  # nothing, or in soft mode next to nothing
        return ""
    if float(value).is_integer():
        return str(int(value))
    return f"{value:.0f}" if value >= 9.5 else f"{value:.1f}"

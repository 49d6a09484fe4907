"""A confusion matrix drawn with matplotlib: rows are actual classes, columns predicted ones, and missed objects beside
them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from misdetect.drawing import charts
from misdetect.nouns.boxes import Bools, Floats

if TYPE_CHECKING:  # figures in files are an extra
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap


@cache
def painted(right: bool) -> Colormap:
    """The colours of cells that are ``right``, or wrong, by a tone in 0..1."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(str(right), ["#ffffff", charts.SERIES[0] if right else charts.BAD])


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

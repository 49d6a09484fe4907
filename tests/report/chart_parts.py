"""What a chart shows, read off the parts that matplotlib draws."""

from typing import Any

import numpy as np


def bar_lengths(axes: Any) -> list[float]:
    """Lengths of lying bars, in the order in which they were drawn."""
    return [patch.get_width() for patch in axes.patches]


def bar_heights(axes: Any) -> list[float]:
    """Heights of standing bars, in the order in which they were drawn."""
    return [patch.get_height() for patch in axes.patches]


def points(axes: Any) -> dict[str, list[float]]:
    """The values of series that are drawn as points, by name."""
    return {line.get_label(): list(line.get_xdata()) for line in axes.lines if line.get_marker() == "o"}


def intervals(axes: Any) -> Any:
    """The ends of lying intervals ``[N, 2]``, in the order in which they were drawn."""
    return np.array([line.get_xdata() for line in axes.lines if line.get_marker() == "None"])


def words(axes: Any) -> list[str]:
    """All that is written into the chart."""
    return [text.get_text() for text in axes.texts]

"""Charts, drawn with matplotlib: bars, intervals, lines, a flow between two columns. Photos with boxes are ``figures``.

Functions of plain values; they read no run. Every one returns a matplotlib ``Figure``, which a notebook shows, and
which ``save`` writes as PNG, SVG or PDF, the same bytes for the same values. Colours suit the colour-blind.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from misdetect.kept.files import write_atomically
from misdetect.said.extras import command
from misdetect.said.notes import note

if TYPE_CHECKING:  # figures in files are an extra
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SERIES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7a7a7a", "#a68b00")
"""What series are drawn in, in their order (Okabe and Ito's colours)."""
INK, PALE, BAD = "#222222", "#dddddd", "#d55e00"
Value = tuple[float | None, Sequence[float] | None]
"""A number and its interval; ``None`` where it is not known."""
_METADATA: dict[str, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


def new(width: float, height: float) -> Figure:
    """An empty figure, sides in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=110, layout="constrained")


def draw(folder: Path, charts: Mapping[str, Callable[[], Figure]]) -> list[Path]:
    """Write each of ``charts`` into ``folder``, by the names of their files, and return these; none without matplotlib,
    which is an extra: a note says so."""
    return [save(folder / name, make()) for name, make in charts.items()] if drawable() else []


def drawable() -> bool:
    """Whether charts can be drawn in files; where they cannot, a note says what is needed."""
    if find_spec("matplotlib") is not None:
        return True
    note(f"charts are on the page alone; to have them in files: {command('figures')}.")
    return False


def save(path: Path, figure: Figure) -> Path:
    """Write ``figure`` to ``path`` (.png, .svg or .pdf), making the folder where needed; returns ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, encoded(figure, path.suffix.lower().removeprefix(".")))
    return path


def encoded(figure: Figure, kind: str) -> bytes:
    """``figure`` as a file of ``kind``: png, svg or pdf."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    stream = io.BytesIO()
    FigureCanvasAgg(figure)
    with matplotlib.rc_context({"svg.hashsalt": "misdetect"}), warnings.catch_warnings():  # or SVG ids would be random
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a font that lacks some letters draws boxes for them
        figure.savefig(stream, format=kind, metadata=_METADATA[kind])
    return stream.getvalue()


def percent(share: float | None, ends: Sequence[float] | None = None) -> Value:
    """A share in 0..1 and its interval, both in percent."""
    return None if share is None else 100 * share, None if ends is None else [100 * end for end in ends]


def caption(figure: Figure, text: str) -> Figure:
    """``figure`` with what its numbers are of below it: detector, data, thresholds."""
    figure.supxlabel(text, fontsize=7.5, color="#555555")
    return figure


def plain(axes: Axes, title: str = "") -> None:
    """Take away what does not tell anything."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(labelsize=8)
    axes.set_title(title, fontsize=9, loc="left")


def _lying(axes: Axes, names: Sequence[str], title: str, across: str) -> None:
    """One row for each of ``names``, the first on top."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel(across, fontsize=8)
    plain(axes, title)


def _series(groups: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """All names in ``groups``, each once."""
    return list(dict.fromkeys(name for group in groups.values() for name in group))


def bars(axes: Axes, shares: Mapping[str, float], title: str, paints: Mapping[str, str]) -> None:
    """A bar for each name with its percentage, the first on top; ``shares`` in 0..1."""
    names, values = list(shares), [100 * share for share in shares.values()]
    axes.barh(range(len(names)), values, color=[paints.get(name, SERIES[0]) for name in names])
    for i, value in enumerate(values):
        axes.text(value, i, f" {value:.1f} %", va="center", fontsize=8)
    axes.set_xlim(0, 1.28 * max([*values, 1]))
    _lying(axes, names, title, "% of the misses")


def flow(axes: Axes, links: Sequence[Sequence[Any]], title: str, paints: Mapping[str, str]) -> None:
    """``[left, right, count]`` links as bands between two columns, as wide as their counts (a Sankey)."""
    total = sum(link[2] for link in links) or 1
    gap = 0.04 * total
    ends = [_columns(links, side, gap) for side in (0, 1)]
    used = [{name: top for name, (top, _) in column.items()} for column in ends]
    across = np.linspace(0, 1, 40)
    ease = across * across * (3 - 2 * across)
    for left, right, count in links:
        start, end = used[0][left], used[1][right]
        used[0][left], used[1][right] = start + count, end + count
        upper = start + ease * (end - start)
        axes.fill_between(across, upper, upper + count, color=paints.get(right, SERIES[0]), alpha=0.5, linewidth=0)
    for column, (x, align, nodes) in enumerate(((-0.02, "right", ends[0]), (1.02, "left", ends[1]))):
        for name, (top, bottom) in nodes.items():
            count = sum(link[2] for link in links if link[column] == name)
            axes.plot([column, column], [top, bottom], color=paints.get(name, INK), linewidth=5, solid_capstyle="butt")
            axes.text(x, (top + bottom) / 2, f"{name} {count}", ha=align, va="center", fontsize=8)
    axes.set_xlim(-0.45, 1.55)
    axes.invert_yaxis()
    axes.axis("off")
    axes.set_title(title, fontsize=9, loc="left")


def _columns(links: Sequence[Sequence[Any]], side: int, gap: float) -> dict[str, tuple[float, float]]:
    """Top and bottom of each node on one side, in the order in which the links name them."""
    at, found = 0.0, {}
    for name in dict.fromkeys(link[side] for link in links):
        count = sum(link[2] for link in links if link[side] == name)
        found[name] = (at, at + count)
        at += count + gap
    return found


def shares(rows: Mapping[str, Mapping[str, float]], title: str, paints: Mapping[str, str]) -> Figure:
    """A bar of full length for each of ``rows``, divided by name; shares in 0..1."""
    names = _series(rows)
    figure = new(8, 1.5 + 0.34 * len(rows))
    axes = figure.subplots()
    left = np.zeros(len(rows))
    for name in names:
        wide = np.array([100 * row.get(name, 0.0) for row in rows.values()])
        axes.barh(range(len(rows)), wide, left=left, color=paints.get(name, SERIES[0]), label=name)
        for i in np.flatnonzero(wide > 5).tolist():
            axes.text(left[i] + wide[i] / 2, i, f"{wide[i]:.0f}", ha="center", va="center", fontsize=8, color="white")
        left += wide
    axes.set_xlim(0, 100)
    _lying(axes, list(rows), title, "%")
    figure.legend(loc="outside upper right", ncols=len(names), fontsize=8, frameon=False)
    return figure


def whiskers(groups: Mapping[str, Mapping[str, Value]], title: str, across: str) -> Figure:
    """For each group a point per series with its interval, one below the other; values as they are."""
    series = _series(groups)
    figure = new(8, 1.2 + (0.2 * len(series) + 0.15) * len(groups))
    axes = figure.subplots()
    for i, name in enumerate(series):
        shift = (i + 0.5) / len(series) * 0.8 - 0.4
        each = [(g + shift, *group.get(name, (None, None))) for g, group in enumerate(groups.values())]
        _points(axes, [point for point in each if point[1] is not None], SERIES[i % len(SERIES)], name)
    axes.set_xlim(left=0)
    axes.grid(axis="x", color=PALE, linewidth=0.6)
    _lying(axes, list(groups), title, across)
    if len(series) > 1:
        figure.legend(loc="outside upper right", ncols=min(len(series), 4), fontsize=8, frameon=False)
    return figure


def _points(axes: Axes, points: Sequence[tuple[Any, ...]], paint: str, label: str) -> None:
    """Points (place, value, interval) with intervals that lie across; each with its number behind it."""
    axes.plot([value for _, value, _ in points], [place for place, *_ in points], "o", color=paint, markersize=5,
              label=label)  # fmt: skip
    for place, value, interval in points:
        if interval is not None:
            axes.plot(interval, [place, place], color=paint, linewidth=1.6)
        axes.text(max([value, *(interval or ())]), place, f"  {value:.3g}", va="center", fontsize=7.5)


def grouped_bars(groups: Mapping[str, Mapping[str, Value]], title: str, up: str) -> Figure:
    """A group of bars for each of ``groups``, a bar for each of its entries, from 0 to 1, with intervals."""
    from matplotlib.patches import Patch

    series = _series(groups)
    figure = new(max(5.0, 1.2 + 0.5 * sum(max(len(group), 1.6) for group in groups.values())), 3.4)
    axes = figure.subplots()
    at, middles = 0.0, []
    for group in groups.values():
        for place, (name, (value, ends)) in enumerate(group.items(), start=0):
            if value is not None:
                axes.bar(at + place, value, width=0.85, color=SERIES[series.index(name) % len(SERIES)])
                if ends is not None:
                    axes.plot([at + place] * 2, ends, color=INK, linewidth=1.2)
                top = max([value, *(ends or ())])
                axes.text(at + place, top + 0.015, f"{value:.2f}", ha="center", va="bottom", fontsize=7.5)
        middles.append(at + (len(group) - 1) / 2)
        at += max(len(group), 1.2) + 0.8
    axes.set_xticks(middles, list(groups))
    axes.set_ylim(0, 1.1)
    axes.set_yticks(np.linspace(0, 1, 5))
    axes.set_ylabel(up, fontsize=8)
    axes.grid(axis="y", color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)
    plain(axes, title)
    if len(series) > 1:
        handles = [Patch(color=SERIES[i % len(SERIES)], label=name) for i, name in enumerate(series)]
        figure.legend(handles=handles, loc="outside right upper", fontsize=8, frameon=False)
    return figure


def lines(curves: Mapping[str, tuple[Sequence[float], Sequence[float]]], title: str, across: str, up: str) -> Figure:
    """``curves`` of x and y values by name, the vertical axis from 0."""
    figure = new(6, 3.6)
    axes = figure.subplots()
    for i, (name, (xs, ys)) in enumerate(curves.items()):
        size, above = (9, 3) if len(xs) == 1 else (3, 2)  # a single point marks a place on another curve
        axes.plot(xs, ys, marker="o", markersize=size, zorder=above, color=SERIES[i % len(SERIES)], label=name)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(across, fontsize=8)
    axes.set_ylabel(up, fontsize=8)
    axes.grid(color=PALE, linewidth=0.6)
    plain(axes, title)
    if len(curves) > 1:
        axes.legend(fontsize=8, frameon=False)
    return figure

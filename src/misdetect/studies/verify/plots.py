"""Figures of paper 2: states of parts (Fig. 3), the prior as ellipses (Fig. 4), AP per part (Fig. 5), recall of missing
parts (Fig. 6), F_vv over the score, causes, and a strip of a hallucination under each edit. It reads no run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from misdetect.drawing import charts
from misdetect.drawing.figures import frame, stacked, titled
from misdetect.drawing.larger import shown
from misdetect.nouns.boxes import Floats
from misdetect.nouns.picture import Picture, Pixels

if TYPE_CHECKING:  # figures in files are an extra
    from matplotlib.figure import Figure

_STATES = {"intact": "#009e73", "damaged": "#e69f00", "absent": "#d55e00", "occluded": "#7a7a7a"}
LIKELY, HALLUCINATED = (30, 150, 70), (230, 40, 40)
Document = Mapping[str, Any]


def states(by_part: Mapping[str, Mapping[str, int]]) -> Figure:
    """Fig. 3: the shares of the states of each part, those that are there most often first; the first bar is of all."""
    found = dict.fromkeys(state for counts in by_part.values() for state in counts)
    names = [*(state for state in _STATES if state in found), *sorted(found.keys() - _STATES.keys())]
    every = {state: sum(counts.get(state, 0) for counts in by_part.values()) for state in names}
    ranked = sorted(by_part, key=lambda part: -_share(by_part[part], names[0]))
    rows = {"all": every, **{part: by_part[part] for part in ranked}}
    shares = {part: {state: _share(counts, state) for state in names} for part, counts in rows.items()}
    others = (paint for paint in charts.SERIES if paint not in _STATES.values())
    paints = _STATES | dict(zip([name for name in names if name not in _STATES], others, strict=False))
    return charts.shares(shares, "States of parts (Fig. 3)", paints)


def _share(counts: Mapping[str, int], state: str) -> float:
    return counts.get(state, 0) / max(sum(counts.values()), 1)


def prior(means: Mapping[str, Sequence[float] | None], boxes: Floats, parts: Sequence[str]) -> Figure:
    """Fig. 4: an ellipse for each mean box (shares of the image), and beside it hallucinated ``boxes`` ``[N, 4]`` of
    ``parts`` in the same frame and colours."""
    from matplotlib.patches import Ellipse, Rectangle

    paints = {name: charts.SERIES[i % len(charts.SERIES)] for i, name in enumerate(means)}
    figure = charts.new(9, 5)
    left, right = figure.subplots(1, 2)
    for name, box in means.items():
        if box is not None:
            x0, y0, x1, y1 = box
            centre = (x0 + x1) / 2, (y0 + y1) / 2
            left.add_patch(Ellipse(centre, x1 - x0, y1 - y0, fill=False, edgecolor=paints[name], linewidth=1.6))
            left.text(*centre, name, ha="center", va="center", fontsize=6)
    for (x0, y0, x1, y1), name in zip(boxes.tolist(), parts, strict=True):
        right.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor=paints[name], linewidth=0.5))
    for axes, title in (
        (left, "Mean position and size of present parts (Fig. 4)"),
        (right, f"{len(boxes)} hallucinated"),
    ):
        axes.set_xlim(0, 1)
        axes.set_ylim(1, 0)
        axes.set_aspect("equal")
        axes.set_xlabel("share of the image's width", fontsize=8)
        axes.set_ylabel("share of the image's height", fontsize=8)
        charts.plain(axes, title)
    return figure


def ap_bars(documents: Mapping[str, Document]) -> Figure:
    """Fig. 5: AP of each part, a point per run, the best part of the first run on top."""
    parts = dict.fromkeys(part for document in documents.values() for part in document["AP"])
    first = next(iter(documents.values()))["AP"]
    ranked = sorted(parts, key=lambda part: -(first.get(part) or 0))
    groups = {part: {run: (each["AP"].get(part), None) for run, each in documents.items()} for part in ranked}
    return charts.whiskers(groups, "AP over present parts (Fig. 5)", "AP, IoU .5:.95")


def missing_recall(documents: Mapping[str, Document]) -> Figure:
    """Fig. 6: recall of missing parts over IoU."""
    lines = {name: _line(each["missing_recall_curve"]) for name, each in documents.items() if each["missing"]}
    at = ", ".join(f"{score:g}" for score in sorted({document["score"] for document in documents.values()}))
    return charts.lines(lines, f"Missing parts at score {at} (Fig. 6)", "IoU with the likely box", "recall")


def f_vv(document: Document, localisation: str) -> Figure:
    """F_vv over the score threshold, the chosen one and the best one marked; of ``localisation``, with or without."""
    best, how, found = document["best_threshold"][localisation], document["settings"], document[localisation]
    columns = [[[row[0], row[i]] for row in document["recall_curves"][localisation]] for i in (1, 2)]
    lines = {"F_vv": _line(document["f_vv_curve"])}
    lines |= {"recall, present": _line(columns[0]), "recall, missing": _line(columns[1])}
    if found["f_vv"] is not None:
        lines[f"chosen: {how['score']:g}"] = [how["score"]], [found["f_vv"]]
    if best["score"] is not None and best["chosen_f_vv"] is not None:
        lines[f"best: {best['score']:g}, {best['f_vv']:.3f} elsewhere"] = [best["score"]], [best["chosen_f_vv"]]
    return charts.lines(lines, f"With localisation, β {how['beta']:g}", "score threshold", "F_vv, recall")


def f_vv_of(documents: Mapping[str, Document]) -> Figure:
    """F_vv over the score threshold of several runs."""
    lines = {name: _line(document["f_vv_curve"]) for name, document in documents.items()}
    return charts.lines(lines, "With localisation", "score threshold", "F_vv")


def _line(points: Sequence[Sequence[Any]]) -> tuple[list[float], list[float]]:
    known = [(x, y) for x, y in points if y is not None]
    return [x for x, _ in known], [y for _, y in known]


def causes(shares: Mapping[str, Mapping[str, Any]]) -> Figure:
    """What hallucinations hang on, in percent, with intervals."""
    groups = {
        f"{name} ({each['count']})": {"": charts.percent(each["share"], each["interval"])}
        for name, each in shares.items()
    }
    return charts.whiskers(groups, "What hallucinations hang on", "% of the hallucinations, with intervals over images")


def strip(views: Sequence[tuple[str, Picture, Floats | None, Floats | None, float | None]], title: str) -> Pixels:
    """Views of one hallucination side by side: name, picture, likely box (green), hallucinated box (red; its
    place where everything moved) and the score that is left there."""
    parts = []
    for name, picture, likely, box, score in views:
        big, factor = shown(picture, 320)
        for place, paint in ((likely, LIKELY), (box, HALLUCINATED)):
            if place is not None:
                frame(big, np.asarray(place) * factor, paint, 2)
        parts.append(titled(big, f"{name} {'-' if score is None else format(score, '.2f')}"))
    return titled(stacked(parts, sideways=True), title)

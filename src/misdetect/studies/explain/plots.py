"""Figures of an explain run: the evidence for one miss, the three panels of paper 3's Fig. 3, and Fig. 5's bars.

Photos are drawn on, charts are matplotlib's. Colours are fixed: truth green, proposal orange, refined blue, suppressor
red. Nothing here reads a run.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from misdetect.drawing import charts
from misdetect.drawing.figures import colour, cropped, titled, widened, write
from misdetect.drawing.inline import whole_page
from misdetect.drawing.values import about
from misdetect.drawing.words import percent
from misdetect.kept.files import write_atomically
from misdetect.nouns.boxes import SIDES, Floats, boxes_of
from misdetect.nouns.picture import Pixels

if TYPE_CHECKING:  # figures in files are an extra
    from matplotlib.figure import Figure

CODE = {"truth": 2, "proposal": 3, "refined": 1, "suppressor": 0}
"""What is drawn in which of ``figures.colour``: green, orange, blue, red."""
SHADES = {
    "proposal": "#e69f00",
    "regressor": "#0072b2",
    "interclass": "#cc79a7",
    "background": "#7a7a7a",
    "discarded": "#d55e00",
    "unknown": "#b9b9b9",
    "Miss": "#5a5a5a",
    "Cls": "#cc79a7",
    "Loc": "#0072b2",
    "Both": "#009e73",
}
_AROUND = 0.35


def evidence(image: Pixels, row: Mapping[str, Any]) -> Pixels:
    """The crop of ``image`` around a missed object (a row of the run) with truth, proposal, refined and suppressor."""
    prefixes = {"proposal": "proposal_", "refined": "refined_", "suppressor": "suppressor_", "truth": ""}
    known = {name: all(row.get(prefix + side) is not None for side in SIDES) for name, prefix in prefixes.items()}
    shown = {name: prefix for name, prefix in prefixes.items() if known[name]}
    boxes = np.concatenate([boxes_of([row], prefix) for prefix in shown.values()])  # the truth last, and on top
    window = _window(boxes, image.shape[1], image.shape[0])
    big = cropped(image, window, 260, boxes, [CODE[name] for name in shown])
    scores = zip(row.get("top_labels") or (), row.get("top_scores") or (), strict=True)
    words = (
        f"{row['label']}: {row['mechanism']} / {row['reason']}",
        "scores  " + ", ".join(f"{name} {score:.2f}" for name, score in scores),
        "IoU  " + ", ".join(f"{n} {row[f'{n}_iou']:.2f}" for n in CODE if row.get(f"{n}_iou") is not None),
    )
    wide = max(250, *(7 * len(text) + 10 for text in words))  # so that no line is cut
    picture = titled(widened(big, wide), words[0])
    return _footed(_footed(picture, words[1]), words[2])


def _window(boxes: Floats, width: int, height: int) -> tuple[int, int, int, int]:
    """A window around the last box that also holds what lies within twice its size of the others."""
    truth = boxes[-1]
    side = np.maximum(truth[2:] - truth[:2], 16)
    low = np.maximum(boxes[:, :2].min(axis=0), truth[:2] - side) - _AROUND * side
    high = np.minimum(boxes[:, 2:].max(axis=0), truth[2:] + side) + _AROUND * side
    x0, y0 = np.clip(np.floor(low), 0, [width - 1, height - 1]).astype(int).tolist()
    x1, y1 = np.clip(np.ceil(high), 1, [width, height]).astype(int).tolist()
    return x0, y0, max(x1, x0 + 1), max(y1, y0 + 1)


def _footed(image: Pixels, text: str) -> Pixels:
    bar = np.full((20, image.shape[1], 3), 255, dtype=np.uint8)
    write(bar, text, (4, 14))
    return np.concatenate([image, bar])


def legend() -> Pixels:
    """The colour code in one line."""
    bar = np.full((24, 400, 3), 255, dtype=np.uint8)
    for i, (name, number) in enumerate(CODE.items()):
        cv2.rectangle(bar, (8 + 98 * i, 6), (20 + 98 * i, 18), colour(number), -1)
        write(bar, name, (25 + 98 * i, 17))
    return bar


def three_panels(document: Mapping[str, Any]) -> Figure:
    """Fig. 3 of paper 3: shares of mechanisms, shares of TIDE types, and the flow from one to the other."""
    missed = max(document["missed"], 1)
    figure = charts.new(11, 3.4)
    mechanisms, types, between = figure.subplots(1, 3, width_ratios=(1, 0.8, 1.2))
    counts, titled_by = document["mechanisms"], f"(a) mechanisms of {document['missed']} misses"
    charts.bars(mechanisms, {name: count / missed for name, count in counts.items()}, titled_by, SHADES)
    charts.bars(types, {name: count / missed for name, count in document["tide"].items()}, "(b) TIDE types", SHADES)
    charts.flow(between, document["sankey"], "(c) from type to mechanism", SHADES)
    settings = document["settings"]
    rules = f"IoU ≥ {settings['loc']:g}, score ≥ {settings['score']:g}, miss {settings['miss']}"
    return charts.caption(figure, about(document, text=rules))


def distributions(document: Mapping[str, Any]) -> Figure:
    """Fig. 5, of ``compare``'s document: a bar per run, divided by mechanism, with its miss rate before it."""
    called = {run["name"]: f"{run['name']} ({percent(run['miss_rate'] or 0)} missed)" for run in document["runs"]}
    rows: dict[str, dict[str, float]] = {words: {} for words in called.values()}
    for mechanism, entries in document["mechanisms"].items():
        for entry in entries:
            rows[called[entry["run"]]][mechanism] = entry["share"] or 0.0
    return charts.shares(rows, "Mechanisms, in % of the misses", SHADES)


def rates(document: Mapping[str, Any]) -> Figure:
    """The same: for each mechanism a point per run, misses by it per 100 objects with the interval."""
    return charts.whiskers(
        {
            name: {entry["run"]: charts.percent(entry["rate"], entry["rate_interval"]) for entry in entries}
            for name, entries in document["mechanisms"].items()
        },
        "Misses by mechanism",
        "misses per 100 objects, with intervals over images",
    )


def comparison_page(document: Mapping[str, Any], path: Path) -> Path:
    """Write ``compare``'s document of explain runs as one self-contained HTML file: shares of the misses, misses per
    100 objects with intervals, and miss rate by class, drawn as SVG."""
    runs = [run["name"] for run in document["runs"]]
    classes = {
        name: {run: charts.percent(rate) for run, rate in zip(runs, each["miss_rate"], strict=True)}
        for name, each in document["by_class"].items()
    }
    by_class = charts.whiskers(classes, "Misses by class", "misses per 100 objects")
    figures = [distributions(document), rates(document), by_class]
    drawn = [b64encode(charts.encoded(figure, "svg")).decode() for figure in figures]
    shown = "".join(f'<p><img alt="" src="data:image/svg+xml;base64,{source}"></p>' for source in drawn)
    title = "Misses, side by side"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, whole_page(title, f"<main><h1>{title}</h1>{shown}</main>", "").encode())
    return path

"""Charts of an attack's document: paper 5's Fig. 2 (AP under every attack), Fig. 6 (ablations), Figs. 5 and 7 to 9
(confusion matrices), the ladder, and success against distance. They read no run and no photo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from misdetect.drawing import charts
from misdetect.drawing.matrix import Shown, matrix, readable, shares
from misdetect.drawing.tables import called

if TYPE_CHECKING:  # figures in files are an extra
    from matplotlib.figure import Figure

Document = Mapping[str, Any]
ABLATED = ("r_idx", "r_all", "r_obj", "r_conf")
_CLASSES = 12
"""Classes of a matrix that are shown one by one: there are many matrices in one figure."""


def attacks(document: Document) -> Figure:
    """Fig. 2: AP50 of the clean images and under every attack."""
    entries = {"clean": document["clean"], **document["attacks"]}
    values = {name: {"AP50": (e["AP50"], e["intervals"].get("AP50"))} for name, e in entries.items()}
    return charts.caption(charts.grouped_bars(values, "AP50 under attack", "AP50"), about(document))


def ablations(document: Document) -> Figure:
    """Fig. 6: AP50 of each ablation under every attack."""
    values: dict[str, dict[str, charts.Value]] = {"clean": {"vanilla": (document["clean"]["AP50"], None)}}
    for loss, parts in document["clsaval"].items():
        values[loss] = {name: (part["AP50"], part["intervals"]["AP50"]) for name, part in parts.items()}
    figure = charts.grouped_bars(values, "Parts taken from the clean image (ClsAVal)", "AP50")
    return charts.caption(figure, about(document))


def ladder(document: Document) -> Figure:
    """Every rung with its success and interval; those that are broken in another colour, by what they mean."""
    found = document["ladder"]
    groups: dict[str, dict[str, charts.Value]] = {}
    for rung in found["rungs"]:
        groups[rung["name"]] = {rung["means"] or "the step holds": charts.percent(rung["success"], rung["interval"])}
    title = f"The ladder, loss {found['loss']}, {found['images']} images: {found['verdict']}"
    figure = charts.whiskers(groups, title, "% of the objects found before that are lost")
    return charts.caption(figure, about(document))


def distance(document: Document) -> Figure:
    """Success against the distance that is kept from every object."""
    entries = document["distance"]
    away = [float(entry["distance"]) for entry in entries]
    lost = [100 * entry["success"] for entry in entries]
    figure = charts.lines(
        {"lost": (away, lost)}, "Attacked from a distance", "px kept from every object", "% of the objects lost"
    )
    axes = figure.axes[0]
    low, high = ([100 * entry["interval"][end] for entry in entries] for end in (0, 1))
    axes.fill_between(away, low, high, color=charts.SERIES[0], alpha=0.2, linewidth=0)
    axes.set_ylim(0, 1.08 * max([*high, 1]))
    return charts.caption(figure, about(document))


def matrices(document: Document) -> Figure:
    """Figs. 5 and 7 to 9: the clean image's matrix, then under each loss the attacked one and its ablations, which show
    what becomes of the boxes that the clean image reports."""
    rows = [[("clean", document["dcm"]["clean"])]]
    for loss, found in document["dcm"].items():
        if loss != "clean":
            parts = document["clsaval"].get(loss, {})
            rows.append([(loss, found), *((f"{loss}, {n}", parts[n]["dcm"]) for n in ABLATED if n in parts)])
    columns = max(map(len, rows))
    side = 1.6 + 0.34 * (min(len(document["dcm"]["clean"]["labels"]), _CLASSES) + 2)
    figure = charts.new(side * columns, side * len(rows) + 0.5)
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for cells, row in zip(grid, rows, strict=True):
        for i, axes in enumerate(cells):
            if i >= len(row):
                axes.axis("off")
                continue
            title, found = row[i]
            shown = Shown.of({**found, "policy_dependent": ()}, _CLASSES)
            values = np.hstack([shown.counts, np.append(shown.became[:, -1], np.nan)[:, None]])
            matrix(axes, shown.names, values, shares(shown.counts, shown.became), title)
    return charts.caption(figure, about(document))


def about(document: Document) -> str:
    """What the numbers are of."""
    s = document["settings"]
    source = f"gradients of {s['surrogate']} (transfer)" if document["transfer"] else "white box"
    lines = (
        called(document),
        f"{document['images']} images, {document['right']} objects found before (score ≥ {s['score']:g}, "
        f"IoU ≥ {s['loc']:g})",
        f"{source}, eps {s['eps']:g}, {s['steps']} steps of {s['alpha']:g}, {s['where']}",
    )
    return "\n".join(readable(line, 110) for line in lines)

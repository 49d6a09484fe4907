"""The figures and the page of a hardening: what it cost and what it brought, every configuration, what was repaired."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from misdetect.drawing.charts import BAD, PALE, SERIES, caption, draw, new, plain
from misdetect.drawing.inline import whole_page
from misdetect.kept.files import write_atomically
from misdetect.report.page import FIGURES, figures, paragraphs, settings_table
from misdetect.studies.contract import Document
from misdetect.suites.harden.document import MEASURED
from misdetect.suites.harden.testing import ATTACK, CAMPAIGN, INSERTIONS, PHOTOS

if TYPE_CHECKING:  # figures in files are an extra
    from matplotlib.figure import Figure

_WORDS = {
    **MEASURED,
    "edited_AP50": "AP50 with inserted objects",
    PHOTOS: "clean photos",
    ATTACK: "under attack (cls, loc)",
    INSERTIONS: "beside inserted objects",
    CAMPAIGN: "the campaign it was trained on (in no sum)",
}
_FATES = ("fixed", "still", "broken")


def harden_page(document: Document, path: Path) -> Path:
    """Draw the figures beside ``path`` and write the page of ``document``."""
    folder = path.parent / "images"
    charts = {"frontier.png": partial(frontier, document), "training.png": partial(training, document)}
    drawn = draw(folder, charts)
    title, room = f"harden: {document['detector']} with {document['settings']['with']}", [FIGURES]
    parts = [
        f'<header><p class="kicker">misdetect report</p><h1>{html.escape(title)}</h1></header><main>',
        paragraphs(document["sentences"]),
        "<h2>Before and after</h2>",
        _sides(document),
        "<h2>Repaired or not</h2>",
        _repair(document),
        figures(drawn[:1], set(), room),
        "<h2>Configurations</h2>",
        _configurations(document),
        figures(drawn[1:], set(), room),
        _rounds(document),
        *(paragraphs([f"Not tested with {each['study']}: {each['why']}"]) for each in document["skipped"]),
        f"<p>Weights: <code>{html.escape(document['hardened'] or document['weights'])}</code></p>",
        settings_table(document["settings"]),
        "</main>",
    ]
    write_atomically(path, whole_page(title, "".join(parts), "").encode())
    return path


def _objective(document: Mapping[str, Any]) -> str:
    return next(name for name in ("robust_AP50", "edited_AP50") if name in document["frontier"][0])


def _about(document: Mapping[str, Any]) -> str:
    held = document["splits"]["held_out"]
    return f"{document['detector']}; {document['settings']['watched']} photos of {held[0]}, not trained on"


def frontier(document: Mapping[str, Any]) -> Figure:
    """Clean AP50 against what was to be raised, of every checkpoint; the chosen one has a ring."""
    objective, points, guard = _objective(document), document["frontier"], document["guard"]
    figure = new(6, 4)
    axes = figure.subplots()
    names = list(dict.fromkeys(point["configuration"] for point in points))
    for name in names:
        own = [point for point in points if point["configuration"] == name]
        paint = BAD if name == "before" else SERIES[(names.index(name) - 1) % len(SERIES)]
        size = 60 if name == "before" else 18
        xs, ys = [p["AP50"] for p in own], [p[objective] for p in own]
        axes.scatter(xs, ys, s=size, color=paint, label=name, zorder=3, marker="D" if name == "before" else "o")
    for point in points:
        same = (point["configuration"], point["seed"], point["step"], point["round"])
        if same == (guard["configuration"], guard["seed"], guard["best_step"], guard["round"]):
            axes.scatter([point["AP50"]], [point[objective]], s=140, facecolors="none", edgecolors="black", zorder=4)
    axes.set_xlabel("AP50 on clean photos", fontsize=8)
    axes.set_ylabel(_WORDS[objective], fontsize=8)
    axes.grid(color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)
    plain(axes, "Every checkpoint that was looked at; the ring is the one that was kept")
    axes.legend(fontsize=8, frameon=False)
    return caption(figure, _about(document))


def training(document: Mapping[str, Any]) -> Figure:
    """Loss, clean AP and the objective over training steps, a line per training."""
    objective = _objective(document)
    figure = new(10, 3.2)
    panels = figure.subplots(1, 3)
    for i, (name, entry) in enumerate(document["configurations"].items()):
        for number, trial in enumerate(entry["seeds"]):
            label, paint = (name if not number else None), SERIES[i % len(SERIES)]
            steps = [point["step"] for point in trial["curve"]]
            panels[0].plot(steps, [point["loss"] for point in trial["curve"]], color=paint, label=label, linewidth=1)
            checked = [point for point in trial["curve"] if point["scores"]]
            for axes, score in zip(panels[1:], ("AP", objective), strict=True):
                begun = document["frontier"][0][score]
                values = [begun, *(point["scores"][score] for point in checked)]
                axes.plot([0, *(point["step"] for point in checked)], values, color=paint, linewidth=1, marker=".")
    for axes, title in zip(panels, ("Training loss", "AP, held-out photos", _WORDS[objective]), strict=True):
        axes.set_xlabel("step", fontsize=8)
        axes.grid(color=PALE, linewidth=0.6)
        plain(axes, title)
    figure.legend(loc="outside upper right", ncols=4, fontsize=8, frameon=False)
    return caption(figure, _about(document))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    first = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    rest = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="facts"><table class="overview"><tr>{first}</tr>{rest}</table></div>'


def number(value: float | None, ends: Sequence[float] | None = None) -> str:
    """``value`` with its interval."""
    if value is None:
        return "–"
    return f"{value:.3f}" + ("" if ends is None else f" ({ends[0]:.3f} to {ends[1]:.3f})")


def _sides(document: Mapping[str, Any]) -> str:
    rows = []
    for name, words in MEASURED.items():
        cells = [number(document[side][name], document[side]["intervals"].get(name)) for side in ("before", "after")]
        change = document["change"].get(name)
        rows.append([words, *cells, "" if change is None else number(change["value"], change["interval"])])
    return _table(("", "before", "after", "difference"), rows)


def _repair(document: Mapping[str, Any]) -> str:
    rows = []
    for name, told in document["repair"].items():
        counts = [str(told[fate]["count"]) for fate in _FATES]
        shares = [number(told[key], told["intervals"].get(key)) for key in ("repaired", "broke")]
        rows.append([_WORDS[name], str(told["failed"]), *counts, *shares])
    head = ("", "failed", "fixed", "still failing", "newly broken", "repaired, of the failed", "broken, of the others")
    kinds = []
    for by, words in (("by_type", "by type"), ("by_mechanism", "by mechanism")):
        listed = list(dict.fromkeys(kind for fate in _FATES for kind in document[fate][by]))
        kinds += [[f"{words}: {kind}", *(str(document[fate][by].get(kind, 0)) for fate in _FATES)] for kind in listed]
    return _table(head, rows) + _table(("all test photos", "fixed", "still failing", "newly broken"), kinds)


def _configurations(document: Mapping[str, Any]) -> str:
    scores = list(next(iter(document["configurations"].values()))["test"])
    rows = []
    for name, entry in document["configurations"].items():
        rows.append([name, str(len(entry["seeds"])), *(mean(entry["test"][score]) for score in scores)])
    return _table(
        ("last weights on test photos, mean over seeds", "seeds", *(_WORDS.get(score, score) for score in scores)), rows
    )


def mean(entry: Mapping[str, Any]) -> str:
    """The mean over seeds, and how far its interval reaches."""
    ends = entry["interval"]
    return f"{entry['mean']:.3f}" + ("" if ends is None else f" ± {(ends[1] - ends[0]) / 2:.3f}")


def _rounds(document: Mapping[str, Any]) -> str:
    if not document["rounds"]:
        return ""
    keys = ("failure_rate", "attributable_per_1000", "harmful_per_1000")
    rows = [
        [str(each["round"]), str(each["failing_images"] or "–")]
        + [number(each[key], each["intervals"][key]) if key in each else "–" for key in keys]
        for each in document["rounds"]
    ]
    head = ("round", "failing images", "insertions that fail", "caused per 1,000 queries", "harmful per 1,000")
    return "<h2>Rounds: fuzz, retrain, fuzz held-out photos</h2>" + _table(head, rows)

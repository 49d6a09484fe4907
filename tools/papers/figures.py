"""The papers' figures with our numbers, in their axes: PNG and PDF under docs/images/papers.

Charts are drawn from the result files, by what ``report/`` draws them with for a single run. Only the heat maps need
the run directory; where it is gone, the files that are there stay.
"""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import matplotlib.image
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

import misdetect as md
from misdetect.drawing import charts
from misdetect.kept.files import write_atomically
from misdetect.metrics.mechanisms import MECHANISMS
from misdetect.studies.attack import plots as attack_figures
from misdetect.studies.explain import plots as explain_figures
from misdetect.studies.explain.rows import TIDE_TYPES
from misdetect.studies.verify import plots as verify_figures
from papers.catalogue import ROOT, Catalogue, Paper
from papers.runs import Places
from papers.tables import failures, known, retraining, verification
from papers.verdicts import Results

DOCS = ROOT / "docs"
FOLDER = "images/papers"
_WIDEST, _SHOWN, _COLOURS = 1100, 1500, 96
_MAPPED = ("yolox", "yolox-nano")
_TITLES = {"no_occlusion": "No-Occ", "affected": "affected"}
Drawn = Iterator[tuple[str, str, Callable[[], Figure | None]]]


def draw(catalogue: Catalogue, results: Results, places: Places) -> None:
    """Draw every figure that the results are enough for."""
    for paper in catalogue.papers:
        for name, _, make in _figures(paper, catalogue, results, places):
            figure = make()
            if figure is not None:
                charts.save(DOCS / FOLDER / f"{name}.pdf", figure)
                _narrow(charts.save(DOCS / FOLDER / f"{name}.png", figure))


def _narrow(path: Path) -> None:
    """Make the PNG at ``path`` small: no wider than a page shows, few colours. The PDF beside it has every digit."""
    with Image.open(path) as opened:
        image = opened.convert("RGB")
    image.thumbnail((_SHOWN, 2 * _SHOWN))
    stream = io.BytesIO()
    image.quantize(_COLOURS).save(stream, "png", optimize=True)
    write_atomically(path, stream.getvalue())


def listed(catalogue: Catalogue, results: Results, places: Places) -> dict[int, list[tuple[str, str]]]:
    """The figures that are there, by paper: file without its ending, relative to docs/, and caption."""
    return {
        paper.number: [
            (f"{FOLDER}/{name}", caption)
            for name, caption, _ in _figures(paper, catalogue, results, places)
            if (DOCS / FOLDER / f"{name}.png").exists()
        ]
        for paper in catalogue.papers
    }


def _figures(paper: Paper, catalogue: Catalogue, results: Results, places: Places) -> Drawn:
    """Name, caption and what draws it, of every figure of ``paper``."""
    made = {1: _transplanting, 2: _parts, 3: _mechanisms, 4: _insertion, 5: _attacks}[paper.number]
    yield from made(paper, catalogue, results, places)


def _transplanting(paper: Paper, catalogue: Catalogue, results: Results, places: Places) -> Drawn:
    scans = list(known(paper, "scan", catalogue, results))
    if scans:
        yield "1-table-1", "Table I: positions affected, over τ", lambda: _table_one(paper, scans)
    for name in _MAPPED:
        if (found := results.of("scan", name)) is not None:
            called = catalogue.subjects[name].called
            out = places.run(catalogue.question("scan", name, found["size"]))
            caption = f"{called}: S over the positions of the most affected pair, with the object and with its control"
            yield f"1-maps-{name}", caption, lambda out=out: _heat_maps(out)


def _table_one(paper: Paper, scans: list[tuple[str, str, Mapping[str, Any]]]) -> Figure:
    taus = paper.printed["tau"]
    across = range(len(taus))
    figure = charts.new(3.1 * len(scans), 5.6)
    grid = figure.subplots(2, len(scans), sharey="row", squeeze=False)
    for row, key in enumerate(("affected", "no_occlusion")):
        for axes, (_, called, document) in zip(grid[row], scans, strict=True):
            lines = {
                "paper": paper.printed[key],
                "object": [document[key][tau] for tau in taus],
                "control": [document["control"][key][tau] for tau in taus],
            }
            for i, (name, values) in enumerate(lines.items()):
                ys = [np.nan if value is None else value for value in values]
                axes.plot(across, ys, marker="o", markersize=3, color=charts.SERIES[i], label=name)
                known_ends = document["intervals"]
                ends = {"object": known_ends[key], "control": known_ends["control"][key]}.get(name)
                if ends is not None:
                    low, high = ([(ends[tau] or (np.nan, np.nan))[end] for tau in taus] for end in (0, 1))
                    axes.fill_between(across, low, high, color=charts.SERIES[i], alpha=0.18, linewidth=0)
            axes.set_xticks(across, [f"{float(tau):g}" for tau in taus])
            axes.set_ylim(0, 100)
            charts.plain(axes, f"{called}: {_TITLES[key]}")
    for axes in grid[1]:
        axes.set_xlabel("τ", fontsize=8)
    for axes in grid[:, 0]:
        axes.set_ylabel("% of positions", fontsize=8)
    grid[0, 0].legend(fontsize=7.5, frameon=False)
    return figure


def _heat_maps(out: Path) -> Figure | None:
    if not (out / "run.json").exists():
        return None
    drawn = [path for path in md.open(out).figures(1) if path.name.endswith("maps.png")]
    return _picture(drawn[0]) if drawn else None


def _picture(path: Path) -> Figure:
    """A figure that shows a picture, no wider than need be, and nothing else."""
    image = (255 * matplotlib.image.imread(path)[:, :, :3]).astype(np.uint8)
    scale = min(1.0, _WIDEST / image.shape[1])
    image = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    figure = charts.new(image.shape[1] / 110, image.shape[0] / 110)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(image, interpolation="none")
    axes.axis("off")
    return figure


def _parts(paper: Paper, catalogue: Catalogue, results: Results, places: Places) -> Drawn:
    found = {called: document for _, called, document in known(paper, "parts", catalogue, results)}
    if not found:
        return
    yield "2-table-1", "Table 1: R_P / R_M / F_vv", lambda: _table(verification(paper, catalogue, results))
    first = next(iter(found.values()))
    states = {name: part["states"] for name, part in first["by_part"].items()}
    yield "2-figure-3", "Fig. 3: states of parts (drawn bicycles)", lambda: verify_figures.states(states)
    means = {name: part["box"] for name, part in first["prior"]["by_part"].items()}
    yield "2-figure-4", "Fig. 4: mean position and size of the parts", lambda: _prior(means)
    yield "2-figure-5", "Fig. 5: AP of each part, and over all", lambda: _figure_five(found)
    careful = {f"{called}, .5": each for _, called, each in known(paper, "careful", catalogue, results)}
    both = {name: {**each, "score": each["settings"]["score"]} for name, each in (found | careful).items()}
    caption = "Fig. 6: recall of missing parts over IoU, at .05 and at .5"
    yield "2-figure-6", caption, lambda: verify_figures.missing_recall(both)


def _figure_five(found: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Parts across and AP up, as in the paper; the best part of the first detector comes first."""
    first = next(iter(found.values()))
    ranked = sorted(first["by_part"], key=lambda part: -(first["by_part"][part]["AP"] or 0))
    groups: dict[str, dict[str, charts.Value]] = {
        part: {called: (each["by_part"][part]["AP"], None) for called, each in found.items()} for part in ranked
    }
    groups["all parts"] = {called: (each["ap"]["AP"], None) for called, each in found.items()}
    figure = charts.grouped_bars(groups, "AP over present parts (Fig. 5)", "AP, IoU .5:.95")
    figure.set_size_inches(14, 4)
    axes = figure.axes[0]
    axes.margins(x=0.01)
    for text in list(axes.texts):  # at this size numbers would lie on each other
        text.remove()
    axes.tick_params(axis="x", labelrotation=60)
    return figure


def _table(rows: Sequence[Sequence[object]]) -> Figure:
    """``rows`` as a table, the first of them the head; columns as wide as their longest text."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(text) for text in column) + 2 for column in zip(*texts, strict=True)]
    figure = charts.new(0.075 * sum(widths), 0.25 * len(texts) + 0.1)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0.01, 0.02, 0.98, 0.96))
    axes.axis("off")
    shares = [width / sum(widths) for width in widths]
    drawn = axes.table(
        texts[1:], colLabels=texts[0], colWidths=shares, cellLoc="left", colLoc="left", bbox=(0, 0, 1, 1)
    )
    drawn.auto_set_font_size(False)
    drawn.set_fontsize(8)
    for (row, _), cell in drawn.get_celld().items():
        cell.visible_edges = "B"
        cell.set_edgecolor(charts.INK if row == 0 else charts.PALE)
        cell.set_text_props(weight="bold" if row == 0 else "normal")
    return figure


def _prior(means: Mapping[str, Any]) -> Figure:
    figure = verify_figures.prior(means, np.zeros((0, 4)), [])
    figure.delaxes(figure.axes[1])  # there the boxes of one run are shown
    figure.set_size_inches(5.2, 5)
    return figure


def _mechanisms(paper: Paper, catalogue: Catalogue, results: Results, places: Places) -> Drawn:
    for name, called, document in known(paper, "explain", catalogue, results):
        if document["missed"]:
            whole = _named(document, name, catalogue)
            yield f"3-figure-3-{name}", f"Fig. 3: {called}", lambda whole=whole: explain_figures.three_panels(whole)


def _named(document: Mapping[str, Any], subject: str, catalogue: Catalogue) -> dict[str, Any]:
    """``document`` with what captions say of detector and data."""
    known_as = catalogue.subjects[subject]
    photos = "66 COCO photos" if known_as.needs_fixtures else known_as.data
    named = {**document, "detector": known_as.called.partition(",")[0], "data": photos}
    for key, order in (("mechanisms", MECHANISMS), ("tide", TIDE_TYPES)):  # as the paper has them, not by the alphabet
        if key in named and set(named[key]) <= {*order, "unknown"}:
            named[key] = {name: named[key][name] for name in (*order, "unknown") if name in named[key]}
    return named


def _insertion(paper: Paper, catalogue: Catalogue, results: Results, places: Places) -> Drawn:
    campaigns = known(paper, "guided", catalogue, results)
    found = {called: document["relocation"]["progress"] for _, called, document in campaigns}
    if found:
        first, third = failures(paper, catalogue, results)
        yield "4-table-1", "Table 1: synthetic images, detected objects, failures", lambda: _table(first)
        yield "4-tables-3-and-4", "Tables 3 and 4: relocated objects, HOG intersection", lambda: _table(third)
        yield "4-figure-8", "Fig. 8: how far failing objects could be moved towards the centroid", lambda: _moved(found)
    if rows := retraining(paper, results):
        yield "4-retraining", "Section 6.4: AP after retraining", lambda: _table(rows)


def _moved(found: Mapping[str, Mapping[str, int]]) -> Figure:
    bins = sorted({name for each in found.values() for name in each}, key=lambda name: int(name.partition("-")[0]))
    figure = charts.new(8, 3.4)
    axes = figure.subplots()
    wide = 0.8 / len(found)
    for i, (called, each) in enumerate(found.items()):
        total = sum(each.values())
        heights = [100 * each.get(name, 0) / max(total, 1) for name in bins]
        starts = [place + i * wide - 0.4 for place in range(len(bins))]
        axes.bar(starts, heights, width=wide, align="edge", color=charts.SERIES[i], label=f"{called} ({total})")
    axes.set_xticks(range(len(bins)), bins)
    axes.set_xlabel("% of the way to the centroid", fontsize=8)
    axes.set_ylabel("% of the relocated objects", fontsize=8)
    charts.plain(axes)
    axes.legend(fontsize=8, frameon=False)
    return figure


def _attacks(paper: Paper, catalogue: Catalogue, results: Results, places: Places) -> Drawn:
    found = {name: (called, document) for name, called, document in known(paper, "attack", catalogue, results)}
    if not found:
        return
    yield "5-figure-2", "Fig. 2: AP50 clean and under attack, standard and robust", lambda: _figure_two(found)
    for kind in ("standard", "robust"):
        own = {name: each for name, each in found.items() if name.endswith("-robust") == (kind == "robust")}
        if own:
            caption = f"Fig. 6: Classification-Ablative Validation, {kind} detectors"
            yield f"5-figure-6-{kind}", caption, lambda own=own: _figure_six(own)
    numbers = {"ssd": 5, "faster-rcnn": 7, "yolox": 8, "deformable-detr": 9}
    for family, number in numbers.items():
        for name in (family, f"{family}-robust"):
            if name in found:
                called, document = found[name]
                whole = _named(document, name, catalogue)
                caption = f"Fig. {number}: Detection Confusion Matrices of {called}"
                yield f"5-figure-{number}-{name}", caption, lambda whole=whole: attack_figures.matrices(whole)


def _figure_two(found: Mapping[str, tuple[str, Mapping[str, Any]]]) -> Figure:
    values = {}
    for called, document in found.values():
        entries = {"clean": document["clean"], **{name: document["attacks"][name] for name in ("noise", "cls", "loc")}}
        values[called.replace(" ", "\n", 1)] = {n: (e["AP50"], e["intervals"].get("AP50")) for n, e in entries.items()}
    return charts.grouped_bars(values, "AP50 clean, under noise and under PGD-20 (eps 8)", "AP50")


def _figure_six(found: Mapping[str, tuple[str, Mapping[str, Any]]]) -> Figure:
    values: dict[str, dict[str, charts.Value]] = {}
    for called, document in found.values():
        for loss in ("cls", "loc"):
            parts = document["clsaval"][loss]
            shown = {name: parts[name] for name in ("vanilla", *attack_figures.ABLATED, "first") if name in parts}
            values[f"{called},\n{loss}".replace(" ", "\n", 1)] = {
                n: (part["AP50"], part["intervals"]["AP50"]) for n, part in shown.items()
            }
    return charts.grouped_bars(values, "AP50 with parts taken from the clean image", "AP50")

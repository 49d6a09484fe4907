"""``misdetect explain``: why each object was missed (paper 3), beside its TIDE type, and what solving it buys."""

from json import dumps, loads
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from misdetect.cli.running import Asking, Batch, NoCache, Queries, Workers
from misdetect.cli.shell import DataSpec, DetectorSpec, Document, Json, Limit, Seed, messages, plain_table, present
from misdetect.detectors import load_detector
from misdetect.metrics.mechanisms import Thresholds
from misdetect.protocols import Detector, Traced, require
from misdetect.report.explain import draw
from misdetect.studies.explain import Explaining, ExplainStudy
from misdetect.studies.explain.summary import summarise


def explain(
    detector: DetectorSpec,
    data: DataSpec,
    out: Annotated[Path, typer.Option("--out", help="Run directory.")],
    truth: Annotated[
        str | None, typer.Option("--truth", help="Data spec whose annotations are used, joined by image name.")
    ] = None,
    loc: Annotated[float, typer.Option("--loc", help="Least IoU of a box that localises an object.")] = 0.5,
    cls: Annotated[float, typer.Option("--cls", help="Least score of a box that classifies it.")] = 0.3,
    score: Annotated[float | None, typer.Option("--score", help="What counts as reported; default: as --cls.")] = None,
    miss: Annotated[
        Literal["any", "exclusive"],
        typer.Option("--miss", help="One detection may find several objects (paper 3), or only one (AP, TIDE)."),
    ] = "any",
    reading: Annotated[
        Literal["auto", "boxes", "cells"],
        typer.Option("--reading", help="What proposals are: boxes (by IoU), or cells of a grid (by their centre)."),
    ] = "auto",
    inside: Annotated[
        bool | None, typer.Option("--inside/--outside", help="Look into the detector; default: if possible.")
    ] = None,
    regions: Annotated[int, typer.Option("--regions", min=0, help="Suspicious regions kept per image.")] = 20,
    pictures: Annotated[int, typer.Option("--pictures", min=0, help="Misses drawn per mechanism.")] = 4,
    confidence: Annotated[
        float, typer.Option("--confidence", min=1, max=99.9, help="Of the intervals, in percent.")
    ] = 90,
    seed: Seed = 0,
    limit: Limit = None,
    workers: Workers = 1,
    batch: Batch = None,
    queries: Queries = None,
    no_cache: NoCache = False,
    json: Json = False,
) -> None:
    """Why each object was missed: which part of the detector failed, with the evidence."""
    model: Detector = require(load_detector(detector), Detector, "explain", "use a detector that can be asked")
    if inside:
        require(model, Traced, "explain --inside", "leave --inside out; what the output alone tells is reported then")
    looking = isinstance(model, Traced) if inside is None else inside
    study = ExplainStudy(
        data, model.names, Explaining(Thresholds(loc, cls, score), miss, reading, looking, regions), limit, truth
    )
    asking = Asking(detector, workers, batch, queries, no_cache)
    document = explained(asking, study, model, out, limit, pictures=pictures, confidence=confidence / 100, seed=seed)
    document |= {"data": data}
    if document["stopped"] is None:
        document["settings"] |= {"truth": truth}
    present(document, json, show)


def explained(
    asking: Asking,
    study: ExplainStudy,
    model: Any,
    out: Path,
    limit: int | None,
    *,
    pictures: int = 4,
    confidence: float = 0.9,
    seed: int = 0,
) -> dict[str, Any]:
    """Run ``study`` into ``out`` and sum it up: the document of the verb, with its pictures drawn."""
    _ = study.joined  # two that have no class in common are refused before anything is asked
    settings = study.settings()
    outcome = asking.run(study, model, out, study.data, limit, budget=asking.budget(out), **settings)
    document: dict[str, Any] = {"detector": asking.detector, "out": str(out), **outcome.document()}
    if outcome.stopped is None:
        document |= summarise(outcome.run, settings, confidence=confidence, seed=seed)
        thresholds = study.explaining.thresholds
        document["settings"] = {
            **{key: value for key, value in settings.items() if key != "thresholds"},
            "loc": thresholds.loc,
            "cls": thresholds.cls,
            "score": thresholds.cls if thresholds.score is None else thresholds.score,
            "confidence": confidence,
            "limit": limit,
            "seed": seed,
            "detector": _plain(getattr(model, "settings", {})),
        }
        document["pictures"] = [str(path) for path in draw(outcome.run, study.data, document, pictures)]
        for note in document["notes"]:
            messages().print(f"note: {note}", markup=False)
    return document


def _plain(settings: Any) -> dict[str, Any]:
    found: dict[str, Any] = loads(dumps(dict(settings), default=str))
    return found


def show(console: Console, document: Document) -> None:
    """The document for a person: what was missed, why, what it would buy, and where to look."""
    if document["stopped"]:
        console.print(f"{document['done']} of {document['cases']} images done; stopped: {document['stopped']}")
        return
    settings = document["settings"]
    if document["missed"] is None or not document["objects"]:
        console.print("Nothing is annotated here; the most suspicious regions:")
        _show_warning(console, document)
        return
    ends = document["intervals"]["miss_rate"]
    console.print(
        f"{document['missed']} of {document['objects']} objects missed: {100 * document['miss_rate']:.1f} % "
        f"({100 * ends[0]:.0f}..{100 * ends[1]:.0f}), at IoU {settings['loc']:g}, score {settings['score']:g}, "
        f"miss {settings['miss']}"
    )
    if document["missed"]:
        console.print(_mechanisms(document))
        console.print(_flow(document))
        _show_slices(console, document)
        for pair in document["confusions"][:3]:
            console.print(Text(f"Taken for another: {pair[0]} for {pair[1]}, {pair[2]} times"))
    _show_warning(console, document)
    for path in document["pictures"][:3]:
        console.print(Text(f"Picture: {path}"))


def _mechanisms(document: Document) -> Table:
    title = "Why (share of misses with its interval; recall and AP50 if it were solved)"
    table = plain_table(
        title, "mechanism", ">misses", ">share", ">", ">recall", ">AP50", "reasons", wrapped=("reasons",)
    )
    shares, gains = document["intervals"]["shares"], document["potential"]
    for name, count in document["mechanisms"].items():
        low, high = shares[name] or (0, 0)
        reasons = ", ".join(f"{n} {reason}" for reason, n in document["reasons"].get(name, {}).items())
        table.add_row(
            name,
            str(count),
            f"{100 * count / document['missed']:.1f} %",
            f"{100 * low:.0f}..{100 * high:.0f}",
            f"+{100 * gains[name]['recall_gain']:.1f}",
            f"+{100 * (gains[name]['AP50_gain'] or 0):.1f}",
            reasons,
        )
    return table


def _flow(document: Document) -> Table:
    names = list(document["mechanisms"])
    table = plain_table(
        "TIDE type of the same misses (rows) and mechanism (columns)", "", *(f">{n}" for n in (*names, "all"))
    )
    cells = {(a, b): count for a, b, count in document["sankey"]}
    for kind, count in document["tide"].items():
        table.add_row(kind, *(str(cells.get((kind, name), 0)) for name in names), str(count))
    return table


def _show_slices(console: Console, document: Document) -> None:
    certain = [each for each in document["slices"] if each["certain"]][:8]
    if not certain:
        return
    table = plain_table(
        "Where a mechanism is over-represented", "slice", "mechanism", ">objects", ">rate", ">elsewhere", ">by"
    )
    for each in certain:
        table.add_row(
            Text(f"{each['attribute']}: {each['value']}"),
            each["mechanism"],
            str(each["objects"]),
            f"{100 * each['rate']:.1f} %",
            f"{100 * each['rate_outside']:.1f} %",
            f"{100 * each['low']:.0f}..{100 * each['high']:.0f}",
        )
    console.print(table)


def _show_warning(console: Console, document: Document) -> None:
    warning = document["warning"]
    if document["missed"]:
        at = next((p for p in warning["curve"] if p["recall"] >= 0.25), None)
        if at:
            console.print(
                f"\nWarning signal: objectness >= {at['threshold']:.2f} without a detection warns of "
                f"{100 * at['recall']:.0f} % of the misses, {100 * at['precision']:.0f} % of the warnings are right"
            )
    for region in warning["suspicious"][:3]:
        console.print(Text(f"Suspicious: {region['image']} at {region['box']}, objectness {region['objectness']:.2f}"))

"""How a terminal shows a campaign: what does harm, what the paper would count, how much was tested, the worst cases."""

from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.text import Text

from misdetect.drawing.terminal import Document, unfinished
from misdetect.studies.fuzz.document import per_1000, sentences

_SHOWN = 10


def show(console: Console, document: Document) -> None:
    """Print the ``document`` of a campaign."""
    first, *_ = sentences(dict(document))
    console.print(Text(first), style="bold")
    if (line := unfinished(document)) is not None:
        console.print(line)
    settings = document["settings"]
    asked = f" ({document['engine']['queries']} asked now)" if "engine" in document else ""
    console.print(
        f"{document['insertions']} insertions into {document['backgrounds']} backgrounds, {document['queries']} "
        f"queries{asked}, {settings['strategy']}, widened to {settings['reach']}, score {settings['score']:g}, IoU "
        f"{settings['iou']:g}",
        markup=False,
    )
    rows = _rows(document)
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        console.print(f"{name:<{width}}  {value}", markup=False)
    for each in [each for each in document["distinct"] if each["cleared"]][:_SHOWN]:
        became = f" as {each['became']}" if each["became"] else ""
        console.print(
            f"  {each['case']}: {each['type']} {each['label']}{became} on {each['image']}, "
            f"{each['score']:.2f} -> {each['after']:.2f} ({each['effect'] or each['harm']}; "
            f"{each['patches_failing']} of {each['patches']} patches do it too)",
            markup=False,
        )
    pictures = [str(path) for path in document.get("pictures", ())]
    if images := [path for path in pictures if path.endswith(".png")]:
        console.print(f"Pictures: {Path(images[0]).parent} ({len(images)})", markup=False)
    for path in pictures:
        if path.endswith(".md"):
            console.print(f"The paper's tables: {path}", markup=False)


def _rows(document: Document) -> list[tuple[str, Any]]:
    coverage, raw, rate = document["coverage"], document["raw_failures"], document["raw_failure_rate"]
    rows: list[tuple[str, Any]] = [
        (
            "distinct failures of the inserted objects' doing",
            f"{document['attributable']}{per_1000(dict(document), 'attributable_per_1000')}",
        ),
        ("  by harm", _counts(document["harm"])),
        ("  by type", _counts(document["attributable_by_type"])),
        ("distinct failures (object, type) in all", document["unique_failures"]),
        ("  patches of the background's texture do it too", document["by_control"]["shared"]),
        ("  not clear", document["by_control"]["unclear"]),
        ("failing insertions, as the paper counts", f"{raw} ({100 * (rate or 0):.1f} %)"),
        ("  of these only a score that flickers", document["flicker"]),
        ("  the rest", raw - document["flicker"]),
        ("    one patch of texture fails too", f"{document['control_failures']} of {document['control_asked']}"),
        ("backgrounds tested", _percent(coverage["backgrounds"])),
        ("objects tested", f"{_percent(coverage['objects'])} of {coverage['detected_objects']}"),
        ("relocated", f"{document['relocated']} ({document['relocated_unique']} unique)"),
        ("shrunk", _shrunk([case["strength"] for case in document["shrunk"]])),
        ("naturalness", _points(document["naturalness"]["inserted"])),
    ]
    if document["cost"] is not None and document["cost"]["usd"]:
        rows.append(("cost", f"{document['cost']['usd']:.2f} USD"))
    return rows


def _counts(counts: Document) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"


def _shrunk(strengths: list[float]) -> str:
    return f"{len(strengths)}, to {_percent(median(strengths))} of the edit (median)" if strengths else "0"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def _points(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} % HOG intersection"

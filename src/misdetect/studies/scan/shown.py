"""``misdetect scan``: put an object in and watch the rest (paper 1), beside its control."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from misdetect.drawing.terminal import Document, plain_table, unfinished
from misdetect.drawing.words import number, ranged
from misdetect.studies.scan.document import sentences
from misdetect.studies.scan.settings import TAUS
from misdetect.studies.scan.table import PAPER

_ROWS = {
    "affected": "affected",
    "class_agnostic": "class agnostic",
    "occlusion_20": "occlusion 20",
    "no_occlusion": "no occlusion",
    "scene": "scene only",
}
"""Those of Table I and the scene, as they are called here."""


def show(console: Console, document: Document) -> None:
    """The document for a person: what is harmed, Table I beside the paper's and the control, and where it lies."""
    if (line := unfinished(document)) is not None:
        console.print(line)
    for sentence in sentences(dict(document))[:1]:
        console.print(Text(sentence))
    settings = document["settings"]
    console.print(
        f"{document['positions']} positions of {len(document['pairs'])} pairs, {document['queries']} questions, score "
        f"{settings['score']:g}, step {settings['step']} px, own {settings['own']}, policy {settings['policy']}"
    )
    if document["effects"]:
        console.print(_effects(document))
    console.print(_table_one(document))
    _show_shares(console, document)
    _show_object(console, document)
    console.print(_distances(document))
    _show_losses(console, document)
    for entry in document["interference"] or ():
        views = ", ".join(f"{name}: {view['label'] or 'nothing'}" for name, view in entry["views"].items())
        said = f"{entry['really']} taken for {entry['detected_as']}, decided by {entry['decided_by']} ({views})"
        console.print(Text(said))
    for path in document.get("pictures", ()):
        console.print(Text(f"Picture: {path}"))


def _effects(document: Document) -> Table:
    title = "What the changes mean against the truth (percent of originals times positions, flicker apart)"
    conditions = [name for name in ("object", "control") if name in document["effects"]]
    table = plain_table(title, "", *(f">{name}" for name in conditions))
    for key in ("effects", "harms"):
        for name in document[key]["object" if "object" in conditions else conditions[0]]:
            table.add_row(name, *(number(document[key][condition][name], 2) for condition in conditions))
        if key == "effects":
            table.add_row()
    return table


def _table_one(document: Document) -> Table:
    percent = f"{100 * document['settings']['confidence']:g} %"
    taus = list(document["affected"])
    title = (
        f"Table I: positions at which the scene is affected, in percent ({percent} intervals over images); affected is "
        "S < τ, with S how well the other detections survive, 0 to 1"
    )
    table = plain_table(title, "", *(f">τ = {tau}" for tau in taus))
    intervals = document["intervals"]
    parts = [("object", document, intervals)]
    if document["control"] is not None:
        names = (("control", "control"), ("difference", "difference"))
        parts += [(name, document[key], intervals[key]) for name, key in names]
    for row, said in _ROWS.items():
        table.add_row(said, style="bold")
        if row in PAPER and document["settings"]["tau"] == list(TAUS):
            table.add_row("  paper", *(f"{value:g}" for value in PAPER[row]), style="dim")
        for name, rates, ranges in parts:
            table.add_row(f"  {name}", *(ranged(rates[row][tau], ranges[row][tau]) for tau in taus))
    return table


def _show_shares(console: Console, document: Document) -> None:
    """Of the affected positions, those that say little of the scene."""
    margin = document["settings"]["margin"]
    flicker, parts = document["flicker"]["affected"], document["own_parts_only"]
    console.print()
    for said, rates in (
        (f"Of these, only a score flickering within {margin:g} of the threshold", flicker),
        ("Percent of those without occlusion that keep all and are new on the object's own parts only", parts),
    ):
        known = ", ".join(f"{value:.1f} at {tau}" for tau, value in rates.items() if value is not None)
        console.print(f"{said}: {known or 'none'}")


def _show_object(console: Console, document: Document) -> None:
    t, step = document["stability"], document["stability"]["step"]
    if t["detected"] is None:
        return
    flips = f"; one step flips it in {step['flips']:.1f} %" if step["compared"] else ""
    console.print(
        f"The object itself: detected at {t['detected']:.0f} % of positions, as itself {t['as_itself']:.0f} %, as "
        f"another class {t['as_another']:.0f} %{flips}"
    )


def _distances(document: Document) -> Table:
    title = "Originals renamed or lost, by distance from the object (percent of the diagonal)"
    table = plain_table(title, ">distance", ">object", ">control", ">object, flicker only", ">control, flicker only")
    for bin in document["distance"]["bins"]:
        end = f"–{100 * bin['to']:g}" if bin["to"] else ""
        where = "touching" if bin["to"] == 0 else f"> {100 * bin['from']:g}{end}"
        both: list[dict[str, Any]] = [bin.get(condition, {}) for condition in ("object", "control")]
        table.add_row(where, *(number(part.get(key), 2) for key in ("changed", "flicker") for part in both))
    return table


def _show_losses(console: Console, document: Document) -> None:
    for title, key in (("What became of its candidate", "suppression"), ("What failed", "mechanisms")):
        for where, counts in (document[key] or {}).items():
            found = ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"
            console.print(f"{title}, objects lost while {where}: {found}")
    if document["adaptive"] is not None:
        saved = document["adaptive"]
        console.print(f"Adaptive: {saved['asked']} of {saved['positions']} positions asked ({saved['share']:.1f} %)")

"""``misdetect attack``: which loss breaks a detector, where the confusion goes, whether that was a strong attack
(paper 5)."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from misdetect.drawing.terminal import Document, plain_table, unfinished
from misdetect.drawing.words import between, number, percent


def show(console: Console, document: Document) -> None:
    """The document for a person: the verdict, every attack beside noise, the ladder, and what gives way inside."""
    if (line := unfinished(document)) is not None:
        console.print(line)
    for sentence in document["verdict"]["says"]:
        console.print(Text(sentence))
    if not document["attacks"]:
        return
    console.print(_attacks(document))
    if document["ladder"] and document["ladder"]["rungs"]:
        console.print(_ladder(document["ladder"]))
    if document["distance"]:
        console.print(_distance(document["distance"]))
    if document["clsaval"]:
        console.print(_ablations(document))
    if document["mechanisms"]:
        console.print(_mechanisms(document))
    for path in document.get("pictures", ())[:4]:
        console.print(Text(f"Picture: {path}"))


def _attacks(document: Document) -> Table:
    settings = document["settings"]
    title = (
        f"{document['images']} images, {document['right']} of {document['objects']} objects found before; eps "
        f"{settings['eps']:g}, {settings['steps']} steps of {settings['alpha']:g}, {settings['where']}"
        + (f", gradients of {settings['surrogate']}" if document["transfer"] else "")
    )
    table = plain_table(title, "attack", ">AP", ">AP50", ">", ">lost", ">", ">to another class")
    clean = document["clean"]
    table.add_row("clean", number(clean["AP"]), number(clean["AP50"]), between(clean["intervals"].get("AP50"), 3))
    for name, entry in document["attacks"].items():
        table.add_row(
            name,
            number(entry["AP"]),
            number(entry["AP50"]),
            between(entry["intervals"]["AP50"], 3),
            percent(entry["success"], 0),
            between(entry["intervals"]["success"], times=100),
            str(entry["renamed"]),
        )
    return table


def _ladder(ladder: Document) -> Table:
    source = f"; transfer from {ladder['transfer']}" if ladder["transfer"] else ""
    title = f"The ladder: {ladder['verdict']} ({ladder['images']} images, loss {ladder['loss']}{source})"
    table = plain_table(title, "attack", ">lost", ">", "against", ">more", ">", "")
    for rung in ladder["rungs"]:
        table.add_row(
            rung["name"],
            percent(rung["success"], 0),
            between(rung["interval"], times=100),
            rung["than"] or "",
            "" if rung["change"] is None else f"{100 * rung['change']:+.0f}",
            between(rung["change_interval"], times=100),
            rung["means"] or "",
        )
    return table


def _distance(entries: Sequence[Document]) -> Table:
    table = plain_table("Attacked only from a distance to every object", ">px away", ">images", ">lost", ">")
    for entry in entries:
        lost, ends = percent(entry["success"], 0), between(entry["interval"], times=100)
        table.add_row(str(entry["distance"]), str(entry["images"]), lost, ends)
    return table


def _ablations(document: Document) -> Table:
    names = list(dict.fromkeys(name for parts in document["clsaval"].values() for name in parts))
    title = "AP50 with parts taken from the clean image: r_idx its places, r_all its scores"
    table = plain_table(title, "attack", *(f">{name}" for name in names))
    for loss, parts in document["clsaval"].items():
        table.add_row(loss, *(number(parts[name]["AP50"]) if name in parts else "" for name in names))
    return table


def _mechanisms(document: Document) -> Table:
    names = list(document["mechanisms"]["clean"])
    table = plain_table("Why objects are not found", "condition", *(f">{name}" for name in (*names, "all")))
    for condition, counts in document["mechanisms"].items():
        table.add_row(condition, *(str(counts[name]) for name in names), str(sum(counts.values())))
    return table

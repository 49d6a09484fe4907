"""``misdetect verify``: are the parts really there (paper 2), at what price, and what do hallucinations hang on."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from misdetect.drawing.terminal import Document, plain_table, unfinished
from misdetect.drawing.words import UNKNOWN, number

_WORST = 8
_ROWS = {"with_localisation": "with", "without_localisation": "without"}


def show(console: Console, document: Document) -> None:
    """The document for a person: Table 1, the best threshold, the worst parts, causes."""
    if (line := unfinished(document)) is not None:
        console.print(line)
    settings = document["settings"]
    console.print(
        f"{document['images']} images, {document['present']} present and {document['missing']} missing parts, at score "
        f"{settings['score']:g}, β {settings['beta']:g}"
    )
    console.print(_table_1(document))
    console.print(_thresholds(document))
    if document["missing"]:
        console.print(_parts(document))
    if document["hallucinations"]:
        console.print(_causes(document))
        console.print(_edits(document))
    for path in document.get("pictures", ())[:6]:
        console.print(Text(f"Picture: {path}"))


def _share(value: float | None, ends: Sequence[float] | None = None) -> str:
    told = number(value)
    return told if value is None or ends is None else f"{told} ({_short(ends[0])}–{_short(ends[1])})"


def _short(value: float | None) -> str:
    """Two digits of a share."""
    return number(value, 2).removeprefix("0")


def _table_1(document: Document) -> Table:
    title = "Table 1 (F_vv: present parts are found and missing ones noticed, 0 to 1)"
    table = plain_table(title, "localisation", ">T_P", ">T_M", ">present recall", ">missing recall", ">F_vv")
    for key, words in _ROWS.items():
        row = document[key]
        cells = [_share(row[name], row["intervals"][name]) for name in ("present_recall", "missing_recall", "f_vv")]
        table.add_row(words, f"{row['present_iou']:g}", f"{row['missing_iou']:g}", *cells)
    return table


def _thresholds(document: Document) -> Table:
    title = "Operating points (score chosen on one half of the images, numbers of the other)"
    at = f">at {document['settings']['score']:g}"
    table = plain_table(title, "localisation", ">best at", ">F_vv", at, ">cheapest at", ">per image", at)
    for key, words in _ROWS.items():
        best, cost = document["best_threshold"][key], document["cost"][key]
        table.add_row(
            words,
            *(_plain(best["score"]), _share(best["f_vv"], best["interval"]), _share(best["at_score"])),
            *(_plain(cost["score"]), _plain(cost["per_image"]), _plain(cost["at_score"])),
        )
    return table


def _plain(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3g}"


def _parts(document: Document) -> Table:
    title = "Parts hallucinated most (with localisation; IoU of hallucinated boxes with the mean and the likely box)"
    heads = ("part", ">missing", ">R_M", ">R_P", ">F_vv", ">AP", ">mean", ">likely", "causes")
    table = plain_table(title, *heads, wrapped=("causes",))
    ranked = sorted(
        document["by_part"].items(), key=lambda item: -(item[1]["with_localisation"]["missing_recall"] or 0)
    )
    for name, part in ranked[:_WORST]:
        row, prior = part["with_localisation"], document["prior"]["by_part"][name]
        causes = document["causes_by_part"].get(name, {})
        table.add_row(
            Text(name),
            str(row["missing"]),
            _short(row["missing_recall"]),
            _short(row["present_recall"]),
            _short(row["f_vv"]),
            _short(part["AP"]),
            _short(prior["iou_prior"]),
            _short(prior["iou_likely"]),
            ", ".join(f"{count} {cause}" for cause, count in causes.items() if count),
        )
    return table


def _causes(document: Document) -> Table:
    table = plain_table(f"What {document['hallucinations']} hallucinations hang on", "", ">count", ">share", "why")
    for name, cause in document["causes"].items():
        why = ", ".join(f"{count} {reason}" for reason, count in cause["reasons"].items())
        table.add_row(name, str(cause["count"]), _share(cause["share"], cause["interval"]), why)
    return table


def _edits(document: Document) -> Table:
    table = plain_table("Edits", "", ">asked", ">end it", ">mean score left", ">present parts lost")
    for name, edit in document["edits"].items():
        ended = _share(edit["ends"], edit["interval"])
        table.add_row(name, str(edit["asked"]), ended, _share(edit["mean_score"]), _share(edit["present_lost"]))
    return table

"""``misdetect explain``: why each object was missed (paper 3), beside its TIDE type, and what solving it buys."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from misdetect.drawing.terminal import Document, plain_table, show_pictures, show_progress
from misdetect.drawing.words import UNKNOWN, between, percent, ranged
from misdetect.metrics.degenerate import sentence
from misdetect.studies.told import change_cell, show_why_not_paired


def show(console: Console, document: Document) -> None:
    """The document for a person: what was missed, why, what it would buy, and where to look."""
    show_progress(console, document)
    settings = document["settings"]
    if document["missed"] is None or not document["objects"]:
        console.print("Nothing is annotated here; the most suspicious regions:")
        _show_warning(console, document)
        return
    if document["degenerate"] is not None:
        console.print(Text(sentence(document["degenerate"], document["done"])), style="bold")
        return
    ends = document["intervals"]["miss_rate"]
    console.print(
        f"{document['missed']} of {document['objects']} objects missed: {percent(document['miss_rate'])} "
        f"({between(ends, 0, 100)}), at IoU {settings['loc']:g}, score {settings['score']:g}, "
        f"miss {settings['miss']}"
    )
    if document["missed"]:
        console.print(_mechanisms(document))
        console.print(_flow(document))
        _show_slices(console, document)
        for pair in document["confusions"][:3]:
            console.print(Text(f"Taken for another: {pair[0]} for {pair[1]}, {pair[2]} times"))
    _show_warning(console, document)
    show_pictures(console, document)


def _mechanisms(document: Document) -> Table:
    title = "Why (share of misses with its interval; recall and AP50 if it were solved)"
    table = plain_table(
        title, "mechanism", ">misses", ">share", ">", ">recall", ">AP50", "reasons", wrapped=("reasons",)
    )
    shares, gains = document["intervals"]["shares"], document["potential"]
    for name, count in document["mechanisms"].items():
        reasons = ", ".join(f"{n} {reason}" for reason, n in document["reasons"].get(name, {}).items())
        table.add_row(
            name,
            str(count),
            percent(count / document["missed"]),
            between(shares[name] or (0, 0), 0, 100),
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
            percent(each["rate"]),
            percent(each["rate_outside"]),
            between((each["low"], each["high"]), 0, 100),
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


def show_compared(console: Console, document: Document) -> None:
    """Runs side by side: misses, mechanisms, and the misses that they share."""
    names = [run["name"] for run in document["runs"]]
    show_why_not_paired(console, document)
    if document["paired"]:
        console.print(f"Paired: the same objects, judged by the same rules, in all {len(names)} runs.")
    console.print(_misses(document, names))
    console.print(_differences(document, names[0]))
    if document["shared_misses"]:
        console.print(_shared(document, names[0]))
    if document["missed_by"]:
        spread = ", ".join(f"{n} by {i or 'none'}" for i, n in enumerate(document["missed_by"]))
        console.print(f"\nObjects missed by how many of the runs: {spread}")


def _misses(document: Document, names: list[str]) -> Table:
    confidence = f"{100 * document['resampling']['confidence']:g} %"
    title = f"Misses, in % of the objects; mechanisms, in % of the misses ({confidence} intervals over images)"
    table = plain_table(title, "", *(f">{name}" for name in names), wrapped=names)
    runs = document["runs"]
    table.add_row("objects", *(str(run["objects"]) for run in runs))
    table.add_row("missed", *(str(run["missed"]) for run in runs))
    table.add_row("missed, %", *(ranged(run["miss_rate"], run["intervals"]["miss_rate"], 100) for run in runs))
    for name, entries in document["mechanisms"].items():
        table.add_row(name, *(ranged(entry["share"], entry["interval"], 100) for entry in entries))
        reasons = dict.fromkeys(reason for run in runs for reason in run["reasons"].get(name, ()))
        for reason in reasons if len(reasons) > 1 else ():
            table.add_row(f"  {reason}", *(_part(run["reasons"].get(name, {}).get(reason, 0), run) for run in runs))
    for kind in dict.fromkeys(kind for run in runs for kind in run["tide"]):
        table.add_row(f"TIDE {kind}", *(_part(run["tide"].get(kind, 0), run) for run in runs))
    return table


def _part(count: int, run: Document) -> str:
    """``count`` of the misses of ``run``, in percent."""
    return f"{100 * count / run['missed']:.1f}" if run["missed"] else UNKNOWN


def _differences(document: Document, first: str) -> Table:
    others = [each for each in document["differences"] if each["first"] == first]
    title = f"Misses per 100 objects, more (+) or fewer (-) than {first}; * the interval excludes 0"
    names = [each["second"] for each in others]
    table = plain_table(title, "", *(f">{name}" for name in names), wrapped=names)
    table.add_row("missed", *(change_cell(each["miss_rate"]) for each in others))
    for name in document["mechanisms"]:
        rates = (each["mechanisms"].get(name) for each in others)
        table.add_row(name, *(change_cell(rate and rate["rate"]) for rate in rates))
    return table


def _shared(document: Document, first: str) -> Table:
    others = [each for each in document["shared_misses"] if each["first"] == first]
    names = [each["second"] for each in others]
    table = plain_table(f"The same objects in {first} and in", "", *(f">{name}" for name in names), wrapped=names)
    for said, key in (
        ("found by both", "both_found"),
        ("missed by both", "missed_by_both"),
        ("missed by the first only", "only_first_missed"),
        ("missed by the other only", "only_second_missed"),
    ):
        table.add_row(said, *(str(each[key]) for each in others))
    table.add_row("McNemar's p", *(f"{each['p']:.2g}" for each in others))
    return table

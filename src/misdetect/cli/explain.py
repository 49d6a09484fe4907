"""``misdetect explain``: why each object was missed (paper 3), beside its TIDE type, and what solving it buys."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from misdetect.api import explain as run
from misdetect.cli.options import study_verb
from misdetect.cli.shell import Document, plain_table, unfinished
from misdetect.metrics.degenerate import sentence
from misdetect.studies.explain.settings import ExplainSettings


def show(console: Console, document: Document) -> None:
    """The document for a person: what was missed, why, what it would buy, and where to look."""
    if (line := unfinished(document)) is not None:
        console.print(line)
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
    for path in document.get("pictures", ())[:3]:
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


explain = study_verb(run, ExplainSettings, show)

"""``misdetect harden``: retrain on what was found, guarded, and test again (papers 4 and 5)."""

import inspect
from typing import Any

from rich.console import Console
from rich.text import Text

from misdetect.cli.gates import Gates, gate_options
from misdetect.cli.options import options, signed, subject
from misdetect.cli.shell import Document, watching
from misdetect.drawing.terminal import plain_table
from misdetect.studies.contract import DATA, DETECTOR
from misdetect.suites.harden.settings import HardenSettings


def _harden(detector: str, data: str, *, json: bool = False, **given: Any) -> int:
    from misdetect.suites.harden import harden as run  # which trains, and wants torch

    gates = Gates.of(given)
    with watching("harden") as progress:
        found = run(detector, data, progress=progress, **given)
    return gates.conclude(found.document, json, show)


def show(console: Console, document: Document) -> None:
    """The document for a person: what it brought, every configuration, what was repaired and what broke."""
    from misdetect.suites.harden.page import mean, number  # which draws, too

    for sentence in document["sentences"]:
        console.print(Text(sentence))
    entries = document["configurations"]
    scores = list(next(iter(entries.values()))["test"])
    table = plain_table(
        "Configurations: last weights, test photos, mean over seeds", "", ">seeds", *(f">{name}" for name in scores)
    )
    for name, entry in entries.items():
        table.add_row(name, str(len(entry["seeds"])), *(mean(entry["test"][score]) for score in scores))
    console.print(table)
    table = plain_table("Repaired or not", "", ">failed", ">fixed", ">still", ">broken", ">repaired")
    for name, told in document["repair"].items():
        counts = (str(told[fate]["count"]) for fate in ("fixed", "still", "broken"))
        share = number(told["repaired"], told["intervals"].get("repaired"))
        table.add_row(name, str(told["failed"]), *counts, share)
    console.print(table)
    for each in document["skipped"]:
        console.print(Text(f"Not tested with {each['study']}: {each['why']}"))
    console.print(Text(f"\nWeights: {document['hardened'] or document['weights']}"))
    console.print(Text(f"Report: {document['report']}"))


harden = signed(
    _harden,
    "harden",
    inspect.getdoc(HardenSettings) or "",
    [
        subject(DETECTOR),
        subject(DATA),
        *options(HardenSettings),
        *gate_options(),
    ],
)

"""``misdetect harden``: retrain on what was found, guarded, and test again (papers 4 and 5)."""

import inspect
from typing import Any

from rich.console import Console
from rich.text import Text

from misdetect.api.harden import harden as run
from misdetect.cli.gates import Gates, gate_options
from misdetect.cli.options import DataSpec, DetectorSpec, options, signed
from misdetect.cli.shell import Document, plain_table, watching
from misdetect.report.harden import mean, number
from misdetect.studies.harden.settings import HardenSettings


def _harden(detector: str, data: str, *, json: bool = False, **given: Any) -> int:
    gates = Gates.of(given)
    with watching("harden") as progress:
        found = run(detector, data, progress=progress, **given)
    return gates.conclude(found.document, json, show)


def show(console: Console, document: Document) -> None:
    """The document for a person: what it brought, every configuration, what was repaired and what broke."""
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
        inspect.Parameter("detector", inspect.Parameter.KEYWORD_ONLY, annotation=DetectorSpec),
        inspect.Parameter("data", inspect.Parameter.KEYWORD_ONLY, annotation=DataSpec),
        *options(HardenSettings),
        *gate_options(),
    ],
)

"""``misdetect checkup``: every study that the detector and the data allow, and one report: the main job."""

import inspect
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from misdetect.cli.gates import Gates, gate_options
from misdetect.cli.options import options, signed, subject
from misdetect.cli.shell import Document, remarks, watching
from misdetect.drawing.terminal import plain_table
from misdetect.nouns.protocols import in_words
from misdetect.said.errors import MisdetectError
from misdetect.studies.contract import DATA, DETECTOR
from misdetect.studies.kinds import kind_of
from misdetect.suites.checkup import CheckupSettings
from misdetect.suites.checkup import checkup as run

_DETECTOR, _DATA, _OUT = "zoo:yolox", "rooms:val", "checkup"
_TOP = 5


def _checkup(detector: str = _DETECTOR, data: str = _DATA, *, json: bool = False, **given: Any) -> int:
    gates = Gates.of(given)
    with watching("checkup") as progress:
        found = run(detector, data, progress=progress, **given)
    for each in found.runs.values():
        if each.outcome is not None:
            remarks(each.outcome, {"failures": each.document["failures"]})
    return gates.conclude(found.document, json, show)


def show(console: Console, document: Document) -> None:
    """The document for a person: what is wrong and what to do about it, then a line per study."""
    detector, data = document["detector"], document["data"]
    console.print(f"{detector['spec']} ({in_words(detector['level'])}) on {data['spec']}", style="bold", markup=False)
    if not document["findings"]:
        console.print("\nNothing is wrong that these studies could find.")
    for number, each in enumerate(document["findings"][:_TOP], start=1):
        console.print(Text(f"\n{number}. {each['sentence']}"))
        console.print(Text(f"   {each['advice']}", style="dim"))
    if len(document["findings"]) > _TOP:
        console.print(Text(f"\n{len(document['findings']) - _TOP} more of less weight are in the report."))
    table = plain_table("Study by study", "study", "what was found", wrapped=("what was found",))
    for name, found in document["studies"].items():
        table.add_row(name, Text(_first(name, found)))
    for each in document["skipped"]:
        table.add_row(each["study"], Text(f"not run: {each['why']}"))
    console.print(table)
    console.print(Text(f"\nReport: {document['report']}"))


def _first(study: str, document: Document) -> str:
    try:
        return (kind_of(study).sentences(dict(document)) or ["–"])[0]
    except MisdetectError as error:  # the package that it is of is gone, or broken
        return str(error)


checkup = signed(
    _checkup,
    "checkup",
    inspect.getdoc(CheckupSettings) or "",
    [
        subject(DETECTOR, default=_DETECTOR),
        subject(DATA, default=_DATA),
        *options(CheckupSettings, out=Path(_OUT)),  # or the report would go as it is named
        *gate_options(),
    ],
)

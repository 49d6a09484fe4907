"""``misdetect checkup``: every study that the detector and the data allow, one summary at the end: the main job."""

import inspect
from typing import Any

from rich.console import Console
from rich.text import Text

from misdetect.api import checkup as run
from misdetect.api.checkup import CheckupSettings
from misdetect.cli.explain import show as show_explain
from misdetect.cli.options import DataSpec, DetectorSpec, options, signed
from misdetect.cli.score import show as show_score
from misdetect.cli.score import show_notes
from misdetect.cli.shell import Document, present, remarks, watching
from misdetect.studies.doctor.document import sentences

_DETECTOR, _DATA = "zoo:yolox", "rooms:val"


def _checkup(detector: str = _DETECTOR, data: str = _DATA, *, json: bool = False, **given: Any) -> None:
    with watching("checkup") as progress:
        found = run(detector, data, progress=progress, **given)
    for each in found.runs.values():
        if each.outcome is not None:
            remarks(each.outcome, each.document)
    present(found.document, json, show)


def show(console: Console, document: Document) -> None:
    """The document for a person."""
    detector, data, out = document["detector"], document["data"], document["out"]
    console.print(f"{detector['spec']} ({detector['level']}) on {data['spec']}\n", style="bold", markup=False)
    if document["doctor"] is not None:
        for sentence in sentences(document["doctor"]):
            console.print(Text(f"{sentence}\n"), style="bold" if document["doctor"]["findings"] else "")
    show_score(console, document["score"])
    show_notes(console, document["score"])
    console.print("\nWhy objects were missed\n", style="bold")
    show_explain(console, document["explain"])
    console.print(f"\nDone: doctor, detect, score, explain -> {out}", markup=False)
    console.print(f"With a verb of their own: {', '.join(document['elsewhere'])}.", markup=False)
    console.print(f"Not in this version: {', '.join(document['not_yet'])}.", markup=False)


_KEYWORD = inspect.Parameter.KEYWORD_ONLY
checkup = signed(
    _checkup,
    "checkup",
    inspect.getdoc(CheckupSettings) or "",
    [
        inspect.Parameter("detector", _KEYWORD, default=_DETECTOR, annotation=DetectorSpec),
        inspect.Parameter("data", _KEYWORD, default=_DATA, annotation=DataSpec),
        *options(CheckupSettings),
    ],
)

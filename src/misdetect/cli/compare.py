"""``misdetect compare``: finished runs side by side, what differs in their settings first."""

import inspect
import json as json_format
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from misdetect.api.compare import compare as side_by_side
from misdetect.cli.gates import Gates, gate_options
from misdetect.cli.options import options, signed
from misdetect.cli.shell import Document, tell
from misdetect.drawing.terminal import plain_table
from misdetect.kept.files import write_atomically
from misdetect.report.checkup_comparison import STUDY
from misdetect.report.comparison import CompareSettings, check_folder
from misdetect.said.errors import BadData
from misdetect.studies.kinds import kind_of
from misdetect.studies.told import numbers_table, show_changes

_RUNS = Annotated[
    Path, Parameter(negative=(), help="Finished runs of one study, or checkups; or documents of `score --json`.")
]
_OUT = Annotated[
    Path | None, Parameter(name="--out", help="Folder for the figures (PNG, one HTML page) and the document.")
]


_SAID = {"fixed": "FIXED", "new": "NEW", "common": "STILL"}


def _compare(*runs: Path, out: Path | None = None, json: bool = False, **given: Any) -> int:
    gates = Gates.of(given, comparing=True)
    if out is not None:
        check_folder(out)
    if len(runs) < 2:
        raise BadData(f"compare needs two runs or more; only {', '.join(map(str, runs)) or 'none'} was given.")
    found = side_by_side(*runs, **given)
    document = {**found.document, "out": None if out is None else str(out), "pictures": []}
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        document["pictures"] = [str(path) for path in found.figures(out)]
    document = gates.judge(document)
    if out is not None:
        text = json_format.dumps(document, sort_keys=True, indent=2, allow_nan=False) + "\n"
        write_atomically(out / "compare.json", text.encode())
    for note in document["notes"]:
        tell(f"note: {note}")
    return gates.conclude(document, json, show)


def show(console: Console, document: Document) -> None:
    """The document for a person: what differs, then the numbers, then the differences to the first run."""
    names = [run["name"] for run in document["runs"]]
    _show_settings(console, document, names)
    if document["study"] == STUDY:
        _show_checkups(console, document)
    elif (own := kind_of(document["study"]).show_compared) is not None:
        own(console, document)
    else:
        console.print(numbers_table(document, names))
        show_changes(console, document)
    _show_failures(console, document.get("failures", ()))
    for path in document["pictures"]:
        console.print(Text(f"Picture: {path}"))


def _show_settings(console: Console, document: Document, names: list[str]) -> None:
    named = {each["setting"] for each in document["differing_settings"]}
    differing = [each for each in document["differing_settings"] if not _implied(each["setting"], named)]
    shown = [each for each in differing if _tells(each)]
    if shown:
        table = plain_table("What differs in the settings", "setting", *names, wrapped=names)
        for each in shown:
            table.add_row(Text(each["setting"]), *(Text(_brief(value)) for value in each["values"]))
        console.print(table)
    elif not differing:
        console.print("The runs do not differ in any setting.")
    if rest := len(differing) - len(shown):
        console.print(f"and {rest} setting{'s' * (rest > 1)} that only some of the detectors have (see --json)")
    same = {key: value for key, value in document["settings"].items() if key.split(".")[0] in ("settings", "data")}
    told = [
        f"{key.split('.', 1)[1]} {_brief(value)}"
        for key, value in same.items()
        if value is not None and not key.endswith("fingerprint")
    ]
    console.print(Text(f"\nThe same: {', '.join(told) or 'nothing'}"))


def _implied(setting: str, named: set[str]) -> bool:
    """A fingerprint that differs tells something only where what it is of has the same name."""
    stem = setting.removesuffix("fingerprint")
    return stem != setting and bool({f"{stem}spec", stem.rstrip("_")} & named)


def _tells(each: dict[str, Any]) -> bool:
    """That only one kind of detector has a setting tells little beside its name."""
    known = {json_format.dumps(value, sort_keys=True) for value in each["values"] if value is not None}
    return len(known) > 1 or not each["setting"].startswith("detector_settings.")


def _brief(value: Any) -> str:
    text = "–" if value is None else value if isinstance(value, str) else json_format.dumps(value)
    return text if len(text) <= 160 else text[:157] + "…"


def _show_failures(console: Console, failures: Iterable[Document]) -> None:
    for each in failures:
        unknown = f"; of {each['unknown']} it is not known" if each["unknown"] else ""
        counts = f"{each['fixed']} fixed, {each['new']} new, {each['common']} in both{unknown}"
        console.print(Text(f"Failures of {each['second']} against {each['first']}: {counts}."))


def _show_checkups(console: Console, document: Document) -> None:
    """Findings that are fixed, new and common, then study by study."""
    for word in ("fixed", "new", "common"):
        for each in document[f"{word}_findings"]:
            sentence = (each["second"] or each["first"])["sentence"]
            console.print(Text(f"{_SAID[word]} in {each['run']}: {sentence}"))
    if not any(document[f"{word}_findings"] for word in ("fixed", "new", "common")):
        console.print("No checkup has a finding that could be compared.")
    for study in document["studies"].values():
        if "differences" in study:
            console.print("")
            show_changes(console, study)
            _show_failures(console, study["failures"])
    for each in document["skipped"]:
        console.print(Text(f"Not compared: {each['study']}: {each['why']}"))


compare = signed(
    _compare,
    "compare",
    inspect.getdoc(CompareSettings) or "",
    [
        inspect.Parameter("runs", inspect.Parameter.VAR_POSITIONAL, annotation=_RUNS),
        inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_OUT),
        *options(CompareSettings),
        *gate_options(),
    ],
)

"""``misdetect compare``: finished runs side by side, what differs in their settings first."""

import inspect
import json as json_format
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from misdetect.api import compare as side_by_side
from misdetect.cli.gates import Gates, gate_options
from misdetect.cli.options import options, signed
from misdetect.cli.shell import Document, plain_table, tell
from misdetect.kept.files import write_atomically
from misdetect.report.checkup_comparison import STUDY, told_changes
from misdetect.report.comparison import CompareSettings, check_folder
from misdetect.said.errors import BadData

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
    elif "mechanisms" in document:
        _show_misses(console, document, names)
    elif document["study"] == "confusion":
        _show_confusion(console, document, names)
    else:
        console.print(_numbers(document, names))
        if document["study"] == "score":
            _show_precision(console, document, names[0])
        else:
            _show_changes(console, document)
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


def _show_misses(console: Console, document: Document, names: list[str]) -> None:
    for why in document["why_not_paired"]:
        console.print(Text(f"Not paired: {why}."))
    if document["paired"]:
        console.print(f"Paired: the same objects, judged by the same rules, in all {len(names)} runs.")
    console.print(_misses(document, names))
    console.print(_differences(document, names[0]))
    if document["shared_misses"]:
        console.print(_shared(document, names[0]))
    if document["missed_by"]:
        spread = ", ".join(f"{n} by {i or 'none'}" for i, n in enumerate(document["missed_by"]))
        console.print(f"\nObjects missed by how many of the runs: {spread}")


def _show_confusion(console: Console, document: Document, names: list[str]) -> None:
    for why in document["why_not_paired"]:
        console.print(Text(f"Not paired: {why}."))
    if document["paired"]:
        console.print(f"Paired: the same objects, judged by the same rules, in all {len(names)} runs.")
    table = plain_table("What became of the objects", "", *(f">{name}" for name in names), wrapped=names)
    table.add_row("objects", *map(str, document["objects"]))
    for name, counts in document["outcomes"].items():
        table.add_row(name, *map(str, counts))
    console.print(table)
    others = [each for each in document["differences"] if each["first"] == names[0]]
    title = f"Per 100 objects, more (+) or fewer (-) than {names[0]}; * the interval excludes 0"
    table = plain_table(title, "", *(f">{each['second']}" for each in others))
    for name in document["outcomes"]:
        table.add_row(name, *(_change(each["outcomes"].get(name)) for each in others))
    if document["paired"]:
        table.add_row("McNemar's p of right", *(f"{each['p']:.2g}" for each in others))
    console.print(table)
    table = plain_table("The cells that differ most", "actual", "predicted", *(f">{name}" for name in names))
    for cell in document["cells"][:10]:
        table.add_row(Text(cell["actual"]), Text(cell["predicted"]), *(f"{count:g}" for count in cell["counts"]))
    console.print(table)


def _misses(document: Document, names: list[str]) -> Table:
    percent = f"{100 * document['resampling']['confidence']:g}"
    title = f"Misses, in % of the objects; mechanisms, in % of the misses ({percent} % intervals over images)"
    table = plain_table(title, "", *(f">{name}" for name in names), wrapped=names)
    runs = document["runs"]
    table.add_row("objects", *(str(run["objects"]) for run in runs))
    table.add_row("missed", *(str(run["missed"]) for run in runs))
    table.add_row("missed, %", *(_cell(run["miss_rate"], run["intervals"]["miss_rate"]) for run in runs))
    for name, entries in document["mechanisms"].items():
        table.add_row(name, *(_cell(entry["share"], entry["interval"]) for entry in entries))
        reasons = dict.fromkeys(reason for run in runs for reason in run["reasons"].get(name, ()))
        for reason in reasons if len(reasons) > 1 else ():
            table.add_row(f"  {reason}", *(_part(run["reasons"].get(name, {}).get(reason, 0), run) for run in runs))
    for kind in dict.fromkeys(kind for run in runs for kind in run["tide"]):
        table.add_row(f"TIDE {kind}", *(_part(run["tide"].get(kind, 0), run) for run in runs))
    return table


def _part(count: int, run: Document) -> str:
    """``count`` of the misses of ``run``, in percent."""
    return f"{100 * count / run['missed']:.1f}" if run["missed"] else "–"


def _differences(document: Document, first: str) -> Table:
    others = [each for each in document["differences"] if each["first"] == first]
    title = f"Misses per 100 objects, more (+) or fewer (-) than {first}; * the interval excludes 0"
    names = [each["second"] for each in others]
    table = plain_table(title, "", *(f">{name}" for name in names), wrapped=names)
    table.add_row("missed", *(_change(each["miss_rate"]) for each in others))
    for name in document["mechanisms"]:
        rates = (each["mechanisms"].get(name) for each in others)
        table.add_row(name, *(_change(rate and rate["rate"]) for rate in rates))
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


def _numbers(document: Document, names: list[str]) -> Table:
    table = plain_table(f"Numbers of {document['study']}", "", *(f">{name}" for name in names), wrapped=names)
    for name, entries in document["numbers"].items():
        table.add_row(Text(name), *(_number(entry) for entry in entries))
    return table


def _show_precision(console: Console, document: Document, first: str) -> None:
    """How AP differs from that of the ``first`` run, and of which classes it certainly does."""
    for why in document["why_not_paired"]:
        console.print(Text(f"Not paired: {why}."))
    others = [each for each in document.get("differences", ()) if each["first"] == first]
    if not others:
        return
    names = [each["second"] for each in others]
    title = f"Points of AP, more (+) or fewer (-) than {first}; * the interval excludes 0"
    table = plain_table(title, "", *(f">{name}" for name in names), wrapped=names)
    for key in ("AP", "AP50", "AP75"):
        table.add_row(key, *(_change(each[key]) for each in others))
    for label in others[0]["by_class"]:
        changes = [each["by_class"].get(label, {}).get("AP") for each in others]
        if any(change is not None and change["certain"] for change in changes):
            table.add_row(Text(f"AP of {label}"), *(_change(change) for change in changes))
    console.print(table)


def _show_changes(console: Console, document: Document) -> None:
    """How runs of one study differ from the first: the headlines, and what else is certain."""
    for why in document["why_not_paired"]:
        console.print(Text(f"Not paired: {why}."))
    tables: dict[str, Table] = {}
    for key, second, change in told_changes(document):
        if second not in tables:
            title = f"{document['study']}: {second} against {document['runs'][0]['name']}; * the interval excludes 0"
            tables[second] = plain_table(title, "", ">first", ">second", ">difference")
        ends = change["interval"]
        told = f"{change['difference']:+.3f}" + ("" if ends is None else f" {ends[0]:.3f}..{ends[1]:.3f}")
        values = (f"{change[name]:.3f}" for name in ("first", "second"))
        tables[second].add_row(Text(key), *values, told + ("*" if change["certain"] else " "))
    for table in tables.values():
        console.print(table)


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
            _show_changes(console, study)
            _show_failures(console, study["failures"])
    for each in document["skipped"]:
        console.print(Text(f"Not compared: {each['study']}: {each['why']}"))


def _number(entry: Any) -> str:
    if entry is None or entry["value"] is None:
        return "–"
    value, ends = entry["value"], entry["interval"]
    text = str(value) if isinstance(value, int) else f"{value:.3f}" if abs(value) < 1 else f"{value:.1f}"
    return text if ends is None else f"{text} {ends[0]:.0f}..{ends[1]:.0f}"


def _cell(value: float | None, ends: list[float] | None) -> str:
    if value is None:
        return "–"
    return f"{100 * value:.1f}" + ("" if ends is None else f" {100 * ends[0]:.0f}..{100 * ends[1]:.0f}")


def _change(entry: Any) -> str:
    if entry is None:
        return "–"
    ends = entry["interval"]
    told = "" if ends is None else f" {100 * ends[0]:.1f}..{100 * ends[1]:.1f}"
    return f"{100 * entry['difference']:+.1f}{told}{'*' if entry['certain'] else ' '}"


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

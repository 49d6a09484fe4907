"""The verbs of studies, made from their kinds: a study's settings are the options, then one call, and its own ``show``.

``misdetect.cli.studies:NAME`` is the verb of that study; it is made when it is asked for.
"""

import inspect
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from misdetect.api.run import Run
from misdetect.api.studies import study
from misdetect.cli.gates import Gates, gate_options
from misdetect.cli.options import options, signed, subject, values
from misdetect.cli.shell import Show, of_file, remarks, tell, watching
from misdetect.drawing.terminal import Document
from misdetect.engine.store import DAMAGED
from misdetect.kept.files import check_writable
from misdetect.kept.mirror import address_of
from misdetect.kept.remote import as_url
from misdetect.kept.system import unlink
from misdetect.nouns.labels import told
from misdetect.nouns.settings import settings_of
from misdetect.said.errors import BadPlugin
from misdetect.studies.contract import Kind
from misdetect.studies.kinds import kind_of, names
from misdetect.studies.running import budget_file

PARTIAL = ".partial"
"""What the run beside a file of results is called; the same command goes on with it."""
_OUT = inspect.Parameter(
    "out",
    inspect.Parameter.KEYWORD_ONLY,
    annotation=Annotated[Path, Parameter(name="--out", help="Where to write the COCO results (JSON).")],
)


def __getattr__(name: str) -> Callable[..., int]:
    if name not in names():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return verb(kind_of(name))
    except BadPlugin as broken:  # said when it is called: whoever lists verbs needs none of it
        return _saying(name, broken)


def _saying(name: str, broken: BadPlugin) -> Callable[..., int]:
    def say(*words: str) -> int:
        raise broken

    anything = Annotated[str, Parameter(allow_leading_hyphen=True)]
    return signed(
        say, name, str(broken), [inspect.Parameter("words", inspect.Parameter.VAR_POSITIONAL, annotation=anything)]
    )


def verb(kind: Kind) -> Callable[..., int]:
    """The verb of a study: its options, one call, and how its document is shown; gates decide its exit code."""
    first, second = kind.subjects

    def run(*, json: bool = False, **given: Any) -> int:
        gates = Gates.of(given)
        about = [given.pop(each.name) for each in (first, second)]
        if kind.run is not None:
            return _finish_silent(kind, study(kind.name)(*about, **values(kind.settings, given)), given, json, gates)
        out = given["out"]
        if kind.results is not None:
            check_writable(out)
            given["out"] = out.with_name(out.name + PARTIAL)
        with watching(kind.name) as progress:
            found = study(kind.name)(*about, progress=progress, **values(kind.settings, given))
        if kind.results is not None:
            return _finish_results(kind, found, out, json, gates)
        return _finish(found, json, shown(kind), gates, given.get("pictures", 0) if out is not None else 0)

    own = options(kind.settings)
    if kind.results is not None:
        own = [_OUT, *(each for each in own if each.name != _OUT.name)]
    every = [subject(first), subject(second), *own, *gate_options()]
    return signed(run, kind.name, inspect.getdoc(kind.settings) or "", every)


def shown(kind: Kind) -> Show:
    """How a terminal shows a document of that kind: as the study says, or by its sentences."""
    own = kind.show
    return own or (lambda console, document: console.print(Text("\n".join(kind.sentences(dict(document))))))


def _finish(run: Run, as_json: bool, show: Show, gates: Gates, pictures: int = 0) -> int:
    """Draw the figures of ``run``, say what a reader has to know, present its document, and return the exit code."""
    drawn = run.figures(pictures) if pictures and run.document["finished"] else []
    document = {**run.document, "out": run.address, "pictures": [address_of(path) for path in drawn]}
    if run.outcome is not None:
        document |= run.outcome.document()
        remarks(run.outcome, document)
    return gates.conclude(document, as_json, show)


def _finish_results(kind: Kind, run: Run, out: Path, as_json: bool, gates: Gates) -> int:
    """The same of a study whose verb leaves a file: the run beside it goes when all is written."""
    assert run.outcome is not None
    assert kind.results is not None
    document = {**run.document, "out": str(out), **run.outcome.document()}
    remarks(run.outcome, document)
    if run.outcome.stopped is None:
        more, notes = kind.results(run.directory, run.data, out)
        document |= more
        for note in notes:
            tell(f"note: {note}")
        unlink(budget_file(run.path))
        shutil.rmtree(run.path / DAMAGED, ignore_errors=True)
        run.directory.discard()
        return gates.conclude(document, as_json, of_file(shown(kind)))
    return gates.conclude(document, as_json, shown(kind))


def _finish_silent(kind: Kind, run: Run, given: Mapping[str, Any], as_json: bool, gates: Gates) -> int:
    """The same of a study that asks nobody: files that it wrote are named, and notes are part of what is shown."""
    files = [each.name for each in settings_of(kind.settings) if each.is_path]
    kept = {name: as_url(given[name]) or str(given[name]) for name in files if given[name] is not None}

    def show(console: Console, document: Document) -> None:
        shown(kind)(console, document)
        for note in (*told(document["joining"]), *document["notes"]):
            console.print(Text(f"\nNote: {note}"))
        for name in files[1:]:
            if name in document:
                console.print(Text(f"{name.capitalize()}: {document[name]}"))

    return gates.conclude({**run.document, "out": None, **kept}, as_json, show)

"""The ``misdetect`` command: one small file per verb, joined here.

A verb's file is imported when that verb is used, so that none waits for libraries that only another one needs.
"""

import io
import os
import shlex
import sys
from collections.abc import Iterator
from importlib.metadata import version
from typing import NamedTuple

from cyclopts import App, CycloptsError, Group, UnknownOptionError
from cyclopts.exceptions import UnusedCliTokensError

from misdetect.cli.interruption import Interrupted, Signals
from misdetect.cli.shell import document_console, fail, hushed, stdout_kept, tell
from misdetect.detectors.catalogue import extra_of
from misdetect.registry import STUDIES, registered
from misdetect.said.errors import BadPlugin, MisdetectError, MissingExtra
from misdetect.said.glossary import told_of_option
from misdetect.said.notes import noted
from misdetect.said.opencv import opencv_trouble
from misdetect.studies.contract import GROUPS
from misdetect.studies.contract import Group as Question
from misdetect.studies.kinds import kind_of

_PLAIN: dict[str, tuple[Question, str, str]] = {
    "checkup": (
        "wrong",
        "Everything misdetect can say about a detector, by default the embedded one on embedded data.",
        "--detector zoo:yolox --data rooms:val --out checkup",
    ),
    "compare": (
        "look",
        "Runs of one study side by side: what differs in their settings, their numbers, shared misses.",
        "runs/yolox runs/ssd --out comparison",
    ),
    "data": (
        "data",
        "Print what is in a data set and what is wrong with it; with --out, export it to COCO.",
        "coco:instances.json,images=photos",
    ),
    "demo": (
        "wrong",
        "A first look: a small checkup of the detector and the images that come with misdetect.",
        "--out demo",
    ),
    "detectors": (
        "data",
        "List the detector families with their level and what is installed; look into an ONNX file.",
        "yolox_nano.onnx",
    ),
    "export": (
        "better",
        "What a run found for other tools: images to train on, failures as COCO (FiftyOne), folders, LaTeX.",
        "RUN --to folders --out failures",
    ),
    "harden": (
        "better",
        "Retrain a detector on what was found, guarded, and test it again: what is fixed, what broke.",
        "--detector zoo:ssd --data rooms:train,count=2000 --with failures:RUN --out hardened",
    ),
    "ledger": (
        "look",
        "The rows of several runs in one table, one per object and condition; queried with --sql.",
        "RUN... --sql 'SELECT label, outcome, count(*) FROM ledger GROUP BY ALL'",
    ),
    "pool": (
        "data",
        "Cut out, refine and store the objects that are inserted into photos.",
        "--data coco:instances.json --out objects",
    ),
    "replay": (
        "look",
        "Ask again about one case of a run; exit code 1 if what happens now is not what happened then.",
        "RUN insertion/120",
    ),
    "serve": (
        "look",
        "Walk through the rows of runs in a browser: filters, pictures, charts, notes, and a playground.",
        "RUN... --port 8000",
    ),
    "show": ("look", "The document of a run again, from its directory alone.", "RUN --json"),
    "zoo": ("data", "List the detectors that come with misdetect; train one again.", "train yolox --out training"),
}
"""The verbs that are no study: the question that each answers, what it does, and an example. Each is the function (or
``App``) of its name in the module of its name; those of studies are made from their kinds."""


class Verb(NamedTuple):
    """A verb: its name, where it is, the question it answers, what it does, and an example."""

    name: str
    where: str
    group: Question
    help: str
    example: str = ""


app = App(
    name="misdetect",
    help="Find, explain and fix the failures of object detectors.",
    help_flags=["--help", "-h"],
    version=lambda: f"misdetect {version('misdetect')}",
    version_flags=["--version"],
)


def _all() -> Iterator[Verb]:
    """Every verb: those that are no study, and those of the studies that are registered."""
    for name, said in _PLAIN.items():
        yield Verb(name, f"misdetect.cli.{name}:{name}", *said)
    for name in registered(STUDIES):
        where = f"misdetect.cli.studies:{name}"
        try:
            kind = kind_of(name)
        except BadPlugin as broken:
            yield Verb(name, where, "look", str(broken))
            continue
        if kind.example is not None:
            yield Verb(name, where, kind.group, kind.help, kind.example)


VERBS = {verb.name: verb for verb in sorted(_all())}
_GROUPS = {name: Group(title, sort_key=i) for i, (name, title) in enumerate(GROUPS.items(), start=1)}
_WITH_VERBS = ("zoo",)  # an ``App`` says itself what stands below its help
for _verb in VERBS.values():
    _below = {"help_epilogue": f"Example: `misdetect {_verb.name} {_verb.example}`"} if _verb.example else {}
    app.command(
        _verb.where,
        name=_verb.name,
        help=_verb.help,
        group=_GROUPS[_verb.group],
        **({} if _verb.name in _WITH_VERBS else _below),
    )
app.register_install_completion_command()


def main() -> None:
    """Run the command line; every failure is one sentence and an exit code (0, 1, 2, 3, 130 or 143)."""
    as_json = "--json" in sys.argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character is no reason to fail
    signals = Signals()
    code = 0
    try:
        signals.heed()
        with stdout_kept(), hushed("--quiet" in sys.argv):
            code = _outcome(as_json)
    except Interrupted as late:  # between what was done and this line
        code = code or late.code
    signals.leave(code)


def _misread(error: CycloptsError) -> str:
    """What is wrong with the words of the command line, as a sentence."""
    if isinstance(error, UnknownOptionError):
        return told_of_option(error.token.keyword or error.token.value) or str(error)
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        words, verb = error.unused_tokens, " ".join(error.command_chain or ())
        return (
            f"misdetect {verb} does not expect {shlex.join(words)} here; a value with spaces needs quotes, and "
            f"misdetect {verb} --help lists what it takes."
        )
    return str(error)


def _outcome(as_json: bool) -> int:
    """Run the command; what came of it, as an exit code."""
    for word in sys.argv[1:]:
        if any("\ud800" <= letter <= "\udfff" for letter in word):  # bytes that are no UTF-8
            return fail("usage", f"expected arguments in valid Unicode. Got {word!r}.", 2, as_json)
    try:
        code = app(
            sys.argv[1:],
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
            console=document_console(),
        )
        for note in noted():
            tell(f"note: {note}")
        return code if isinstance(code, int) else 0
    except MisdetectError as error:
        return fail(error.kind, str(error), error.exit_code, as_json)
    except CycloptsError as error:
        return fail("usage", _misread(error), 2, as_json)
    except (Interrupted, KeyboardInterrupt) as ended:
        code = ended.code if isinstance(ended, Interrupted) else 130
        return fail("interrupted", "interrupted; the same command goes on where this one stopped.", code, as_json)
    except SystemExit as error:  # nobody here does that: it was the detector
        return fail("detector-failed", f"the detector tried to end the command (exit code {error.code}).", 3, as_json)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return fail("file", f"{where}{error.strerror or error}.", 2, as_json)
    except MemoryError:
        return fail("memory", "there is not enough memory for this; try fewer images (--limit) or workers.", 2, as_json)
    except Exception as error:
        if os.environ.get("MISDETECT_TRACEBACK"):
            raise
        if (trouble := opencv_trouble()) is not None:
            return fail(trouble.kind, str(trouble), trouble.exit_code, as_json)
        missing = extra_of(error.name or "") if isinstance(error, ModuleNotFoundError) else None
        if missing is not None:  # a verb that trains, say, in a base install
            absent = MissingExtra.named("this", missing)
            return fail(absent.kind, str(absent), absent.exit_code, as_json)
        sentence = f"{type(error).__name__}: {error}; this is a fault in misdetect, MISDETECT_TRACEBACK=1 shows where."
        return fail("fault", sentence, 2, as_json)

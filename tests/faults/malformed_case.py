"""One malformed input: how it is laid out, the command that meets it, and what must come of it.

The command runs in a child of this process, in a folder of its own, with limits on memory and time; what it said and
what it left is held against the law that every command keeps, however bad its input.
"""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

SECONDS = 20
"""Of processor time that a command may take."""
PATIENCE = 120
"""Seconds after which a command that does nothing hangs."""
MEMORY = 4 << 30
"""Bytes that a command may reserve beyond what this process has."""
LONGEST = 4_000
"""Characters of a message; a name of 10,000 does not belong into one."""

RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What moves a terminal's cursor, colours it, or turns text around, if it is printed as it is."""

Make = Callable[[Path], list[str]]
Check = Callable[[Path, "Said"], str | None]


@dataclass(frozen=True)
class Case:
    """``make(folder)`` lays out the input and returns the command's arguments; ``codes`` are the exit codes that are
    right. ``writes`` are the names in the folder that may be new where the command succeeds. ``says`` (a regular
    expression) must be found in the error; ``check(folder, said)`` returns a complaint about anything else.
    ``streams`` is what the shell does to stdout and stderr, as in ``>/dev/full``: such a case has a process of its own.
    """

    kind: str
    name: str
    make: Make
    codes: tuple[int, ...] = (2,)
    writes: tuple[str, ...] = ()
    says: str = ""
    check: Check | None = None
    streams: str = ""

    @property
    def id(self) -> str:
        return f"{self.kind}: {self.name}"

    def as_json(self) -> "Case":
        """The same with ``--json``, which is an option only before ``--``."""

        def make(folder: Path) -> list[str]:
            arguments = self.make(folder)
            place = arguments.index("--") if "--" in arguments else len(arguments)
            return [*arguments[:place], "--json", *arguments[place:]]

        return replace(self, name=f"{self.name} --json", make=make)


@dataclass(frozen=True)
class Said:
    """What a command ended with; ``code`` is negative where a signal ended it."""

    arguments: list[str]
    code: int
    out: str
    err: str
    new: list[str]
    changed: list[str]

    @property
    def json(self) -> bool:
        return "--json" in self.arguments


def run_case(case: Case, folder: Path) -> Said:
    """Run ``case`` in the empty ``folder``."""
    work, temporary = folder / "work", folder / "tmp"
    work.mkdir(parents=True)
    temporary.mkdir()
    here = os.getcwd()
    os.chdir(work)
    try:
        arguments = case.make(work)
        before = _contents(folder)
        code = _in_a_shell(arguments, folder, case.streams) if case.streams else in_a_child(arguments, folder)
    finally:
        os.chdir(here)
    out, err = ((folder / name).read_bytes().decode("utf-8", "surrogateescape") for name in ("out", "err"))
    after = _contents(folder)
    own = ("out", "err")
    return Said(
        arguments,
        code,
        out,
        err,
        sorted(name for name in after if name not in before and name not in own),
        sorted(name for name, what in before.items() if after.get(name) != what and name not in own),
    )


def _contents(folder: Path) -> dict[str, object]:
    """What lies below ``folder``: names, and how to see that one has changed."""
    found: dict[str, object] = {}
    for where, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(where, name)
            about = os.lstat(path)
            whole = about.st_mode, about.st_size if name in files else 0, about.st_mtime_ns if name in files else 0
            found[os.path.relpath(path, folder)] = whole
    return found


def prepared(arguments: list[str]) -> None:
    """Run a command that has to succeed before the one that is tried: a run to look at."""
    folder = Path.cwd().parent
    code = in_a_child(arguments, folder)
    if code:
        raise AssertionError(f"misdetect {arguments[0]} ends with {code}: {(folder / 'err').read_text()[-300:]}")


def in_a_child(arguments: list[str], folder: Path) -> int:
    """Exit code of the command in a fork of this process, which has imported everything already."""
    from misdetect.cli import main

    limit = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize() + MEMORY
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status)
    code = 70
    try:
        weakref.finalize._registry.clear()  # type: ignore[attr-defined] - what the parent removes at its end
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for limited in (signal.SIGALRM, signal.SIGXCPU):
            signal.signal(limited, signal.SIG_DFL)  # ends it also where it is stuck outside Python
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
        signal.alarm(PATIENCE)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = sys.__stderr__ = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        import tempfile

        tempfile.tempdir = os.environ["TMPDIR"] = str(folder / "tmp")
        os.environ.pop("MISDETECT_TRACEBACK", None)
        sys.argv = ["misdetect", *arguments]
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    except BaseException as error:
        os.write(2, f"Traceback: {error!r}\n".encode("utf-8", "replace"))
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BaseException as error:
                os.write(2, f"Traceback: {error!r}\n".encode("utf-8", "replace"))
        weakref.finalize._exitfunc()  # type: ignore[attr-defined] - temporary folders go when the interpreter does
        os._exit(code)


def _in_a_shell(arguments: list[str], folder: Path, streams: str) -> int:
    """Exit code of the command in a process of its own, whose streams the shell has treated as told."""
    line = f'"$0" -m misdetect "$@" {streams}'
    with open(folder / "out", "wb") as out, open(folder / "err", "wb") as err:
        environment = {**os.environ, "TMPDIR": str(folder / "tmp")}
        done = subprocess.run(
            ["/bin/bash", "-c", line, sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=environment,
            timeout=PATIENCE,
        )
    return done.returncode


def complaints(case: Case, said: Said, folder: Path) -> list[str]:
    """How ``said`` breaks the law; nothing where it keeps it."""
    if said.code in (-signal.SIGALRM, -signal.SIGXCPU, -signal.SIGKILL):
        return [f"hangs: not done after {SECONDS} s of work or {PATIENCE} s"]
    if said.code < 0:
        return [f"dies of {signal.Signals(-said.code).name}: {said.err[-200:]}"]
    found = []
    if said.code not in case.codes:
        found.append(
            f"exit code {said.code}, not {' or '.join(map(str, case.codes))}: {(said.err or said.out)[:300]!r}"
        )
    found += _about_words(case, said)
    found += _about_files(case, said)
    if case.check is not None and not found and (complaint := case.check(folder / "work", said)):
        found.append(complaint)
    return found


def _about_words(case: Case, said: Said) -> list[str]:
    both = said.out + said.err
    found = [f"says {word!r}: {both[-300:]!r}" for word in ("Traceback", "fault in misdetect") if word in both]
    if raw := RAW.search(both):
        found.append(f"prints {raw[0]!r} as it is: {both[max(0, raw.start() - 40) : raw.end() + 20]!r}")
    told = [line for line in said.err.splitlines() if line.startswith("misdetect: ")]
    other = [line for line in said.err.splitlines() if not line.startswith(("misdetect: ", "note: ", "warning: "))]
    if other:
        found.append(f"stderr has {other[0][:200]!r}")
    if any(len(line) > LONGEST for line in said.err.splitlines()):
        found.append(f"a message of {len(said.err)} characters")
    if case.streams:
        return found
    if said.code and said.json:
        found += _about_the_error(said)
    elif said.code and len(told) != 1:
        found.append(f"{len(told)} sentences on stderr: {said.err[:300]!r}")
    elif not said.code and told:
        found.append(f"fails and succeeds: {told[0][:300]!r}")
    if said.json and not said.code:
        found += _about_the_document(said)
    if said.code and case.says and not re.search(case.says, both):
        found.append(f"does not say {case.says!r}: {both[:300]!r}")
    return found


def _about_the_error(said: Said) -> list[str]:
    try:
        error = json.loads(said.out)["error"]
    except (ValueError, LookupError, TypeError):
        return [f"no JSON document with an error on stdout: {said.out[:200]!r}"]
    wrong = error.get("exit_code") != said.code or not error.get("kind") or not error.get("message")
    return [f"the error is {said.out[:200]!r}, the exit code {said.code}"] if wrong else []


def _about_the_document(said: Said) -> list[str]:
    try:
        json.loads(said.out, parse_constant=_no_constant).keys()
        json.loads(said.out.encode().decode("ascii"), strict=True)
        if re.search(r"(?<!\\)(\\\\)*\\ud[89a-f]", _without_pairs(said.out)):
            return [f"a lone surrogate in the document: {said.out[:200]!r}"]
    except (ValueError, AttributeError, TypeError) as error:
        return [f"stdout is no JSON document ({error}): {said.out[:200]!r}"]
    return []


def _without_pairs(text: str) -> str:
    return re.sub(r"\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}", "", text)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _about_files(case: Case, said: Said) -> list[str]:
    # what is finished stays where only the telling of it fails
    allowed = case.writes if not said.code or case.streams else ()

    def expected(path: str) -> bool:
        return "__pycache__" in Path(path).parts or any(  # of the user's own code, by Python
            _is_below(path, f"work/{name}") for name in allowed
        )

    left = [name for name in said.new if not expected(name)]
    changed = [name for name in said.changed if not expected(name)]
    odd = [n for n in said.new if n.endswith((".partial", ".writing")) or "tmp" in Path(n).parts]
    found = [f"leaves {left[:4]}"] if left or odd else []
    return found + ([f"changes {changed[:4]}"] if changed else [])


def _is_below(name: str, folder: str) -> bool:
    return name == folder or name.startswith(f"{folder}/")

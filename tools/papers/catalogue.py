"""What is claimed, and how it is tested: the files of ``papers/`` as values. Nothing is run or judged here."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "papers"
SIZES = ("quick", "full")
"""How much is run: minutes with wide intervals, or hours."""


@dataclass(frozen=True)
class Subject:
    """A detector and the data that it is asked about, as specs; ``{fixtures}`` stands for a folder that need not be
    there."""

    name: str
    detector: str
    data: str
    called: str

    @property
    def needs_fixtures(self) -> bool:
        """Whether it is one of the real detectors, on photos that are not part of the project."""
        return "{fixtures}" in self.detector


@dataclass(frozen=True)
class Question:
    """One command: a run of a paper, of one subject, in one size. ``command`` still has places for folders."""

    run: str
    subject: Subject
    size: str
    command: str

    @property
    def name(self) -> str:
        """What its result file and its run directory are called."""
        return f"{self.run}-{self.subject.name}"


class Query(NamedTuple):
    """``sql`` over the rows of a run, or of the run ``within`` it: ``above`` and ``below`` for each ``image``."""

    sql: str
    within: str | None

    @property
    def signed(self) -> bool:
        """Whether it takes the control's rows off the object's."""
        return "ELSE -1" in self.sql


@dataclass(frozen=True)
class Paper:
    """One file of claims. ``runs`` and ``queries`` (SQL by name, with places to fill) are as the file has them,
    ``printed`` what stands in the paper's tables."""

    number: int
    short: str
    title: str
    runs: Mapping[str, Mapping[str, Any]]
    queries: Mapping[str, str]
    printed: Mapping[str, Any]
    claims: tuple["Claim", ...]


@dataclass(frozen=True)
class Claim:
    """What a paper says, and what would confirm it. ``numbers`` are what is read, by name; ``holds`` compares them.

    ``beside`` is the same for what the paper did not have: a control, a ladder, a prior; where nothing can stand there,
    ``alone`` says why. A claim that cannot be tested says ``why``, and has no numbers.
    """

    id: str
    section: str
    claim: str
    paper: str
    confirms: str = ""
    refutes: str = ""
    subjects: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    holds: tuple[str, ...] = ()
    beside: Mapping[str, Any] = field(default_factory=dict)
    alone: str = ""
    why: str = ""

    def parts(self) -> Iterator[tuple[str, Mapping[str, Mapping[str, Any]], tuple[str, ...]]]:
        """What is compared: the claim itself, and beside it."""
        yield "claim", self.numbers, self.holds
        if self.beside.get("numbers"):
            yield "beside", self.beside["numbers"], tuple(self.beside.get("holds", ()))


class Catalogue:
    """All papers, subjects and findings of a ``folder``."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder

    @cached_property
    def subjects(self) -> dict[str, Subject]:
        """Who is asked, by name."""
        return {name: Subject(name, **said) for name, said in _read(self.folder / "subjects.yaml").items()}

    @cached_property
    def papers(self) -> list[Paper]:
        """The papers, in their order."""
        return [_paper(_read(path)) for path in sorted(self.folder.glob("[0-9]-*.yaml"))]

    @cached_property
    def findings(self) -> tuple[Claim, ...]:
        """What no paper says: claims of our own."""
        return tuple(_claim(said) for said in _read(self.folder / "findings.yaml"))

    def claims(self) -> list[Claim]:
        """Those of all papers."""
        return [claim for paper in self.papers for claim in paper.claims]

    def queries(self, run: str) -> dict[str, Query]:
        """What claims and findings ask of the rows of ``run``, by the name that it has in a result file."""
        texts = {name: sql for paper in self.papers for name, sql in paper.queries.items() if run in paper.runs}
        claims = (*self.claims(), *self.findings)
        every = [number for claim in claims for _, numbers, _ in claim.parts() for number in numbers.values()]
        found = {}
        for number in every:
            if number["run"] == run and "query" in number:
                sql = texts[number["query"]]
                for name, value in number.get("with", {}).items():
                    sql = sql.replace("{" + name + "}", str(value))
                found[query_name(number)] = Query(sql, number.get("in"))
        return found

    def questions(self, size: str) -> list[Question]:
        """Every command, once; what others need comes first."""
        return [
            question(self.subjects[name], run, said, size)
            for paper in self.papers
            for run, said in paper.runs.items()
            for name in said["subjects"]
        ]

    def question(self, run: str, subject: str, size: str) -> Question:
        """The command of ``run`` for ``subject``."""
        found = [paper.runs[run] for paper in self.papers if run in paper.runs]
        return question(self.subjects[subject], run, found[0], size)


def question(subject: Subject, run: str, said: Mapping[str, Any], size: str) -> Question:
    """The command of a run as a paper's file has it (``said``), for ``subject``."""
    sizes = said.get("photos", said) if subject.needs_fixtures else said
    command = said["command"]
    for name, value in {"detector": subject.detector, "data": subject.data, **sizes[size]}.items():
        command = command.replace("{" + name + "}", str(value))
    return Question(run, subject, size, command)


def query_name(number: Mapping[str, Any]) -> str:
    """How the query of a number is called in a result file: its name and what it is filled with."""
    filled = ", ".join(f"{name}={value}" for name, value in number.get("with", {}).items())
    return f"{number['query']}({filled})"


def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _paper(said: Mapping[str, Any]) -> Paper:
    claims = tuple(_claim(each) for each in said["claims"])
    queries, printed = said.get("queries", {}), said.get("printed", {})
    return Paper(said["paper"], said["short"], said["title"], said["runs"], queries, printed, claims)


def _claim(said: Mapping[str, Any]) -> Claim:
    known = dict(said)
    for name in ("subjects", "holds"):
        value = known.get(name, ())
        known[name] = (value,) if isinstance(value, str) else tuple(value)
    if "beside" in known and isinstance(known["beside"].get("holds"), str):
        known["beside"] = {**known["beside"], "holds": (known["beside"]["holds"],)}
    return Claim(**{**known, "id": str(known["id"])})

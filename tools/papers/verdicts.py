"""Verdicts: the numbers of a claim, read from result files with their intervals, and the comparison that decides.

A comparison is linear (``guided - 1.5 * random > 0``); the interval of a sum is made of those of its terms (MOVER, as
for independent estimates: where two numbers come from the same images it is wider than need be). A claim is *confirmed*
where the whole interval lies on one side of the limit, *refuted* where it lies on the other, else it is *not clear*.
"""

import ast
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import hypot
from pathlib import Path
from typing import Any, NamedTuple

from misdetect.said.errors import BadGate
from misdetect.said.gates import check
from papers.catalogue import Claim, query_name

CONFIRMED, REFUTED, UNCLEAR, UNTESTED = "confirmed", "refuted", "not clear", "cannot be tested here"
_WITHOUT = 0.05
"""Where something never happened on n images, it happens on fewer than 1 - .05^(1/n) of them, with 95 % confidence."""
_IMAGES = ("backgrounds", "images", "cases")
_PERCENT = ("scan",)
"""Verbs whose documents have percentages; the others have shares."""


class Measured(NamedTuple):
    """A number with its interval; ``low`` is ``None`` where nothing says how sure it is."""

    value: float
    low: float | None
    high: float | None


class Term(NamedTuple):
    """``times`` a number of a claim, by its ``name``; ``None`` is the constant 1."""

    name: str | None
    times: float


@dataclass(frozen=True)
class Condition:
    """The sum of ``terms`` is positive."""

    terms: tuple[Term, ...]

    def judged(self, numbers: Mapping[str, Measured | None]) -> str | None:
        """The verdict on it; ``None`` where a number was not measured."""
        middle, below, above = 0.0, 0.0, 0.0
        for name, times in self.terms:
            if name is None:
                middle += times
                continue
            number = numbers[name]
            if number is None:
                return None
            if number.low is None or number.high is None:
                return UNCLEAR
            middle += times * number.value
            ends = sorted((times * number.low, times * number.high))
            below, above = hypot(below, times * number.value - ends[0]), hypot(above, ends[1] - times * number.value)
        if middle - below > 0:
            return CONFIRMED
        return REFUTED if middle + above < 0 else UNCLEAR


def conditions(text: str) -> list[Condition]:
    """What a comparison such as ``2 < a - b < 9`` asks for."""
    tree = ast.parse(text, mode="eval").body
    if not isinstance(tree, ast.Compare):
        raise ValueError(f"{text!r} compares nothing.")
    sides = [_linear(side) for side in (tree.left, *tree.comparators)]
    found = []
    for (left, right), sign in zip(pairwise(sides), tree.ops, strict=True):
        if not isinstance(sign, (ast.Lt, ast.Gt)):
            raise ValueError(f"{text!r}: expected < or >.")
        more, less = (right, left) if isinstance(sign, ast.Lt) else (left, right)
        names = dict.fromkeys((*more, *less))
        found.append(Condition(tuple(Term(name, more.get(name, 0.0) - less.get(name, 0.0)) for name in names)))
    return found


def _linear(node: ast.expr) -> dict[str | None, float]:
    match node:
        case ast.Constant(value=int() | float() as value):
            return {None: float(value)}
        case ast.Name(id=name):
            return {name: 1.0}
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return {name: -times for name, times in _linear(inner).items()}
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as sign, right=right):
            one, other = _linear(left), _linear(right)
            turn = 1 if isinstance(sign, ast.Add) else -1
            return {name: one.get(name, 0.0) + turn * other.get(name, 0.0) for name in dict.fromkeys((*one, *other))}
        case ast.BinOp(left=ast.Constant(value=int() | float() as factor), op=ast.Mult(), right=right):
            return {name: factor * times for name, times in _linear(right).items()}
    raise ValueError(f"{ast.unparse(node)!r} is no sum of numbers of the claim.")


class Results:
    """The result files of a ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cache  # noqa: B019 - a folder is read once, and there are few
    def of(self, run: str, subject: str) -> Mapping[str, Any] | None:
        """What is known of a run on a subject."""
        path = self.folder / f"{run}-{subject}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def asked(self, spec: Mapping[str, Any], subject: str) -> Mapping[str, Any] | None:
        """The result that ``spec`` reads, of ``subject`` unless it names another."""
        return self.of(spec["run"], spec.get("subject", "{subject}").replace("{subject}", subject))

    def text(self, spec: Mapping[str, Any], subject: str) -> str | None:
        """The words that ``spec`` asks for."""
        node: Any = (self.asked(spec, subject) or {}).get("document")
        for name in spec["key"].split("."):
            node = node.get(name) if isinstance(node, Mapping) else None
        return node

    def number(self, spec: Mapping[str, Any], subject: str) -> Measured | None:
        """The number that ``spec`` asks for."""
        found = self.asked(spec, subject)
        if found is None:
            return None
        if "query" in spec:
            said = found["queries"].get(query_name(spec))
            return None if said is None else Measured(said["value"], *said["interval"])
        return _of_document(spec, found)


def is_percent(spec: Mapping[str, Any], results: Results, subject: str) -> bool:
    """Whether a number is a percentage; else it is a share, or an AP."""
    if "query" in spec or spec.get("times") == 100:
        return True
    found = results.asked(spec, subject)
    return found is not None and found["command"].split()[0] in _PERCENT


def _of_document(spec: Mapping[str, Any], found: Mapping[str, Any]) -> Measured | None:
    document, times = found["document"], spec.get("times", 1)
    try:
        (read,) = check(document, f"{spec['key']} > 0")
        ends = read.interval
        if "interval" in spec:
            ends = [_plain(document, f"{spec['interval']}[{i}]") for i in (0, 1)]
    except BadGate:
        return None
    if spec.get("exact"):
        ends = [read.value, read.value]
    elif ends is not None and ends[0] == ends[1]:
        whole = 100 if found["command"].split()[0] in _PERCENT else 1
        ends = never(read.value, _images(document), whole, signed=spec["key"].startswith("difference"))
    if ends is None:
        return Measured(times * read.value, None, None)
    return Measured(times * read.value, *(times * end for end in ends))


def _plain(document: Mapping[str, Any], key: str) -> float:
    return check(document, f"{key} > 0")[0].value


def never(value: float, images: int, whole: float, *, signed: bool = False) -> tuple[float, float]:
    """The interval of something that is the same on all of so many ``images``, where resampling finds none: what has
    never happened (or always), out of a ``whole``, might on others. A difference (``signed``) may go either way."""
    wide = whole * (1 - _WITHOUT ** (1 / images))
    return max(value - wide, -whole if signed else 0.0), min(value + wide, whole)


def _images(document: Mapping[str, Any]) -> int:
    named = (document["settings"].get("pairs"), *(document.get(name) for name in _IMAGES))
    return next(each for each in named if isinstance(each, int))


@dataclass(frozen=True)
class Judged:
    """One subject of a claim: its numbers by name, and the verdict; the same of what stands beside it."""

    subject: str
    numbers: Mapping[str, Measured | None]
    verdict: str
    beside: Mapping[str, Measured | None]
    beside_verdict: str | None
    beside_words: Mapping[str, str | None]
    sizes: tuple[str, ...]


def judge(claim: Claim, results: Results) -> list[Judged]:
    """The verdicts on ``claim``, a subject each; those that nothing is known of are left out."""
    found = []
    for subject in claim.subjects:
        numbers = {name: results.number(spec, subject) for name, spec in claim.numbers.items()}
        verdict = together(claim.holds, numbers)
        if verdict is None:
            continue
        besides = claim.beside.get("numbers", {})
        beside = {name: results.number(spec, subject) for name, spec in besides.items()}
        aside = together(claim.beside.get("holds", ()), numbers | beside)
        words = {name: results.text(spec, subject) for name, spec in claim.beside.get("text", {}).items()}
        found.append(Judged(subject, numbers, verdict, beside, aside, words, _sizes(claim, subject, results)))
    return found


def together(holds: Iterable[str], numbers: Mapping[str, Measured | None]) -> str | None:
    """The verdict on several comparisons that all have to hold; ``None`` where something was not measured."""
    said = [each.judged(numbers) for text in holds for each in conditions(text)]
    if not said or None in said:
        return None
    if REFUTED in said:
        return REFUTED
    return UNCLEAR if UNCLEAR in said else CONFIRMED


def overall(claim: Claim, judged: Sequence[str]) -> str:
    """The verdict on a claim over its subjects: what most of them say, if none says the opposite."""
    if claim.why:
        return UNTESTED
    for verdict, opposite in ((CONFIRMED, REFUTED), (REFUTED, CONFIRMED)):
        if 2 * judged.count(verdict) >= len(judged) > 0 and opposite not in judged:
            return verdict
    return UNCLEAR


def _sizes(claim: Claim, subject: str, results: Results) -> tuple[str, ...]:
    """In which sizes the runs were made that a verdict rests on."""
    return tuple(sorted({found["size"] for found in _read(claim, subject, results)}))


def _read(claim: Claim, subject: str, results: Results) -> Iterator[Mapping[str, Any]]:
    for _, numbers, _ in claim.parts():
        for spec in numbers.values():
            if (found := results.asked(spec, subject)) is not None:
                yield found

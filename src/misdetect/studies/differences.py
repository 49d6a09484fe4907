"""What every study's comparison of runs shares: each pair of runs on the images that both saw, or why not.

A study says how two of its runs differ (``between``), or in a few words why that cannot be said; here the words become
sentences, and what only one of them saw is told and not silently dropped.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, TypeVar

from misdetect.studies.contract import Document

T = TypeVar("T")


def differences(runs: Mapping[str, T], between: Callable[[T, T], Document | str], unit: str = "images") -> Document:
    """``differences`` of every two ``runs``, ``paired``, ``why_not_paired`` and ``notes``. ``between(a, b)`` has what
    differs, with ``images``, how many both saw, and ``left_out``, how many of its ``unit`` only the first and only the
    second has; or it is the end of a sentence that says why they cannot be compared."""
    found: list[Document] = []
    why_not: list[str] = []
    notes: list[str] = []
    for a, b in combinations(runs, 2):
        said = between(runs[a], runs[b])
        if isinstance(said, str):
            why_not.append(f"{a} and {b} {said}")
            continue
        found.append({"first": a, "second": b, "same_images": True, **said})
        if any(said["left_out"]):
            only = f"{said['left_out'][0]} are only in {a}, {said['left_out'][1]} only in {b}"
            notes.append(f"{a} and {b} are compared over the {unit} that both have; {only}.")
    return {"differences": found, "paired": not why_not, "why_not_paired": why_not, "notes": notes}


def other_rules(one: object, other: object, rules: Sequence[str]) -> str | None:
    """That two settings differ in some of ``rules``, as ``between`` says it."""
    differing = [rule for rule in rules if getattr(one, rule) != getattr(other, rule)]
    return f"differ in {', '.join(differing)}" if differing else None


def shared(first: Sequence[Any], second: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """What is in both, in the order of the first, and how many are only in the first and only in the second."""
    known = set(second)
    both = [each for each in first if each in known]
    return both, [len(first) - len(both), len(second) - len(both)]

"""The rows of a training: one per stretch of steps, with the mean of each loss and, where it was checked, the scores.

A checkpoint carries the stretch that is under way and the rows that are in no part yet, so that a training that was
killed goes on with the very rows it would have written.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from misdetect.engine.requests import Case, Finished
from misdetect.engine.store import Run
from misdetect.training.recipe import Recipe

_PAIRS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.float64())]))
SCHEMA = pa.schema([("step", pa.int64()), ("rate", pa.float64()), ("losses", _PAIRS), ("scores", _PAIRS)])


def ends(recipe: Recipe, checked: bool) -> list[int]:
    """The steps after which a row is written: those that are logged, those that are checked, and the last."""
    strides = (recipe.log_every, recipe.check_every) if checked else (recipe.log_every,)
    found = {step for stride in strides for step in range(stride, recipe.steps, stride)}
    return sorted(found | {recipe.steps})


def pairs(numbers: Mapping[str, float]) -> list[dict[str, Any]]:
    """Numbers by name, as rows have them."""
    return [{"name": name, "value": float(value)} for name, value in numbers.items()]


def by_name(pairs: list[dict[str, Any]]) -> dict[str, float]:
    """``pairs`` as a dict again."""
    return {pair["name"]: pair["value"] for pair in pairs}


class Curve:
    """The rows of a training by ``recipe``: sums since the last row, ``rows`` so far, and those that are in no part of
    the run yet."""

    def __init__(self, recipe: Recipe, checked: bool) -> None:
        self.recipe = recipe
        self._index = {step: i for i, step in enumerate(ends(recipe, checked))}
        self._sums: dict[str, float] = {}
        self._steps = 0
        self._waiting: list[dict[str, Any]] = []
        self.rows: list[dict[str, Any]] = []

    def __len__(self) -> int:
        return len(self._index)

    def add(self, losses: Mapping[str, float]) -> None:
        """Take down the ``losses`` of one step."""
        for name, value in losses.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
        self._steps += 1

    def ends_at(self, step: int) -> bool:
        """Whether a row is due after ``step`` steps."""
        return step in self._index

    def close(self, step: int, scores: Mapping[str, float]) -> dict[str, float]:
        """Make the row of the stretch that ends after ``step`` steps; returns the mean losses."""
        means = {name: value / self._steps for name, value in self._sums.items()}
        row = {"step": step, "rate": self.recipe.rate(step - 1), "losses": pairs(means), "scores": pairs(scores)}
        self._waiting.append(row)
        self.rows.append(row)
        self._sums, self._steps = {}, 0
        return means

    def note(self) -> str:
        """What a checkpoint has to keep."""
        return json.dumps({"sums": self._sums, "steps": self._steps, "waiting": self._waiting})

    def recall(self, note: str) -> None:
        """Go on from what a checkpoint kept."""
        found = json.loads(note)
        self._sums, self._steps, self._waiting = found["sums"], found["steps"], found["waiting"]

    def write(self, run: Run) -> None:
        """Put the rows that wait into ``run``, as one part; those that it already has are the same."""
        done = run.done()
        for row in self._waiting:
            if (index := self._index[row["step"]]) not in done:
                run.add(Finished(Case(index, f"step/{row['step']}"), [row]), flush_seconds=math.inf)
        run.flush()
        self._waiting = []

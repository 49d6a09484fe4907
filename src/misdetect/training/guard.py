"""``Watchdog``: looks at a training's rows and says which weights are the best so far, and when to stop, and why.

It is a function of the rows alone, so that a training which was killed and goes on is judged as one that was not.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from misdetect.said.errors import BadSpec
from misdetect.training.curve import by_name

Row = Mapping[str, Any]
"""A row of a training: ``step``, ``losses`` and ``scores`` as pairs (``curve.SCHEMA``)."""


@dataclass(frozen=True)
class Judgement:
    """``best``: after which step the weights to keep were reached, 0 for those it began with; ``stop``: why the
    training has to end now, ``None`` where it may go on."""

    best: int
    stop: str | None = None


class Guard(Protocol):
    """What ``Training`` asks after every row."""

    @property
    def name(self) -> str: ...
    @property
    def settings(self) -> Mapping[str, Any]: ...
    def __call__(self, rows: Sequence[Row]) -> Judgement:
        """The judgement of all ``rows`` so far."""
        ...


@dataclass(frozen=True, kw_only=True)
class Watchdog:
    """Keeps the weights with the highest score ``objective``, as long as they are better than ``before`` any step, and
    whose clean AP is at least ``floor``. It stops a training whose loss is ``explosion`` times the first row's, whose
    AP50 falls to ``collapse`` of that before (it reports next to nothing any more), whose clean AP falls below
    ``floor``, or that was not better for ``patience`` checks; not before step ``since``, where it has to learn what it
    knew again."""

    objective: str
    before: Mapping[str, float]
    floor: float | None = None
    patience: int | None = None
    explosion: float = 10.0
    collapse: float = 0.05
    since: int = 0
    name: str = "watchdog"

    def __post_init__(self) -> None:
        if self.floor is not None and self.before["AP"] < self.floor:
            raise BadSpec(
                f"the clean AP is {self.before['AP']:.3f} before any training, under the floor of {self.floor:g}; "
                "choose a lower one."
            )

    @property
    def settings(self) -> Mapping[str, Any]:
        """What decides when a training ends, and with which weights."""
        return {name: value for name, value in vars(self).items() if name != "name"} | {"before": dict(self.before)}

    def __call__(self, rows: Sequence[Row]) -> Judgement:
        checked = [(row["step"], by_name(row["scores"])) for row in rows if row["scores"]]
        best, most = 0, self.before[self.objective]
        for step, scores in checked:
            if scores[self.objective] > most and self._refused(step, scores) is None:
                best, most = step, scores[self.objective]
        return Judgement(best, self._stop(rows, checked, best))

    def _refused(self, step: int, scores: Mapping[str, float]) -> str | None:
        """Why the weights after ``step``, of such ``scores``, are not to be used."""
        if scores["AP50"] <= self.collapse * self.before["AP50"] and self.before["AP50"]:
            was = f"of {self.before['AP50']:.3f} before"
            return f"it collapsed to background: AP50 at step {step} is {scores['AP50']:.3f}, {was}"
        if self.floor is not None and scores["AP"] < self.floor:
            return f"clean AP at step {step} is {scores['AP']:.3f}, under the floor of {self.floor:g}"
        return None

    def _stop(self, rows: Sequence[Row], checked: Sequence[tuple[int, Mapping[str, float]]], best: int) -> str | None:
        first, last = (sum(by_name(row["losses"]).values()) for row in (rows[0], rows[-1]))
        if not math.isfinite(last) or last > self.explosion * first:
            return f"the loss exploded, from {first:.4g} to {last:.4g} at step {rows[-1]['step']}"
        if not rows[-1]["scores"] or rows[-1]["step"] < self.since:
            return None
        if (refused := self._refused(*checked[-1])) is not None:
            return refused
        waited = sum(step > best for step, _ in checked)
        if self.patience is not None and waited > self.patience:
            return f"{self.objective} was no better for {waited} checks"
        return None

"""The distinct failures of a run of any study, out of the ledger, and the pictures behind each of them.

A failure is what harms (or, where nothing is annotated, what changes) and is the condition's own doing: no flicker, no
control, nothing that the control shows too. The same happening to the same object at many positions is one failure.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from misdetect.data.dataset import Dataset, Sample
from misdetect.drawing.scenes import Stage
from misdetect.engine.store import Run
from misdetect.nouns.picture import Pixels
from misdetect.studies.ledger import query
from misdetect.studies.looked import evidence_of

Failure = dict[str, Any]
"""A row of the ledger, with ``times``: how often it happened, and ``scene``: the picture that shows it."""
_OUTCOMES = ("missed", "renamed", "moved", "extra")
_LOSS = "abs(coalesce(score_before, 0) - coalesce(score, 0)) DESC"
_DISTINCT = f"""
    SELECT *, {{scene}} AS scene, count(*) OVER same AS times FROM ledger
    WHERE control IS NOT TRUE AND condition = '{{condition}}' AND outcome IN {_OUTCOMES}
    AND x0 IS NOT NULL AND flicker IS NOT TRUE AND attributable IS NOT FALSE
    AND (harm = 'harmful' OR (harm = 'unknown' AND attributable)) AND {{first}}
    WINDOW same AS (
        PARTITION BY image, outcome, became, label, object, CASE WHEN object IS NULL THEN [x0, y0, x1, y1] END)
    QUALIFY row_number() OVER (same ORDER BY {_LOSS}, "case") = 1"""
_IN_TURN = f"""
    SELECT * FROM ({{}}) ORDER BY
    row_number() OVER (PARTITION BY outcome ORDER BY {_LOSS}, image, object, x0, y0, x1, y1),
    list_position({list(_OUTCOMES)}, outcome)"""


def failures(run: Run) -> list[Failure]:
    """The failures of ``run``: the worst of each outcome in turn, misses first. Worse is what loses more of a score."""
    evidence = evidence_of(run)
    first = "true" if evidence.first is None else evidence.first(run)
    asked = _DISTINCT.format(condition=evidence.condition, first=first, scene=evidence.scene)
    rows: list[Failure] = query([run], _IN_TURN.format(asked)).to_pylist()
    return rows


def told(failure: Mapping[str, Any]) -> str:
    """What happened, in a few words: ``missed book, 0.78 -> 0.34``."""
    became = f" as {failure['became']}" if failure["became"] else ""
    scores = [f"{failure[name]:.2f}" for name in ("score_before", "score") if failure[name] is not None]
    return ", ".join(filter(None, [f"{failure['outcome']} {failure['label']}{became}", " -> ".join(scores)]))


class Pictures:
    """The pictures behind the failures of ``run``, made again out of ``data``."""

    def __init__(self, run: Run, data: Dataset) -> None:
        self._run, self._data = run, data

    @cached_property
    def _places(self) -> dict[str, int]:
        return {self._data[i].id: i for i in range(len(self._data))}

    @cached_property
    def _stage(self) -> Stage | None:
        made = evidence_of(self._run).stage
        return None if made is None else made(self._run, self._data)

    def sample(self, failure: Mapping[str, Any]) -> Sample:
        """The photo that it happened on, with its truth."""
        return self._data[self._places[failure["image"]]]

    def edited(self, failure: Mapping[str, Any]) -> Pixels | None:
        """What the detector was asked about; ``None`` where that is the photo itself, or was not kept."""
        if self._stage is None:
            return None
        self._stage.load([failure["scene"]])
        drawn = self._stage.pictures(failure["scene"])
        return None if drawn is None else drawn[1]

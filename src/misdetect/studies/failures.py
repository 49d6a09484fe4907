"""The distinct failures of a run of any study, out of the ledger, and the pictures behind each of them.

A failure is what harms (or, where nothing is annotated, what changes) and is the condition's own doing: no flicker, no
control, nothing that the control shows too. The same happening to the same object at many positions is one failure.
"""

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from misdetect.data.dataset import Dataset, Sample
from misdetect.engine.store import Run
from misdetect.nouns.picture import Pixels
from misdetect.studies.attack.adversarial import first_loss
from misdetect.studies.attack.document import settings_of
from misdetect.studies.attack.results import attacked_images
from misdetect.studies.attack.rows import pixels_of
from misdetect.studies.contract import kind_of
from misdetect.studies.fuzz.replay import find_case
from misdetect.studies.fuzz.rows import Insertion
from misdetect.studies.ledger import query
from misdetect.studies.scan.rows import OBJECT

Failure = dict[str, Any]
"""A row of the ledger, with ``times``: how often it happened."""
_CONDITIONS = {"scan": "transplant", "fuzz": "insertion", "attack": "attack"}
"""What is done to a picture; other studies look at clean ones."""
_DISTINCT = """
    SELECT *, count(*) OVER same AS times FROM ledger
    WHERE NOT control AND condition = '{condition}' AND outcome IN ('missed', 'renamed', 'moved', 'extra')
    AND x0 IS NOT NULL AND flicker IS NOT TRUE AND attributable IS NOT FALSE
    AND (harm = 'harmful' OR (harm = 'unknown' AND attributable)) AND {attack}
    WINDOW same AS (
        PARTITION BY image, outcome, became, label, object, CASE WHEN object IS NULL THEN [x0, y0, x1, y1] END)
    QUALIFY row_number() OVER (same ORDER BY abs(coalesce(score_before, 0) - coalesce(score, 0)) DESC, "case") = 1
    ORDER BY abs(coalesce(score_before, 0) - coalesce(score, 0)) DESC, image, object, outcome, x0, y0, x1, y1"""


def failures(run: Run) -> list[Failure]:
    """The failures of ``run``, those that lose most of a score first; of an attack those of its first loss."""
    named = f"json_extract_string(evidence, '$.attack') = '{first_loss(run)}'" if run.study == "attack" else "true"
    condition = _CONDITIONS.get(run.study, "clean")
    rows: list[Failure] = query([run], _DISTINCT.format(condition=condition, attack=named)).to_pylist()
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
    def _study(self) -> Any:
        return kind_of(self._run.study).rebuild(self._run, self._data)

    @cached_property
    def _attacked(self) -> Mapping[str, bytes]:
        return attacked_images(self._run, first_loss(self._run), settings_of(self._run))

    def sample(self, failure: Mapping[str, Any]) -> Sample:
        """The photo that it happened on, with its truth."""
        return self._data[self._places[failure["image"]]]

    def edited(self, failure: Mapping[str, Any]) -> Pixels | None:
        """What the detector was asked about; ``None`` where that is the photo itself, or was not kept."""
        if self._run.study == "fuzz":
            picture = self._study.bench.picture(Insertion.of_row(find_case(self._run, failure["case"])))
        elif self._run.study == "scan":
            pair = self._study.open_pair(int(failure["case"].partition("/")[0]))
            at = json.loads(failure["evidence"])
            picture = pair.picture(OBJECT, at["x"], at["y"], self._study.how.seed)
        elif self._run.study == "attack":
            kept = self._attacked.get(failure["image"])
            return None if kept is None else pixels_of(kept)
        else:
            return None
        drawn: Pixels = picture.render()
        return drawn

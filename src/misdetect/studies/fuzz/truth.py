"""What the annotations say: which detections are right, and what a change is worth.

Paper 4 compares answers with answers. Where there is truth, a lost detection that was wrong is an improvement, and a
lost one that was right does harm; ``metrics.harm`` decides, this translates between it and rows. What is detected on
the inserted object, or on parts of it, the annotations of the background cannot judge.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from misdetect.metrics.harm import NEW, UNJUDGED, Annotations, Standing, effects_of, standing_after, standing_of
from misdetect.metrics.metamorphic import EXTRA, MISSED, MOVED, RENAMED, Fates, Verdict
from misdetect.metrics.transplant import LOST, PART
from misdetect.nouns.boxes import Bools, coverage
from misdetect.nouns.detections import Detections, Truth
from misdetect.nouns.labels import Joined

_WORDS = {MISSED: LOST, EXTRA: NEW, RENAMED: RENAMED, MOVED: MOVED}
"""Paper 4's words for a change, as ``metrics.harm`` has them."""


@dataclass(frozen=True, eq=False)
class Judge:
    """Judges detections and changes on one image by its ``truth``; a detection is right from an IoU of ``least`` on."""

    truth: Truth
    joined: Joined
    least: float

    @property
    def _annotations(self) -> Annotations:
        return Annotations.of(self.truth, self.joined.to_detector)

    def detections(self, found: Detections) -> Iterator[dict[str, Any]]:
        """``object`` (the annotation that it finds) and ``right`` (``None``: cannot be told) of each detection."""
        standing = standing_of(found, self.joined.known(found.labels), self._annotations, self.least)
        for row, right in zip(standing.object.tolist(), standing.right.tolist(), strict=True):
            yield {"object": self._id(row), "right": None if right == UNJUDGED else bool(right)}

    def changes(
        self, verdict: Verdict, objects: Sequence[int | None], right: Sequence[bool | None], pasted: Sequence[float]
    ) -> Iterator[dict[str, Any]]:
        """``object``, ``effect`` and ``harm`` of each change in ``verdict``, given what ``detections`` said of the
        originals, and where the object was ``pasted``."""
        fates = verdict.fates
        if fates is None:
            return
        rows = {number: row for row, number in enumerate(np.asarray(self.truth.ids).tolist())}
        clean = Standing(
            np.array([-1 if number is None else rows[number] for number in objects], dtype=np.int64),
            np.array([UNJUDGED if each is None else each for each in right], dtype=np.int8),
        )
        known = self.joined.known(fates.found.labels)
        annotations = self._annotations
        own = fates.own | _on_parts(fates, pasted)
        after = standing_after(fates.found, known, own, annotations, clean, fates.partner, self.least)
        things = np.array([change.thing for change in verdict.changes], dtype=np.int64)
        before, now = np.append(clean.object, -1)[things], np.append(after.object, -1)[fates.now]
        about = np.where(before >= 0, before, now)
        hidden = np.append(coverage(annotations.boxes, [pasted])[:, 0], 0.0)[about]
        words = [_WORDS[change.type] for change in verdict.changes]
        effects, harms = effects_of(words, clean.at(things), after.at(fates.now), hidden)
        for row, effect, harm in zip(about.tolist(), effects.tolist(), harms.tolist(), strict=True):
            yield {"object": self._id(row), "effect": effect, "harm": harm}

    def _id(self, row: int) -> int | None:
        return None if row < 0 else int(np.asarray(self.truth.ids)[row])


def _on_parts(fates: Fates, pasted: Sequence[float]) -> Bools:
    """Which detections continue no original and have so much of their box on the inserted object as ``PART`` says."""
    continuing = np.isin(np.arange(len(fates.found)), fates.partner)
    return np.asarray(~continuing & (coverage(fates.found.boxes, by=[pasted])[:, 0] >= PART))

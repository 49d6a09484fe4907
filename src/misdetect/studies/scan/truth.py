"""What the changes at one position mean against the annotations of the background: who was right, and what is harmed.

The paper compares detections with detections and knows no truth. Here the clean detections are matched with the
annotations once, and each change gets its effect and its harm from ``metrics/harm``. Detections on T or on its parts
are not judged: what there is to see on T, the background's annotations do not say.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from misdetect.metrics.harm import NEW, UNJUDGED, Annotations, Standing, Words, effects_of, standing_after, standing_of
from misdetect.metrics.transplant import KEPT, Boxes, Comparison
from misdetect.nouns.boxes import Bools, Ints


@dataclass(frozen=True, eq=False)
class Judge:
    """Knows the ``truth`` of a background (``ids`` ``[T]`` of its annotations), and which of the detector's labels
    are of classes that the data has (``known``)."""

    truth: Annotations
    ids: Ints
    known: Callable[[Ints], Bools]

    def clean(self, before: Boxes) -> Standing:
        """The standing of the original detections."""
        return standing_of(before, self.known(before.labels), self.truth)

    def judge(self, compared: Comparison, clean: Standing) -> "Verdict":
        """What the changes at a position mean, given the standing of the originals."""
        what, after = compared.originals, compared.after
        changed = np.array([i for i, outcome in enumerate(what.outcome) if outcome != KEPT], dtype=np.int64)
        continuing = np.zeros(len(after), np.bool_)
        continuing[what.partner[what.partner >= 0]] = True
        # what an original was renamed to is new to its class, but nothing that came up by itself
        fresh = np.flatnonzero(compared.new & ~compared.own & ~continuing)
        verdict = Verdict.nothing(len(compared.before), len(after))
        if changed.size or fresh.size:
            now = standing_after(after, self.known(after.labels), compared.on_parts, self.truth, clean, what.partner)
            outcomes = [what.outcome[i] for i in changed.tolist()]
            verdict.effect[changed], verdict.harm[changed] = effects_of(
                outcomes, clean.right[changed], now.at(what.partner[changed]), what.coverage[changed]
            )
            was = np.full(len(fresh), UNJUDGED, dtype=np.int8)
            verdict.new_effect[fresh], verdict.new_harm[fresh] = effects_of([NEW] * len(fresh), was, now.right[fresh])
            verdict.new_object[fresh] = now.object[fresh]
        return verdict

    def id_of(self, row: int) -> int | None:
        """The id of the annotation in ``row`` of the truth; ``None`` for -1."""
        return None if row < 0 else int(self.ids[row])


@dataclass(frozen=True, eq=False)
class Verdict:
    """``effect`` and ``harm`` of each original ``[N]``, ``None`` where it is kept, and of each detection ``[M]`` of the
    edited image that came up by itself; ``new_object`` ``[M]`` the row of the annotation that such a one has found, or
    -1."""

    effect: Words
    harm: Words
    new_effect: Words
    new_harm: Words
    new_object: Ints

    @classmethod
    def nothing(cls, before: int, after: int) -> "Verdict":
        """Of a position at which nothing changed."""
        effect, harm, new_effect, new_harm = (np.full(n, None, dtype=object) for n in (before, before, after, after))
        return cls(effect, harm, new_effect, new_harm, np.full(after, -1, dtype=np.int64))

"""Several runs side by side: how the share that is lost differs, of the objects that both find with all light."""

from collections.abc import Mapping

import numpy as np

from misdetect.engine.store import Run
from misdetect.metrics.bootstrap import change, ratios, resamples, with_measured
from misdetect.studies.contract import Document
from misdetect.studies.differences import differences, other_rules, shared
from misdetect_darkness.brightness.document import settings_of

_FOUND = "SELECT image, id, lost_at FROM rows WHERE kind = 'object' AND lost_at IS DISTINCT FROM 1"


def compare(runs: Mapping[str, Run], confidence: float, seed: int) -> Document:
    """``differences`` of every two runs; the same images are drawn again for both."""

    def between(one: Run, other: Run) -> Document | str:
        if (why := other_rules(settings_of(one), settings_of(other), ("light", "score", "iou", "needed"))) is not None:
            return why
        first, second = (_lost_at(run) for run in (one, other))
        both, left_out = shared(list(first), list(second))
        if not both:
            return "find no object in common"
        names, image = np.unique([name for name, _ in both], return_inverse=True)
        draws, image = with_measured(resamples(len(names), seed=seed)), image.reshape(-1)
        needed = settings_of(one).needed
        lost = (np.array([known[key] for key in both], float) >= needed for known in (first, second))
        shares = [ratios(draws, np.bincount(image, each), np.bincount(image)) for each in lost]
        return {"images": len(names), "left_out": left_out, "lost": change(shares[0], shares[1], confidence)}

    return differences(runs, between, "objects")


def _lost_at(run: Run) -> dict[tuple[str, int], float | None]:
    rows = run.query(_FOUND).to_pylist()
    return {(row["image"], row["id"]): row["lost_at"] for row in rows}

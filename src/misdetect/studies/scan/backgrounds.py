"""Which images have anything to lose: the clean detections that decide where a scan takes place.

An image on which the detector finds nothing cannot be affected, so pairs are drawn on images with detections. The
questions go through the engine and are remembered, so the scan itself does not ask them again.
"""

from typing import Any

from misdetect.budget import Budget
from misdetect.data.dataset import Dataset
from misdetect.engine.cache import Cache
from misdetect.engine.pump import Pump
from misdetect.errors import BadData, BadImage, DetectorFailed
from misdetect.studies.detect import DetectStudy
from misdetect.studies.scan.pairs import candidates


def with_detections(
    detector: Any,
    data: Dataset,
    wanted: int,
    score: float,
    *,
    seed: int = 0,
    only: int | None = None,
    cached: bool = True,
    budget: Budget | None = None,
) -> list[int]:
    """Indices of ``wanted`` images (fewer where there are no more) with a detection of at least ``score``, in the
    random order of ``seed``; or just image ``only``, if it has one."""
    order = candidates(data, seed) if only is None else [only]
    found: list[int] = []
    failure: str | None = None
    for start in range(0, len(order), wanted + 8):
        some = order[start : start + wanted + 8]
        study = DetectStudy(data.subset(some))
        pump = Pump(detector, study, cache=Cache() if cached else None, budget=budget)
        usable = set()
        for finished in pump.run(study.cases()):
            failure = failure or finished.error
            if any(row["score"] >= score for row in finished.rows):
                usable.add(finished.case.index)
        found += [some[i] for i in sorted(usable)]
        if len(found) >= wanted or pump.spent:
            break
    if not found and failure is not None:
        unreadable = failure.partition(":")[0] in BadImage.kinds()
        raise (BadImage if unreadable else DetectorFailed)(f"no clean image could be asked about: {failure}")
    if not found:
        where = f"image {data[only].id!r}" if only is not None else f"any of {len(order)} images of {data.spec}"
        raise BadData(
            f"no detections of score {score:g} or more on {where}, so nothing can be affected there; lower --score."
        )
    return found[:wanted]

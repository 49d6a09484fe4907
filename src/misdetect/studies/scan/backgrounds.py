"""Which images have anything to lose: the clean detections that decide where a scan takes place.

An image on which the detector finds nothing cannot be affected, so pairs are drawn on images with detections. The
questions go through the engine and are remembered, so the scan itself does not ask them again.
"""

from typing import Any

from misdetect.data.dataset import Dataset
from misdetect.engine import ask
from misdetect.engine.backend import Asking
from misdetect.nouns.detections import Detections
from misdetect.said.errors import BadData, BadImage, DetectorFailed
from misdetect.studies.scan.pairs import candidates


def with_detections(
    detector: Any,
    data: Dataset,
    wanted: int,
    score: float,
    *,
    seed: int = 0,
    only: int | None = None,
    asking: Asking | None = None,
) -> list[int]:
    """Indices of ``wanted`` images (fewer where there are no more) with a detection of at least ``score``, in the
    random order of ``seed``; or just image ``only``, if it has one."""
    order = candidates(data, seed) if only is None else [only]
    found: list[int] = []
    failure: DetectorFailed | BadImage | None = None
    for start in range(0, len(order), wanted + 8):
        some = order[start : start + wanted + 8]
        try:
            answers = ask(detector, [data[i] for i in some], asking)
        except (DetectorFailed, BadImage) as error:  # not one of these; the next may do
            failure = failure or error
            continue
        found += [i for i, answer in zip(some, answers, strict=True) if _sees(answer, score)]
        if len(found) >= wanted or None in answers:
            break
    if not found and failure is not None:
        raise failure
    if not found:
        where = f"image {data[only].id!r}" if only is not None else f"any of {len(order)} images of {data.spec}"
        raise BadData(
            f"no detections of score {score:g} or more on {where}, so nothing can be affected there; lower --score."
        )
    return found[:wanted]


def _sees(answer: Detections | str | None, score: float) -> bool:
    return isinstance(answer, Detections) and bool((answer.scores >= score).any())

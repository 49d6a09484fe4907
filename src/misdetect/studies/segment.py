"""Objects found by an instance-segmentation detector, as if they had been annotated (paper 4, section 4.1).

The images of a data set are asked about once, through the engine, and what comes back is the same data with the
detector's classes, boxes and masks for its truth. So whatever works on annotated masks works on found ones.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from misdetect.boxes import as_boxes
from misdetect.data.dataset import Dataset, Sample, Warned
from misdetect.detections import Truth
from misdetect.engine.cache import Cache
from misdetect.engine.pump import Pump
from misdetect.errors import BadData, BadImage, DetectorFailed, LevelTooLow
from misdetect.masks import Masks
from misdetect.picture import digest
from misdetect.pool.pool import SEGMENTED, Pool, Refinement, build_pool
from misdetect.protocols import Detector, describe
from misdetect.studies.detect import DetectStudy


def segmented(
    data: Dataset,
    segmenter: Detector,
    *,
    score: float = SEGMENTED,
    cached: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Dataset:
    """``data`` with what ``segmenter`` finds there (score ``>= score``) as truth; labels index the segmenter's names.

    Images about which it could not be asked are left out, with a warning; ``progress`` gets images done and in all.
    """
    study = DetectStudy(data)
    truths: dict[int, Truth] = {}
    failures: list[str] = []
    pump = Pump(segmenter, study, cache=Cache() if cached else None)
    for done, finished in enumerate(pump.run(study.cases()), start=1):
        if finished.error is not None:
            failures.append(finished.error)
        else:
            sample = data[finished.case.index]
            rows = [row for row in finished.rows if row["score"] >= score]
            truths[finished.case.index] = _truth(rows, sample, segmenter)
        if progress is not None:
            progress(done, len(data))
    if failures and not truths:
        unreadable = failures[0].partition(":")[0] in BadImage.kinds()
        raise (BadImage if unreadable else DetectorFailed)(f"no image could be asked about: {failures[0]}")
    if not any(len(truth) for truth in truths.values()):
        raise BadData(f"{describe(segmenter)} finds nothing with a score of {score:g} or more in {data.spec}.")
    answered = sorted(truths)
    warnings = (*data.warnings, Warned("segmenter-failed", len(failures), failures[0])) if failures else data.warnings
    return Dataset(
        data.spec,
        segmenter.names,
        len(answered),
        lambda i: _with_truth(data[answered[i]], truths[answered[i]]),
        fingerprint=digest("segmented", data.fingerprint, getattr(segmenter, "fingerprint", None), score),
        warnings=warnings,
    )


def segmented_pool(
    data: Dataset,
    segmenter: Detector,
    *,
    score: float = SEGMENTED,
    refinement: Refinement | None = None,
    cached: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Pool:
    """A pool of the objects that ``segmenter`` finds in ``data``; their classes are the segmenter's."""
    found = segmented(data, segmenter, score=score, cached=cached, progress=progress)
    pool = build_pool(found, refinement=refinement, found_by=(describe(segmenter), score))
    pool.settings["images"] = len(data)  # all that were looked at, also those about which it could not be asked
    return pool


def _truth(rows: list[Any], sample: Sample, segmenter: Detector) -> Truth:
    """The detections of one image, as annotations."""
    if any(row["mask"] is None for row in rows):
        raise LevelTooLow(
            f"cutting objects out needs a segmenter that returns masks; {describe(segmenter)} returns boxes only: "
            "use an instance-segmentation detector such as torchvision:maskrcnn_resnet50_fpn, or data with masks."
        )
    segments = [{"size": [sample.height, sample.width], "counts": row["mask"]} for row in rows]
    return Truth(
        as_boxes([[row[name] for name in ("x0", "y0", "x1", "y1")] for row in rows]),
        np.array([row["label"] for row in rows], dtype=np.int64),
        masks=Masks(segments, sample.height, sample.width),
    )


def _with_truth(sample: Sample, truth: Truth) -> Sample:
    return Sample(
        sample.id, sample.source, truth, sample.width, sample.height, sample.image_id, file_name=sample.file_name
    )

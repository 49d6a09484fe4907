"""Objects to insert: cut out by the data's own masks, or found by an instance-segmentation detector as if they had been
annotated (paper 4, section 4.1). The images are then asked about once, through the engine, and what comes back is the
same data with the detector's classes, boxes and masks for its truth. So what works on annotated masks works on found
ones.
"""

from collections.abc import Iterator
from pathlib import Path

from misdetect.data.dataset import Dataset, Sample, Warned
from misdetect.data.export import check_new_folder
from misdetect.detectors import load_any
from misdetect.engine import ask
from misdetect.engine.backend import Asking
from misdetect.nouns.detections import Detections, Truth
from misdetect.nouns.masks import Masks
from misdetect.nouns.picture import digest
from misdetect.nouns.protocols import Detector, describe, require
from misdetect.pools.pool import Pool, build_pool, load_pool, write_pool
from misdetect.pools.settings import PoolSettings
from misdetect.said.errors import BadData, BadImage, DetectorFailed, LevelTooLow, MisdetectError

_FIRST, _AT_ONCE = 4, 64


def make_pool(data: Dataset, settings: PoolSettings) -> Pool:
    """The objects of ``data`` that ``settings`` choose, written to their ``out`` where it is given."""
    if settings.out is not None:
        check_new_folder(Path(settings.out))
    data = data.limit(settings.limit)
    if not len(data):
        raise BadData(f"{data.spec} has no images.")
    if settings.segmenter is None:
        built = build_pool(data, refinement=settings.refinement, progress=settings.progress)
    else:
        found = load_any(settings.segmenter)
        segmenter = require(found, Detector, "pool", "cut by the masks of the data instead")
        built = segmented_pool(data, segmenter, settings)
    if settings.out is None:
        return built
    write_pool(built, Path(settings.out))
    return load_pool(Path(settings.out))


def _segmented(data: Dataset, segmenter: Detector, settings: PoolSettings) -> Dataset:
    """``data`` with what ``segmenter`` finds there as truth; labels index the segmenter's names. Images about which it
    could not be asked are left out, with a warning."""
    truths: dict[int, Truth] = {}
    failures: list[str] = []
    hopeless: MisdetectError | None = None
    for part in _parts(len(data)):

        def report(done: int, _: int, first: int = part.start) -> None:
            if settings.progress is not None:
                settings.progress(first + done, len(data))

        try:
            answers = ask(segmenter, data[part.start : part.stop], Asking(cached=settings.cache), report)
        except (BadImage, DetectorFailed) as error:  # all of this part; another may do better
            hopeless, answers = hopeless or error, [str(error)] * len(part)
        for index, answer in zip(part, answers, strict=True):
            if isinstance(answer, Detections):
                truths[index] = _truth(answer.above(settings.score), data[index], segmenter)
            else:
                failures.append(answer or "the budget of the segmenter is spent")
    if hopeless is not None and not truths:
        raise hopeless
    if not any(len(truth) for truth in truths.values()):
        score = f"{settings.score:g}"
        raise BadData(f"{describe(segmenter)} finds nothing with a score of {score} or more in {data.spec}.")
    answered = sorted(truths)
    warnings = (*data.warnings, Warned("segmenter-failed", len(failures), failures[0])) if failures else data.warnings
    return Dataset(
        data.spec,
        segmenter.names,
        len(answered),
        lambda i: _with_truth(data[answered[i]], truths[answered[i]]),
        fingerprint=digest("segmented", data.fingerprint, getattr(segmenter, "fingerprint", None), settings.score),
        warnings=warnings,
    )


def _parts(images: int) -> Iterator[range]:
    """Images asked about at a time: whole masks are held no longer than that, and after the first few it is known
    whether there are any."""
    start, size = 0, _FIRST
    while start < images:
        yield range(start, min(start + size, images))
        start, size = start + size, _AT_ONCE


def segmented_pool(data: Dataset, segmenter: Detector, settings: PoolSettings) -> Pool:
    """A pool of the objects that ``segmenter`` finds in ``data``; their classes are the segmenter's."""
    found = _segmented(data, segmenter, settings)
    pool = build_pool(found, refinement=settings.refinement, found_by=(describe(segmenter), settings.score))
    pool.settings["images"] = len(data)  # all that were looked at, also those about which it could not be asked
    return pool


def _truth(found: Detections, sample: Sample, segmenter: Detector) -> Truth:
    """The detections of one image, as annotations."""
    if len(found) and found.masks is None:
        raise LevelTooLow(
            f"cutting objects out needs a segmenter that returns masks; {describe(segmenter)} returns boxes only: "
            "use an instance-segmentation detector such as torchvision:maskrcnn_resnet50_fpn, or data with masks."
        )
    segments = [] if found.masks is None else [found.masks.rle(i) for i in range(len(found))]
    return Truth(found.boxes, found.labels, masks=Masks(segments, sample.height, sample.width))


def _with_truth(sample: Sample, truth: Truth) -> Sample:
    return Sample(
        sample.id, sample.source, truth, sample.width, sample.height, sample.image_id, file_name=sample.file_name
    )

"""COCO's average precision and recall, computed by hotcoco from columns.

The twelve numbers and the per-class ones are read from the evaluator's precision and recall tables, so that any cap on
detections per image works (the summary of the reference knows only 100). A value that is not defined, because nothing
of that kind is annotated, is ``None``, never -1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from hotcoco import COCO, COCOeval
from numpy.typing import NDArray

from misdetect.metrics.columns import DetectionColumns, TruthColumns
from misdetect.nouns.boxes import Floats
from misdetect.said.errors import BadArray

IOU_THRESHOLDS = tuple(round(0.5 + 0.05 * i, 2) for i in range(10))
AREA_RANGES = {"all": (0.0, 1e10), "small": (0.0, 32.0**2), "medium": (32.0**2, 96.0**2), "large": (96.0**2, 1e10)}
"""Square pixels, both ends included: COCO's definition."""

_TAKES_COLUMNS = hasattr(COCO, "from_arrays") and hasattr(COCO, "update_anns")
"""Older ones do not, and packages that people have beside ours want hotcoco 1.0.1."""
METRICS = ("AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl")


@dataclass(frozen=True, eq=False)
class ApResult:
    """``overall``: the twelve numbers in [0, 1] or ``None``; ``ap`` and ``ap50`` per class ``[C]``, NaN where
    undefined.
    """

    overall: dict[str, float | None]
    ap: Floats
    ap50: Floats


def average_precision(
    truth: TruthColumns, detections: DetectionColumns, *, max_detections: int = 100, masks: bool = False
) -> ApResult:
    """COCO AP and AR of ``detections`` against ``truth``, by boxes or (``masks``) by segments.

    ``max_detections`` is COCO's cap per image *and class*; AR1 and AR10 keep theirs, AR100 is the recall at the cap.
    """
    if max_detections < 1:
        raise BadArray(f"Expected a cap of at least 1 detection per image and class. Got {max_detections}.")
    if masks and (truth.segments is None or detections.segments is None):
        raise BadArray("Expected segments on both sides to score masks. Got boxes only.")
    evaluator = COCOeval(*_coco_objects(truth, detections, masks), "segm" if masks else "bbox")
    # a cap below 10 also bounds AR1 and AR10; the table must stay ascending and of three columns
    caps = [min(1, max_detections), min(10, max_detections), max_detections]
    if caps != [1, 10, 100]:
        evaluator.params.max_dets = caps
    evaluator.evaluate()
    evaluator.accumulate()
    tables: dict[str, Any] = evaluator.eval or {}
    precision, recall = np.asarray(tables["precision"]), np.asarray(tables["recall"])
    return _read(precision, recall)


def _coco_objects(truth: TruthColumns, detections: DetectionColumns, masks: bool) -> tuple[COCO, COCO]:
    images = [{"id": i + 1, "width": r.width, "height": r.height} for i, r in enumerate(truth.images)]
    categories = [{"id": i + 1, "name": name} for i, name in enumerate(truth.names)]
    if not _TAKES_COLUMNS:
        return (
            COCO(_dataset(images, categories, truth, {"iscrowd": truth.crowd}, masks)),
            COCO(_dataset(images, categories, detections, {"score": detections.scores}, masks)),
        )
    ground = COCO.from_arrays(
        images,
        categories,
        truth.image + 1,
        truth.label + 1,
        _xywh(truth.boxes),
        area=truth.areas,
        iscrowd=truth.crowd,
        segmentation=truth.segments if masks else None,
    )
    table = np.column_stack(
        [detections.image + 1, _xywh(detections.boxes), detections.scores, detections.label + 1]
    ).reshape(-1, 7)
    found = ground.load_res(table, segmentation=detections.segments if masks else None)
    if masks and len(detections):
        found.update_anns(ids=np.arange(1, len(detections) + 1), area=detections.areas)
    return ground, found


def _dataset(
    images: list[dict[str, Any]],
    categories: list[dict[str, Any]],
    side: TruthColumns | DetectionColumns,
    more: Mapping[str, NDArray[Any]],
    masks: bool,
) -> dict[str, Any]:
    """``side`` as a COCO data set with a record per annotation, which is slow, but which every hotcoco reads."""
    boxes = _xywh(side.boxes)
    areas = side.areas if masks or isinstance(side, TruthColumns) else boxes[:, 2] * boxes[:, 3]
    columns = {"image_id": side.image + 1, "category_id": side.label + 1, "bbox": boxes, "area": areas, **more}
    names, values = list(columns), [np.asarray(column).tolist() for column in columns.values()]
    rows = enumerate(zip(*values, strict=True), start=1)
    records = [{"id": i, **dict(zip(names, row, strict=True))} for i, row in rows]
    for record, segment in zip(records, side.segments or () if masks else (), strict=False):
        record["segmentation"] = segment
    return {"images": images, "categories": categories, "annotations": records}


def _xywh(boxes: Floats) -> Floats:
    """Corners to x, y, width, height, rounded to 1e-9 px: undoes what adding x and taking it away again did to a
    width.
    """
    return np.concatenate([boxes[:, :2], np.round(boxes[:, 2:] - boxes[:, :2], 9)], axis=1)


def _read(precision: NDArray[Any], recall: NDArray[Any]) -> ApResult:
    """The numbers from tables ``[10, 101, C, 4, 3]`` and ``[10, C, 4, 3]``, where -1 means undefined."""
    last = precision.shape[-1] - 1
    numbers = [
        _mean(precision[:, :, :, 0, last]),
        _mean(precision[0, :, :, 0, last]),
        _mean(precision[5, :, :, 0, last]),
        *(_mean(precision[:, :, :, area, last]) for area in (1, 2, 3)),
        *(_mean(recall[:, :, 0, cap]) for cap in range(last + 1)),
        *(_mean(recall[:, :, area, last]) for area in (1, 2, 3)),
    ]
    by_class = np.moveaxis(precision[:, :, :, 0, last], 2, 0)
    ap = np.array([_mean(c) for c in by_class], dtype=np.float64)
    ap50 = np.array([_mean(c[0]) for c in by_class], dtype=np.float64)
    return ApResult(dict(zip(METRICS, numbers, strict=True)), ap, ap50)


def _mean(table: NDArray[Any]) -> float | None:
    known = table[table > -1]
    return float(known.mean()) if known.size else None

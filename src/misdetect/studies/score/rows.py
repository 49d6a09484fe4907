"""The columns of a score run, one row per object, detection and ignored region; the way back from them; the ledger.

They hold everything that AP and TIDE are computed from, so that a run needs neither the truth nor the predictions any
more. Rows are made and read as whole columns: COCO's size is a matter of tenths of a second.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from misdetect.engine.store import Run
from misdetect.metrics import tide
from misdetect.metrics.columns import DetectionColumns, ImageRow, TruthColumns
from misdetect.metrics.scoring import distinct
from misdetect.metrics.tide import DETECTION_TYPES, TRUTH_TYPES, Assignment
from misdetect.nouns.boxes import SIDES, Bools, Ints
from misdetect.studies.columns import box

OBJECT, DETECTION, IGNORED = KINDS = ("object", "detection", "ignored")
_WORD = pa.dictionary(pa.int32(), pa.string())
"""Text of which there are few different ones, by number: a fraction of the time to move and to write."""


def schema(numbered: bool) -> pa.Schema:
    """Columns of a run; image ids are numbers in some data (``numbered``), text in other."""
    return pa.schema(
        [
            ("kind", _WORD),
            ("image", _WORD),
            ("image_id", pa.int64() if numbered else pa.string()),
            ("file", _WORD),
            ("width", pa.int32()),
            ("height", pa.int32()),
            ("id", pa.int64()),
            ("label", _WORD),
            *box(),
            ("score", pa.float64()),
            ("found", pa.bool_()),
            ("tide", _WORD),
            ("matched", pa.int64()),
            ("matched_iou", pa.float64()),
            ("tide_without_crowds", _WORD),
            ("matched_without_crowds", pa.int64()),
            ("area", pa.float64()),
            ("mask", pa.string()),
        ]
    )


def is_numbered(images: Sequence[ImageRow]) -> bool:
    """Whether all of ``images`` have numbers for ids."""
    return all(isinstance(image.image_id, int) for image in images)


def table(t: TruthColumns, d: DetectionColumns, a: Assignment) -> pa.Table:
    """The rows with ``case_index``, by image, in each its annotations and then its detections."""
    lost = np.where(np.isin(a.truth_type, (tide.FOUND, tide.CROWD)), -1, a.truth_type)  # other columns say these
    beside = a.detection_type == tide.IGNORED
    truths = {
        **_common(t, t),
        "kind": _words(np.where(t.crowd, KINDS.index(IGNORED), KINDS.index(OBJECT)), KINDS),
        "found": pa.array(a.truth_type == tide.FOUND, mask=t.crowd),
        "tide": _words(lost, TRUTH_TYPES),
        "matched": _picked(d.ids, a.detection_of),
        "matched_iou": pa.array(a.truth_overlap),
    }
    detections = {
        **_common(t, d),
        "kind": _words(np.full(len(d), KINDS.index(DETECTION)), KINDS),
        "score": pa.array(d.scores),
        "tide": _words(a.detection_type, DETECTION_TYPES),
        "matched": _picked(t.ids, a.truth_of),
        "matched_iou": pa.array(a.overlap),
        "tide_without_crowds": _words(np.where(beside, a.error, -1), DETECTION_TYPES),
        "matched_without_crowds": _picked(t.ids, np.where(beside, a.target, -1)),
    }
    both = pa.concat_tables([pa.table(truths), pa.table(detections)], promote_options="default")
    return both.unify_dictionaries().take(pa.array(np.argsort(both["case_index"].to_numpy(), kind="stable")))


def _common(t: TruthColumns, part: TruthColumns | DetectionColumns) -> dict[str, pa.Array]:
    """What annotations and detections have alike."""
    image, numbered = pa.array(part.image), is_numbered(t.images)
    ids = [row.image_id if numbered else str(row.image_id) for row in t.images]
    if part.segments is None:
        masks = pa.nulls(len(part), pa.string())
    else:
        counts = [segment["counts"] for segment in part.segments]
        masks = pa.array([c.decode() if isinstance(c, bytes) else c for c in counts], pa.string())
    return {
        "case_index": image,
        "image": _words(part.image, [row.sample for row in t.images]),
        "image_id": pa.array(ids, pa.int64() if numbered else pa.string()).take(image),
        "file": _words(part.image, [row.name for row in t.images]),
        "width": pa.array([row.width for row in t.images], pa.int32()).take(image),
        "height": pa.array([row.height for row in t.images], pa.int32()).take(image),
        "id": pa.array(part.ids),
        "label": _words(part.label, distinct(t.names)),
        **{name: pa.array(part.boxes[:, i]) for i, name in enumerate(SIDES)},
        "area": pa.array(part.areas),
        "mask": masks,
    }


def _words(codes: Ints, words: Sequence[str]) -> pa.DictionaryArray:
    """``words[codes]``, null where a code is -1."""
    indices = pa.array(codes.astype(np.int32), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(words), pa.string()))


def _picked(ids: Ints, index: Ints) -> pa.Array:
    """``ids[index]``, null where ``index`` is -1."""
    return pa.array(ids).take(pa.array(index, mask=index < 0))


COLUMNS = (
    "case_index, kind, file, image_id, width, height, id, label, x0, y0, x1, y1, score, "
    "coalesce(found, false) AS found, tide, matched, matched_iou, tide_without_crowds, matched_without_crowds, area, "
    "mask"
)
"""What ``columns_of`` reads."""


def columns_of(
    rows: pa.Table, names: Sequence[str], images: int, *, masks: bool = False, left_out: int = 0
) -> tuple[TruthColumns, DetectionColumns, Assignment]:
    """What ``table`` was made of; ``rows`` have ``COLUMNS``. Of images without a row only that they are there is known,
    and nothing else matters."""
    if (np.diff(rows["case_index"].to_numpy()) < 0).any():  # of several parts
        rows = rows.take(pa.array(np.argsort(rows["case_index"].to_numpy(), kind="stable")))
    kind = _codes(rows["kind"], KINDS)
    detection = kind == KINDS.index(DETECTION)
    part = {
        "image": rows["case_index"].to_numpy(),
        "label": _codes(rows["label"], distinct(names)),
        "boxes": np.stack([rows[name].to_numpy() for name in SIDES], axis=1),
        "areas": rows["area"].to_numpy(),
        "ids": rows["id"].to_numpy(),
    }
    segments = _segments(rows, detection) if masks else (None, None)
    t = TruthColumns(
        images=_images(rows, images),
        names=tuple(names),
        crowd=kind[~detection] == KINDS.index(IGNORED),
        segments=segments[0],
        **{name: column[~detection] for name, column in part.items()},
    )
    d = DetectionColumns(
        scores=rows["score"].to_numpy()[detection],
        segments=segments[1],
        left_out=left_out,
        **{name: column[detection] for name, column in part.items()},
    )
    return t, d, _assignment(rows, detection, t, d)


def _assignment(rows: pa.Table, detection: Bools, t: TruthColumns, d: DetectionColumns) -> Assignment:
    found = rows["found"].to_numpy()[~detection]
    lost, detection_type = (
        _codes(rows["tide"], TRUTH_TYPES)[~detection],
        _codes(rows["tide"], DETECTION_TYPES)[detection],
    )
    overlap = rows["matched_iou"].to_numpy()
    beside = detection_type == tide.IGNORED
    without = _codes(rows["tide_without_crowds"], DETECTION_TYPES)[detection]
    truth_of = _places(rows["matched"], detection, d.image, t)
    return Assignment(
        detection_type=detection_type,
        truth_of=truth_of,
        overlap=overlap[detection],
        truth_type=np.where(t.crowd, tide.CROWD, np.where(found, tide.FOUND, lost)),
        detection_of=_places(rows["matched"], ~detection, t.image, d),
        truth_overlap=overlap[~detection],
        error=np.where(beside, without, detection_type),
        target=np.where(beside, _places(rows["matched_without_crowds"], detection, d.image, t), truth_of),
    )


def _images(rows: pa.Table, count: int) -> tuple[ImageRow, ...]:
    made = [ImageRow("", "", 0, 0)] * count
    places, first = np.unique(rows["case_index"].to_numpy(), return_index=True)
    known = rows.select(["file", "image_id", "width", "height"]).take(pa.array(first)).to_pylist()
    for place, row in zip(places.tolist(), known, strict=True):
        made[place] = ImageRow(row["file"], row["image_id"], row["width"], row["height"])
    return tuple(made)


def _codes(words: pa.ChunkedArray, known: Sequence[str]) -> Ints:
    """The place of each of ``words`` among ``known``, -1 where it is null or not among them."""
    coded = words.combine_chunks().dictionary_encode()
    place = {word: i for i, word in enumerate(known)}
    of_word = np.array([*(place.get(word, -1) for word in coded.dictionary.to_pylist()), -1], dtype=np.int64)
    return np.asarray(of_word[coded.indices.fill_null(-1).to_numpy()])


def _segments(rows: pa.Table, detection: Bools) -> tuple[list[Any], list[Any]]:
    """Run lengths of the truths and of the detections."""
    found: tuple[list[Any], list[Any]] = [], []
    columns = (rows[name].to_pylist() for name in ("height", "width", "mask"))
    for of_detection, height, width, counts in zip(detection.tolist(), *columns, strict=True):
        found[of_detection].append({"size": [height, width], "counts": counts})
    return found


def _places(ids: pa.ChunkedArray, chosen: Bools, image: Ints, among: TruthColumns | DetectionColumns) -> Ints:
    """The row of ``among`` that has each of the ``chosen`` ``ids`` in the same ``image``, -1 where it is null."""
    wanted, known = ids.fill_null(0).to_numpy()[chosen], ids.is_valid().to_numpy()[chosen]
    found = np.full(len(wanted), -1, dtype=np.int64)
    if not known.any():
        return found
    numbers, dense = np.unique(among.ids, return_inverse=True)
    keys = among.image * len(numbers) + dense
    order = np.argsort(keys, kind="stable")
    asked = image[known] * len(numbers) + np.searchsorted(numbers, wanted[known])
    found[known] = order[np.searchsorted(keys[order], asked)]
    return found


def ledger(run: Run) -> str:
    """Objects (found, missed, ignored) with the detection that found them, and the detections that are wrong."""
    box = ", ".join(f"t.{side}" for side in SIDES)
    common = f"""t."case", t.image, 'clean' AS condition, false AS control, t.label, {box}, t.tide"""
    return f"""
        (SELECT {common}, t.id AS object, CASE WHEN t.kind = 'ignored' THEN t.kind WHEN t.found THEN 'found'
        ELSE 'missed' END AS outcome, CASE WHEN t.kind = 'ignored' THEN 'unknown' WHEN t.found THEN 'harmless'
        ELSE 'harmful' END AS harm, CASE WHEN t.tide = 'Cls' THEN d.label END AS became,
        CASE WHEN t.found THEN d.score END AS score, CASE WHEN t.found THEN t.matched_iou END AS iou
        FROM rows t LEFT JOIN (FROM rows WHERE kind = 'detection') d ON t.case_index = d.case_index AND t.matched = d.id
        WHERE t.kind <> 'detection' ORDER BY t.case_index, t.row)
        UNION ALL BY NAME
        SELECT {common}, NULL AS object, 'extra' AS outcome, 'harmful' AS harm, t.score, t.matched_iou AS iou
        FROM rows t WHERE t.kind = 'detection' AND t.tide NOT IN ('TP', 'ignored', 'capped')"""

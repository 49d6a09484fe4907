"""``predictions:results.json`` — stored COCO results, as columns.

Stored predictions are no ``Detector``: they cannot look at a new image, and so serve only what needs no model (scoring,
TIDE). Reading checks every record and names the first that is wrong; whether boxes are x, y, width, height, as COCO
has it, and not corners, cannot be seen in the file.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from hotcoco import mask as coco_mask
from numpy.typing import NDArray

from misdetect.data.dataset import Dataset, Sample
from misdetect.data.sanity import FARTHEST
from misdetect.data.untrusted import read_json
from misdetect.detectors.family import Family
from misdetect.metrics.columns import DetectionColumns, TruthColumns
from misdetect.nouns.boxes import Floats, Ints, xywh_to_xyxy
from misdetect.nouns.detections import Detections
from misdetect.nouns.masks import Masks, checked_runs
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadArray, BadData, BadSpec

FAMILY = Family(
    "stored COCO results, for what needs no model",
    "none",
    "predictions:results.json",
    "misdetect.detectors.predictions:load_predictions",
    stored=True,
    place=180,
)
ImageId = int | str
_SHOWN = 5
_AT_ONCE = 10_000
"""Records that are in memory while the detections of a run are read."""


@dataclass(frozen=True, eq=False, repr=False)
class Results:
    """``N`` stored detections: ``image_ids`` (int64, or str objects), ``category_ids`` ``[N]`` int64, ``boxes``
    ``[N, 4]`` x0, y0, x1, y1 in pixels, ``scores`` ``[N]`` in [0, 1], in file order; ``segments`` COCO RLE or polygons
    as they came, or ``None`` where the file has none; ``fingerprint`` a hash of the file.
    """

    path: Path
    image_ids: NDArray[Any]
    category_ids: Ints
    boxes: Floats
    scores: Floats
    segments: Sequence[Any] | None
    fingerprint: str

    def __len__(self) -> int:
        return len(self.scores)

    def __repr__(self) -> str:
        return f"Results({str(self.path)!r}: {len(self)} detections)"

    @cached_property
    def _rows(self) -> dict[ImageId, Ints]:
        order = np.argsort(self.image_ids, kind="stable")
        ordered = self.image_ids[order]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]).tolist() if len(order) else []
        edges = [*starts, len(order)]
        return {_plain(ordered[a]): order[a:b] for a, b in pairwise(edges)}

    @property
    def images(self) -> set[ImageId]:
        """The ids of the images that have detections."""
        return set(self._rows)

    def rows_of(self, image_id: ImageId) -> Ints:
        """The rows of one image, in file order; empty where it has none."""
        return self._rows.get(image_id, np.zeros(0, np.int64))


def results_in_pieces(records: Iterable[Any], path: Path, fingerprint: str) -> Results:
    """As ``results_of``, for more ``records`` than should be in memory at once: a few at a time become columns."""
    left, pieces = iter(records), []
    while some := list(islice(left, _AT_ONCE)):
        pieces.append(results_of(some, path, fingerprint))
    if len(pieces) < 2:
        return pieces[0] if pieces else results_of([], path, fingerprint)
    if len({piece.image_ids.dtype for piece in pieces}) > 1:
        raise BadData(f"{path}: image_id is a number in some records and text in others.")
    segments = [piece.segments or [None] * len(piece) for piece in pieces]
    has_segments = any(piece.segments is not None for piece in pieces)
    return Results(
        path,
        np.concatenate([piece.image_ids for piece in pieces]),
        np.concatenate([piece.category_ids for piece in pieces]),
        np.concatenate([piece.boxes for piece in pieces]),
        np.concatenate([piece.scores for piece in pieces]),
        list(chain.from_iterable(segments)) if has_segments else None,
        fingerprint,
    )


def _plain(value: Any) -> ImageId:
    return value if isinstance(value, str) else int(value)


def read_results(path: str | Path) -> Results:
    """Read and check a COCO results file: a JSON list of records with ``image_id``, ``category_id``, ``bbox`` (x, y,
    width, height) and ``score``; ``bbox`` may be left out where there is a ``segmentation``.
    """
    path = Path(path)
    records, data = read_json(path, what="COCO results")
    if not isinstance(records, list):
        found = "a COCO annotation file" if isinstance(records, dict) and "annotations" in records else "no list"
        raise BadData(f"{path}: expected COCO results, a JSON list of detections. Got {found}.")
    return results_of(records, path, blake2b(data, digest_size=16).hexdigest())


def results_of(records: list[Any], path: Path, fingerprint: str) -> Results:
    """Check ``records`` as ``read_results`` does; messages call them by ``path``."""
    segments = [r.get("segmentation") if isinstance(r, dict) else None for r in records]
    image_ids = _column(path, records, "image_id", _image_ids, "a whole number or text")
    category_ids = _column(path, records, "category_id", _integers, "a whole number")
    scores = _column(path, records, "score", _shares, "a number in [0, 1]")
    boxes = _boxes(path, records, segments)
    has_segments = any(segment is not None for segment in segments)
    return Results(
        path,
        image_ids,
        category_ids,
        xywh_to_xyxy(boxes),
        scores,
        segments if has_segments else None,
        fingerprint,
    )


def _column(
    path: Path, records: list[Any], key: str, convert: Callable[[list[Any]], NDArray[Any] | None], wanted: str
) -> NDArray[Any]:
    """Field ``key`` of all records at once; only where that fails are they looked at one by one to name the culprit."""
    try:
        column = convert([record[key] for record in records])
    except (KeyError, TypeError, ValueError, OverflowError, IndexError):
        column = None
    if column is not None:
        return column
    for i, record in enumerate(records):
        if not isinstance(record, dict):
            raise BadData(
                f"{path}: record {i} is {_shown(record)}; expected an object with 'image_id', 'bbox' and so on."
            )
        if key not in record:
            raise BadData(f"{path}: record {i} has no {key!r}; expected {wanted}.")
        try:
            fits = convert([record[key]]) is not None
        except (TypeError, ValueError, OverflowError):
            fits = False
        if not fits:
            raise BadData(f"{path}: record {i} has {key} {_shown(record[key])}; expected {wanted}.")
    raise BadData(f"{path}: {key} is a number in some records and text in others; expected {wanted}.")


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _numeric(values: list[Any], kinds: str) -> NDArray[Any] | None:
    """The array, if NumPy finds its values to be of ``kinds`` (so that text and truth values are not numbers)."""
    if bool in set(map(type, chain.from_iterable(values) if values and isinstance(values[0], list) else values)):
        return None  # NumPy takes them for 0 and 1
    array = np.array(values) if values else np.zeros(0)
    return array if not values or array.dtype.kind in kinds else None


def _integers(values: list[Any]) -> NDArray[Any] | None:
    array = _numeric(values, "iuf")
    if array is None or array.ndim != 1 or not (np.abs(array) < 1 << 62).all() or (array != np.floor(array)).any():
        return None
    return array.astype(np.int64)


def _image_ids(values: list[Any]) -> NDArray[Any] | None:
    if values and all(isinstance(value, str) for value in values):
        return np.array(values, dtype=object)
    return _integers(values)


def _shares(values: list[Any]) -> NDArray[Any] | None:
    array = _numeric(values, "iuf")
    if array is None or array.ndim != 1 or not ((array >= 0) & (array <= 1)).all():  # NaN compares false
        return None
    return array.astype(np.float64)


def _xywh(values: list[Any]) -> NDArray[Any] | None:
    array = _numeric(values, "iuf")
    if array is None:
        return None
    array = array.astype(np.float64).reshape(0, 4) if not values else array.astype(np.float64)
    if array.ndim != 2 or array.shape[1] != 4 or not (np.abs(array) <= FARTHEST).all() or (array[:, 2:] < 0).any():
        return None
    return array


def _boxes(path: Path, records: list[Any], segments: list[Any]) -> Floats:
    """Boxes ``[N, 4]`` x, y, width, height; from the run lengths where a record has only those, as COCO's API does."""
    wanted = "four numbers of pixels x, y, width, height with width and height of at least 0"
    bare = [i for i, record in enumerate(records) if "bbox" not in record and isinstance(segments[i], dict)]
    if bare:
        records = list(records)
        for i in bare:
            try:
                box = np.asarray(coco_mask.to_bbox(checked_runs(segments[i])), dtype=np.float64).reshape(-1).tolist()
            except Exception as error:
                raise BadData(f"{path}: record {i} has a segmentation that is no COCO run length: {error}.") from error
            records[i] = {"bbox": box}
    return _column(path, records, "bbox", _xywh, wanted)


class StoredPredictions:
    """Stored detections of a data set's images, by image id. ``label_of`` category ids comes from the data, or, where
    ``categories`` (id → name) are given, by name. Has no ``detect``: it is below every access level.
    """

    def __init__(self, results: Results, categories: dict[int, str] | None = None, spec: str = "") -> None:
        self.results, self.categories = results, categories
        self.spec = spec or f"predictions:{results.path}"
        self.fingerprint = results.fingerprint

    def __repr__(self) -> str:
        return f"StoredPredictions({self.spec!r}: {len(self.results)} detections)"

    def label_of(self, dataset: Dataset) -> dict[int, int]:
        """The label (index into the data's names) of each category id."""
        if self.categories is None:
            return {category: label for label, category in enumerate(dataset.category_ids)}
        labels = {name: label for label, name in enumerate(dataset.names)}
        return {category: labels[name] for category, name in self.categories.items() if name in labels}

    def check(self, dataset: Dataset, known: set[ImageId] | None = None) -> None:
        """Raise unless the results are about ``dataset``: no unknown category, and at least one image that is
        ``known``, its image ids."""
        self._refuse_unknown(self.results.category_ids, dataset)
        known = {sample.image_id for sample in dataset} if known is None else known
        if len(self.results) and not known & self.results.images:
            theirs, ours = sorted(self.results.images)[:_SHOWN], sorted(known, key=str)[:_SHOWN]
            raise BadData(
                f"{self.results.path}: none of its image ids ({', '.join(map(repr, theirs))}, …) is in {dataset.spec} "
                f"({', '.join(map(repr, ours))}, …)."
            )

    def for_sample(self, sample: Sample, dataset: Dataset) -> Detections:
        """The stored detections of ``sample``, labels indexing ``dataset.names``; empty where there are none."""
        rows = self.results.rows_of(sample.image_id)
        categories = self.results.category_ids[rows]
        label_of = self._refuse_unknown(categories, dataset)
        labels = np.array([label_of[category] for category in categories.tolist()], dtype=np.int64)
        masks = None
        if self.results.segments is not None and len(rows):
            segments = [self.results.segments[row] for row in rows]
            masks = None if any(s is None for s in segments) else Masks(segments, sample.height, sample.width)
        try:
            return Detections(self.results.boxes[rows], self.results.scores[rows], labels, masks)
        except BadArray as error:
            raise BadData(f"{self.results.path}: image {sample.image_id!r}: {error}") from error

    def _refuse_unknown(self, categories: Ints, dataset: Dataset) -> dict[int, int]:
        label_of = self.label_of(dataset)
        unknown = sorted(set(np.unique(categories).tolist()) - set(label_of))
        if unknown:
            raise BadData(
                f"{self.results.path}: category ids {', '.join(map(str, unknown[:_SHOWN]))} are not among the "
                f"{len(dataset.category_ids)} categories of {dataset.spec}; give truth=FILE where the ids differ."
            )
        return label_of


def load_predictions(spec: Spec) -> StoredPredictions:
    """``predictions:FILE[,truth=COCO-FILE]``; ``truth`` names the categories, so that they are joined by name."""
    if not spec.target:
        raise BadSpec(f"{spec.text!r}: expected predictions:FILE, a COCO results file.")
    truth = spec.take("truth", "")
    spec.finish()
    return StoredPredictions(read_results(spec.target), _categories(truth) if truth else None, spec.text)


def _categories(path: str) -> dict[int, str]:
    try:
        content, _ = read_json(Path(path), what="COCO JSON with 'categories'")
        return {int(category["id"]): str(category["name"]) for category in content["categories"]}
    except BadData:
        raise
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise BadData(
            f"{path}: expected COCO JSON with 'categories', a list of objects with 'id' and 'name'."
        ) from error


def detection_columns(
    predictions: StoredPredictions, truth: TruthColumns, dataset: Dataset, *, masks: bool = False
) -> DetectionColumns:
    """The stored ``predictions`` of the images of ``truth``, which is all of ``dataset`` or a part of it.

    Predictions of other images of ``dataset`` are left out and counted; those of images it does not have are an error.
    """
    results = predictions.results
    place = {row.image_id: i for i, row in enumerate(truth.images)}
    known = {s.image_id for s in dataset} if len(dataset) > len(truth.images) else set(place)
    predictions.check(dataset, known)
    image_ids = results.image_ids.tolist()
    image = np.array([place.get(i, -1) for i in image_ids], dtype=np.int64)
    elsewhere = np.flatnonzero(image < 0)
    if elsewhere.size:
        for row in elsewhere.tolist():
            if (found := image_ids[row]) not in known:
                raise BadData(
                    f"{results.path}: record {row} is about image {found!r}, which is not among the {len(dataset)} "
                    f"images of {dataset.spec}; remove it or score against the data that was predicted on."
                )
    rows = np.flatnonzero(image >= 0)
    label_of = predictions.label_of(dataset)
    segments = _stored_segments(results, rows, image[rows], truth) if masks else None
    return DetectionColumns.of(
        image[rows],
        [label_of[category] for category in results.category_ids[rows].tolist()],
        results.boxes[rows],
        results.scores[rows],
        # by mask, small and large are the mask's; the reference takes the box's where a record has both
        areas=np.asarray(coco_mask.area(segments), dtype=np.float64) if segments else None,
        ids=rows,
        segments=segments,
        left_out=int(elsewhere.size),
    )


def _stored_segments(results: Results, rows: Ints, image: Ints, truth: TruthColumns) -> list[Any] | None:
    """Run lengths of the stored masks, each checked against its image; ``None`` where a record has none."""
    stored = results.segments or [None] * len(results)
    found: list[Any] = []
    for row, where in zip(rows.tolist(), image.tolist(), strict=True):
        if stored[row] is None:
            return None
        if not isinstance(stored[row], (list, dict)) or not stored[row]:
            raise BadData(f"{results.path}: record {row} has segmentation {_shown(stored[row])}; expected a mask.")
        size = truth.images[where]
        try:
            found.append(Masks([stored[row]], size.height, size.width).rle(0))
        except BadArray as error:
            raise BadData(f"{results.path}: record {row} of image {size.image_id!r}: {error}") from error
    return found

"""``Detections`` and ``Truth``: what a detector said about one image, and what is really there.

Both are frozen sets of boxes with fields of equal length, validated when made, indexable like arrays, and legal when
empty. Labels are indices into the names of the detector (``Detections``) or of the data (``Truth``); they are joined by
name, never by number. Converters to and from the common formats are duck-typed and import none of those libraries.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from misdetect.nouns.boxes import Bools, Floats, Ints, as_boxes, xywh_to_xyxy, xyxy_to_xywh
from misdetect.nouns.masks import Masks
from misdetect.said.errors import BadArray


def _numpy(value: Any) -> NDArray[Any]:
    """A NumPy view of an array of any framework (torch tensors are detached and moved to the CPU)."""
    for method in ("detach", "cpu"):
        value = getattr(value, method)() if hasattr(value, method) else value
    if "bfloat16" in str(getattr(value, "dtype", "")) and hasattr(value, "float"):
        value = value.float()  # NumPy has no bfloat16; float32 holds every one of its values
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise BadArray(f"Expected an array. Got {type(value).__name__}: {error}.") from error


def _column(value: ArrayLike, dtype: type, length: int, what: str) -> NDArray[Any]:
    """``value`` as a 1-D array of ``length`` entries, integers only where integers are meant."""
    array = _numpy(value)
    if array.size == 0:
        array = array.reshape(0)
    if array.shape != (length,):
        raise BadArray(f"Expected {what} to have shape [{length}], one per box. Got {list(array.shape)}.")
    if array.size and array.dtype.kind not in "fiub":
        raise BadArray(f"Expected {what} to be numbers. Got {array.dtype} values such as {array[0]!r}.")
    with np.errstate(invalid="ignore"):  # NaN and infinity become some number, and are named below
        result: NDArray[Any] = array.astype(dtype)
    if dtype is np.int64:
        changed = result != array
        if changed.any():
            raise BadArray(
                f"Expected {what} to be whole numbers. Got {array.dtype} values such as {array[changed][0]}."
            )
    return result


def _masks(value: Any, length: int) -> Masks | None:
    """``value`` as ``length`` masks; an array ``[N, H, W]`` will do."""
    if value is None:
        return None
    if isinstance(value, Masks):
        masks = value
    else:
        array = _numpy(value)
        if length == 0 and array.size == 0 and array.ndim < 3:
            return None
        masks = Masks.from_array(array)
    if len(masks) != length:
        raise BadArray(f"Expected {length} masks, one per box. Got {len(masks)}.")
    return masks


class _BoxSet:
    """What ``Detections`` and ``Truth`` share: box validation, length, indexing. Fields are per box or ``None``."""

    boxes: Floats

    def _check_boxes(self) -> int:
        boxes = as_boxes(_numpy(self.boxes)).astype(np.float64)
        bad = ~np.isfinite(boxes).all(axis=1)
        if bad.any():
            raise BadArray(f"Expected finite boxes. Box {int(bad.argmax())} is {boxes[bad.argmax()].tolist()}.")
        bad = (boxes[:, 2:] < boxes[:, :2]).any(axis=1)
        if bad.any():
            raise BadArray(
                f"Expected boxes as x0, y0, x1, y1 with x0 <= x1 and y0 <= y1. "
                f"Box {int(bad.argmax())} is {boxes[bad.argmax()].tolist()}."
            )
        object.__setattr__(self, "boxes", boxes)
        return len(boxes)

    def _freeze(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def __len__(self) -> int:
        return len(self.boxes)

    def __getitem__(self, index: Any) -> Self:
        """The subset chosen by an index, slice, index array or bool mask; always a set, never a single box."""
        if isinstance(index, list) or hasattr(index, "__array__"):
            index = _numpy(index)  # NumPy would read a bool tensor as the indices 0 and 1
            index = index if index.size else slice(0)  # and an empty list as floats, which are no index
        chosen = np.atleast_1d(np.arange(len(self))[index])
        columns: dict[str, Any] = {}
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, tuple):
                value = tuple(value[i] for i in chosen)
            elif value is not None:
                value = value[chosen]
            columns[field.name] = value
        return self.instead(**columns)

    def instead(self, **columns: Any) -> Self:
        """The same with other ``columns``, which must be valid: what was checked once is not checked again."""
        made = object.__new__(type(self))
        for field in fields(self):  # type: ignore[arg-type]
            object.__setattr__(made, field.name, columns.get(field.name, getattr(self, field.name)))
        made._freeze()
        return made

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))  # type: ignore[arg-type]

    __hash__ = None  # type: ignore[assignment]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Masks) and isinstance(b, Masks):
        return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
    if a is None or b is None or isinstance(a, tuple):
        return bool(a is b or a == b)
    return bool(np.array_equal(a, b))


@dataclass(frozen=True, eq=False, repr=False)
class Detections(_BoxSet):
    """What a detector reported for one image.

    ``boxes`` ``[N, 4]`` x0, y0, x1, y1 in original pixels; ``scores`` ``[N]`` in [0, 1]; ``labels`` ``[N]``
    indices into the detector's ``names``; ``masks`` ``N`` masks of the image's size, or ``None``.
    """

    boxes: Floats
    scores: Floats
    labels: Ints
    masks: Masks | None = None

    def __post_init__(self) -> None:
        n = self._check_boxes()
        scores = _column(self.scores, np.float64, n, "scores")
        if not np.isfinite(scores).all():
            raise BadArray(f"Expected finite scores. Got {scores[~np.isfinite(scores)][0]}.")
        if n and (scores.min() < 0 or scores.max() > 1):
            worst = scores.min() if scores.min() < 0 else scores.max()
            raise BadArray(f"Expected scores in [0, 1]. Got {worst:g}.")
        labels = _column(self.labels, np.int64, n, "labels")
        if n and labels.min() < 0:
            raise BadArray(f"Expected labels to be indices >= 0 into names. Got {labels.min()}.")
        object.__setattr__(self, "masks", _masks(self.masks, n))
        object.__setattr__(self, "scores", scores)
        object.__setattr__(self, "labels", labels)
        self._freeze()

    def __repr__(self) -> str:
        return f"Detections({len(self)} boxes{'' if self.masks is None else ', with masks'})"

    @classmethod
    def empty(cls) -> "Detections":
        """Nothing detected."""
        return cls(np.zeros((0, 4)), np.zeros(0), np.zeros(0, dtype=np.int64))

    def above(self, score: float) -> "Detections":
        """Those with a score ``>= score``."""
        return self[self.scores >= score]

    @classmethod
    def of(cls, value: Any) -> "Detections":
        """From whatever a detector's author finds natural: see the ``from_*`` methods for what is understood."""
        if isinstance(value, Detections):
            return value
        if isinstance(value, Mapping) and "boxes" in value:
            return cls.from_torchvision(value)
        if hasattr(value, "xyxy"):
            return cls.from_supervision(value)
        if hasattr(value, "boxes") and hasattr(value, "scores"):
            return cls.from_maite(value)
        if isinstance(value, tuple) and len(value) == 3:
            return cls(*value)
        raise BadArray(
            "Expected detections as Detections, a dict with 'boxes', 'scores' and 'labels', a supervision or MAITE "
            f"object, or a tuple (boxes, scores, labels). Got {type(value).__name__}."
        )

    @classmethod
    def from_torchvision(cls, output: Mapping[str, Any], *, label_offset: int = 0) -> "Detections":
        """From a torchvision or torchmetrics dict (``boxes`` xyxy, ``scores``, ``labels``, maybe ``masks``).

        ``label_offset`` is subtracted from the labels: 1 for torchvision models, whose label 0 is the background.
        Soft masks (``[N, 1, H, W]``) are cut at 0.5. Also reads what Hugging Face post-processing returns.
        """
        for key in ("boxes", "scores", "labels"):
            if key not in output:
                raise BadArray(f"Expected a dict with 'boxes', 'scores' and 'labels'. Got {sorted(output)}.")
        masks = output.get("masks")
        if masks is not None:
            soft = _numpy(masks)
            soft = soft[:, 0] if soft.ndim == 4 else soft
            masks = soft >= 0.5 if soft.dtype.kind == "f" else soft
        labels = _numpy(output["labels"])
        if label_offset:
            labels = _column(labels, np.int64, labels.size, "labels") - label_offset
        return cls(output["boxes"], output["scores"], labels, masks)  # type: ignore[arg-type]

    from_hf = from_torchvision
    """Hugging Face ``post_process_object_detection`` returns the same dict, with labels starting at 0."""

    @classmethod
    def from_supervision(cls, detections: Any) -> "Detections":
        """From a ``supervision.Detections`` (``xyxy``, ``confidence``, ``class_id``, ``mask``)."""
        boxes = _numpy(detections.xyxy)
        if len(boxes) and (detections.confidence is None or detections.class_id is None):
            raise BadArray("Expected supervision detections with confidence and class_id. Got None.")
        masks = None if detections.mask is None else _numpy(detections.mask)
        scores = np.zeros(0) if detections.confidence is None else detections.confidence
        labels = np.zeros(0, dtype=np.int64) if detections.class_id is None else detections.class_id
        return cls(boxes, scores, labels, masks)  # type: ignore[arg-type]

    @classmethod
    def from_maite(cls, target: Any) -> "Detections":
        """From a MAITE object-detection target; class probabilities ``[N, C]`` become the best class and its score.

        There is no ``to_maite``: ``Detections`` has the attributes of such a target and is one.
        """
        scores = _numpy(target.scores)
        labels = _numpy(target.labels)
        if scores.ndim == 2 and scores.size:
            labels, scores = scores.argmax(axis=1), scores.max(axis=1)
        return cls(_numpy(target.boxes), scores, labels)

    @classmethod
    def of_whole_image(cls, scores: ArrayLike, width: int, height: int) -> "Detections":
        """What a classifier says, as detections: ``scores`` ``[C]`` in [0, 1], one per class, each with a box around
        the whole image of ``width`` × ``height`` pixels."""
        column = _numpy(scores).reshape(-1)
        boxes = np.tile(np.array([0.0, 0.0, width, height]), (len(column), 1))
        return cls(boxes, column, np.arange(len(column)))

    @classmethod
    def from_coco(cls, results: Iterable[Mapping[str, Any]], label_of: Mapping[int, int]) -> "Detections":
        """From COCO result records of one image; ``label_of`` maps category ids to label indices."""
        records = list(results)
        for record in records:
            if absent := [key for key in ("bbox", "score", "category_id") if key not in record]:
                raise BadArray(f"Expected COCO results with bbox, score and category_id. Got one without {absent[0]}.")
            if record["category_id"] not in label_of:
                raise BadArray(f"Expected known category ids. Got {record['category_id']!r}.")
        masks = None
        if records and all("segmentation" in r for r in records):
            first = records[0]["segmentation"]
            if not isinstance(first, Mapping) or len(first.get("size", ())) != 2:
                raise BadArray("Expected the segmentation of COCO results as run lengths with a size and counts.")
            masks = Masks([r["segmentation"] for r in records], *first["size"])
        return cls(
            xywh_to_xyxy([r["bbox"] for r in records]),
            np.array([r["score"] for r in records]),
            np.array([label_of[r["category_id"]] for r in records], dtype=np.int64),
            masks,
        )

    def to_coco(self, image_id: int | str, category_ids: Sequence[int]) -> list[dict[str, Any]]:
        """COCO result records (``bbox`` as x, y, width, height); ``category_ids[label]`` is the category."""
        if len(self) and self.labels.max() >= len(category_ids):
            raise BadArray(f"Expected a category id for label {self.labels.max()}. Got {len(category_ids)} of them.")
        records = [
            {"image_id": image_id, "category_id": category_ids[label], "bbox": box, "score": score}
            for box, score, label in zip(
                xyxy_to_xywh(self.boxes).tolist(), self.scores.tolist(), self.labels.tolist(), strict=True
            )
        ]
        if self.masks is not None:
            for i, record in enumerate(records):
                record["segmentation"] = self.masks.rle(i)
        return records

    def to_torchvision(self, *, label_offset: int = 0) -> dict[str, NDArray[Any]]:
        """A dict of NumPy arrays in torchvision's layout; ``label_offset`` is added to the labels."""
        output = {"boxes": self.boxes, "scores": self.scores, "labels": self.labels + label_offset}
        return output if self.masks is None else output | {"masks": self.masks.to_array()}

    def to_supervision(self) -> dict[str, Any]:
        """Arguments for the constructor: ``supervision.Detections(**detections.to_supervision())``."""
        mask = None if self.masks is None else self.masks.to_array()
        return {"xyxy": self.boxes, "confidence": self.scores, "class_id": self.labels, "mask": mask}


class Said(Detections):
    """What a detector said of one image, before anyone asks whether that can be: corners in the wrong order, scores
    beyond 1, labels without a name. Only who looks for mistakes of wiring wants to see it (``studies/doctor``)."""

    def __post_init__(self) -> None:
        boxes = as_boxes(_numpy(self.boxes)).astype(np.float64)
        object.__setattr__(self, "boxes", boxes)
        object.__setattr__(self, "scores", _column(self.scores, np.float64, len(boxes), "scores"))
        object.__setattr__(self, "labels", _column(self.labels, np.int64, len(boxes), "labels"))
        object.__setattr__(self, "masks", None)
        self._freeze()


PRESENT = ("intact", "damaged")
"""States of a part that is there; a part in any other state is no object to be found."""
STATES = (*PRESENT, "absent", "occluded")
"""The states of parts in DelftBikes."""


@dataclass(frozen=True, eq=False, repr=False)
class Truth(_BoxSet):
    """What is annotated in one image.

    ``boxes`` ``[N, 4]`` x0, y0, x1, y1 in pixels; ``labels`` ``[N]`` indices into the data's ``names``; ``ids`` ``[N]``
    stable within the data; ``crowd`` ``[N]`` regions that stand for many objects; ``areas`` ``[N]`` square pixels of
    the object itself (its mask's, where known); ``states`` what is known of each part ("intact", "absent", …) or
    ``None``; ``masks`` or ``None``.
    """

    boxes: Floats
    labels: Ints
    ids: Ints | None = None
    crowd: Bools | None = None
    areas: Floats | None = None
    states: tuple[str, ...] | None = None
    masks: Masks | None = None

    def __post_init__(self) -> None:
        n = self._check_boxes()
        width_height = self.boxes[:, 2:] - self.boxes[:, :2]
        settle = {
            "labels": _column(self.labels, np.int64, n, "labels"),
            "ids": np.arange(n) if self.ids is None else _column(self.ids, np.int64, n, "ids"),
            "crowd": np.zeros(n, np.bool_) if self.crowd is None else _column(self.crowd, np.bool_, n, "crowd"),
            "areas": width_height.prod(axis=1) if self.areas is None else _column(self.areas, np.float64, n, "areas"),
        }
        if n and settle["labels"].min() < 0:
            raise BadArray(f"Expected labels to be indices >= 0 into names. Got {settle['labels'].min()}.")
        if not np.isfinite(settle["areas"]).all():
            raise BadArray("Expected finite areas. Got one that is not.")
        states = None if self.states is None else tuple(self.states)
        if states is not None and len(states) != n:
            raise BadArray(f"Expected {n} states, one per box. Got {len(states)}.")
        for name, value in {**settle, "states": states, "masks": _masks(self.masks, n)}.items():
            object.__setattr__(self, name, value)
        self._freeze()

    def __repr__(self) -> str:
        return f"Truth({len(self)} boxes{'' if self.masks is None else ', with masks'})"

    @property
    def present(self) -> Bools:
        """Which annotations ``[N]`` are of something that is there: all, where nothing is said of their states."""
        if self.states is None:
            return np.ones(len(self), np.bool_)
        return np.isin(np.array(self.states, dtype=str), PRESENT)

    @classmethod
    def empty(cls) -> "Truth":
        """Nothing annotated."""
        return cls(np.zeros((0, 4)), np.zeros(0, dtype=np.int64))

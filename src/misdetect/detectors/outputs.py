"""A network's raw outputs, before a decoder reads them: whose they are, which is which, and what counts as found.

The small nouns that all decoders share. Nothing here knows a detector family.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from misdetect.nouns.boxes import Floats, Ints, cxcywh_to_xyxy, xywh_to_xyxy
from misdetect.said.errors import BadSpec, DetectorFailed

Array = NDArray[Any]


class Readout(NamedTuple):
    """What a decoder read in the outputs for one image: ``boxes`` ``[K, 4]`` xyxy, network pixels; ``scores``,
    ``labels`` ``[K]``."""

    boxes: Floats
    scores: Floats
    labels: Ints


@dataclass(frozen=True)
class Frame:
    """What a decoder must know: the network's input size, the number of classes, the threshold, the outputs' names.

    ``multilabel`` lets one candidate stand for every class above the threshold, not only for its best. ``shapes`` are
    those of the outputs for one image, with the batch axis, where they are known.
    """

    width: int
    height: int
    classes: int
    score: float
    outputs: tuple[str, ...]
    spec: str
    multilabel: bool = False
    shapes: tuple[tuple[int, ...], ...] = ()


class Decoder(Protocol):
    """Splits a batch's outputs into those of single images, and decodes the outputs of one image."""

    def split(self, outputs: Sequence[Array], count: int) -> list[list[Array]]: ...

    def decode(self, outputs: Sequence[Array]) -> Readout: ...


class PerImage:
    """The usual split: every output has the batch as its first axis. Where images are run one by one, an output may
    also do without it."""

    frame: Frame

    def split(self, outputs: Sequence[Array], count: int) -> list[list[Array]]:
        if count == 1:
            return [[output if output.shape[:1] == (1,) else output[None] for output in outputs]]
        for name, output in zip(self.frame.outputs, outputs, strict=True):
            if output.ndim == 0 or output.shape[0] != count:
                raise BadSpec(
                    f"{self.frame.spec!r}: output {name!r} has shape {list(output.shape)} for {count} images; "
                    f"its first axis is not the batch, so give batch=1."
                )
        return [[output[i : i + 1] for output in outputs] for i in range(count)]


def single(frame: Frame, outputs: Sequence[Array], decoder: str, rows: int | None, columns: int | None) -> Array:
    """The one ``[1, rows, columns]`` output as float32 ``[rows, columns]``; ``None`` is any number. Some exporters
    exchange the two axes, which is undone."""
    found = next((o for o in outputs if o.ndim == 3), None)
    if found is not None and not _fits(found.shape, rows, columns):
        found = found.swapaxes(1, 2)
    if found is None or not _fits(found.shape, rows, columns):
        shapes = ", ".join(f"{n} {list(o.shape)}" for n, o in zip(frame.outputs, outputs, strict=True))
        raise BadSpec(
            f"{frame.spec!r}: with {frame.classes} names and input {frame.width}x{frame.height}, decoder={decoder} "
            f"expects an output [1, {rows or 'N'}, {columns or 'N'}]. Got {shapes}: check names=, size= and decoder=."
        )
    result: Array = found[0].astype(np.float32, copy=False)
    return result


def shapes_of(outputs: Sequence[Array]) -> tuple[tuple[int, ...], ...]:
    """The shapes of ``outputs`` as those of one image: the first axis is 1 where it is the batch's."""
    return tuple((1, *output.shape[1:]) if output.ndim > 1 else output.shape for output in outputs)


def _fits(shape: tuple[int, ...], rows: int | None, columns: int | None) -> bool:
    return rows in (None, shape[1]) and columns in (None, shape[2])


def sigmoid(values: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow, in the type it is given."""
    result: Array = 0.5 * (1 + np.tanh(0.5 * values))
    return result


def refuse_nan(frame: Frame, values: Array) -> None:
    if np.isnan(values).any():
        raise DetectorFailed(f"{frame.spec!r}: the network's output is not a number (NaN) for this image.")


CORNERS: dict[str, Callable[[Floats], Floats]] = {
    "xyxy": lambda boxes: boxes,
    "yxyx": lambda boxes: boxes[:, [1, 0, 3, 2]],
    "xywh": xywh_to_xyxy,
    "cxcywh": cxcywh_to_xyxy,
}
"""Boxes ``[N, 4]`` as x0, y0, x1, y1, by how their four numbers are meant."""


def box_scale(frame: Frame, units: str) -> Floats | np.float32:
    """What boxes in ``units`` (shares, or else pixels) of the network's input are multiplied by."""
    return np.array([frame.width, frame.height] * 2, np.float32) if units == "shares" else np.float32(1)


SHARES = 1.5
"""Boxes given as shares of the image stay below this; boxes in pixels do not."""


def refuse_shares(frame: Frame, boxes: Array) -> None:
    """Complain of ``boxes`` ``[N, 4]`` that are taken for pixels and cannot be: they would all lie in one corner."""
    if len(boxes) and min(frame.width, frame.height) > 16 and 0 < boxes.max() <= SHARES:
        raise BadSpec(
            f"{frame.spec!r}: the network's boxes reach {boxes.max():.3g}, so they are shares of the image and not "
            f"pixels; give units=shares (or units=pixels, if they are)."
        )


def choose(frame: Frame, scores: Array) -> tuple[Ints, Ints, Array]:
    """Candidates, labels and scores of the ``[K, C]`` entries to report: the best of a row, or all above threshold."""
    if frame.multilabel:
        rows, labels = np.nonzero(scores >= frame.score)
        return rows, labels, scores[rows, labels]
    labels = scores.argmax(axis=1) if scores.size else np.zeros(len(scores), np.int64)
    best = scores[np.arange(len(scores)), labels] if scores.size else np.zeros(len(scores), np.float32)
    rows = np.flatnonzero(best >= frame.score)
    return rows, labels[rows], best[rows]


NAMED: dict[str, tuple[str, ...]] = {
    "boxes": ("boxes", "det_boxes", "detection_boxes", "nmsed_boxes", "bboxes", "bbox", "dets"),
    "labels": ("labels", "classes", "det_classes", "detection_classes", "nmsed_classes", "class_ids", "pred_labels"),
    "scores": ("scores", "det_scores", "detection_scores", "nmsed_scores", "confs", "confidences"),
    "count": ("num", "num_dets", "num_detections", "num_detection", "detections_count"),
}
"""How exporters call outputs of graphs that suppress by themselves."""
SYNONYMS: dict[str, tuple[str, ...]] = NAMED | {
    "logits": ("logits", "pred_logits"),
    "boxes": ("boxes", "pred_boxes", *NAMED["boxes"]),
    "indices": ("indices", "selected_indices"),
    "table": (),
}
"""How they call the outputs of graphs that do not, too."""


def plain_name(name: str) -> str:
    """An output's name without TensorFlow's scope and number: ``"detection_boxes"`` for ``"net/detection_boxes:0"``."""
    return name.lower().rpartition("/")[2].partition(":")[0]


def output_roles(frame: Frame, stated: str, needed: Sequence[str], optional: Sequence[str] = ()) -> dict[str, int]:
    """Which output is what: by the option ``outputs=boxes,labels,scores`` (graph order), else by the outputs' names."""
    roles: dict[str, int] = {}
    if stated:
        given = [role.strip() for role in stated.split(",")]
        if len(given) > len(frame.outputs) or set(given) - {*needed, *optional, "-"}:
            raise BadSpec(
                f"{frame.spec!r}: outputs={stated} should name {', '.join((*needed, *optional))} or '-' for the "
                f"graph's {len(frame.outputs)} outputs ({', '.join(frame.outputs)})."
            )
        roles = {role: i for i, role in enumerate(given) if role != "-"}
    else:
        names = [plain_name(name) for name in frame.outputs]
        for role in (*needed, *optional):
            known = next((name for name in SYNONYMS[role] if name in names), None)
            if known is not None:
                roles[role] = names.index(known)
    missing = [role for role in needed if role not in roles]
    if missing:
        raise BadSpec(
            f"{frame.spec!r}: which output holds {' and '.join(missing)}? The graph's outputs are "
            f"{', '.join(frame.outputs)}; say outputs={','.join(needed)} in that order ('-' for one to ignore)."
        )
    return roles

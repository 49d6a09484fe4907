"""What was seen of a graph, and what its values show: shares or pixels, logits or probabilities, corners or centres.

Functions of arrays and shapes; ``advice`` concludes from them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from misdetect.detectors.onnx.heads import STRIDES, cells_of
from misdetect.detectors.onnx.metadata import Metadata
from misdetect.detectors.outputs import SHARES, SYNONYMS, Array, plain_name

_SETS = (STRIDES[1:4], STRIDES[1:5], STRIDES[0:4], STRIDES[2:4])
"""The usual strides of a network's levels."""


class Finding(NamedTuple):
    """An option of the spec: ``implied`` where the file or the decoder brings it and nobody has to write it."""

    option: str
    value: str
    sure: bool
    why: str
    implied: bool = False


@dataclass(frozen=True)
class Seen:
    """What was seen: the graph's ``outputs`` for noise by their ``names`` (batch axis first), the input's size in
    pixels, how many ``classes`` there are names for (``None``: nobody knows), the inputs beside the image."""

    names: tuple[str, ...]
    outputs: tuple[Array, ...]
    width: int
    height: int
    classes: int | None = None
    companions: frozenset[str] = frozenset()
    metadata: Metadata = field(default_factory=Metadata)
    batched: bool = True

    def describe(self) -> str:
        """The outputs in words."""
        return ", ".join(f"{name} {list(o.shape)}" for name, o in zip(self.names, self.outputs, strict=True))

    @property
    def own(self) -> bool:
        """Whether Ultralytics' exporter is known to have written the file, so that its conventions hold."""
        return bool(self.metadata.exporter)


@dataclass(frozen=True)
class Reading:
    """How the outputs can be read: a decoder with options, and the number of ``classes`` that they show."""

    findings: tuple[Finding, ...]
    classes: int | None = None
    preset: tuple[Finding, ...] = ()


def only_one(seen: Seen, fits: Callable[[Array], bool]) -> int | None:
    """The only output that fits."""
    found = [i for i, output in enumerate(seen.outputs) if fits(output)]
    return found[0] if len(found) == 1 else None


def output_named(outputs: Sequence[str], names: Sequence[str]) -> int | None:
    """The first output whose name is one of ``names``."""
    return next((i for i, name in enumerate(outputs) if name in names), None)


def is_whole(output: Array) -> bool:
    """Whether ``output`` is of a type of whole numbers."""
    return output.dtype.kind in "iu"


def pair_of(seen: Seen) -> tuple[int, int] | None:
    """A box output [B, N, 4] (or [B, N, 1, 4]) and one of N candidates' scores."""
    shaped = [i for i, output in enumerate(seen.outputs) if _is_boxes(output)]
    if len(shaped) > 1:  # as many classes as a box has numbers
        shaped = [i for i in shaped if plain_name(seen.names[i]) in SYNONYMS["boxes"]]
    if len(shaped) != 1:
        return None
    boxes = shaped[0]
    number = seen.outputs[boxes].shape[1]
    for index, output in enumerate(seen.outputs):
        if index != boxes and output.dtype.kind == "f" and output.ndim == 3 and number in output.shape[1:]:
            return boxes, index
    return None


def _is_boxes(output: Array) -> bool:
    flat = output.ndim == 3 or (output.ndim == 4 and output.shape[2] == 1)
    return output.dtype.kind == "f" and flat and output.shape[-1] == 4


def decoder_found(name: str, why: str, sure: bool = True) -> Finding:
    """The decoder, as a finding."""
    return Finding("decoder", name, sure, why)


def is_logits(values: Array) -> bool:
    """Whether ``values`` cannot be probabilities."""
    return bool(values.min(initial=0) < -0.01 or values.max(initial=0) > 1.01)


def is_shares(boxes: Array) -> bool:
    """Whether ``boxes`` can be shares of the image."""
    return bool(np.abs(boxes).max(initial=0) <= SHARES)


def activation_of(scores: Array) -> list[Finding]:
    """What is still to be done to ``scores``."""
    if not is_logits(scores):
        return []
    low, high = float(scores.min()), float(scores.max())
    return [
        Finding("activation", "sigmoid", True, f"scores reach from {low:.3g} to {high:.3g}: they lack their sigmoid")
    ]


def units_of(seen: Seen, boxes: Array) -> list[Finding]:
    """Whether boxes ``[N, 4]`` are shares of the image; nothing where they are pixels."""
    if not len(boxes) or not np.abs(boxes).max() > 0:
        known = seen.own or seen.companions & {"orig_target_sizes", "scale_factor", "image_shape"}
        why = "noise shows no boxes; those that cannot be pixels will be an error"
        return [] if known else [Finding("units", "pixels", False, why, implied=True)]
    if min(seen.width, seen.height) > 16 and is_shares(boxes):
        return [Finding("units", "shares", True, f"all numbers of boxes are below {SHARES:g}")]
    return []


def form_of(boxes: Array, usual: str) -> list[Finding]:
    """Whether boxes are corners or centre and size: of corners, the second is never left of or above the first."""
    corners = bool((boxes[:, 2] >= boxes[:, 0]).all() and (boxes[:, 3] >= boxes[:, 1]).all())
    form = "xyxy" if corners else "cxcywh"
    return [] if form == usual or len(boxes) < 20 else [Finding("boxes", form, True, "by the values")]


def _levels(seen: Seen) -> list[int]:
    """Numbers of cells of the usual sets of strides."""
    return [sum(int(np.prod(cells_of(seen.width, seen.height, stride))) for stride in each) for each in _SETS]


def candidates_per_cell(number: int, seen: Seen) -> int | None:
    """How many candidates each cell has (1 or 3), where ``number`` is all of them."""
    return next((each for each in (1, 3) if number % each == 0 and number // each in _levels(seen)), None)


def rows_first(shape: tuple[int, ...], seen: Seen) -> bool:
    """Whether candidates are the first of two axes."""
    if seen.classes is not None and shape[0] != shape[1]:
        fits = [size - seen.classes in (4, 5, 32, 64) for size in shape]
        if fits[0] != fits[1]:
            return fits[1]
    cells = [candidates_per_cell(size, seen) is not None for size in shape]
    return cells[0] if cells[0] != cells[1] else shape[0] > shape[1]


def is_decoded(boxes: Array, seen: Seen) -> bool:
    """Whether the centres of boxes, one per cell, lie where the cells do."""
    for strides in _SETS:
        grids = [cells_of(seen.width, seen.height, stride) for stride in strides]
        if sum(rows * columns for rows, columns in grids) == len(boxes):
            x = [np.tile(np.arange(c) * s, r) for (r, c), s in zip(grids, strides, strict=True)]
            across = np.concatenate(x).astype(np.float64)
            if boxes[:, 0].std() == 0 or across.std() == 0:
                return False
            return bool(np.corrcoef(boxes[:, 0], across)[0, 1] > 0.9)
    return True


def roles_found(
    seen: Seen, roles: Mapping[str, int], known: Mapping[str, Sequence[str]] | None = None, why: str = "by their shapes"
) -> list[Finding]:
    """The option ``outputs=`` that says which output is what; nothing where their names, ``known`` by role, say it."""
    if known and all(plain_name(seen.names[i]) in known[role] for role, i in roles.items()):
        return []
    by_index = {i: role for role, i in roles.items()}
    text = ",".join(by_index.get(i, "-") for i in range(max(by_index) + 1))
    return [Finding("outputs", text, True, why)]

"""Do these boxes mean what they should mean? Checks on the arrays of a whole data set, before anything uses them.

A set of boxes that is in the wrong coordinates as a whole is refused with a named error; single boxes that are odd are
counted in a ``Warned``. The limits are documented in docs/data.md. Nothing here reads a file.
"""

from collections.abc import Callable

import numpy as np

from misdetect.data.dataset import Warned
from misdetect.data.faults import (
    AbsoluteCoordinates,
    BoxesOutside,
    CornersForSizes,
    NegativeSize,
    NotFinite,
    RelativeCoordinates,
)
from misdetect.nouns.boxes import Bools, Floats, Ints, cxcywh_to_xyxy, xywh_to_xyxy, xyxy_to_xywh
from misdetect.said.errors import BadData

Where = Callable[[int], str]
"""Names record ``i`` for a message: file, kind of record, its id."""

FORMS: dict[str, Callable[[Floats], Floats]] = {
    "xywh": xywh_to_xyxy,
    "xyxy": lambda corners: corners,
    "cxcywh": cxcywh_to_xyxy,
}
"""What the four numbers of a box may be, and how they become corners."""
MANY = 0.1
"""Share of boxes that must look wrong before the coordinates as a whole are called wrong."""
NEARLY_ALL = 0.99
TINY = 2
"""Pixels of both sides up to which a box is probably a slip of the mouse."""
FARTHEST = 1e9
"""Pixels: larger coordinates are not believed, since their products would overflow."""
FAR = 0.1
"""How far over the edge, as a share of the image's side, a box must reach to count as evidence."""


def checked(
    raw: Floats, image: Ints, sizes: Ints, where: Where, *, form: str = "xywh", relative: bool = False, origin: int = 0
) -> tuple[Floats, Bools, list[Warned]]:
    """The boxes of a file as corners ``[N, 4]``, which of them to keep, and what is odd about some.

    ``raw`` ``[N, 4]`` are the numbers of the file: x, y, width, height, or what else ``form`` says; fractions of the
    image if ``relative``; the first pixel is called ``origin``. ``image`` ``[N]`` is the place of each box's image in
    ``sizes`` ``[M, 2]`` (width, height; 0 where unknown), or -1: a box of no image is not kept.
    """
    sides = xyxy_to_xywh(raw) if form == "xyxy" else raw
    _check_numbers(sides, where)
    boxes = FORMS[form](raw)
    frame = np.ones((len(raw), 2)) if relative else np.vstack([sizes, np.zeros((1, 2))])[image]
    _check_frame(sides, boxes, frame, where, relative=relative, corners=form == "xyxy")
    boxes = boxes - [origin, origin, 0, 0]
    keep, odd = _odd_boxes(boxes, frame, where, tolerance=0.01 if relative else 1.0)
    return boxes, keep & (image >= 0), odd


def _check_numbers(raw: Floats, where: Where) -> None:
    """Refuse NaN, infinity, absurd numbers and negative sizes in ``raw`` ``[N, 4]``: x, y, width, height."""
    error: type[BadData]
    for bad, error, why in (
        (~np.isfinite(raw), NotFinite, "is not finite; repair or remove it."),
        (np.abs(raw) > FARTHEST, NotFinite, "lies beyond any image; repair or remove it."),
        (raw[:, 2:] < 0, NegativeSize, "has a negative size; are its corners swapped?"),
    ):
        if bad.any():
            row = int(bad.any(axis=1).argmax())
            raise error(f"{where(row)}: the box {raw[row].tolist()} {why}")


def _check_frame(raw: Floats, boxes: Floats, sizes: Floats, where: Where, *, relative: bool, corners: bool) -> None:
    """Refuse boxes that are in another coordinate system than they should be.

    ``raw`` ``[N, 4]`` as in the file (last two columns width and height), ``boxes`` ``[N, 4]`` the same as corners,
    ``sizes`` ``[N, 2]`` width and height of each box's image in the same unit (1, 1 if ``relative``; 0, 0 if unknown).
    With ``corners`` the file itself holds corners, which therefore cannot be mistaken for sizes.
    """
    real = (raw[:, 2:] > 0).all(axis=1)
    if not real.any():
        return
    rows = np.flatnonzero(real)
    raw, boxes, sizes = raw[rows], boxes[rows], sizes[rows]
    known = (sizes > 0).all(axis=1)
    if relative:
        large = (np.abs(raw) > 1.5).any(axis=1)
        if large.mean() >= MANY:
            raise AbsoluteCoordinates(
                f"{where(int(rows[large.argmax()]))}: the box {raw[large.argmax()].tolist()} looks like pixels, as do "
                f"{large.sum()} of {len(raw)}; this format holds fractions of the image's width and height."
            )
    else:
        fraction = ((raw >= 0) & (raw <= 1)).all(axis=1) & (~known | (sizes > 2).all(axis=1))
        if fraction.mean() >= 1 - MANY:
            raise RelativeCoordinates(
                f"{where(int(rows[fraction.argmax()]))}: the box {raw[fraction.argmax()].tolist()} looks like "
                f"fractions of the image, as do {fraction.sum()} of {len(raw)}; this format holds pixels."
            )
    places = rows[known]
    _check_edges(raw[known], boxes[known], sizes[known], lambda row: where(int(places[row])), corners)


def _check_edges(raw: Floats, boxes: Floats, sizes: Floats, where: Where, corners: bool) -> None:
    if not len(raw):
        return
    far = ((boxes[:, 2:] > sizes * (1 + FAR)) | (boxes[:, :2] < -sizes * FAR)).any(axis=1)
    if far.mean() < MANY:
        return
    row = int(far.argmax())
    slack = 0.01 * sizes
    fits = ((raw[:, 2:] >= raw[:, :2]) & (raw[:, :2] >= -slack) & (raw[:, 2:] <= sizes + slack)).all(axis=1)
    width, height = sizes[row].tolist()
    if fits.mean() >= NEARLY_ALL and not corners:
        raise CornersForSizes(
            f"{where(row)}: the box {raw[row].tolist()} leaves its {width:g}x{height:g} image, as do {far.sum()} of "
            f"{len(raw)}, but all fit if read as x0, y0, x1, y1; this format holds a position and width, height."
        )
    if far.mean() >= 0.5 and len(raw) >= 10:
        raise BoxesOutside(
            f"{where(row)}: the box {raw[row].tolist()} leaves its {width:g}x{height:g} image, as do {far.sum()} of "
            f"{len(raw)}; boxes and images do not belong together (were the images resized?)."
        )


def _odd_boxes(boxes: Floats, sizes: Floats, where: Where, *, tolerance: float) -> tuple[Bools, list[Warned]]:
    """Which boxes ``[N, 4]`` (corners) to keep, and what is odd about some.

    A box wholly outside its image is dropped: nothing can be found there. One that leaves it by more than ``tolerance``
    or has no area is kept as it is, because dropping or clipping it would change published metrics.
    """
    known = (sizes > 0).all(axis=1)
    empty = (boxes[:, 2:] <= boxes[:, :2]).any(axis=1)
    gone = known & ((boxes[:, :2] >= sizes) | (boxes[:, 2:] <= 0)).any(axis=1) & ~empty
    over = known & ~gone & ((boxes[:, :2] < -tolerance) | (boxes[:, 2:] > sizes + tolerance)).any(axis=1)
    in_pixels = (sizes > TINY).all(axis=1)
    small = ~empty & ~gone & in_pixels & (boxes[:, 2:] - boxes[:, :2] <= TINY).all(axis=1)
    found = []
    kinds = (("box-outside", gone), ("box-over-edge", over), ("box-without-area", empty), ("box-tiny", small))
    for kind, rows in kinds:
        if rows.any():
            row = int(rows.argmax())
            text = ", ".join(f"{value:.6g}" for value in boxes[row])
            found.append(Warned(kind, int(rows.sum()), f"{where(row)}: corners {text}"))
    return np.logical_not(gone), found

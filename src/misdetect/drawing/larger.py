"""Pictures for people: drawn scenes are drawn anew, larger than the detector sees them; photos are enlarged smoothly.

Of an edit, what it leaves in place is the larger scene; objects that come from drawn scenes are cut out of these larger
too; whatever else was changed (inpainting, noise) is what the detector saw, enlarged. Nothing here is ever asked about.
"""

from dataclasses import replace

import numpy as np

from misdetect.compose.move import Flipped, Moved
from misdetect.compose.paste import Paste, resized
from misdetect.compose.texture import Texture
from misdetect.data import drawn, load_data
from misdetect.data.cutouts import Cutout, cut
from misdetect.data.dataset import Sample
from misdetect.drawing.figures import smooth, times
from misdetect.nouns.picture import Picture, Pixels, Raw
from misdetect.said.errors import MisdetectError

LEAST = 384
"""Pixels of the shorter side of a picture; captions on a smaller one would cover it."""
_SAME = 1.2
"""By how much an object may be stretched, and still be the same: a refined cutout lacks what was cut away from it."""


def shown(picture: Picture, least: int = LEAST) -> tuple[Pixels, int]:
    """``picture`` at a whole multiple of its size with a shorter side of about ``least``, and the factor."""
    factor = times(picture.render(), least)
    return larger(picture, factor), factor


def larger(picture: Picture, factor: int) -> Pixels:
    """``picture`` with sides ``factor`` times as long."""
    small = picture.render()
    scene = _scene(picture)
    if factor == 1 or scene is None or (drawn := scene.larger(factor)) is None:
        return smooth(small, factor)
    if isinstance(picture, Sample):
        return drawn.image.copy()
    base: Pixels = larger(picture.base, factor)  # type: ignore[attr-defined]
    if isinstance(picture, Flipped):
        return replace(picture, base=Raw(base)).render()
    if isinstance(picture, Moved):
        return replace(picture, base=Raw(base), by=(picture.by[0] * factor, picture.by[1] * factor)).render()
    if isinstance(picture, Paste) and (cutout := _cutout(picture, base, factor)) is not None:
        return Paste(Raw(base), cutout, (picture.at[0] * factor, picture.at[1] * factor)).render()
    before = picture.base.render()  # type: ignore[attr-defined]
    changed = smooth(255 * (before != small).any(axis=2, keepdims=True).repeat(3, 2).astype(np.uint8), factor) / 255
    mixed: Pixels = np.rint(changed * smooth(small, factor) + (1 - changed) * base).astype(np.uint8)
    return mixed


def _scene(picture: Picture) -> Sample | None:
    """The sample that ``picture`` is an edit of; ``None`` where it does not say."""
    while not isinstance(picture, Sample):
        base = getattr(picture, "base", None)
        if base is None:
            return None
        picture = base
    return picture


def _cutout(paste: Paste, base: Pixels, factor: int) -> Cutout | None:
    """What ``paste`` lays on its picture, ``factor`` times larger: cut out of the larger ``base`` (control) or of
    the larger scene that it comes from; ``None`` where it does not come from a drawn scene."""
    cutout, (width, height) = paste.cutout, paste.size or paste.cutout.size
    size = width * factor, height * factor
    if isinstance(cutout, Texture):
        rgba = resized(cutout, size).rgba.copy()
        x, y = (factor * corner for corner in cutout.made_of[2:])
        rgba[:, :, :3] = base[y : y + size[1], x : x + size[0]]
        return Cutout(rgba, "")
    scene = _source(cutout, factor)
    if scene is None or scene.truth.ids is None or cutout.truth not in scene.truth.ids:
        return None
    row = int(np.flatnonzero(scene.truth.ids == cutout.truth)[0])
    found = cut(scene, row, [cutout.label] * (1 + int(scene.truth.labels.max())))
    stretch = (found.size[0] * size[1]) / (found.size[1] * size[0])
    return resized(found, size) if 1 / _SAME < stretch < _SAME else None


def _source(cutout: Cutout, factor: int) -> Sample | None:
    """The scene that ``cutout`` comes from, drawn larger; ``None`` where it is a photo, or cannot be found again."""
    number = cutout.sample.rpartition("-")[2]
    if not number.isdecimal() or not drawn(cutout.data):
        return None
    try:
        data = load_data(cutout.data)
    except MisdetectError:
        return None
    sample = data[int(number)] if int(number) < len(data) else None
    return sample.larger(factor) if sample is not None and sample.id == cutout.sample else None

"""From canvas to photo: fall-off of the light, a colour cast, a little blur and sensor noise."""

from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from misdetect.data.procedural.draw import textures
from misdetect.data.procedural.draw.canvas import Canvas
from misdetect.data.procedural.draw.dice import Dice
from misdetect.nouns.picture import Pixels


def finish(canvas: Canvas, dice: Dice, side_light: float, reference: int) -> Pixels:
    """The developed picture; ``side_light`` says from which side it is brighter, blur is in ``reference`` pixels."""
    dice.rewind()
    size = canvas.size
    image = canvas.develop()
    ticks, distance = _plan(size)
    bright = dice.between(0.78, 1.12)
    side = dice.between(0.0, 0.16) * side_light
    edge = dice.between(0.02, 0.14)
    field = np.float32(bright) + np.float32(side) * ticks - np.float32(edge) * distance
    warm = dice.between(-0.08, 0.08)
    cast = (1 + warm, 1 + dice.between(-0.02, 0.02), 1 - warm)
    exposed = cv2.multiply(image, cv2.merge([field * np.float32(c) for c in cast]), dtype=cv2.CV_32F)
    blurred, blur = dice.chance(0.2), dice.between(0.3, 0.5)
    if blurred:
        exposed = cv2.GaussianBlur(exposed, (0, 0), sigmaX=blur * size / reference)
    amount = dice.between(0.5, 4.0)
    bank = textures.sensor_noise()
    top, left = int(dice.unit() * 300), int(dice.unit() * 300)
    if size > 320:
        repeats = -(-(size + 300) // len(bank))
        bank = np.tile(bank, (repeats, repeats, 1))
    exposed = cv2.scaleAdd(np.ascontiguousarray(bank[top : top + size, left : left + size]), amount, exposed)
    developed: Pixels = np.clip(exposed, 0, 255, out=exposed).astype(np.uint8)
    return developed


@lru_cache(maxsize=4)
def _plan(size: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Each column's place from -1 to 1 ``[size]``, and each pixel's squared distance from the middle."""
    ticks = np.linspace(-1, 1, size, dtype=np.float32)
    return ticks, ticks[None, :] ** 2 + ticks[:, None] ** 2

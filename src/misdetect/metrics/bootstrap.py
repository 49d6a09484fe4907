"""Bootstrap intervals over images: how much a rate would differ had other images been drawn.

Positions on one image are anything but independent, so whole images (pairs of paper 1) are drawn again, with
replacement. The same draws serve every rate, so that differences between rates are paired.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from misdetect.nouns.boxes import Floats
from misdetect.said.errors import BadArray

REPEATS = 2000


def resamples(images: int, repeats: int = REPEATS, seed: int = 0) -> Floats:
    """How often each of ``images`` is drawn in each of ``repeats`` resamples: ``[repeats, images]``, rows sum to
    ``images``."""
    if images < 1 or repeats < 1:
        raise BadArray(f"Expected at least one image and one resample. Got {images} and {repeats}.")
    generator = np.random.default_rng(seed)
    return generator.multinomial(images, np.full(images, 1 / images), size=repeats).astype(np.float64)


def ratios(draws: ArrayLike, numerators: ArrayLike, denominators: ArrayLike) -> Floats:
    """Σ numerators / Σ denominators of each resample: ``draws`` ``[R, K]``, the others ``[K, ...]`` → ``[R, ...]``.

    NaN where a resample holds nothing to divide by.
    """
    draws = np.asarray(draws, dtype=np.float64)
    above = np.tensordot(draws, np.asarray(numerators, dtype=np.float64), axes=1)
    below = np.tensordot(draws, np.asarray(denominators, dtype=np.float64), axes=1)
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)


def interval(samples: ArrayLike, confidence: float) -> tuple[Floats, Floats]:
    """Low and high end of the percentile interval of ``samples`` ``[R, ...]``; ``confidence`` in (0, 1).

    Resamples without a value are left out; where none has one, the ends are NaN.
    """
    if not 0 < confidence < 1:
        raise BadArray(f"Expected a confidence between 0 and 1. Got {confidence}.")
    values = np.asarray(samples, dtype=np.float64)
    tail = (1 - confidence) / 2
    empty = np.isnan(values).all(axis=0)
    low, high = np.nanquantile(np.where(empty, 0.0, values), [tail, 1 - tail], axis=0)
    return np.where(empty, np.nan, low), np.where(empty, np.nan, high)


def ends_of(samples: ArrayLike, confidence: float) -> list[float] | None:
    """Both ends of the ``interval`` of one number's ``samples`` ``[R]``; ``None`` where there is none."""
    low, high = (float(end) for end in interval(samples, confidence))
    return None if np.isnan(low) else [low, high]


def change(first: Floats, second: Floats, confidence: float) -> dict[str, Any] | None:
    """How a number differs between two readings of the same images: ``first`` and ``second`` ``[1 + R]``, what was
    measured and then what the same resamples give. ``difference`` is second - first; it is ``certain`` where its
    ``interval`` excludes 0. ``None`` where either was not measured."""
    if np.isnan(first[0]) or np.isnan(second[0]):
        return None
    ends = ends_of((second - first)[1:], confidence)
    return {
        "first": float(first[0]),
        "second": float(second[0]),
        "difference": float(second[0] - first[0]),
        "interval": ends,
        "certain": ends is not None and not ends[0] <= 0 <= ends[1],
    }


def with_measured(draws: Floats) -> Floats:
    """``draws`` ``[R, K]`` below a row that has every image once: ``[1 + R, K]``, as ``change`` takes them."""
    return np.concatenate([np.ones((1, draws.shape[1])), draws])

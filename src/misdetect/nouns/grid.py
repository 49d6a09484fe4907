"""The grid that numbers of a detector are put on before anything is decided by them.

A network's last bits depend on the kernel that computed them: on the CPU, and on some CPUs on the batch. Scores are
therefore taken to four decimals and boxes to 1/64 pixel, far coarser than that noise and far finer than what anybody
reads from them. What this promises, and how seldom a number falls to the neighbouring point, is in docs/definitions.md.
"""

import numpy as np

from misdetect.nouns.boxes import Floats

SCORE_STEPS = 10_000
"""Points per unit of a score. Decimal, so that a threshold somebody writes (.3, .7) is itself one of them: a score that
means .7 is never below it, whether it came as float32 or as text."""
PIXEL_STEPS = 64
"""Points per pixel. Binary, so that sides and areas of boxes on the grid are exact, and with them the equality of
overlaps."""
_AT_ONCE = 1 << 18
"""Numbers converted together: their doubles stay in the processor's cache, and memory is bounded."""


def scores_on_grid(scores: Floats) -> Floats:
    """``scores`` of any shape, each the float nearest to its grid point; float32 stays float32."""
    return _rounded(scores, SCORE_STEPS)


def boxes_on_grid(boxes: Floats) -> Floats:
    """``boxes`` of any shape, in pixels, on the grid; float32 stays float32."""
    return _rounded(boxes, PIXEL_STEPS)


def _rounded(values: Floats, steps: int) -> Floats:
    """In double precision also for float32, so that a number falls to the same point in whichever type it comes."""
    flat = np.ascontiguousarray(values).reshape(-1)
    result = np.empty_like(flat)
    for start in range(0, len(flat), _AT_ONCE):
        chunk = flat[start : start + _AT_ONCE].astype(np.float64)
        chunk *= steps
        np.rint(chunk, out=chunk)
        chunk /= steps
        chunk += 0.0  # no minus zero
        result[start : start + _AT_ONCE] = chunk
    return result.reshape(values.shape)

"""A detector that says nothing, or the same of every image: told in one sentence, since no table of errors helps
there."""

from typing import Literal

import numpy as np

from misdetect.nouns.boxes import Floats, Ints

Degenerate = Literal["silent", "constant"]
_LEAST = 3
"""Images on which the same must be said before it is called so."""
_COMPARED = 5
"""Boxes of each image that are compared, the best-scored."""
_CLOSE = 0.01
"""Share of the image's larger side by which boxes that are the same may differ."""

SENTENCES: dict[Degenerate, str] = {
    "silent": "The detector finds nothing on any of {images} images; "
    "`misdetect doctor` looks for what is wired wrongly.",
    "constant": "The detector reports the same boxes on each of {images} images, so it does not look at them; "
    "`misdetect doctor` looks for what is wired wrongly.",
}


def degenerate(image: Ints, boxes: Floats, scores: Floats, label: Ints, images: int) -> Degenerate | None:
    """What is wrong with detections of ``images`` images: ``image`` ``[D]``, ``boxes`` ``[D, 4]`` in pixels or in
    shares of the image, ``scores`` and ``label`` ``[D]``; ``None`` where nothing is."""
    if images < _LEAST:
        return None
    if not len(image):
        return "silent"
    if len(np.unique(image)) < images:
        return None
    order = np.lexsort((-scores, image))
    starts = np.searchsorted(image[order], np.unique(image))
    counts = np.diff([*starts, len(order)])
    most = min(_COMPARED, int(counts.min()))
    rows = order[starts[:, None] + np.arange(most)]
    far = _CLOSE * max(float(np.abs(boxes).max()), 1e-9)
    same = np.abs(boxes[rows] - boxes[rows[:1]]).max() <= far and (label[rows] == label[rows[:1]]).all()
    return "constant" if same and len(np.unique(counts)) == 1 else None


def sentence(kind: Degenerate, images: int) -> str:
    """``kind`` in words."""
    return SENTENCES[kind].format(images=images)

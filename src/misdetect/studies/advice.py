"""What findings of several studies are told with: what counts as one, shares in words, mechanisms and their
remedies."""

from collections.abc import Mapping, Sequence

from misdetect.drawing import words

LEAST = 0.01
"""Share of the objects, or points of AP50 / 100, below which nothing is called a finding."""
MECHANISMS = {
    "proposal": (
        "nothing was proposed where they are",
        "Check anchor sizes and strides against the objects' sizes, or use a larger input.",
    ),
    "regressor": (
        "the box was moved away from them",
        "See whether the annotated boxes fit tightly.",
    ),
    "interclass": (
        "another class scored higher",
        "Add examples of the confused classes; `misdetect confusion` lists the pairs.",
    ),
    "background": (
        "their score sank into the background",
        "Lower the score threshold, or add examples like them to the training data.",
    ),
    "discarded": (
        "a right box was there and lost to a worse one, or to a cap",
        "Adjust the threshold, the IoU of the suppression, or the cap on detections.",
    ),
}


def most(counts: Mapping[str, int]) -> str | None:
    """What more than half of ``counts`` is of."""
    return next((name for name, count in counts.items() if 2 * count > sum(counts.values())), None)


def pair(ends: Sequence[float] | None) -> tuple[float, float] | None:
    return None if ends is None else (float(ends[0]), float(ends[1]))


def percent(value: float, ends: Sequence[float] | None) -> str:
    narrow = ends is not None and 100 * ends[1] - 100 * ends[0] < 2  # it would be told as "2 to 2"
    return words.percent(value) + words.within(ends, 1 if narrow else 0, 100)


def listed(words: Sequence[str]) -> str:
    """``a, b and c``; nothing where there is none."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)

"""Columns that the rows of several studies have."""

import pyarrow as pa

from misdetect.nouns.boxes import SIDES

Column = tuple[str, pa.DataType]


def numbers(*names: str, prefix: str = "") -> list[Column]:
    """A column of floats per name."""
    return [(prefix + name, pa.float64()) for name in names]


def counts(*names: str) -> list[Column]:
    """A column of small whole numbers per name."""
    return [(name, pa.int32()) for name in names]


def texts(*names: str) -> list[Column]:
    """A column of text per name."""
    return [(name, pa.string()) for name in names]


def flags(*names: str) -> list[Column]:
    """A column of yes and no per name."""
    return [(name, pa.bool_()) for name in names]


def box(prefix: str = "") -> list[Column]:
    """The sides of a box, pixels."""
    return numbers(*SIDES, prefix=prefix)


ANNOTATED: list[Column] = [
    *texts("kind", "image"),
    *counts("width", "height"),
    ("id", pa.int64()),
    *texts("label", "state"),
]
"""What an annotated object is, and on which image."""

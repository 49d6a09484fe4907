"""Columns that the rows of several studies have."""

import pyarrow as pa

from misdetect.nouns.boxes import SIDES

Column = tuple[str, pa.DataType]


def numbers(*names: str, prefix: str = "") -> list[Column]:
    """A column of floats per name."""
    return [(prefix + name, pa.float64()) for name in names]


def box(prefix: str = "") -> list[Column]:
    """The sides of a box, pixels."""
    return numbers(*SIDES, prefix=prefix)


ANNOTATED: list[Column] = [
    ("kind", pa.string()),
    ("image", pa.string()),
    ("width", pa.int32()),
    ("height", pa.int32()),
    ("id", pa.int64()),
    ("label", pa.string()),
    ("state", pa.string()),
]
"""What an annotated object is, and on which image."""

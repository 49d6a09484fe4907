"""What can be wrong with a data set, one named error per kind.

These stop the opening of the data, because no later number could be trusted. What is wrong but leaves the data
usable is a ``Warned`` with a count instead; docs/data.md lists both. Faults of image files are in ``images``.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from misdetect.said.errors import BadData, MisdetectError


class Malformed(BadData):
    """The file is not in the format it should be in. Check that the spec names the right file and format."""

    kind = "malformed"


class BadRecord(BadData):
    """A record lacks a field, or the field has the wrong type. The message names the record and the field."""

    kind = "bad-record"


class DuplicateId(BadData):
    """Two images or categories share an id, so annotations cannot be told apart. Renumber them."""

    kind = "duplicate-id"


class UnknownCategory(BadData):
    """An annotation names a category that the data does not list. Add the category, or remove the annotation."""

    kind = "unknown-category"


class UnknownState(BadData):
    """A part's state is none of intact, damaged, absent, occluded."""

    kind = "unknown-state"


class NotFinite(BadData):
    """A box holds NaN or infinity. Remove or repair that record."""

    kind = "not-finite"


class NegativeSize(BadData):
    """A box has a negative width or height. Often its corners are swapped."""

    kind = "negative-size"


class CornersForSizes(BadData):
    """Boxes look like x0, y0, x1, y1 where x, y, width, height is expected. Convert them."""

    kind = "corners-for-sizes"


class RelativeCoordinates(BadData):
    """Boxes look like fractions of the image where pixels are expected. Multiply by the image's size."""

    kind = "relative-coordinates"


class AbsoluteCoordinates(BadData):
    """Boxes look like pixels where fractions of the image are expected. Divide by the image's size."""

    kind = "absolute-coordinates"


class BoxesOutside(BadData):
    """Most boxes leave their images, so boxes and images do not belong together. Were the images resized?"""

    kind = "boxes-outside"


class BadMask(BadData):
    """A mask cannot be read: wrong size, absurd run lengths, or a polygon far outside the image."""

    kind = "bad-mask"


class NothingToCut(BadData):
    """An object has no mask, or an empty one, so it cannot be cut out."""

    kind = "nothing-to-cut"


class ExportRefused(BadData):
    """The output folder exists and is not empty. Choose another, or remove it."""

    kind = "export-refused"


@contextmanager
def told(spec: str, library: str) -> Iterator[None]:
    """What goes wrong inside the ``library`` that opens ``spec``, as one sentence."""
    try:
        yield
    except (MisdetectError, ModuleNotFoundError):  # the latter is said with the extra
        raise
    except Exception as error:  # its own, and those of its file systems, its database and its connections
        why = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise Malformed(f"{spec} cannot be opened by the {library} library: {why:.300}.") from error

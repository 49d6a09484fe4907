"""COCO's numbers and TIDE's errors, in LaTeX."""

from collections.abc import Iterator, Sequence

from misdetect.drawing.tables import Table, called, number
from misdetect.studies.contract import Document


def tables(documents: Sequence[Document]) -> Iterator[Table]:
    """COCO's numbers and TIDE's errors."""
    for caption, key, digits in (("COCO's numbers.", "ap", 3), ("TIDE errors, in points of AP50.", "tide", 2)):
        names = list(documents[0][key])
        rows = [[called(each), *(number(each[key].get(name), None, digits) for name in names)] for each in documents]
        yield Table(caption, ["", *names], rows)

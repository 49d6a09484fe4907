"""Paper 2's Table 1, in LaTeX."""

from collections.abc import Iterator, Sequence

from misdetect.drawing.tables import Table, called, number
from misdetect.studies.contract import Document


def tables(documents: Sequence[Document]) -> Iterator[Table]:
    """Paper 2, Table 1."""
    numbers = {"present_recall": "present recall", "missing_recall": "missing recall", "f_vv": "F_vv"}
    rows = [
        [f"{called(document)}, {said} localisation", *(number(part[n], part["intervals"][n], 3) for n in numbers)]
        for document in documents
        for said, part in (("with", document["with_localisation"]), ("without", document["without_localisation"]))
    ]
    yield Table("Visual verification of parts.", ["", *numbers.values()], rows)

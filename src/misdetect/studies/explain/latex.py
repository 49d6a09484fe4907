"""Paper 3's Tables I and II, in LaTeX."""

from collections.abc import Iterator, Sequence

from misdetect.drawing.tables import NONE, Table, called, number
from misdetect.studies.contract import Document


def tables(documents: Sequence[Document]) -> Iterator[Table]:
    """Paper 3, Tables I and II: the false negative rate, and the mechanisms' shares of it."""
    names = list(dict.fromkeys(name for document in documents for name in document["mechanisms"]))
    rows = []
    for document in documents:
        ends, missed = document["intervals"], document["missed"]
        shares = (
            number(document["mechanisms"].get(name, 0) / missed, (ends["shares"] or {}).get(name), 1, 100)
            if missed
            else NONE
            for name in names
        )
        rows.append([called(document), number(document["miss_rate"], ends["miss_rate"], 1, 100), *shares])
    caption = "False negative rate, in percent of the objects, and false negative mechanisms, in percent of the misses."
    yield Table(caption, ["", "FNR", *names], rows)

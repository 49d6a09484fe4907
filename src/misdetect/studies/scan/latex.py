"""Paper 1's Table I, in LaTeX."""

from collections.abc import Iterator, Sequence

from misdetect.drawing.tables import Table, called, number
from misdetect.studies.contract import Document


def tables(documents: Sequence[Document]) -> Iterator[Table]:
    """Paper 1, Table I: one table per row of it, with the control below each run."""
    titles = {
        "affected": "all positions",
        "class_agnostic": "class agnostic",
        "occlusion_20": "at most 20 % occlusion",
        "no_occlusion": "no occlusion",
    }
    for key, title in titles.items():
        taus = list(documents[0][key])
        rows = []
        for document in documents:
            ends = document["intervals"]
            parts = [(called(document), document, ends)]
            if document["control"] is not None:
                parts.append(("  control", document["control"], ends["control"]))
            for name, rates, ranges in parts:
                cells = (number(rates[key].get(tau), ranges[key].get(tau)) for tau in taus)
                rows.append([name, *cells])
        caption = (
            f"Average effect of an object that is put in: percent of positions affected, {title}, by threshold on S."
        )
        yield Table(caption, ["", *taus], rows)

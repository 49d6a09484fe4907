"""The papers' tables as LaTeX, one row per run (per detector, in the papers), out of documents alone."""

from collections.abc import Sequence

from misdetect.said.errors import BadData
from misdetect.studies.contract import Document
from misdetect.studies.kinds import kind_of, kinds


def latex(documents: Sequence[Document]) -> str:
    """The tables of runs of one study."""
    study = documents[0]["study"]
    tables = kind_of(study).tables
    if tables is None:
        known = ", ".join(kind.name for kind in kinds() if kind.has("tables"))
        raise BadData(f"the papers have no table that a run of {study} fills; those of {known} do.")
    return "\n".join(table.latex() for table in tables(documents))

"""The tables of a paper, as cells, of documents written by hand."""

from misdetect.studies.kinds import kind_of

WHO = {"detector": "zoo:x", "data": "rooms:val"}
NAME = "zoo:x on rooms:val"


def rows(study, *documents):
    """The head and the rows of each table, as cells."""
    return [[list(table.head), *map(list, table.rows)] for table in kind_of(study).tables(documents)]

"""Charts as values, of documents and rows written by hand; and what the tables among them hold."""

from misdetect.report.embedded import counted
from misdetect.report.views import charts_of

WHO = {"detector": "zoo:x", "data": "rooms:val"}


def row(study, outcome, **more):
    known = {"label": "cup", "score": None, "size": "small", "image": "i0", "by": None, "harm": "harmful",
             "control": False, "flicker": False, "attributable": True, "mechanism": None}  # fmt: skip
    return known | {"study": study, "outcome": outcome} | more


def charts(study, document, rows, run=None, data=None):
    return charts_of(study, run, WHO | document, counted(rows, study), data)


def values(table):
    return [[cell["value"] for cell in line] for line in table["rows"]]


def filters(table):
    return [[cell["filter"] for cell in line] for line in table["rows"]]

"""What a retest says: AP of the photos, and how many objects are found with and without insertions."""

from functools import cached_property
from typing import Any

from misdetect.engine.store import Run
from misdetect.studies.attack.results import Results
from misdetect.studies.contract import Document, Headline
from misdetect.studies.retest.settings import RetestSettings
from misdetect.studies.retest.study import CLEAN, INSERTION


class Looked(Results):
    """The rows of a retest, read as those of an attack are."""

    def __init__(self, run: Run) -> None:
        how: Any = RetestSettings.of({**run.settings, **run.about.get("view", {})})
        super().__init__(run, how)

    @cached_property
    def images(self) -> list[str]:
        """Photos that were shown, in the data's order."""
        query = "SELECT image FROM rows WHERE condition = 'clean' GROUP BY image ORDER BY min(case_index)"
        return [row["image"] for row in self.run.query(query).to_pylist()]


def document(run: Run) -> Document:
    """``photos``: how many, ``AP``, ``AP50`` and their ``intervals`` (null where photos were not shown); ``objects``
    and how many of them are ``found``, by condition, counted once per picture."""
    looked = Looked(run)
    scores = looked.scores(looked.boxes(CLEAN)) if looked.images else {"AP": None, "AP50": None, "intervals": {}}
    counts = {
        row["condition"]: {name: row[name] for name in ("pictures", "objects", "found")}
        for row in run.query(
            "SELECT condition, count(DISTINCT case_index) AS pictures, count(*) FILTER (kind = 'object') AS objects, "
            "count(*) FILTER (kind = 'object' AND found) AS found FROM rows GROUP BY condition"
        ).to_pylist()
    }
    nothing = {"pictures": 0, "objects": 0, "found": 0}
    return {"photos": scores, **{name: counts.get(name, nothing) for name in (CLEAN, INSERTION)}}


def sentences(document: Document) -> list[str]:
    """What is found."""
    told = []
    for name, words in ((CLEAN, "photos"), (INSERTION, "photos with an inserted object")):
        if (counts := document[name])["pictures"]:
            told.append(f"{counts['found']} of {counts['objects']} objects are found on {counts['pictures']} {words}.")
    return told or ["Nothing was shown yet."]


def numbers(document: Document) -> dict[str, Headline]:
    """For comparing runs."""
    photos = document["photos"]
    return {name: Headline(photos[name], photos["intervals"].get(name)) for name in ("AP", "AP50")}


def ledger(run: Run) -> str:
    """Every object on every picture that was shown."""
    return """
        SELECT "case", image, id AS object, condition, false AS control, label, state, x0, y0, x1, y1,
        CASE WHEN kind = 'ignored' THEN 'ignored' WHEN found THEN 'found' WHEN became IS NOT NULL THEN 'renamed'
        ELSE 'missed' END AS outcome,
        CASE WHEN kind = 'ignored' THEN 'unknown' WHEN found THEN 'harmless' ELSE 'harmful' END AS harm,
        became, score, iou, mechanism FROM rows WHERE kind IN ('object', 'ignored')"""

"""What a retest says: AP of the photos, and how many objects are found with and without insertions."""

from misdetect.engine.store import Run
from misdetect.studies.conditions import CLEAN
from misdetect.studies.conditions_read import Conditions
from misdetect.studies.contract import Document, Headline
from misdetect.studies.retest.settings import RetestSettings
from misdetect.studies.retest.study import INSERTION


def photos(run: Run) -> Conditions:
    """The photos that were shown, and what was found on them."""
    return Conditions(run, RetestSettings.of(run.chosen), [CLEAN])


def document(run: Run) -> Document:
    """``photos``: how many, ``AP``, ``AP50`` and their ``intervals`` (null where photos were not shown); ``objects``
    and how many of them are ``found``, by condition, counted once per picture."""
    shown = photos(run)
    scores = shown.scores(shown.boxes(CLEAN)) if shown.images else {"AP": None, "AP50": None, "intervals": {}}
    counts = {
        row.pop("condition"): row
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
    shown = document["photos"]
    return {name: Headline(shown[name], shown["intervals"].get(name)) for name in ("AP", "AP50")}

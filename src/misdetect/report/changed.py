"""Which failures of one run are fixed in another, which are new, and which both have: the ledgers of two runs of one
study, object by object.

A failure is what the report calls one (``studies.looked``). The same object is the same image, object and
condition; a detection where nothing is has no object, and is the same if it is of one class and overlaps by half.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from misdetect.engine.store import Run, new_database
from misdetect.metrics.metamorphic import same_extra
from misdetect.nouns.boxes import SIDES
from misdetect.studies.contract import Document
from misdetect.studies.ledger import ledger
from misdetect.studies.looked import counted, evidence_of, fails

MOST = 100
"""Failures of each kind that are listed; all are counted."""
Key = tuple[str, str, int]
Failure = dict[str, Any]

_TOLD = ("image", "object", "condition", "label", "outcome", "case")


class Failures:
    """What the ledger of ``run`` has: of each object that is judged its failure, or ``None``, and the ``extras``, one
    entry for what overlaps; the ``images`` that it tells of."""

    def __init__(self, run: Run) -> None:
        with new_database() as database:
            database.register("everything", ledger([run]))
            database.execute(f"CREATE VIEW ledger AS SELECT * FROM everything WHERE {counted(run)}")
            judged = database.sql(
                "SELECT DISTINCT image, condition, object FROM ledger WHERE object IS NOT NULL AND harm <> 'unknown' "
                "AND NOT coalesce(control, false)"
            ).fetchall()
            failing = database.sql(f"SELECT * FROM ledger WHERE {fails(evidence_of(run))}").to_arrow_table().to_pylist()
            seen = database.sql("SELECT DISTINCT image FROM ledger WHERE image IS NOT NULL").fetchall()
        self.objects: dict[Key, Failure | None] = dict.fromkeys(judged)
        self.extras: list[Failure] = []
        self.images = {image for (image,) in seen}
        for row in failing:
            key = (row["image"], row["condition"], row["object"])
            if row["object"] is not None and self.objects.get(key) is None:
                self.objects[key] = _told(row)
        _match((_told(row) for row in failing if row["object"] is None), self.extras, grow=True)


def changed(first: Run, second: Run) -> Document | None:
    """The counts ``fixed`` (only in the first), ``new`` (only in the second), ``common``, ``unknown`` (the other run
    has not judged that object), and ``listed``, some of the first three; ``None`` where the study judges nothing."""
    if not evidence_of(first).rows:
        return None
    a, b = Failures(first), Failures(second)
    lists: dict[str, list[Failure]] = {"fixed": [], "new": [], "common": [], "unknown": []}
    for key in sorted(a.objects.keys() | b.objects.keys()):
        was, now = a.objects.get(key), b.objects.get(key)
        known = key in a.objects and key in b.objects
        if (failure := now or was) is not None:
            lists[_word(was is not None, now is not None) if known else "unknown"].append(failure)
    every = _same_images(first, second)
    for one, other, word in ((a, b, "fixed"), (b, a, "new")):
        for extra, found in zip(one.extras, _match(one.extras, other.extras), strict=True):
            if found:
                lists["common"] += [extra] if word == "new" else []
            else:
                lists[word if every or extra["image"] in other.images else "unknown"].append(extra)
    listed = {word: lists[word][:MOST] for word in ("fixed", "new", "common")}
    return {**{word: len(found) for word, found in lists.items()}, "listed": listed}


def _word(was: bool, now: bool) -> str:
    return "common" if was and now else "fixed" if was else "new"


def _same_images(first: Run, second: Run) -> bool:
    """Whether both looked at every image of the same data: then one without a row was looked at too."""
    a, b = (run.about["identity"]["data"] for run in (first, second))
    return not evidence_of(first).edited and all(
        a.get(key) == b.get(key) for key in ("fingerprint", "limit", "part", "images")
    )


def _told(row: Mapping[str, Any]) -> Failure:
    return {**{name: row[name] for name in _TOLD}, "box": [row[side] for side in SIDES]}


def _match(extras: Iterable[Failure], known: list[Failure], *, grow: bool = False) -> list[bool]:
    """Which of ``extras`` are the same as one of ``known``; what is not is added to it if it is to ``grow``."""
    places: dict[tuple[str, str], list[Failure]] = {}
    for each in known:
        places.setdefault((each["image"], each["condition"]), []).append(each)
    found = []
    for extra in extras:
        near = places.setdefault((extra["image"], extra["condition"]), [])
        same = any(same_extra(extra["label"], extra["box"], other["label"], other["box"]) for other in near)
        found.append(same)
        if grow and not same:
            near.append(extra)
            known.append(extra)
    return found

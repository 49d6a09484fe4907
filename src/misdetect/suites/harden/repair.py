"""Repaired or not: each object, and each wrong detection, before and after hardening, under the same conditions.

The rows are those of ``attack`` and ``retest`` runs. An object counts once per condition, however many edits show it:
it fails before if it is lost under any of them. *Fixed*: under all that lost it, it is found. *Still*: not fixed.
*Broken*: it was surely found under an edit and is not any more. A wrong detection likewise: it fails where it is
reported, and is fixed where nothing like it is, not even faintly. Flicker is no repair: what failed or was found by a
score near the threshold counts as *shaky*, and what is found by such a score now is not fixed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from misdetect.engine.store import Run
from misdetect.metrics.harm import IN_CROWD
from misdetect.metrics.metamorphic import same_extra
from misdetect.metrics.slices import rate_intervals
from misdetect.nouns.boxes import SIDES, boxes_of, coverage, iou
from misdetect.studies.conditions import VANILLA
from misdetect.studies.contract import Document

FIXED, STILL, BROKEN, SHAKY, FINE = FATES = ("fixed", "still", "broken", "shaky", "fine")
EXTRA = "extra"
_GONE = 1.0
"""The margin of a wrong detection that is not there."""
Row = Mapping[str, Any]
Place = tuple[str, list[float]]
"""The class of a wrong detection, and where it is: the four sides of its box."""


@dataclass(frozen=True)
class Rules:
    """What counts as found: least IoU and score; a score within ``flicker`` of it is neither here nor there."""

    loc: float
    score: float
    flicker: float


@dataclass(frozen=True)
class Unit:
    """One object (or wrong detection) under one condition: how far from failing it was ``before`` and is ``after``
    under each edit, in scores, negative where it fails; what the failure looks like, and which mechanism lost it."""

    image: str
    condition: str
    type: str
    mechanism: str | None
    before: tuple[float, ...]
    after: tuple[float, ...]

    def fate(self, flicker: float) -> str:
        """Fixed, still failing, broken, shaky, or fine before and after."""
        pairs = list(zip(self.before, self.after, strict=True))
        failed = [after for before, after in pairs if before < -flicker]
        broke = any(before >= flicker and after < 0 for before, after in pairs)
        if failed:
            return FIXED if min(failed) >= flicker and not broke else STILL
        if broke:
            return BROKEN
        return SHAKY if min(self.before) < flicker else FINE


def units(before: Run, after: Run, conditions: Sequence[str], rules: Rules) -> list[Unit]:
    """Every object and every wrong detection of two runs with the same cases, one per detector."""
    asked = ", ".join(f"'{condition}'" for condition in conditions)
    columns = f"image, condition, kind, id, label, score, found, mechanism, became, reason, {', '.join(SIDES)}"
    query = (
        f"SELECT \"case\", {columns} FROM rows WHERE condition IN ({asked}) AND (kind IN ('object', 'ignored') OR "
        f"(kind = 'detection' AND variant = '{VANILLA}' AND score >= {rules.score - rules.flicker!r})) "
        "ORDER BY case_index, row"
    )
    pictures: tuple[dict[str, list[Row]], dict[str, list[Row]]] = (defaultdict(list), defaultdict(list))
    for run, found in zip((before, after), pictures, strict=True):
        for row in run.query(query).to_pylist():
            found[row["case"]].append(row)
    known: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    seen: dict[tuple[str, str], list[Place]] = defaultdict(list)
    for case, old in pictures[0].items():
        new = pictures[1].get(case)
        if new is not None:  # of an unfinished run
            for key, told in (*_objects(old, new, rules), *_extras(old, new, rules, seen)):
                known[key].append(told)
    return [_unit(key, told) for key, told in known.items()]


def _unit(key: Any, told: Sequence[tuple[Any, ...]]) -> Unit:
    image, condition, *_ = key
    worst = min(told, key=lambda each: min(each[2], each[3]))  # what it looks like where it fails most
    before, after = (tuple(each[i] for each in told) for i in (2, 3))
    return Unit(image, condition, worst[0], worst[1], before, after)


def _objects(old: Sequence[Row], new: Sequence[Row], rules: Rules) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    now = {row["id"]: row for row in new if row["kind"] == "object"}
    for row in old:
        if row["kind"] == "object":
            other = now[row["id"]]
            failing = row if not row["found"] else other
            kind = "renamed" if failing["became"] is not None else "missed"
            margins = [each["score"] - rules.score for each in (row, other)]
            yield (row["image"], row["condition"], row["id"]), (kind, failing["mechanism"], *margins)


def _extras(
    old: Sequence[Row], new: Sequence[Row], rules: Rules, seen: Mapping[tuple[str, str], list[Place]]
) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Wrong detections of one picture, those of both detectors paired by class and place; ``seen`` numbers them per
    photo and condition, so that one that many edits show is one."""
    was, now = list(_wrong(old, rules)), list(_wrong(new, rules))
    pairs: list[tuple[Row | None, Row | None]] = []
    for row in was:
        mate = next((other for other in now if same_extra(*_place(row), *_place(other))), None)
        if mate is not None:
            now.remove(mate)
        pairs.append((row, mate))
    for one, other in [*pairs, *((None, row) for row in now)]:
        shown = one or other
        assert shown is not None
        place = shown["image"], shown["condition"]
        number = _number(seen[place], shown)
        # reported at the very threshold is reported: an object found there is found
        margins = [_GONE if each is None else rules.score - each["score"] - 1e-9 for each in (one, other)]
        yield (*place, EXTRA, number), (EXTRA, None, *margins)


def _number(known: list[Place], row: Row) -> int:
    own = _place(row)
    for number, other in enumerate(known):
        if same_extra(*own, *other):
            return number
    known.append(own)
    return len(known) - 1


def _place(row: Row) -> Place:
    return row["label"], [row[side] for side in SIDES]


def _wrong(rows: Sequence[Row], rules: Rules) -> Iterator[Row]:
    """Detections that are on no object of their class, and on nothing that the annotations leave open."""
    found = [row for row in rows if row["kind"] == "detection"]
    listed = [row for row in rows if row["kind"] != "detection"]
    if not found:
        return
    boxes, places = boxes_of(found), boxes_of(listed)
    overlap, inside = iou(boxes, places), coverage(boxes, by=places)
    for i, row in enumerate(found):
        about = [j for j, other in enumerate(listed) if other["label"] == row["label"]]
        right = any(overlap[i, j] >= rules.loc for j in about)
        open_ = any(listed[j]["reason"] == "crowd" and inside[i, j] >= IN_CROWD for j in about)
        if not right and not open_:
            yield row


def repaired(found: Sequence[Unit], rules: Rules, confidence: float, seed: int) -> Document:
    """What became of ``found``: counts of ``fixed``, ``still`` and ``broken``, by type and mechanism; ``repaired`` (of
    those that failed), ``broke`` (of those that surely did not) and ``net`` (fixed less broken, of all), with intervals
    over images."""
    fates = [unit.fate(rules.flicker) for unit in found]
    told: Document = {"failed": 0, "shaky": fates.count(SHAKY), "fine": fates.count(FINE)}
    for fate in (FIXED, STILL, BROKEN):
        those = [unit for unit, its in zip(found, fates, strict=True) if its == fate]
        told[fate] = {
            "count": len(those),
            "by_type": _counted(unit.type for unit in those),
            "by_mechanism": _counted(unit.mechanism or "unknown" for unit in those if unit.type != EXTRA),
        }
    told["failed"] = told[FIXED]["count"] + told[STILL]["count"]
    if not found:
        return told | {"repaired": None, "broke": None, "net": None, "intervals": {}}
    of = {name: np.array([fate == name for fate in fates], dtype=float) for name in FATES}
    failed, sound = of[FIXED] + of[STILL], of[BROKEN] + of[FINE]
    hits = np.stack([of[FIXED], of[BROKEN], of[FIXED] - of[BROKEN]], axis=1)
    among = np.stack([failed, sound, np.ones(len(found))], axis=1)
    numbers: dict[str, int] = {}
    image = np.array([numbers.setdefault(unit.image, len(numbers)) for unit in found])
    ends = rate_intervals(hits, among, image, confidence=confidence, seed=seed)
    names = ("repaired", "broke", "net")
    sums = zip(hits.sum(axis=0).tolist(), among.sum(axis=0).tolist(), strict=True)
    told |= {name: above / below if below else None for name, (above, below) in zip(names, sums, strict=True)}
    told["intervals"] = {n: None if np.isnan(low) else [low, high] for n, (low, high) in zip(names, ends, strict=True)}
    return told


def _counted(words: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(words).items()))

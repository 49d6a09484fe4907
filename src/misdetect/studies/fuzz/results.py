"""The numbers of a campaign, from its rows: the paper's counts, and beside them what is really attributable."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from misdetect.boxes import Floats, gaps
from misdetect.engine.store import Run
from misdetect.metrics import bootstrap
from misdetect.metrics.metamorphic import TYPES
from misdetect.studies.fuzz.failures import Key, Register, counted
from misdetect.studies.fuzz.rows import BOX, CLEAN, INSERTION, RELOCATION, SHRINKING, Insertion
from misdetect.studies.fuzz.settings import Fuzzing

CONFIDENCE = 0.9
_BINS = 5

Row = Mapping[str, Any]


@dataclass
class Distinct:
    """One failure: its ``key``, whether it is ``attributable`` (to what was inserted), the ``cases`` that show it, and
    the case index and ``change`` that show it best: the first attributable one, else the first."""

    key: Key
    attributable: bool
    case: str
    index: int
    change: Mapping[str, Any]
    insertion: Insertion
    cases: list[int] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Campaign:
    """The rows of a run by phase, in order of cases, and the distinct failures of its insertions."""

    clean: list[Row]
    asked: list[Row]
    unnatural: int
    relocations: list[Row]
    shrunk: list[Row]
    distinct: list[Distinct]
    fuzzing: Fuzzing

    @classmethod
    def of(cls, run: Run, fuzzing: Fuzzing) -> "Campaign":
        """Read ``run``."""
        phases: dict[str, list[Row]] = defaultdict(list)
        for row in run.table().to_pylist():
            phases[row["phase"]].append(row)
        insertions = phases[INSERTION]
        asked = [row for row in insertions if row["failed"] is not None]
        failures = _distinct(asked, fuzzing.count_flicker)
        unasked = len(insertions) - len(asked)
        return cls(phases[CLEAN], asked, unasked, phases[RELOCATION], phases[SHRINKING], failures, fuzzing)

    @property
    def failing(self) -> list[Row]:
        """Insertions that fail."""
        return [row for row in self.asked if counted(row, self.fuzzing.count_flicker)]

    @property
    def queries(self) -> int:
        """Questions of all phases."""
        return sum(row["queries"] for row in (*self.clean, *self.asked, *self.relocations, *self.shrunk))

    @property
    def relocated(self) -> list[Row]:
        """Relocations that got anywhere."""
        return [row for row in self.relocations if row["progress"] > 0]


def _distinct(asked: Sequence[Row], count_flicker: bool) -> list[Distinct]:
    register = Register()
    found: dict[Key, Distinct] = {}
    for row in asked:
        for change in counted(row, count_flicker):
            key = register.key(row["image"], change)
            index = row["case_index"]
            if key not in found or (change["attributable"] and not found[key].attributable):
                cases = found[key].cases if key in found else []
                found[key] = Distinct(
                    key, change["attributable"], row["case"], index, change, Insertion.of_row(row), cases
                )
            found[key].cases.append(index)
    return list(found.values())


def summarise(campaign: Campaign, names: Sequence[str], dropped: int | None) -> dict[str, Any]:
    """What ``misdetect fuzz`` reports, apart from settings and cost."""
    fuzzing, failing = campaign.fuzzing, campaign.failing
    insertions = len(campaign.asked)
    raw = [row for row in campaign.asked if row["failed"]]
    attributable = [failure for failure in campaign.distinct if failure.attributable]
    unique_places = {(r["image"], r["cutout"], r["x"], r["y"]) for r in campaign.relocated}
    return {
        "backgrounds": len(campaign.clean),
        "queries": campaign.queries,
        "insertions": insertions,
        "failures": len(failing),
        "failure_rate": _share(len(failing), insertions),
        "raw_failures": len(raw),
        "raw_failure_rate": _share(len(raw), insertions),
        "flicker": sum(bool(row["flicker"]) for row in campaign.asked),
        "unique_failures": len(campaign.distinct),
        "attributable": len(attributable),
        "attributable_per_1000": _share(1000 * len(attributable), campaign.queries),
        "null_failures": sum(row["null_failed"] is True for row in failing),
        "null_asked": sum(row["null_failed"] is not None for row in failing),
        "by_type": _by_type(failing, fuzzing.count_flicker),
        "attributable_by_type": _count_types(failure.key[1] for failure in attributable),
        "reach": _reach(campaign, dropped),
        "relocated": len(campaign.relocated),
        "relocated_unique": len(unique_places),
        "relocation": _relocation(campaign.relocations),
        "shrunk": [_shrunk(row) for row in campaign.shrunk],
        "naturalness": _naturalness(campaign),
        "noise": _noise(campaign.clean),
        "intervals": _intervals(campaign),
        "cases": [_case(failure, campaign, names) for failure in campaign.distinct],
    }


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _count_types(types: Any) -> dict[str, int]:
    found = Counter(types)
    return {name: found[name] for name in TYPES}


def _by_type(failing: Sequence[Row], count_flicker: bool) -> dict[str, int]:
    """Failing insertions that show each type; one may show several."""
    return _count_types(name for row in failing for name in {change["type"] for change in counted(row, count_flicker)})


def _reach(campaign: Campaign, dropped: int | None) -> dict[str, Any]:
    """Which backgrounds and objects were tested: an object is when something was inserted in the ring around it."""
    score = campaign.fuzzing.oracle.score
    objects, tested, usable = 0, 0, 0
    inserted: dict[int, list[tuple[int, int, int, int]]] = defaultdict(list)
    for row in campaign.asked:
        inserted[row["image"]].append(Insertion.of_row(row).box)
    for row in campaign.clean:
        firm = np.array([[d[name] for name in BOX] for d in row["detections"] if d["score"] >= score], dtype=np.float64)
        objects += len(firm)
        usable += bool(len(firm))
        if len(firm) and inserted[row["image"]]:
            tested += int(_in_ring(firm, np.array(inserted[row["image"]], dtype=np.float64)).sum())
    levels = Counter(row["level"] for row in campaign.asked)
    return {
        "backgrounds": _share(sum(bool(boxes) for boxes in inserted.values()), usable),
        "objects": _share(tested, objects),
        "detected_objects": objects,
        "backgrounds_with_detections": usable,
        "insertions_by_level": {str(level): levels[level] for level in sorted(levels)},
        "dropped": dropped,
        "unnatural": campaign.unnatural,
    }


def _in_ring(firm: Floats, boxes: Floats) -> Any:
    """Which of ``firm`` ``[M, 4]`` have one of ``boxes`` within half that box's size."""
    half = np.hypot(*((boxes[:, 2:] - boxes[:, :2]) / 2).T)
    return (gaps(firm, boxes) <= half[None, :] + 1).any(axis=1)


def _relocation(rows: Sequence[Row]) -> dict[str, Any]:
    """Fig. 8: how far relocated objects got, in percent of those that moved at all."""
    moved = np.array([row["progress"] for row in rows if row["progress"] > 0], dtype=np.float64)
    edges = np.linspace(0, 1, _BINS + 1)
    arrived = moved >= 1 - 1e-9
    counts, _ = np.histogram(moved[~arrived], edges)
    bins = {f"{100 * a:.0f}-{100 * b:.0f}": int(n) for a, b, n in zip(edges, edges[1:], counts, strict=False)}
    return {
        "tried": len(rows),
        "queries": sum(row["queries"] for row in rows),
        "moved": len(moved),
        "arrived": int(arrived.sum()),
        "arrived_share": _share(float(arrived.sum()), len(moved)),
        "at_least_40": _share(float((moved >= 0.4).sum()), len(moved)),
        "progress": bins | {"100": int(arrived.sum())},
    }


def _shrunk(row: Row) -> dict[str, Any]:
    return {
        "case": row["case"],
        "origin": row["origin"],
        "strength": row["strength"],
        "size": [row["width"], row["height"]],
        "opacity": row["opacity"],
    }


def _naturalness(campaign: Campaign) -> dict[str, float | None]:
    """Table 4: mean HOG intersection with the background, in percent."""
    parts = {"inserted": campaign.asked, "failing": campaign.failing, "relocated": campaign.relocated}
    return {
        name: 100 * float(np.mean([row["naturalness"] for row in rows])) if rows else None
        for name, rows in parts.items()
    }


def _noise(clean: Sequence[Row]) -> dict[str, int]:
    """Backgrounds asked about twice, how many answers differed at all, and how many so that the oracle minds."""
    twice = [row for row in clean if row["differs"] is not None]
    return {
        "asked_twice": len(twice),
        "differing": sum(row["differs"] for row in twice),
        "failing": sum(row["noise"] for row in twice),
    }


def _intervals(campaign: Campaign) -> dict[str, list[float | None]]:
    """Percentile intervals over backgrounds."""
    images = {row["image"]: i for i, row in enumerate(campaign.clean)}
    if not images:  # a budget that was spent before it began
        return {name: [None, None] for name in ("failure_rate", "attributable_per_1000")}
    columns = np.zeros((len(images), 4))  # queries, insertions, failures, attributable
    for row in (*campaign.clean, *campaign.asked, *campaign.relocations, *campaign.shrunk):
        columns[images[row["image"]], 0] += row["queries"]
    for row in campaign.asked:
        columns[images[row["image"]], 1] += 1
    for row in campaign.failing:
        columns[images[row["image"]], 2] += 1
    for failure in campaign.distinct:
        columns[images[failure.key[0]], 3] += failure.attributable
    draws = bootstrap.resamples(len(images), seed=campaign.fuzzing.seed)
    return {
        "failure_rate": _ends(bootstrap.ratios(draws, columns[:, 2], columns[:, 1])),
        "attributable_per_1000": _ends(1000 * bootstrap.ratios(draws, columns[:, 3], columns[:, 0])),
    }


def _ends(samples: Floats) -> list[float | None]:
    low, high = (float(end) for end in bootstrap.interval(samples, CONFIDENCE))
    return [None, None] if np.isnan(low) else [low, high]


def _case(failure: Distinct, campaign: Campaign, names: Sequence[str]) -> dict[str, Any]:
    change = failure.change
    return {
        "case": failure.case,
        "background": _id(campaign, failure.key[0]),
        "type": failure.key[1],
        "object": names[change["label"]],
        "became": names[change["became"]] if change["became"] >= 0 else None,
        "box": [change[name] for name in BOX],
        "score": change["score"],
        "after": change["after"],
        "attributable": failure.attributable,
        "null": change["null"],
        "times": len(failure.cases),
    }


def _id(campaign: Campaign, image: int) -> str:
    return str(next(row["background"] for row in campaign.clean if row["image"] == image))

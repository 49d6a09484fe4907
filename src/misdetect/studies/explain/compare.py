"""Several explain runs side by side: Fig. 5 of paper 3, over data sets or over detectors.

Shares of the mechanisms with their intervals; how they differ, drawing the same images for both where the images are
the same; and for runs over the same objects which misses they share. Runs are compared like with like (*paired*) where
the same objects were judged by the same rules.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from misdetect.engine.store import Run
from misdetect.metrics.bootstrap import change, resamples
from misdetect.metrics.slices import per_image
from misdetect.nouns.boxes import Floats, Ints, boxes_of
from misdetect.nouns.labels import one_name
from misdetect.said.errors import BadData
from misdetect.studies.explain.document import headline, names_of, settings_of
from misdetect.studies.objects import REPEATS, Common, Key, mcnemar

RULES = ("loc", "cls", "score", "miss", "reading", "inside")
"""Settings that decide what is a miss and what is said of it."""


@dataclass(frozen=True, eq=False)
class Judged:
    """The objects of one run: ``keys`` (image, id), ``boxes`` ``[N, 4]``, ``mechanism`` ``[N]`` ("" where it is found);
    ``names`` of the mechanisms that the run can name, the ``rules`` it judged by, and its headline ``document``."""

    keys: list[Key]
    boxes: Floats
    mechanism: NDArray[np.object_]
    names: tuple[str, ...]
    rules: Mapping[str, Any]
    document: Mapping[str, Any]

    @classmethod
    def of(cls, run: Run, *, confidence: float = 0.9, seed: int = 0) -> "Judged":
        if run.study != "explain":
            raise BadData(f"{run.address} is not an explain run.")
        how = replace(settings_of(run), confidence=confidence, seed=seed)
        rows = run.query(
            "SELECT image, id, label, x0, y0, x1, y1, found, mechanism, reason, tide FROM rows WHERE kind = 'object' "
            "ORDER BY case_index, row"
        ).to_pylist()
        return cls(
            [(row["image"], row["id"]) for row in rows],
            boxes_of(rows),
            np.array([row["mechanism"] or "" for row in rows], dtype=object),
            names_of(bool(how.inside)),
            {key: getattr(how, key) for key in RULES},
            headline(rows, how),
        )

    def columns(self, rows: Ints) -> Floats:
        """``[N, 2 + J]`` of 0 and 1: an object, missed, missed by each of the mechanisms."""
        lost = self.mechanism[rows]
        parts = [np.ones(len(rows)), lost != "", *(lost == name for name in self.names)]
        return np.stack([np.asarray(part, dtype=np.float64) for part in parts], axis=1)


def shares(document: Mapping[str, Any]) -> dict[str, float]:
    """Each mechanism's share of the misses, in 0..1; empty where nothing is missed."""
    missed = document["missed"]
    return {name: count / missed for name, count in document["mechanisms"].items()} if missed else {}


def side_by_side(documents: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row per run: objects, misses, rate, and the shares of the mechanisms with their intervals."""
    return [
        {
            "run": name,
            "objects": document["objects"],
            "missed": document["missed"],
            "miss_rate": document["miss_rate"],
            "miss_rate_interval": document["intervals"]["miss_rate"],
            "mechanisms": document["mechanisms"],
            "shares": shares(document),
            "intervals": document["intervals"]["shares"],
            "rate_intervals": document["intervals"]["rates"],
        }
        for name, document in documents.items()
    ]


def shared_misses(
    first: Path | str | Judged, second: Path | str | Judged, common: Common | None = None
) -> dict[str, Any]:
    """Two runs over the same objects: found by both, missed by one or both, and for those missed by both how often
    mechanism a of the first meets mechanism b of the second (``[a, b, count]``).

    ``p`` is McNemar's exact test of "each misses as much as the other", which takes objects for independent.
    """
    a, b = (each if isinstance(each, Judged) else Judged.of(Run.open(each)) for each in (first, second))
    common = common or Common.of(a, b)
    if common.why_not is not None:
        raise BadData(f"the runs cannot be paired: {common.why_not}; only runs over the same data can.")
    pairs = Counter(zip(a.mechanism[common.first], b.mechanism[common.second], strict=True))
    only_first = sum(n for (x, y), n in pairs.items() if x and not y)
    only_second = sum(n for (x, y), n in pairs.items() if y and not x)
    both = [[x, y, n] for (x, y), n in pairs.items() if x and y]
    return {
        "objects": len(common.first),
        "both_found": pairs["", ""],
        "only_first_missed": only_first,
        "only_second_missed": only_second,
        "missed_by_both": sum(row[2] for row in both),
        "both_missed": sorted(both, key=lambda row: (-row[2], row[0], row[1])),
        "p": mcnemar(only_first, only_second),
    }


def difference(
    a: Judged, b: Judged, common: Common | None = None, *, confidence: float = 0.9, seed: int = 0
) -> dict[str, Any]:
    """How run ``b`` differs from run ``a``: the miss rate, each mechanism's rate (misses by it / objects) and its share
    of the misses, second - first with the interval; ``certain`` where that excludes 0.

    Over the objects that both have, if they are the same: then the same images are drawn for both. Else each run's
    images are drawn for themselves, and the intervals are wider.
    """
    common = common or Common.of(a, b)
    paired = common.why_not is None
    rows = (common.first, common.second) if paired else (np.arange(len(a.keys)), np.arange(len(b.keys)))
    both: list[Floats] = []
    for number, (run, chosen) in enumerate(zip((a, b), rows, strict=True)):
        image = _numbered([run.keys[i][0] for i in chosen.tolist()])
        images = int(image.max(initial=-1)) + 1
        if not images:
            return {"same_images": paired, "objects": 0, "miss_rate": None, "mechanisms": {}}
        sums = per_image(run.columns(chosen), image, images)
        draws = resamples(images, REPEATS, seed if paired else seed + number)
        both.append(np.concatenate([sums.sum(axis=0)[None], draws @ sums]))
    names = tuple(dict.fromkeys((*a.names, *b.names)))
    first, second = (_wide(part, run.names, names) for part, run in zip(both, (a, b), strict=True))
    per_object = [_ratio(part[:, 1:], part[:, :1]) for part in (first, second)]
    of_misses = [_ratio(part[:, 2:], part[:, 1:2]) for part in (first, second)]
    return {
        "same_images": paired,
        "objects": int(first[0, 0]) if paired else [int(first[0, 0]), int(second[0, 0])],
        "miss_rate": _change(per_object, 0, confidence),
        "mechanisms": {
            name: {"rate": _change(per_object, i + 1, confidence), "share": _change(of_misses, i, confidence)}
            for i, name in enumerate(names)
        },
    }


def _numbered(names: Sequence[str]) -> Ints:
    place: dict[str, int] = {}
    return np.array([place.setdefault(name, len(place)) for name in names], dtype=np.int64)


def _wide(counts: Floats, own: Sequence[str], names: Sequence[str]) -> Floats:
    """Columns for all of ``names``, 0 for a mechanism that the run cannot name."""
    place = {name: 2 + i for i, name in enumerate(own)}
    extra = [counts[:, place[name]] if name in place else np.zeros(len(counts)) for name in names]
    return np.stack([counts[:, 0], counts[:, 1], *extra], axis=1)


def _ratio(above: Floats, below: Floats) -> Floats:
    found: Floats = np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0)
    return found


def _change(rates: Sequence[Floats], column: int, confidence: float) -> dict[str, Any] | None:
    return change(rates[0][:, column], rates[1][:, column], confidence)


def missed_by(runs: Sequence[Judged]) -> list[int] | None:
    """How many objects are missed by none, one, … all of ``runs``, over those that all have; ``None`` where these are
    not the same objects."""
    if any(Common.of(runs[0], other).why_not is not None for other in runs[1:]):
        return None
    every = set(runs[0].keys).intersection(*(run.keys for run in runs[1:]))
    count: Counter[Key] = Counter(
        key for run in runs for key, why in zip(run.keys, run.mechanism, strict=True) if why and key in every
    )
    spread = Counter(count[key] for key in every)
    return [spread[n] for n in range(len(runs) + 1)]


def why_not_paired(runs: Mapping[str, Judged]) -> list[str]:
    """Why a difference between ``runs`` is not only the detectors' (or the pictures'): other objects, other rules."""
    found = []
    (name, first), *others = runs.items()
    for other, run in others:
        common = Common.of(first, run)
        if common.why_not is not None:
            found.append(f"{name} and {other} are not over the same objects: {common.why_not}")
        rules = [key for key in RULES if first.rules[key] != run.rules[key]]
        if rules:
            found.append(f"{name} and {other} judge by different rules: {', '.join(rules)}")
    return found


def left_out(runs: Mapping[str, Judged], commons: Mapping[tuple[str, str], Common]) -> list[str]:
    """Notes on objects that are in some of the paired runs only: other limits, or classes that a detector lacks."""
    found = []
    for (a, b), common in commons.items():
        only = len(runs[a].keys) - len(common.first), len(runs[b].keys) - len(common.second)
        if common.why_not is None and any(only):
            found.append(
                f"{a} and {b} are compared over the {len(common.first)} objects that both have; {only[0]} are only in "
                f"{a}, {only[1]} only in {b}."
            )
    return found


def by_class(runs: Sequence[Judged]) -> dict[str, dict[str, list[Any]]]:
    """For each class of any of ``runs`` its objects, misses and miss rate in each, ``None`` where it is not there."""
    found: dict[str, dict[str, list[Any]]] = {}
    spelling: dict[str, str] = {}
    for i, run in enumerate(runs):
        for label, entry in run.document["by_class"].items():
            name = spelling.setdefault(one_name(label), label)
            row = found.setdefault(name, {key: [None] * len(runs) for key in ("objects", "missed", "miss_rate")})
            for key, values in row.items():
                values[i] = entry[key]
    return dict(sorted(found.items()))


def compare(runs: Mapping[str, Run], confidence: float, seed: int) -> dict[str, Any]:
    """Everything ``misdetect compare`` says of explain ``runs`` but their settings; ``by_run`` has each one's own."""
    judged = {name: Judged.of(run, confidence=confidence, seed=seed) for name, run in runs.items()}
    return {**compared(judged, confidence=confidence, seed=seed), "by_run": {n: j.document for n, j in judged.items()}}


def compared(runs: Mapping[str, Judged], *, confidence: float = 0.9, seed: int = 0) -> dict[str, Any]:
    """Everything ``misdetect compare`` says of explain runs but their settings."""
    why_not = why_not_paired(runs)
    rows = side_by_side({name: run.document for name, run in runs.items()})
    commons = {(a, b): Common.of(runs[a], runs[b]) for a, b in combinations(runs, 2)}
    return {
        "paired": not why_not,
        "why_not_paired": why_not,
        "mechanisms": _by_mechanism(rows),
        "by_class": by_class(list(runs.values())),
        "differences": [
            {"first": a, "second": b} | difference(runs[a], runs[b], common, confidence=confidence, seed=seed)
            for (a, b), common in commons.items()
        ],
        "shared_misses": [
            {"first": a, "second": b} | shared_misses(runs[a], runs[b], common)
            for (a, b), common in commons.items()
            if common.why_not is None
        ],
        "missed_by": missed_by(list(runs.values())),
        "notes": left_out(runs, commons),
    }


def _by_mechanism(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    names = dict.fromkeys(name for row in rows for name in row["mechanisms"])
    return {
        name: [
            {
                "run": row["run"],
                "count": row["mechanisms"].get(name),
                "share": row["shares"].get(name),
                "interval": row["intervals"].get(name),
                "rate": _over(row["mechanisms"].get(name), row["objects"]),
                "rate_interval": row["rate_intervals"].get(name),
            }
            for row in rows
        ]
        for name in names
    }


def _over(count: int | None, objects: int) -> float | None:
    return count / objects if objects and count is not None else None

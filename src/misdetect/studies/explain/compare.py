"""Several explain runs side by side: Fig. 5 of paper 3, over data sets or over detectors.

Shares of the mechanisms with their intervals; how they differ; and for runs over the same objects which misses they
share.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from misdetect.engine.store import Run
from misdetect.metrics.bootstrap import change
from misdetect.nouns.boxes import Floats
from misdetect.nouns.labels import one_name
from misdetect.said.errors import BadData
from misdetect.studies.contract import Document
from misdetect.studies.explain.document import headline, settings_of
from misdetect.studies.objects import Common, Commons, Judged, Key, drawn_again, in_common, mcnemar, why_not_paired

RULES = ("loc", "cls", "score", "miss", "reading", "inside")
"""Settings that decide what is a miss and what is said of it."""


def judged(run: Run, confidence: float = 0.9, seed: int = 0) -> Judged:
    """The objects of ``run``, each with the mechanism that lost it ("" where it is found), and what is said of them."""
    how = replace(settings_of(run), confidence=confidence, seed=seed)
    rows = run.query(
        "SELECT image, id, label, x0, y0, x1, y1, found, mechanism, reason, tide FROM rows WHERE kind = 'object' "
        "ORDER BY case_index, row"
    ).to_pylist()
    rules = {key: getattr(how, key) for key in RULES}
    return Judged.of(rows, [row["mechanism"] or "" for row in rows], rules, headline(rows, how))


def compare(runs: Mapping[str, Run], confidence: float, seed: int) -> Document:
    """What ``misdetect compare`` says of explain ``runs`` beyond their settings; ``by_run`` has each one's own."""
    known = {name: judged(run, confidence, seed) for name, run in runs.items()}
    return {**compared(known, confidence, seed), "by_run": {name: each.document for name, each in known.items()}}


def compared(runs: Mapping[str, Judged], confidence: float = 0.9, seed: int = 0) -> Document:
    """The same of runs that have been read."""
    commons = in_common(runs)
    why_not = why_not_paired(runs, commons)
    return {
        "paired": not why_not,
        "why_not_paired": why_not,
        "mechanisms": by_mechanism({name: run.document for name, run in runs.items()}),
        "by_class": by_class([run.document for run in runs.values()]),
        "differences": [
            {"first": a, "second": b} | difference(runs[a], runs[b], common, confidence, seed)
            for (a, b), common in commons.items()
        ],
        "shared_misses": [
            {"first": a, "second": b} | shared_misses(runs[a], runs[b], common)
            for (a, b), common in commons.items()
            if common.same
        ],
        "missed_by": missed_by(list(runs.values())),
        "notes": left_out(runs, commons),
    }


def by_mechanism(documents: Mapping[str, Document]) -> dict[str, list[Document]]:
    """For each mechanism of any run an entry per run: its count, its share of the misses and its rate among the
    objects, with their intervals; ``None`` where the run cannot name it."""

    def entry(run: str, document: Document, name: str) -> Document:
        count, ends = document["mechanisms"].get(name), document["intervals"]
        return {
            "run": run,
            "count": count,
            "share": None if count is None or not document["missed"] else count / document["missed"],
            "interval": ends["shares"].get(name),
            "rate": None if count is None or not document["objects"] else count / document["objects"],
            "rate_interval": ends["rates"].get(name),
        }

    names = dict.fromkeys(name for document in documents.values() for name in document["mechanisms"])
    return {name: [entry(run, document, name) for run, document in documents.items()] for name in names}


def by_class(documents: Sequence[Document]) -> dict[str, dict[str, list[Any]]]:
    """For each class of any run its objects, misses and miss rate in each, ``None`` where it is not there."""
    found: dict[str, dict[str, list[Any]]] = {}
    spelling: dict[str, str] = {}
    for i, document in enumerate(documents):
        for label, entry in document["by_class"].items():
            name = spelling.setdefault(one_name(label), label)
            row = found.setdefault(name, {key: [None] * len(documents) for key in ("objects", "missed", "miss_rate")})
            for key, values in row.items():
                values[i] = entry[key]
    return dict(sorted(found.items()))


def difference(a: Judged, b: Judged, common: Common | None = None, confidence: float = 0.9, seed: int = 0) -> Document:
    """How run ``b`` differs from run ``a``: the miss rate, each mechanism's rate (misses by it / objects) and its share
    of the misses, second - first with the interval; ``certain`` where that excludes 0."""
    common = common or Common.of(a, b)
    names = tuple(dict.fromkeys((*a.document["mechanisms"], *b.document["mechanisms"])))

    def columns(run: Judged) -> Floats:
        """An object, missed, missed by each of the mechanisms."""
        return np.column_stack([np.ones(len(run.keys)), run.fate != "", run.shared_by(names)])

    counts = drawn_again(a, b, common, columns, seed)
    if counts is None:
        return {"same_images": common.same, "objects": 0, "miss_rate": None, "mechanisms": {}}

    def changed(column: int, among: int) -> Document | None:
        first, second = (_ratio(each[:, column], each[:, among]) for each in counts)
        return change(first, second, confidence)

    objects = [int(each[0, 0]) for each in counts]
    return {
        "same_images": common.same,
        "objects": objects[0] if common.same else objects,
        "miss_rate": changed(1, 0),
        "mechanisms": {name: {"rate": changed(i, 0), "share": changed(i, 1)} for i, name in enumerate(names, start=2)},
    }


def _ratio(above: Floats, below: Floats) -> Floats:
    found: Floats = np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0)
    return found


def shared_misses(a: Judged, b: Judged, common: Common | None = None) -> Document:
    """Of the same objects: found by both, missed by one or both, and for those missed by both how often mechanism x of
    the first meets mechanism y of the second (``[x, y, count]``).

    ``p`` is McNemar's exact test of "each misses as much as the other", which takes objects for independent.
    """
    common = common or Common.of(a, b)
    if not common.same:
        raise BadData(f"the runs cannot be paired: {common.why_not}; only runs over the same data can.")
    pairs = Counter(zip(a.fate[common.first], b.fate[common.second], strict=True))
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


def missed_by(runs: Sequence[Judged]) -> list[int] | None:
    """How many objects are missed by none, one, … all of ``runs``, over those that all have; ``None`` where these are
    not the same objects."""
    if not all(Common.of(runs[0], other).same for other in runs[1:]):
        return None
    every = set(runs[0].keys).intersection(*(run.keys for run in runs[1:]))
    count: Counter[Key] = Counter(
        key for run in runs for key, why in zip(run.keys, run.fate, strict=True) if why and key in every
    )
    spread = Counter(count[key] for key in every)
    return [spread[n] for n in range(len(runs) + 1)]


def left_out(runs: Mapping[str, Judged], commons: Commons) -> list[str]:
    """Notes on objects that are in some of the paired runs only: other limits, or classes that a detector lacks."""
    found = []
    for (a, b), common in commons.items():
        only = len(runs[a].keys) - len(common.first), len(runs[b].keys) - len(common.second)
        if common.same and any(only):
            found.append(
                f"{a} and {b} are compared over the {len(common.first)} objects that both have; {only[0]} are only in "
                f"{a}, {only[1]} only in {b}."
            )
    return found

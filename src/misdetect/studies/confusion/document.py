"""The document of a confusion run: the matrix, what became of every object, and why its recall is what it is.

Everything is computed again from the boxes and scores in the rows, by the same functions that made the rows. Nothing is
counted twice and nothing is lost: ``conservation`` has the sums.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from misdetect.drawing.words import percent, within
from misdetect.engine.store import Run
from misdetect.metrics.columns import TruthColumns
from misdetect.metrics.confusion import BINS, Confusion, found_by_class
from misdetect.metrics.slices import rate_intervals
from misdetect.nouns.boxes import Floats, Ints
from misdetect.studies.confusion.cells import behind, largest, read_cell
from misdetect.studies.confusion.rows import COLUMNS, OUTCOMES, Said, columns_of, labels_of
from misdetect.studies.confusion.settings import ConfusionSettings
from misdetect.studies.contract import Document, Headline

_TOP = 20


def settings_of(run: Run) -> ConfusionSettings:
    """How ``run`` was made and is shown."""
    return ConfusionSettings.of(run.chosen)


class _Read:
    """The rows of ``run`` as columns, and the matrix of those detections that count."""

    def __init__(self, run: Run) -> None:
        self.how = settings_of(run)
        self.labels = labels_of(run.about["identity"]["data"]["names"])
        rows = run.query(f"SELECT {COLUMNS} FROM rows ORDER BY case_index, row")
        images = max(run.cases or 0, 1 + int(rows["case_index"].to_numpy().max(initial=-1)))
        truth, known, self.every = columns_of(rows, self.labels, images)
        self.truth: TruthColumns = truth
        self.counted = known & ~truth.crowd
        """Objects of classes that the detector has: those of which recall is."""
        lacking = set(truth.label[~truth.crowd & ~self.counted].tolist())
        self.unknown = sorted(self.labels[i] for i in lacking)
        """The classes of the others."""
        self.said: Said = self.every.chosen(self.every.columns.scores >= self.how.score)
        self.matrix: Confusion = self.said.confusion(truth, self.how)
        self.right = self.matrix.became == truth.label
        tally = run.query("SELECT kind, reason, count(*) AS n FROM rows GROUP BY ALL").to_pylist()
        self.tally = Counter({(row["kind"], row["reason"]): row["n"] for row in tally})


def document(run: Run) -> Document:
    """The JSON-able document of ``run``."""
    read = _Read(run)
    m, how, labels = read.matrix, read.how, read.labels
    return {
        "labels": list(labels),
        "counts": _plain(m.counts),
        "confidence": _plain(m.confidence),
        "iou_histograms": {"edges": [b / BINS for b in range(BINS + 1)], "cells": _histograms(m, labels)},
        "became": _became(read).tolist(),
        "missed": dict(zip(labels[:-1], m.missed.tolist(), strict=True)),
        "policy_dependent": _dependent(m, labels),
        "missed_by_policy": {name: int(each.sum()) for name, each in m.missed_by_policy.items()},
        **_rates(read),
        "recall_steps": _steps(read),
        "confusions": _confusions(read),
        "conservation": _conservation(read),
        "cell": _cell(run, how, labels),
        "notes": _notes(read),
    }


def _count(value: float) -> float | int:
    """A whole number as such: counts are, but for the soft mode."""
    return int(value) if float(value).is_integer() else round(float(value), 6)


def _plain(matrix: Floats) -> list[list[float | int]]:
    return [list(map(_count, row)) for row in matrix.tolist()]


def _histograms(m: Confusion, labels: Sequence[str]) -> list[list[Any]]:
    """``[actual, predicted, detections by IoU]`` of the cells that are not empty."""
    cells = np.argwhere(m.counts > 0).tolist()
    return [[labels[a], labels[b], list(map(_count, m.histograms[a, b].tolist()))] for a, b in cells]


def _became(read: _Read) -> Any:
    """``[C, C + 2]``: how many objects of each class were taken for each label, the last column missed."""
    c, truth = len(read.truth.names), read.truth
    column = np.where(read.matrix.became < 0, c + 1, read.matrix.became)[~truth.crowd]
    return np.bincount(truth.label[~truth.crowd] * (c + 2) + column, minlength=c * (c + 2)).reshape(c, c + 2)


def _dependent(m: Confusion, labels: Sequence[str]) -> list[Document]:
    """Cells that hold other detections under another policy, those that change most first."""
    cells = np.argwhere(m.policy_dependent).tolist()
    found = []
    for a, b in cells:
        counts = {name: _count(each[a, b]) for name, each in m.counts_by_policy.items()}
        found.append({"actual": labels[a], "predicted": labels[b], "counts": counts})
    return sorted(found, key=lambda each: min(each["counts"].values()) - max(each["counts"].values()))


def _rates(read: _Read) -> Document:
    """Recall and precision with their intervals, over all classes and by class."""
    m, c, how = read.matrix, len(read.truth.names), read.how
    objects = read.counted
    reported = (m.column >= 0) & (m.column < c)
    recall = _rate(read.right[objects], read.truth.label[objects], read.truth.image[objects], c, how)
    precision = _rate((m.row == m.column)[reported], m.column[reported], read.said.columns.image[reported], c, how)
    predicted = np.bincount(m.column[reported], minlength=c)
    by_class = {
        name: {
            "objects": int(m.objects[i]),
            **{outcome: int(each[i]) for outcome, each in _outcomes(m).items()},
            "detections": int(predicted[i]),
            "known": name not in read.unknown,
            "recall": recall[i + 1]["value"],
            "recall_interval": recall[i + 1]["interval"],
            "precision": precision[i + 1]["value"],
            "precision_interval": precision[i + 1]["interval"],
        }
        for i, name in enumerate(read.labels[:-1])
    }
    return {
        "objects": int(m.objects.sum()),
        "outcomes": {name: int(each.sum()) for name, each in _outcomes(m).items()},
        "detections": int(reported.sum()),
        "recall": recall[0],
        "precision": precision[0],
        "by_class": by_class,
    }


def _outcomes(m: Confusion) -> dict[str, Ints]:
    """Objects of each class ``[C]`` by what became of them."""
    return dict(zip(OUTCOMES, (m.right, m.confused, m.sunk, m.missed), strict=True))


def _rate(hit: Any, label: Any, image: Any, classes: int, how: ConfusionSettings) -> list[Document]:
    """Hits / all, over everything and then of each class, each with its interval over images."""
    if not len(hit):
        return [{"value": None, "interval": None}] * (classes + 1)
    among = np.concatenate([np.ones((len(hit), 1)), label[:, None] == np.arange(classes)[None, :]], axis=1)
    hits = among * np.asarray(hit, dtype=np.float64)[:, None]
    ends = rate_intervals(hits, among, image, confidence=how.confidence, seed=how.seed)
    above, below = hits.sum(axis=0), among.sum(axis=0)
    return [
        {"value": float(a / b), "interval": list(each)} if b else {"value": None, "interval": None}
        for a, b, each in zip(above, below, ends, strict=True)
    ]


def _steps(read: _Read) -> list[Document]:
    """From the recall that AP and AR know to that of the matrix, one rule at a time: objects found after each."""
    truth, how, counted = read.truth, read.how, read.counted
    labelled = read.said.confusion(truth, how, mode="reported").became == truth.label
    found = (
        ("any-score", f"any score, found by their own class at IoU {how.iou:g}, each detection once (AP and AR)",
         found_by_class(truth, read.every.columns, how.iou)),
        ("score", f"the same from score {how.score:g} on", found_by_class(truth, read.said.columns, how.iou)),
        ("any-class", f"detections belong to objects of any class, by the policy {how.policy}", labelled),
        ("matrix", _BACKGROUND[how.mode], read.right),
    )  # fmt: skip
    total, steps, before = int(counted.sum()), list[Document](), None
    for name, rule, hit in found:
        count = int(hit[counted].sum())
        change = None if before is None else count - before
        steps.append(
            {"step": name, "rule": rule, "objects": count, "recall": count / total if total else None, "change": change}
        )
        before = count
    return steps


_BACKGROUND = {
    "hard": "and some are predicted background: that outscores every class",
    "soft": "and each is predicted what it scores most, which may be background",
    "reported": "and their labels are taken as reported",
}


def _confusions(read: _Read) -> list[Document]:
    """Pairs of classes by how many detections of the one lie on objects of the other, the most frequent first."""
    m, labels = read.matrix, read.labels
    between = m.counts[:-1, :-1].copy()
    np.fill_diagonal(between, 0)
    return [
        {
            "actual": labels[a],
            "predicted": labels[b],
            "count": _count(m.counts[a, b]),
            "confidence": float(m.confidence[a, b]),
            "objects": int(((m.became == b) & (read.truth.label == a)).sum()),
            "policy_dependent": bool(m.policy_dependent[a, b]),
        }
        for a, b in largest(between, _TOP)
    ]


def _conservation(read: _Read) -> Document:
    """Every detection and every annotation in exactly one place."""
    m, tally = read.matrix, read.tally
    detections = {
        "in_cells": int((m.row >= 0).sum()),
        "in_crowds": m.ignored,
        "below_score": len(read.every.columns) - len(read.said.columns),
        "left_out": tally["left-out", "unknown-class"],
    }
    objects = {name: int(each.sum()) for name, each in _outcomes(m).items()}
    ignored = {why: tally["ignored", why] for why in ("crowd", "absent")}
    known = sum(n for (kind, _), n in tally.items() if kind == "detection")
    reported = known + tally["left-out", "unknown-class"]
    annotated = sum(n for (kind, _), n in tally.items() if kind == "object")
    counted = abs(float(m.counts.sum()) - detections["in_cells"]) < 1e-6
    return {
        "detections": {"all": reported, **detections},
        "objects": {"all": annotated, **objects},
        "ignored": ignored,
        "holds": counted and sum(detections.values()) == reported and sum(objects.values()) == annotated,
    }


def _cell(run: Run, how: ConfusionSettings, labels: Sequence[str]) -> Document | None:
    if how.cell is None:
        return None
    cell = read_cell(how.cell, labels)
    return {"actual": cell[0], "predicted": cell[1], "entries": behind(run, cell, labels[-1], how.listed)}


def _notes(read: _Read) -> list[str]:
    m, how, found = read.matrix, read.how, []
    sunk = int((m.column == len(read.truth.names)).sum())
    if how.mode != "reported" and sunk:
        found.append(
            f"{sunk} reported detections are predicted background: its score is above that of every class "
            "(--background reported takes them as reported)."
        )
    if read.unknown:
        some = ", ".join(read.unknown[:4]) + (" …" if len(read.unknown) > 4 else "")
        found.append(
            f"here the objects of {some}, which the detector does not have, are rows of the matrix; they are in no "
            "recall."
        )
    if left := read.tally["left-out", "unknown-class"]:
        found.append(f"{left} detections are of classes that the data does not have; they are left out.")
    if read.tally["detection", "crowd"]:
        found.append(f"{read.tally['detection', 'crowd']} detections lie in crowds of their class, in no cell.")
    return found


def sentences(document: Document) -> list[str]:
    """What was found, the most important first."""
    if not document["objects"]:
        return ["Nothing is annotated here that could be confused."]
    total, recall = document["objects"], document["recall"]
    counts = document["outcomes"]
    shares = (f"{counts[name]} ({percent(counts[name] / total)}) {words}" for name, words in _WORDS.items())
    said = [f"Of {total} objects {', '.join(shares)}."]
    if recall["value"] is not None:
        precision = document["precision"]["value"]
        known = "" if precision is None else f", precision {percent(precision)}"
        said.append(f"Recall {percent(recall['value'])}{within(recall['interval'], 0, 100)}{known}.")
    if document["confusions"]:
        worst = document["confusions"][0]
        times = f"{worst['count']:.4g} detection{'s' if worst['count'] != 1 else ''}"
        said.append(f"Most often {worst['actual']} is taken for {worst['predicted']}: {times}.")
    return [*said, *document["notes"]]


_WORDS = {
    "right": "are right",
    "confused": "are taken for another class",
    "background": "for background",
    "missed": "are missed",
}


def numbers(document: Document) -> dict[str, Headline]:
    """For comparing runs."""
    found = {name: Headline(document[name]["value"], document[name]["interval"]) for name in ("recall", "precision")}
    total = document["objects"]
    shares = {f"share.{name}": Headline(n / total if total else None) for name, n in document["outcomes"].items()}
    return found | shares

"""The document of a verify run: Table 1, the curves, parts, the prior, what mistakes cost and causes, out of rows."""

from collections import Counter
from typing import Any

import numpy as np

from misdetect.detectors.catalogue import is_stored
from misdetect.drawing.words import percent, within
from misdetect.engine.store import Run
from misdetect.metrics import parts as metrics
from misdetect.metrics.bootstrap import interval
from misdetect.metrics.matching import overlap_of_pairs
from misdetect.metrics.parts import IOUS, SCORES, Verified
from misdetect.nouns.boxes import Bools, Floats
from misdetect.studies.contract import Document, Headline
from misdetect.studies.verify import causes
from misdetect.studies.verify.table import NUMBERS, WITH, WITHOUT, Table, rates

_COUNTS = ("present_found", "present", "missing_found", "missing")


def document(run: Run) -> Document:
    """The JSON-able document of ``run``."""
    table = Table(run)
    ignored = run.query("SELECT reason, count(*) AS n FROM rows WHERE kind = 'ignored' GROUP BY reason ORDER BY reason")
    found: Document = {
        "images": table.images,
        "parts": len(table.parts),
        "present": int((~table.parts.missing).sum()),
        "missing": int(table.parts.missing.sum()),
        "states": _states(table),
        "ignored": {row["reason"]: row["n"] for row in ignored.to_pylist()},
        **{name: _localised(table, name) for name in (WITH, WITHOUT)},
        "macro": {name: _macro(table, name) for name in (WITH, WITHOUT)},
        "best_threshold": {name: _best_threshold(table, name) for name in (WITH, WITHOUT)},
        "cost": {name: _cost(table, name) for name in (WITH, WITHOUT)},
        "f_vv_curve": _f_vv_curve(table, WITH),
        "f_vv_curve_without_localisation": _f_vv_curve(table, WITHOUT),
        "recall_curves": {name: _recall_curves(table, name) for name in (WITH, WITHOUT)},
        "missing_recall_curve": _missing_recall_curve(table),
        "ap": {name: table.average_precision[2][name] for name in ("AP", "AP50")} if table.images else {},
        "by_part": _by_part(table),
        "prior": _prior(table),
        **causes.document(run, table.how),
    }
    return {**found, "notes": _notes(found, run)}


def figures_of(table: Table) -> Document:
    """What the figures of several runs need of each."""
    ap = table.average_precision[0] if table.images else ()
    return {
        "missing": int(table.parts.missing.sum()),
        "score": table.how.score,
        "missing_recall_curve": _missing_recall_curve(table),
        "f_vv_curve": _f_vv_curve(table, WITH),
        "AP": {name: _plain(value) for name, value in zip(table.names, ap, strict=True)},
    }


def _states(table: Table) -> dict[str, dict[str, float]]:
    counts = Counter(table.states.tolist())
    return {state: {"count": n, "share": n / counts.total()} for state, n in sorted(counts.items())}


def _numbers(counts: Floats, beta: float) -> Document:
    """R_P, R_M, F_vv and the counts that they are made of."""
    told = {name: _plain(value) for name, value in rates(counts, beta).items()}
    return told | dict(zip(_COUNTS, counts.astype(int).tolist(), strict=True))


def _localised(table: Table, name: str) -> Document:
    """A row of Table 1, with intervals."""
    how, verified = table.how, table.verified[name]
    found = _numbers(verified.counts([how.score])[0], how.beta)
    thresholds = (how.present_iou, how.missing_iou) if name == WITH else (0.0, 0.0)
    if not table.images:
        ends: Document = dict.fromkeys(NUMBERS)
    else:
        tally = table.tally(verified, how.score).sum(axis=1)
        ends = _ends(metrics.intervals(tally, table.draws, how.beta, how.confidence))
    return {**found, "intervals": ends, "present_iou": thresholds[0], "missing_iou": thresholds[1]}


def _ends(found: dict[str, tuple[Floats, Floats]]) -> Document:
    return {name: None if np.isnan(low) else [float(low), float(high)] for name, (low, high) in found.items()}


def _macro(table: Table, name: str) -> dict[str, float | None]:
    """The mean over parts of each part's own numbers, those that are defined."""
    counts = table.tally(table.verified[name], table.how.score).sum(axis=0)
    found = {}
    for number, value in rates(counts, table.how.beta).items():
        known = value[~np.isnan(value)]
        found[number] = float(known.mean()) if known.size else None
    return found


def _curve(verified: Verified, beta: float) -> Floats:
    return metrics.f_vv(*metrics.recalls(verified.counts(SCORES)), beta)


def _f_vv_curve(table: Table, name: str) -> list[list[float | None]]:
    values = _curve(table.verified[name], table.how.beta)
    return [[float(score), _plain(value)] for score, value in zip(SCORES, values, strict=True)]


def _recall_curves(table: Table, name: str) -> list[list[float | None]]:
    """``[score, R_P, R_M]``."""
    present, missing = metrics.recalls(table.verified[name].counts(SCORES))
    return [[float(s), _plain(p), _plain(m)] for s, p, m in zip(SCORES, present, missing, strict=True)]


def _missing_recall_curve(table: Table) -> list[list[float | None]]:
    """Fig. 6: ``[IoU, recall of missing parts]`` at the score asked for."""
    best = table.found.best_iou(len(table.parts), table.how.score)[table.parts.missing]
    return [[float(least), float((best >= least).mean()) if len(best) else None] for least in IOUS]


def _split(table: Table) -> tuple[Bools, Bools]:
    """The parts of the images that choose a threshold, and those of the images it is reported on."""
    chooses = metrics.halves(table.images, table.how.seed)[table.parts.image]
    return chooses, ~chooses


def _best_threshold(table: Table, name: str) -> Document:
    """The score of the largest F_vv on one half of the images, and what it gives on the other, beside that of the
    score asked for on that other half."""
    how, (one, other) = table.how, _split(table)
    verified = table.verified[name]
    score = metrics.best_threshold(_curve(verified.take(one), how.beta))
    rest = verified.take(other)
    if np.isnan(score) or not other.any():
        return dict.fromkeys(("score", "f_vv", "interval", "chosen_f_vv", "at_score"))
    at = rest.counts([score, how.score])
    tally = table.tally(rest, score).sum(axis=1)
    low, high = metrics.intervals(tally, table.draws, how.beta, how.confidence)["f_vv"]
    values = metrics.f_vv(*metrics.recalls(at), how.beta)
    return {
        "score": score,
        **_numbers(at[0], how.beta),
        "interval": None if np.isnan(low) else [float(low), float(high)],
        "chosen_f_vv": _plain(_curve(verified.take(one), how.beta)[np.flatnonzero(score == SCORES)[0]]),
        "at_score": _plain(values[1]),
    }


def _cost(table: Table, name: str) -> Document:
    """The score at which both mistakes together cost least, chosen on one half of the images; what it costs per image
    on the other, beside the score asked for (the paper's fixed point) and beside checking every part by hand."""
    how, (one, other) = table.how, _split(table)
    prices = how.false_present_price, how.check
    verified, images = table.verified[name], int((~metrics.halves(table.images, how.seed)).sum())
    every = metrics.costs(verified.counts(SCORES), *prices) / max(table.images, 1)
    found: Document = {"false_present": prices[0], "check": prices[1], "score": None}
    found["curve"] = [[float(score), float(cost)] for score, cost in zip(SCORES, every, strict=True)]
    if not one.any() or not other.any():
        return found | dict.fromkeys(("per_image", "at_score", "saving", "interval", "check_everything"))
    score = metrics.best_threshold(-metrics.costs(verified.take(one).counts(SCORES), *prices))
    rest = verified.take(other)
    best, fixed = metrics.costs(rest.counts([score, how.score]), *prices) / images
    tallies = [table.tally(rest, each).sum(axis=1) for each in (score, how.score)]
    saved = np.tensordot(table.draws, metrics.costs(tallies[1], *prices) - metrics.costs(tallies[0], *prices), axes=1)
    drawn = np.tensordot(table.draws, (~metrics.halves(table.images, how.seed)).astype(np.float64), axes=1)
    low, high = interval(saved / np.maximum(drawn, 1), how.confidence)
    return {
        **found,
        "score": score,
        "per_image": float(best),
        "at_score": float(fixed),
        "saving": float(fixed - best),
        "interval": [float(low), float(high)],
        "check_everything": float(how.check * rest.counts([0.0])[0, 1] / images),
    }


def _by_part(table: Table) -> Document:
    """For each part: its states, the numbers of Table 1 with intervals, and AP."""
    if not table.images:
        return {}
    how, ap = table.how, table.average_precision
    numbers: dict[str, list[Document]] = {}
    for name in (WITH, WITHOUT):
        tally = table.tally(table.verified[name], how.score)
        ends = metrics.intervals(tally, table.draws, how.beta, how.confidence)
        of_part = [_ends({key: (low[i], high[i]) for key, (low, high) in ends.items()}) for i in range(tally.shape[1])]
        counts = zip(tally.sum(axis=0), of_part, strict=True)
        numbers[name] = [_numbers(counted, how.beta) | {"intervals": each} for counted, each in counts]
    states = [Counter(table.states[table.parts.label == i].tolist()) for i in range(len(table.names))]
    return {
        part: {
            "states": dict(sorted(states[i].items())),
            WITH: numbers[WITH][i],
            WITHOUT: numbers[WITHOUT][i],
            "AP": _plain(ap[0][i]),
            "AP50": _plain(ap[1][i]),
        }
        for i, part in enumerate(table.names)
    }


def _prior(table: Table) -> Document:
    """Fig. 4: the mean box of each part as shares of the image, and how well it alone explains hallucinated boxes: mean
    IoU of these with the mean box, and with the annotated likely box. ``nearer``: the share of them that fit the mean
    box better."""
    rows, detections = table.hallucinated
    sizes = np.concatenate([table.sizes[rows], table.sizes[rows]], axis=1)
    never = np.zeros(len(rows), np.bool_)
    labels, boxes = table.parts.label[rows], table.boxes[detections]
    expected = np.nan_to_num(table.prior[labels]) * sizes
    with_prior = overlap_of_pairs(boxes, expected, never)
    with_likely = overlap_of_pairs(boxes, table.parts.boxes[rows], never)
    likely = overlap_of_pairs(table.parts.boxes[rows], expected, never)

    def told(chosen: Bools) -> Document:
        if not chosen.any():
            return {"hallucinated": 0, "iou_prior": None, "iou_likely": None, "likely_prior": None, "nearer": None}
        nearer = float((with_prior > with_likely)[chosen].mean())
        means = (float(values[chosen].mean()) for values in (with_prior, with_likely, likely))
        told = dict(zip(("iou_prior", "iou_likely", "likely_prior"), means, strict=True))
        return {"hallucinated": int(chosen.sum()), **told, "nearer": nearer}

    return {
        **told(np.ones(len(rows), np.bool_)),
        "by_part": {
            name: {"box": None if np.isnan(box).any() else box.tolist(), **told(labels == i)}
            for i, (name, box) in enumerate(zip(table.names, table.prior, strict=True))
        },
    }


def _plain(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


def _notes(found: Document, run: Run) -> list[str]:
    ignored, notes = found["ignored"], []
    words = {
        "unknown-class": "are of classes that the detector does not have",
        "no-box": "have a box without area",
        "ignored-state": "are in a state that is to be ignored",
        "crowd": "are crowd regions",
    }
    notes += [f"{count} parts {words[why]}; they are not counted." for why, count in ignored.items()]
    if not found["missing"]:
        notes.append("No part is missing here, so nothing can be hallucinated: F_vv is not defined.")
    if not found["present"]:
        notes.append("No part is present here: F_vv is not defined.")
    if not run.settings["context"]:
        stored = is_stored(run.about["identity"]["detector"]["spec"])
        why = "stored predictions cannot be asked about edits" if stored else "--no-context"
        notes.append(f"What hallucinations hang on was not looked for: {why}.")
    return notes


def sentences(document: Document) -> list[str]:
    """What was found, the most important first."""
    settings, told = document["settings"], []
    for name, words in ((WITH, "with"), (WITHOUT, "without")):
        row = document[name]
        if row["f_vv"] is not None:
            told.append(
                f"{words.capitalize()} localisation, at score {settings['score']:g}: "
                f"{_percent(row, 'present_recall')} of {row['present']} present parts are found, "
                f"{_percent(row, 'missing_recall')} of {row['missing']} missing ones are hallucinated; F_vv "
                f"{row['f_vv']:.3f}."
            )
    best = document["best_threshold"][WITH]
    if best["score"] is not None and best["f_vv"] is not None and best["at_score"] is not None:
        told.append(
            f"A score of {best['score']:g}, chosen on one half of the images, gives an F_vv of {best['f_vv']:.3f} on "
            f"the other, instead of {best['at_score']:.3f}."
        )
    shares = [(name, each) for name, each in document["causes"].items() if each["count"]]
    if shares:
        ranked = sorted(shares, key=lambda item: -item[1]["count"])
        causes_told = (f"{name} {100 * each['share']:.0f} %" for name, each in ranked)
        told.append(f"Hallucinations hang on: {', '.join(causes_told)}.")
    return [*told, *document["notes"]]


def _percent(row: Document, name: str) -> str:
    return percent(row[name]) + within(row["intervals"][name], 0, 100)


def numbers(document: Document) -> dict[str, Headline]:
    """For comparing runs."""
    found = {}
    for name in (WITH, WITHOUT):
        for number in NUMBERS:
            found[f"{name}.{number}"] = Headline(document[name][number], document[name]["intervals"][number])
    best = document["best_threshold"][WITH]
    found["best_threshold"] = Headline(best["score"])
    found["best_f_vv"] = Headline(best["f_vv"], best["interval"])
    found["AP"] = Headline(document["ap"].get("AP"))
    for cause, each in document["causes"].items():
        found[f"causes.{cause}"] = Headline(each["share"], each["interval"])
    return found

"""The document of an explain run: counts, shares, the Sankey, slices, potential and the warning signal, out of rows.

Everything here is a view: it can be computed again from a run directory without the detector. Counts add up: ``missed``
= Σ ``mechanisms`` = Σ ``tide`` = Σ ``sankey``, and Σ ``reasons`` of a mechanism = its count.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from misdetect.drawing.words import percent, within
from misdetect.engine.store import Run
from misdetect.metrics import diagnosis
from misdetect.metrics.degenerate import Degenerate, degenerate, sentence
from misdetect.metrics.mechanisms import MECHANISMS
from misdetect.metrics.slices import BINS, bins, over_represented, rate_intervals
from misdetect.nouns.boxes import Ints, boxes_of
from misdetect.studies.contract import Document, Headline
from misdetect.studies.explain import outside
from misdetect.studies.explain.potential import potential, world
from misdetect.studies.explain.regions import average_precision, curve, suspicious
from misdetect.studies.explain.rows import SWEEP, TIDE_TYPES
from misdetect.studies.explain.settings import ExplainSettings

IOUS = (0.1, 0.3, 0.5, 0.75, 0.9)
_WORST, _FEW = 10, 3

Rows = list[Document]
_PLACE = "kind, image, id, label, x0, y0, x1, y1"
_COLUMNS = {
    "object": f"{_PLACE}, found, mechanism, reason, tide, own_score, rival, rival_score, area, crowding, occlusion, "
    "truncation, aspect, brightness, best_iou",
    "detection": f"{_PLACE}, score, tide, matched",
    "region": f"{_PLACE}, objectness, tide, matched",
    "ignored": f"{_PLACE}, reason, area, mechanism",
}


def names_of(inside: bool) -> tuple[str, ...]:
    """The mechanisms that a run can name: those of the paper, or with "unknown" where nothing could be seen inside."""
    return MECHANISMS if inside else (*MECHANISMS, outside.UNKNOWN)


def settings_of(run: Run) -> ExplainSettings:
    """How ``run`` was made and is shown."""
    return ExplainSettings.of(run.chosen)


def document(run: Run) -> Document:
    """The JSON-able document of ``run``."""
    how = settings_of(run)
    kinds = {kind: _rows(run, kind, columns) for kind, columns in _COLUMNS.items()}
    objects, names = kinds["object"], names_of(bool(how.inside))
    lost = [row for row in objects if not row["found"]]
    crowds = [row for row in kinds["ignored"] if row["reason"] == "crowd"]
    reported = how.thresholds.reported
    return {
        **headline(objects, how),
        "sankey": _sankey(lost, names),
        "potential": potential(world([*objects, *crowds], kinds["detection"], reported), names) if objects else None,
        "confusions": _confusions(lost),
        "typical": _typical(objects, names, reported),
        "slices": _slices(objects, names, how),
        "images": _worst_images(objects, how),
        "false_positives": _false_positives(run),
        "warning": _warning(kinds["region"], len(lost)),
        "sweep": _sweep(objects),
        "ignored": dict(sorted(Counter(row["reason"] for row in kinds["ignored"]).items())),
        "degenerate": _degenerate(kinds["detection"], len(run.done())) if objects else None,
        "notes": [*_outside_notes(run, bool(how.inside)), *_notes(objects, kinds)],
    }


def _degenerate(detections: Rows, images: int) -> Degenerate | None:
    """Whether nothing is reported at all, or the same on every image."""
    scores = np.array([row["score"] for row in detections], dtype=np.float64)
    labels = _numbered([row["label"] for row in detections])
    return degenerate(_images_of(detections), boxes_of(detections), scores, labels, images)


def headline(objects: Rows, how: ExplainSettings) -> Document:
    """What is said of the ``objects`` alone: how many are missed, by what, of which class, with intervals."""
    names = names_of(bool(how.inside))
    return {
        **_tally(objects, names),
        "reasons": _reasons([row for row in objects if not row["found"]], bool(how.inside)),
        "by_class": {label: _tally(rows, names) for label, rows in sorted(_grouped(objects, "label").items())},
        "intervals": _intervals(objects, names, how),
    }


def _tally(objects: Rows, names: Sequence[str]) -> Document:
    lost = [row for row in objects if not row["found"]]
    mechanisms, types = (Counter(row[column] for row in lost) for column in ("mechanism", "tide"))
    return {
        "objects": len(objects),
        "missed": len(lost),
        "miss_rate": len(lost) / len(objects) if objects else None,
        "mechanisms": {name: mechanisms[name] for name in names},
        "tide": {name: types[name] for name in TIDE_TYPES},
    }


def _grouped(rows: Rows, column: str) -> dict[str, Rows]:
    groups: dict[str, Rows] = {}
    for row in rows:
        groups.setdefault(row[column], []).append(row)
    return groups


def _rows(run: Run, kind: str, columns: str) -> Rows:
    """The rows of one kind, in the data's order, with only the columns that are looked at: a run has seventy."""
    rows: Rows = run.query(f"SELECT {columns} FROM rows WHERE kind = ? ORDER BY case_index, row", [kind]).to_pylist()
    return rows


def _images_of(rows: Rows) -> Ints:
    """The number of each row's image."""
    return _numbered([row["image"] for row in rows])


def _numbered(names: Sequence[str]) -> Ints:
    return np.unique(np.array(names, dtype=object).astype(str), return_inverse=True)[1].astype(np.int64).reshape(-1)


def _reasons(lost: Rows, inside: bool) -> dict[str, dict[str, int]]:
    known = diagnosis.REASONS if inside else outside.REASONS
    found = Counter((row["mechanism"], row["reason"]) for row in lost)
    return {m: {r: found[m, r] for r in reasons if found[m, r]} for m, reasons in known.items()}


def _sankey(lost: Rows, names: Sequence[str]) -> list[list[Any]]:
    """``[tide, mechanism, count]`` for every pair that occurs, in the order of the figure."""
    found = Counter((row["tide"], row["mechanism"]) for row in lost)
    return [[t, m, found[t, m]] for t in TIDE_TYPES for m in names if found[t, m]]


def _intervals(objects: Rows, names: Sequence[str], how: ExplainSettings) -> Document:
    """Bootstrap intervals over images of the miss rate, of each mechanism's share of the misses and of its rate (misses
    by it / objects)."""
    if not objects:
        nothing = dict.fromkeys(names)
        return {"miss_rate": None, "shares": nothing, "rates": nothing, "confidence": how.confidence}
    lost = np.array([not row["found"] for row in objects])
    every, of = np.ones(len(lost), np.bool_), _mechanisms(objects)
    by_each = [of == name for name in names]
    hits, among = [lost, *by_each, *by_each], [every, *[lost] * len(names), *[every] * len(names)]
    known = rate_intervals(
        np.stack(hits, axis=1), np.stack(among, axis=1), _images_of(objects), confidence=how.confidence, seed=how.seed
    )
    rate, *ends = [None if np.isnan(low) else [low, high] for low, high in known]
    return {
        "miss_rate": rate,
        "shares": dict(zip(names, ends[: len(names)], strict=True)),
        "rates": dict(zip(names, ends[len(names) :], strict=True)),
        "confidence": how.confidence,
    }


def _typical(objects: Rows, names: Sequence[str], reported: float) -> Document:
    """Of the misses by each mechanism what most are: ``groups`` as ``[class, size, misses, objects]``, the ``images``
    with most of them, and how many have a score of half the threshold or more."""
    sizes = bins("size", np.array([row["area"] for row in objects], dtype=np.float64)).tolist()
    groups = [(row["label"], size) for row, size in zip(objects, sizes, strict=True)]
    among, found = Counter(groups), Document()
    for name in names:
        lost = [i for i, row in enumerate(objects) if row["mechanism"] == name and not row["found"]]
        if lost:
            of, images = Counter(groups[i] for i in lost), Counter(objects[i]["image"] for i in lost)
            found[name] = {
                "groups": [[*group, n, among[group]] for group, n in _ranked(of)],
                "sizes": {size: sum(n for (_, own), n in of.items() if own == size) for size in BINS["size"][1]},
                "images": [image for image, _ in _ranked(images)],
                "half": [reported / 2, sum((objects[i]["own_score"] or 0) >= reported / 2 for i in lost)],
            }
    return found


def _ranked(counts: Counter[Any]) -> list[tuple[Any, int]]:
    """The first few, the most frequent first."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_FEW]


def _mechanisms(objects: Rows) -> NDArray[np.object_]:
    """What lost each of ``objects``, "" where it is found."""
    return np.array([row["mechanism"] or "" for row in objects], dtype=object)


def _confusions(lost: Rows) -> list[list[Any]]:
    """``[class, taken for, count]`` of the interclass misses, the most frequent first."""
    found = Counter((row["label"], row["rival"]) for row in lost if row["mechanism"] == "interclass")
    return [[a, b, n] for (a, b), n in sorted(found.items(), key=lambda item: (-item[1], item[0]))[:_WORST]]


def _slices(objects: Rows, names: Sequence[str], how: ExplainSettings) -> list[Document]:
    """Where a mechanism is over-represented, the surest first; "missed" stands for all mechanisms together."""
    if not objects:
        return []
    columns: dict[str, Any] = {"class": [row["label"] for row in objects]}
    for name in (*BINS, "truncation"):
        source = "area" if name == "size" else name
        values = np.array([np.nan if row[source] is None else row[source] for row in objects], dtype=np.float64)
        columns[name] = bins(name, values)
    of = _mechanisms(objects)
    hits = {"missed": of != ""} | {name: np.asarray(of == name) for name in names}
    found = over_represented(columns, hits, _images_of(objects), confidence=how.confidence, seed=how.seed)
    return [{**asdict(each), "certain": each.certain} for each in found if each.difference > 0][:30]


def _worst_images(objects: Rows, how: ExplainSettings) -> list[Document]:
    """The images with the most misses, and by which mechanism; the interval of the rate draws the image's own objects
    again."""
    lost = {name: np.array([[not row["found"]] for row in rows]) for name, rows in _grouped(objects, "image").items()}
    by = Counter((row["image"], row["mechanism"]) for row in objects if not row["found"])
    result = []
    for name, each in sorted(lost.items(), key=lambda item: (-item[1].sum(), item[0]))[:_WORST]:
        if each.any():
            every, apart = np.ones(each.shape), np.arange(len(each))
            ((low, high),) = rate_intervals(each, every, apart, confidence=how.confidence, seed=how.seed)
            entry = {"image": name, "objects": len(each), "missed": int(each.sum()), "miss_rate": float(each.mean())}
            mechanisms = {why: n for (image, why), n in sorted(by.items()) if image == name}
            result.append(entry | {"interval": [low, high], "mechanisms": mechanisms})
    return result


def _false_positives(run: Run) -> Document:
    """The other side: reported detections by TIDE type, and what the candidates of each type have in common (means)."""
    keys = ("score", "background", "objectness", "proposal_iou", "moved", "rival_score")
    means = ", ".join(f"round(avg({key}), 4) AS {key}" for key in keys)
    found = run.query(f"SELECT tide, count(*) AS count, {means} FROM rows WHERE kind = 'detection' GROUP BY tide")
    known = {row.pop("tide"): row for row in found.to_pylist()}
    empty = {"count": 0, **dict.fromkeys(keys)}
    return {kind: known.get(kind, empty) for kind in ("TP", "Cls", "Loc", "Both", "Dupe", "Bkg", "ignored")}


def _warning(regions: Rows, misses: int) -> Document:
    """The warning signal as a predictor of misses, and the ranked list for data without labels."""
    judged = [row for row in regions if row["tide"] != "crowd"]
    values = np.array([row["objectness"] for row in judged], dtype=np.float64)
    hit = np.array([row["matched"] is not None for row in judged], dtype=np.bool_)
    return {
        "regions": len(judged),
        "warned": int(hit.sum()),
        "average_precision": average_precision(values, hit, misses),
        "curve": curve(values, hit, misses) if misses else [],
        "suspicious": suspicious(regions),
    }


def _sweep(objects: Rows) -> Document | None:
    """Recall over score and IoU: the share of objects that a detection of their class reaches."""
    if not objects:
        return None
    best = np.array([row["best_iou"] for row in objects], dtype=np.float64)
    recall = [[round(float((best[:, s] >= least).mean()), 4) for least in IOUS] for s in range(len(SWEEP))]
    return {"scores": list(SWEEP), "ious": list(IOUS), "recall": recall}


def _outside_notes(run: Run, inside: bool) -> list[str]:
    """What was not looked into, and why it could not be opened, where that was tried."""
    why = run.about["detector_settings"].get(outside.CLOSED)
    return [] if inside else [outside.SENTENCE, *([f"It was not opened: {why}"] if why else [])]


def _notes(objects: Rows, kinds: dict[str, Rows]) -> list[str]:
    found = []
    ignored = Counter(row["reason"] for row in kinds["ignored"])
    if ignored["unknown-class"]:
        found.append(
            f"{ignored['unknown-class']} objects are of classes that the detector does not have; they are not counted."
        )
    if not objects:
        found.append("Nothing is annotated here that the detector could miss; only the warning signal is reported.")
    return found


def sentences(document: Document) -> list[str]:
    """What was found, the most important first."""
    if not document["objects"]:
        return ["Nothing is annotated here that the detector could miss."]
    if document["degenerate"] is not None:
        return [sentence(document["degenerate"], document["done"]), *document["notes"]]
    rate = percent(document["miss_rate"]) + within(document["intervals"]["miss_rate"], 0, 100)
    found = [f"{document['missed']} of {document['objects']} objects are missed: {rate}."]
    ranked = sorted(document["mechanisms"].items(), key=lambda item: -item[1])
    if document["missed"]:
        shares = (f"{name} {percent(n / document['missed'], 0)}" for name, n in ranked if n)
        found.append(f"Why: {', '.join(shares)}.")
    return [*found, *document["notes"]]


def numbers(document: Document) -> dict[str, Headline]:
    """For comparing runs."""
    ends = document["intervals"]
    found = {"miss_rate": Headline(document["miss_rate"], ends["miss_rate"])}
    if document["missed"]:
        for name, count in document["mechanisms"].items():
            found[f"shares.{name}"] = Headline(count / document["missed"], ends["shares"][name])
    return found

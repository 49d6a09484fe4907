"""The charts of a scan, as values: what is harmed, and maps of where the object does it."""

from collections import Counter

from misdetect.data.dataset import Dataset
from misdetect.drawing.values import Chart, Counted, Filter, about, mark
from misdetect.engine.store import Run
from misdetect.studies.contract import Document
from misdetect.studies.scan.evidence import scan_scene
from misdetect.studies.scan.figures import worst_pairs
from misdetect.studies.scan.prepare import rebuild
from misdetect.studies.scan.rows import CONTROL, OBJECT

_PAIRS = 6


def charts(run: Run, document: Document, counted: Counted, data: Dataset | None) -> list[Chart]:
    own: Filter = {"study": ["scan"], "harm": ["harmful"], "flicker": [False]}
    how = document["settings"]
    told = about(document, text=f"score ≥ {how['score']:g}, {document['positions']} positions, step {how['step']} px")
    marks = []
    for control, name in ((False, ""), (True, ", control")):
        counts = Counter[str]()
        for (outcome, *key), n in counted("outcome", "control", "harm", "flicker").items():
            counts[outcome] += n * (key == [control, "harmful", False])
        tone = "unknown" if control else "discarded"
        marks += [
            mark(f"{each}{name}", counts[each], own | {"outcome": [each], "control": [control]}, tone=tone)
            for each in ("missed", "renamed", "moved", "extra")
            if counts[each]
        ]
    bars = {"kind": "bars", "title": "What is harmed when an object is put in", "about": told,
            "across": "detections at all positions, without flicker", "marks": marks}  # fmt: skip
    return [*([bars] if marks else []), *_heat(run, document, data, told)]


def _heat(run: Run, document: Document, data: Dataset | None, told: str) -> list[Chart]:
    """The map of S over the positions of the most affected pairs, of the object and of its control."""
    pairs = worst_pairs(document)[:_PAIRS]
    if not pairs or data is None:
        return []
    study, maps = rebuild(run, data), []
    for number in pairs:
        pair = study.open_pair(number)
        layers = []
        for condition in (OBJECT, CONTROL):
            found = run.query(
                "SELECT x, y, score FROM rows WHERE pair = ? AND condition = ? AND before > 0 ORDER BY y, x",
                [number, condition],
            ).to_pylist()
            cells = [
                [row["x"], row["y"], round(row["score"], 3), scan_scene(number, row["x"], row["y"],
                                                                       control=condition == CONTROL)]
                for row in found
            ]  # fmt: skip
            if cells:
                layers.append({"name": "object" if condition == OBJECT else "control", "cells": cells})
        title = f"{pair.cutout.label} on {pair.background.id}"
        maps.append({"title": title, "image": pair.background.id, "cut": list(pair.cutout.size), "layers": layers})
    return [
        {"kind": "heat", "behind": {}, "title": "Where the object does it", "about": told,
         "step": document["settings"]["step"], "note": "A square lies at the centre of the object; its colour is S, "
         "the share of the scene that stays as it was: 1 all, 0 nothing.", "maps": maps}
    ]  # fmt: skip

"""The charts of an attack, as values: objects lost under each attack, AP50 with its intervals, parts taken from the
clean image, what detections become, the ladder, and success against distance."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.drawing.merged import Shown, shares
from misdetect.drawing.values import Chart, Counted, about, mark
from misdetect.engine.store import Run
from misdetect.studies.attack.plan import CLEAN, NOISE
from misdetect.studies.contract import Document

ABLATED = ("r_idx", "r_all", "r_obj", "r_conf")
CLASSES = 12
"""Classes of a matrix that are shown one by one: there are many matrices."""


def charts(run: Run, document: Document, counted: Counted, data: Dataset | None) -> list[Chart]:
    how = document["settings"]
    text = f"score ≥ {how['score']:g}, IoU ≥ {how['loc']:g}, {document['images']} images, eps {how['eps']:g} of 255"
    told = about(document, text=text)
    made = [_lost(document, counted), fallen(document), _ablations(document), _ladder(document), _distance(document),
            _matrices(document)]  # fmt: skip
    return [chart | {"about": told} for chart in made if chart is not None]


def _lost(document: Document, counted: Counted) -> Chart | None:
    counts = counted("by", "harm")
    marks = [
        mark(name, n, {"study": ["attack"], "by": [name], "harm": ["harmful"]},
             text=f"of {document['right']} found before", tone=_tone(name))
        for name in document["attacks"]
        if (n := counts[name, "harmful"])
    ]  # fmt: skip
    if not marks:
        return None
    return {"kind": "bars", "title": "Objects lost under each attack", "marks": marks, "most": document["right"],
            "across": "objects found before that are lost"}  # fmt: skip


def fallen(document: Document, chosen: str | None = None) -> Chart | None:
    """Paper 5's Fig. 2: AP50 of the clean images and under every attack."""
    if not document["attacks"]:
        return None
    entries = {CLEAN: document["clean"], **document["attacks"]}
    marks = [mark(name, each["AP50"], ends=each["intervals"].get("AP50"), tone=_tone(name), chosen=name == chosen)
             for name, each in entries.items()]  # fmt: skip
    return {"kind": "bars", "title": "AP50 under every attack", "marks": marks, "most": 1, "form": "score",
            "across": "AP50, with intervals"}  # fmt: skip


def _tone(name: str) -> str:
    return {CLEAN: "good", NOISE: "unknown"}.get(name, "discarded")


def _ablations(document: Document) -> Chart | None:
    """Fig. 6: AP50 with parts taken from the clean image, by attack."""
    marks = [
        mark(name, part["AP50"], group=loss, ends=part["intervals"]["AP50"])
        for loss, parts in document["clsaval"].items()
        for name, part in parts.items()
    ]
    if not marks:
        return None
    note = "r_idx: the attacked scores in the clean image's places; r_all: the attacked boxes under its scores."
    return {"kind": "bars", "title": "AP50 with parts taken from the clean image", "marks": marks, "most": 1,
            "form": "score", "across": "AP50, with intervals", "note": note}  # fmt: skip


def _ladder(document: Document) -> Chart | None:
    ladder = document["ladder"]
    if not ladder or not ladder["rungs"]:
        return None
    marks = [
        mark(each["name"], each["success"], ends=each["interval"], text=each["means"] or "the step holds",
             tone="discarded" if each["means"] else "plain")
        for each in ladder["rungs"]
        if each["success"] is not None
    ]  # fmt: skip
    return {"kind": "bars", "title": f"Is the attack strong enough? {ladder['verdict']}", "marks": marks, "most": 1,
            "form": "percent", "across": f"objects found before that are lost; loss {ladder['loss']}, "
            f"{ladder['images']} images"}  # fmt: skip


def _distance(document: Document) -> Chart | None:
    entries = document["distance"]
    if not entries:
        return None
    series = {"name": "lost", "points": [[each["distance"], each["success"]] for each in entries],
              "band": [[each["distance"], *each["interval"]] for each in entries if each["interval"]]}  # fmt: skip
    return {"kind": "lines", "title": "Attacked from a distance", "across": "px kept from every object",
            "up": "objects lost", "series": [series]}  # fmt: skip


def _matrices(document: Document) -> Chart | None:
    """Figs. 5 and 7 to 9: the clean image's matrix, then under each loss the attacked one and its ablations, which show
    what becomes of the boxes that the clean image reports."""
    if CLEAN not in document["dcm"]:
        return None
    found = {CLEAN: document["dcm"][CLEAN]}
    for loss, each in document["dcm"].items():
        if loss != CLEAN:
            parts = document["clsaval"].get(loss, {})
            found |= {loss: each, **{f"{loss}, {name}": parts[name]["dcm"] for name in ABLATED if name in parts}}
    views = [{"name": name, **_matrix(each)} for name, each in found.items()]
    note = "Rows: the true class; columns: what it is reported as; “missed”: objects that no box reports."
    return {"kind": "matrix", "title": "What detections become under attack", "views": views, "note": note}


def _matrix(found: Mapping[str, Any]) -> Chart:
    shown = Shown.of({**found, "policy_dependent": ()}, CLASSES)
    missed = np.append(shown.became[:, -1], np.nan)[:, None]
    values, tones = np.hstack([shown.counts, missed]), shares(shown.counts, shown.became)
    rows = [*shown.names, found["labels"][-1]]
    columns = [*rows, "missed"]
    cells = [
        [None if np.isnan(value) else mark(f"{row} → {column}", value, share=float(tone), right=row == column)
         for column, value, tone in zip(columns, line, tones[i].tolist(), strict=True)]
        for i, (row, line) in enumerate(zip(rows, values.tolist(), strict=True))
    ]  # fmt: skip
    return {"rows": rows, "columns": columns, "cells": cells}


def losses(document: Document) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The attacks that are judged: no noise, and no single step."""
    return ((name, each) for name, each in document["attacks"].items() if name not in (NOISE, "fgsm"))

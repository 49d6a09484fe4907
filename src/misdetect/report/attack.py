"""The pictures of an attack run, drawn into its ``images`` folder: paper 5's Fig. 2 and 6, the ladder, success against
distance, confusion matrices, and images before and after with what was detected and the perturbation between them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from misdetect.boxes import SIDES
from misdetect.data.dataset import Dataset
from misdetect.engine.store import Run
from misdetect.picture import Pixels
from misdetect.report import figures
from misdetect.report.attack_figures import grouped_bars, matrix, steps
from misdetect.studies.attack.document import settings_of
from misdetect.studies.attack.plan import CLEAN, main_attacks
from misdetect.studies.attack.rows import pixels_of
from misdetect.studies.attack.settings import AttackSettings
from misdetect.studies.contract import Document, read_document

_LEAST = 300
"""Pixels of the shorter side of a picture, so that captions can be read."""


def draw(run: Run, data: Dataset, most: int) -> list[Path]:
    """The charts, and for each attack ``most`` images on which it loses most objects. Returns the files."""
    document = read_document(run)
    if not most or not document["attacks"]:
        return []
    folder = run.path / "images"
    made = [figures.save_png(folder / "attacks.png", _attacks(document))]
    if document["clsaval"]:
        made.append(figures.save_png(folder / "clsaval.png", _ablations(document)))
    if document["ladder"] and document["ladder"]["rungs"]:
        made.append(figures.save_png(folder / "ladder.png", steps(document["ladder"])))
    if document["distance"]:
        made.append(figures.save_png(folder / "distance.png", _distance(document["distance"])))
    made.append(figures.save_png(folder / "confusion.png", _matrices(document)))
    how = settings_of(run)
    place = {sample.id: i for i, sample in enumerate(data)}
    for attack in main_attacks(how)[2:]:
        for number, image in enumerate(_worst(run, attack.name, most)):
            picture = _before_and_after(run, data[place[image]].image, image, attack.name, how)
            if picture is not None:
                made.append(figures.save_png(folder / f"{attack.name}-{number:02d}.png", picture))
    return made


def _attacks(document: Document) -> Pixels:
    """Fig. 2: AP50 of the clean images and under every attack."""
    entries = {"clean": document["clean"], **document["attacks"]}
    values = {name: {"AP50": (e["AP50"], e["intervals"].get("AP50"))} for name, e in entries.items()}
    return grouped_bars(values, f"AP50, {document['images']} images, eps {document['settings']['eps']:g}")


def _ablations(document: Document) -> Pixels:
    """Fig. 6: AP50 of each ablation under every attack."""
    values: dict[str, Any] = {"clean": {"vanilla": (document["clean"]["AP50"], None)}}
    for loss, parts in document["clsaval"].items():
        values[loss] = {name: (part["AP50"], part["intervals"]["AP50"]) for name, part in parts.items()}
    return grouped_bars(values, "AP50 with parts taken from the clean image (ClsAVal)")


def _distance(entries: Sequence[Mapping[str, Any]]) -> Pixels:
    away = [float(entry["distance"]) for entry in entries]
    lines = [("objects lost, %", away, [100 * entry["success"] for entry in entries])]
    return figures.curve(lines, title="Success against distance", across="px that are kept from every object")


def _matrices(document: Document) -> Pixels:
    """Figs. 5 and 7 to 9: the confusion of the clean image, and under each attack as it is and with R_idx, R_all."""
    rows = [[figures.titled(matrix(document["dcm"][CLEAN]), "clean")]]
    for loss, found in document["dcm"].items():
        if loss == CLEAN:
            continue
        parts = document["clsaval"].get(loss, {})
        shown = [figures.titled(matrix(found), loss)]
        shown += [
            figures.titled(matrix(parts[name]["dcm"]), f"{loss}, {name}")
            for name in ("r_idx", "r_all", "r_obj", "r_conf")
            if "dcm" in parts.get(name, {})
        ]
        rows.append(shown)
    rows[0] += rows.pop(1) if len(rows) > 1 else []
    return figures.stacked([figures.stacked(row, sideways=True) for row in rows])


def _worst(run: Run, attack: str, most: int) -> list[str]:
    rows = run.query(
        "SELECT image, count(*) FILTER (\"right\" AND NOT found) AS lost FROM rows WHERE kind = 'object' "
        "AND condition = ? GROUP BY image ORDER BY lost DESC, image LIMIT ?",
        [attack, most],
    ).to_pylist()
    return [row["image"] for row in rows if row["lost"]]


def _before_and_after(run: Run, clean: Pixels, image: str, attack: str, how: AttackSettings) -> Pixels | None:
    """The clean and the adversarial image with what is reported on them, and the perturbation, amplified."""
    kept = run.query(
        "SELECT png FROM rows WHERE kind = 'image' AND image = ? AND condition = ? AND png IS NOT NULL", [image, attack]
    ).to_pylist()
    if not kept:
        return None
    after = pixels_of(kept[0]["png"])
    change = after.astype(np.float64) - clean
    gain = 127 / max(float(np.abs(change).max()), 1)
    amplified = np.clip(128 + gain * change, 0, 255).astype(np.uint8)
    names = run.about["identity"]["data"]["names"]
    parts = [
        figures.titled(_with_detections(run, clean, image, CLEAN, how, names), f"clean: {image}"),
        figures.titled(figures.enlarged(amplified, _LEAST)[0], f"change x {gain:.0f}"),
        figures.titled(_with_detections(run, after, image, attack, how, names), f"attacked: {attack}, eps {how.eps:g}"),
    ]
    return figures.stacked(parts, sideways=True)


def _with_detections(
    run: Run, pixels: Pixels, image: str, condition: str, how: AttackSettings, names: Sequence[str]
) -> Pixels:
    rows = run.query(
        f"SELECT label, score, {', '.join(SIDES)} FROM rows WHERE kind = 'detection' AND variant = 'vanilla' "
        "AND image = ? AND condition = ? AND score >= ? ORDER BY score",
        [image, condition, how.score],
    ).to_pylist()
    large, factor = figures.enlarged(pixels, _LEAST)
    boxes = np.array([[row[side] for side in SIDES] for row in rows]).reshape(-1, 4) * factor
    captions = [f"{row['label']} {row['score']:.2f}" for row in rows]
    return figures.with_boxes(large, boxes, captions, [names.index(row["label"]) for row in rows])

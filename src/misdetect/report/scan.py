"""The pictures of a scan, drawn from its rows: maps of S and of each original's confidence, and the figures' strips.

A map's square lies at the centre of T's box. Where an original is gone, its confidence is the best score that its class
still has in its place. No detector is asked.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from misdetect.boxes import Floats, Ints
from misdetect.engine.store import Run
from misdetect.picture import Pixels
from misdetect.report import figures
from misdetect.report.interactive import Layer, MapPage, write_maps
from misdetect.studies.scan.interference import InterferenceStudy, Wrong
from misdetect.studies.scan.ranking import ranked
from misdetect.studies.scan.rows import BOX
from misdetect.studies.scan.study import NULL, OBJECT, ScanStudy

_OBJECTS = 4
"""Originals of a pair that get a map of their own: those whose confidence varies most."""


def draw_pictures(run: Run, study: ScanStudy, pairs: Sequence[int]) -> list[Path]:
    """Maps and strips of ``pairs`` as PNG in ``RUN/images``, and all maps in one interactive ``RUN/maps.html``."""
    folder = run.path / "images"
    written: list[Path] = []
    pages = []
    for number in pairs:
        maps = pair_maps(run, study, number)
        if not maps.layers:
            continue
        pages.append(maps)
        cell = study.scanning.step
        drawn = [
            figures.heat_map(maps.image, maps.places, layer.values, cell, title=layer.title, box=layer.box)
            for layer in maps.layers
        ]
        written.append(figures.save_png(folder / f"pair-{number:02d}-maps.png", _in_rows(drawn, 3)))
        written.append(figures.save_png(folder / f"pair-{number:02d}-strip.png", strip(run, study, number)))
    if pages:
        written.append(write_maps(run.path / "maps.html", pages))
    return written


def _in_rows(images: Sequence[Pixels], columns: int) -> Pixels:
    rows = [images[start : start + columns] for start in range(0, len(images), columns)]
    return figures.stacked([figures.stacked(row, sideways=True) for row in rows])


def pair_maps(run: Run, study: ScanStudy, number: int) -> MapPage:
    """S under both conditions and the confidence of the originals that vary most, over the positions of a pair."""
    scene = study.scene(number)
    rows = {
        condition: run.query(
            "SELECT x, y, score, t_detected, t_label, t_score, objects FROM rows "
            "WHERE pair = ? AND condition = ? AND before > 0 ORDER BY y, x",
            [number, condition],
        ).to_pylist()
        for condition in (OBJECT, NULL)
    }
    things = rows[OBJECT]
    title = f"pair {number}: {scene.cutout.label} on {scene.background.id}"
    places = _centres(things, scene.cutout.size)
    layers = []
    if things:
        layers.append(Layer("S, object", _column(things), [_hover(row, study.names) for row in things]))
        if len(rows[NULL]) == len(things):
            layers.append(Layer("S, null control", _column(rows[NULL]), [_hover(r, study.names) for r in rows[NULL]]))
        confidences = np.array([[_confidence(thing) for thing in row["objects"]] for row in things])
        for index in np.argsort(-confidences.std(axis=0), kind="stable")[:_OBJECTS]:
            thing = things[0]["objects"][index]
            name = f"confidence of {study.names[thing['label']]} {thing['score']:.2f}"
            x0, y0, x1, y1 = (thing[side] for side in BOX)
            fates = [row["objects"][index]["outcome"] for row in things]
            layers.append(Layer(name, confidences[:, index], fates, (x0, y0, x1, y1)))
    return MapPage(title, scene.background.image, places, study.scanning.step, tuple(layers))


def _centres(rows: list[dict[str, Any]], size: tuple[int, int]) -> Ints:
    corners = np.array([[row["x"], row["y"]] for row in rows], dtype=np.int64).reshape(-1, 2)
    return np.asarray(corners + np.array(size) // 2)


def _column(rows: list[dict[str, Any]]) -> Floats:
    return np.array([row["score"] for row in rows], dtype=np.float64)


def _confidence(thing: dict[str, Any]) -> float:
    score = thing["new_score"] if thing["outcome"] in ("kept", "moved") else thing["residue"]
    return float(score or 0.0)


def _hover(row: dict[str, Any], names: Sequence[str]) -> str:
    t = f"T as {names[row['t_label']]} {row['t_score']:.2f}" if row["t_detected"] else "T not detected"
    gone = [f"{names[o['label']]} {o['outcome']}" for o in row["objects"] if o["outcome"] != "kept"]
    return "<br>".join([t, *gone[:8]])


def strip(run: Run, study: ScanStudy, number: int, most: int = 4) -> Pixels:
    """The clean image with its detections, then ranked positions with only what is new to the column (Figs. 5 to 9)."""
    scene = study.scene(number)
    first = run.query(
        "SELECT objects FROM rows WHERE pair = ? AND condition = 'object' ORDER BY case_index, row LIMIT 1", [number]
    ).to_pylist()
    originals = first[0]["objects"] if first else []
    images = [_detected(scene.background.image, originals, study.names, "no object")]
    for position in ranked(run, number, most):
        edited = scene.picture(OBJECT, position.x, position.y, study.scanning.seed).render()
        images.append(
            _detected(edited, position.new, study.names, f"{scene.cutout.label} at {position.x}, {position.y}")
        )
    return figures.stacked(images, sideways=True)


def _detected(image: Pixels, things: Sequence[dict[str, Any]], names: Sequence[str], title: str) -> Pixels:
    big, factor = figures.enlarged(image)
    boxes = np.array([[thing[name] for name in BOX] for thing in things], dtype=np.float64).reshape(-1, 4) * factor
    captions = [f"{names[thing['label']]} {thing['score']:.2f}" for thing in things]
    return figures.titled(figures.with_boxes(big, boxes, captions, [thing["label"] for thing in things]), title)


def interference_strip(study: InterferenceStudy, wrong: Wrong, views: dict[str, Any]) -> Pixels:
    """The views of a wrong detection side by side, with what it is taken for in each (Fig. 3)."""
    images = []
    for name, repeat, picture in study.pictures(wrong):
        if repeat == 0:
            view = views[name]
            big, factor = figures.enlarged(picture.render())
            label = view["label"] or "nothing"
            caption = f"{label} {view['score']:.2f}" if view["score"] is not None else label
            known = study.scan.names.index(view["label"]) if view["label"] is not None else 0
            boxes = np.array([wrong.box]) * factor
            images.append(figures.titled(figures.with_boxes(big, boxes, [caption], [known]), name))
    return _in_rows(images, 3)

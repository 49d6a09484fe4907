"""The pictures of a scan, drawn from its rows: maps of S and of each original's confidence, and the figures' strips.

A map's square lies at the centre of T's box. Where an original is gone, its confidence is the best score that its class
still has in its place. No detector is asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.drawing import figures
from misdetect.drawing.larger import shown
from misdetect.engine.store import Run
from misdetect.nouns.boxes import SIDES, Floats, Ints, boxes_of
from misdetect.nouns.picture import Picture, Pixels
from misdetect.studies.contract import Document, Figures
from misdetect.studies.documents import read_document
from misdetect.studies.scan.interference import InterferenceStudy, Wrong, taken_apart, wrongs_of
from misdetect.studies.scan.prepare import rebuild
from misdetect.studies.scan.ranking import ranked
from misdetect.studies.scan.rows import CONTROL, OBJECT
from misdetect.studies.scan.study import ScanStudy

_OBJECTS = 4
"""Originals of a pair that get a map of their own: those whose confidence varies most."""


@dataclass(frozen=True, eq=False)
class Layer:
    """One map: ``values`` ``[P]`` in 0..1, and the ``box`` it is about, if any (pixels)."""

    title: str
    values: Floats
    box: tuple[float, float, float, float] | None = None


@dataclass(frozen=True, eq=False)
class Maps:
    """Maps over the same picture: ``places`` ``[P, 2]`` are the squares' centres (x, y)."""

    image: Pixels
    places: Ints
    layers: tuple[Layer, ...]


def draw(run: Run, data: Dataset, most: int = 3) -> list[Path]:
    """Maps and strips of the ``most`` most affected pairs as PNG in ``RUN/images``, and a strip of every wrong
    detection that was taken apart."""
    document, study = read_document(run), rebuild(run, data)
    return [*draw_pairs(run, study, worst_pairs(document)[:most]), *_draw_interference(run, study, document)]


def worst_pairs(document: Document) -> list[int]:
    """The pairs with detections, the most affected first."""
    known = [pair for pair in document["pairs"] if pair["detections"] and pair["affected"]]
    return [pair["pair"] for pair in sorted(known, key=lambda pair: -sum(pair["affected"].values()))]


def draw_pairs(run: Run, study: ScanStudy, pairs: Sequence[int]) -> list[Path]:
    """Maps and strips of ``pairs``."""
    folder = run.path / "images"
    written: list[Path] = []
    for number in pairs:
        maps = pair_maps(run, study, number)
        if not maps.layers:
            continue
        drawn = [
            figures.heat_map(maps.image, maps.places, layer.values, study.how.step, title=layer.title, box=layer.box)
            for layer in maps.layers
        ]
        written.append(figures.save_png(folder / f"pair-{number:02d}-maps.png", _in_rows(drawn, 3)))
        written.append(figures.save_png(folder / f"pair-{number:02d}-strip.png", strip(run, study, number)))
    return written


def _in_rows(images: Sequence[Pixels], columns: int) -> Pixels:
    rows = [images[start : start + columns] for start in range(0, len(images), columns)]
    return figures.stacked([figures.stacked(row, sideways=True) for row in rows])


def pair_maps(run: Run, study: ScanStudy, number: int) -> Maps:
    """S under both conditions and the confidence of the originals that vary most, over the positions of a pair."""
    pair = study.open_pair(number)
    rows = {
        condition: run.query(
            "SELECT x, y, score, objects FROM rows WHERE pair = ? AND condition = ? AND before > 0 ORDER BY y, x",
            [number, condition],
        ).to_pylist()
        for condition in (OBJECT, CONTROL)
    }
    things, places = rows[OBJECT], {name: _corners(part) for name, part in rows.items()}
    layers = []
    if things:
        layers.append(Layer("S, object", _column(things)))
        if np.array_equal(places[OBJECT], places[CONTROL]):
            layers.append(Layer("S, control", _column(rows[CONTROL])))
        confidences = np.array([[_confidence(thing) for thing in row["objects"]] for row in things])
        for index in np.argsort(-confidences.std(axis=0), kind="stable")[:_OBJECTS]:
            thing = things[0]["objects"][index]
            x0, y0, x1, y1 = (thing[side] for side in SIDES)
            name = f"confidence of {thing['label']} {thing['score']:.2f}"
            layers.append(Layer(name, confidences[:, index], (x0, y0, x1, y1)))
    centres = np.asarray(places[OBJECT] + np.array(pair.cutout.size) // 2)
    return Maps(pair.background.image, centres, tuple(layers))


def _corners(rows: list[dict[str, Any]]) -> Ints:
    return np.array([[row["x"], row["y"]] for row in rows], dtype=np.int64).reshape(-1, 2)


def _column(rows: list[dict[str, Any]]) -> Floats:
    return np.array([row["score"] for row in rows], dtype=np.float64)


def _confidence(thing: dict[str, Any]) -> float:
    score = thing["new_score"] if thing["outcome"] in ("kept", "moved") else thing["score_left"]
    return float(score or 0.0)


def strip(run: Run, study: ScanStudy, number: int) -> Pixels:
    """The clean image with its detections, then ranked positions with what is new to the column (Figs. 5 to 9) and the
    clean image's own: kept ones thin and grey, lost ones dashed."""
    pair = study.open_pair(number)
    first = run.query(
        "SELECT objects FROM rows WHERE pair = ? AND condition = 'object' ORDER BY case_index, row LIMIT 1", [number]
    ).to_pylist()
    originals = first[0]["objects"] if first else []
    images = [_detected(pair.background, originals, study.names, "no object")]
    for position in ranked(run, number):
        edited = pair.picture(OBJECT, position.x, position.y, study.how.seed)
        title = f"{pair.cutout.label} at {position.x}, {position.y}"
        images.append(_detected(edited, position.new, study.names, title, position.objects))
    return figures.stacked(images, sideways=True)


def _detected(
    picture: Picture,
    things: Sequence[dict[str, Any]],
    names: Sequence[str],
    title: str,
    originals: Sequence[dict[str, Any]] = (),
) -> Pixels:
    big, factor = shown(picture)
    for original in originals:
        kept, box = original["outcome"] in ("kept", "moved"), boxes_of([original])[0] * factor
        if kept:
            figures.frame(big, box, figures.KEPT, 1)
        else:
            figures.dashed(big, box, figures.colour(names.index(original["label"])))
    captions = [f"{thing['label']} {thing['score']:.2f}" for thing in things]
    labels = [names.index(thing["label"]) for thing in things]
    return figures.titled(figures.with_boxes(big, boxes_of(things) * factor, captions, labels), title)


def _draw_interference(run: Run, study: ScanStudy, document: Document) -> list[Path]:
    apart = taken_apart(run)
    if apart is None:
        return []
    wrongs = wrongs_of(apart)
    looked_at = InterferenceStudy(study, run.about["id"], list(wrongs.values()))
    return [
        figures.save_png(
            run.path / "images" / f"interference-{number:02d}.png", interference_strip(looked_at, wrong, entry["views"])
        )
        for (number, wrong), entry in zip(wrongs.items(), document["interference"], strict=True)
    ]


def interference_strip(study: InterferenceStudy, wrong: Wrong, views: dict[str, Any]) -> Pixels:
    """The views of a wrong detection side by side, with what it is taken for in each (Fig. 3)."""
    images = []
    for name, repeat, picture in study.pictures(wrong):
        if repeat == 0:
            view = views[name]
            big, factor = shown(picture)
            label = view["label"] or "nothing"
            caption = f"{label} {view['score']:.2f}" if view["score"] is not None else label
            known = study.scan.names.index(view["label"]) if view["label"] is not None else 0
            boxes = np.array([wrong.box]) * factor
            images.append(figures.titled(figures.with_boxes(big, boxes, [caption], [known]), name))
    return _in_rows(images, 3)


FIGURES = Figures(draw, live=("pair-*",), beyond=lambda document: bool(document["interference"]))

"""What a page draws for its rows: every image with its truth and detections, and every edited picture with what was
detected before and after. A ``Stage`` per study makes its pictures again; photos of clean images need none.

Boxes are lists: the four sides, the class, the score, and what became of it: "kept", "moved", "lost", "new", or "own"
for what was put in itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from misdetect.data.dataset import Dataset
from misdetect.drawing.scenes import Row, Scene, Stage, places, sides_of
from misdetect.engine.store import Run
from misdetect.report.album import Album
from misdetect.said.errors import BadImage, MisdetectError
from misdetect.studies.kinds import known_by
from misdetect.studies.looked import evidence_of

EDITS = 600
"""Edited pictures of one study that are made again for a page."""
FAINT = 0.05
"""Detections below this score are not drawn: a detector may report a hundred of them for an image."""


def image_records(
    rows: Iterable[Row], data: Dataset, wanted: Iterable[str], place: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Every one of the images ``wanted``: its size, its objects with the score that finds each, its detections, of
    ``rows`` (``detections``). ``place``: where in ``data`` each image is, where that is known already."""
    place = places(data) if place is None else place
    records: dict[str, Any] = {}
    for image in wanted:
        if image in place:
            sample = data[place[image]]
            try:
                records[image] = {"width": sample.width, "height": sample.height, "truth": [], "found": []}
            except MisdetectError:  # a file that cannot be read any more
                continue
    for row in rows:
        if row["image"] not in records:
            continue
        record = records[row["image"]]
        if row["kind"] == "detection":
            if row["score"] >= FAINT:
                right = "kept" if row["tide"] in ("TP", "ignored", None) else "new"
                record["found"].append([*sides_of(row), row["label"], round(row["score"], 3), right])
        else:
            score = None if row["score"] is None else round(row["score"], 3)
            record["truth"].append([*sides_of(row), row["label"], score, row["id"]])
    return records


def detections(runs: Mapping[str, Run]) -> list[Row]:
    """Objects and detections of images as they are, by the run that knows most of them."""
    best = known_by(runs)
    if best is None:
        return []
    rows: list[Row] = runs[best].query(f"{evidence_of(runs[best]).boxes} ORDER BY t.case_index, t.row").to_pylist()
    return rows


def stages(runs: Mapping[str, Run], data: Mapping[str, Dataset]) -> dict[str, Stage]:
    """The stage of each study that has one, with all its scenes."""
    found = {study: stage for study, run in runs.items() if study in data and (stage := stage_of(run, data[study]))}
    for stage in found.values():
        stage.load()
    return found


def stage_of(run: Run, data: Dataset) -> Stage | None:
    """The stage of a run, which knows no scene yet; ``None`` where its study edits no pictures."""
    made = evidence_of(run).stage
    return None if made is None else made(run, data)


def draw_scenes(
    rows: Sequence[Row], records: dict[str, Any], data: Dataset, edited: Mapping[str, Stage], album: Album
) -> dict[str, Scene]:
    """The scenes of ``rows`` in their order, with pictures as long as ``album`` takes them; photos go to ``records``.
    What was found as it should be brings no picture of its own."""
    place, scenes, made = places(data), dict[str, Scene](), dict.fromkeys(edited, 0)
    for row in rows:
        stage = edited.get(row["study"])
        if row["outcome"] != "found" and not album.full:
            _photo(row["image"], records, data, place, album)
        if stage is None or row["scene"] in scenes:
            continue
        scene = stage.scene(row["scene"])
        if scene is None:
            continue
        scenes[row["scene"]] = scene
        if made[row["study"]] < EDITS and not album.full:
            made[row["study"]] += 1
            try:
                drawn = stage.pictures(row["scene"])
            except BadImage:
                drawn = None
            patch = None if drawn is None else album.patch(*drawn)
            if patch is not None:
                scene["patch"] = patch.document()
    return scenes


def take_photos(images: Iterable[str], records: dict[str, Any], data: Dataset, album: Album) -> None:
    """Put the photos of ``images`` into ``album``, and their keys into ``records``."""
    place = places(data)
    for image in images:
        _photo(image, records, data, place, album)


def _photo(image: str, records: dict[str, Any], data: Dataset, place: Mapping[str, int], album: Album) -> None:
    """Put the photo of ``image`` into ``album`` and its key into ``records``, once."""
    if "picture" in records.get(image, {"picture": None}):
        return
    try:
        records[image]["picture"] = album.photo(data[place[image]].image)
    except MisdetectError:
        records[image]["picture"] = None

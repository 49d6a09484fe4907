"""What a page draws for its rows: every image with its truth and detections, and every edited picture with what was
detected before and after. A ``Stage`` per study makes its pictures again; photos of clean images need none.

Boxes are lists: the four sides, the class, the score, and what became of it: "kept", "moved", "lost", "new", or "own"
for what was put in itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.engine.store import Run
from misdetect.nouns.boxes import SIDES, Bools, boxes_of, iou
from misdetect.nouns.picture import Pixels
from misdetect.report.album import Album
from misdetect.report.embedded import Row
from misdetect.said.errors import BadImage, MisdetectError
from misdetect.studies.attack.document import settings_of as attack_settings
from misdetect.studies.attack.plan import CLEAN
from misdetect.studies.attack.rows import pixels_of
from misdetect.studies.fuzz.campaign import rebuild as rebuild_fuzz
from misdetect.studies.fuzz.rows import Insertion
from misdetect.studies.scan.prepare import rebuild as rebuild_scan
from misdetect.studies.scan.rows import NULL, OBJECT

EDITS = 600
"""Edited pictures of one study that are made again for a page."""
_SAME = 0.5
"""IoU from which on two detections of a class are one."""
FAINT = 0.05
"""Detections below this score are not drawn: a detector may report a hundred of them for an image."""
TELLING = ("score", "explain", "detect")
"""Studies that know the detections of an image, the best first."""
STAGED = ("scan", "fuzz", "attack")
"""Studies whose pictures are made again."""
Box = list[Any]
Scene = dict[str, Any]


class Stage(Protocol):
    """The edited pictures of one run."""

    def load(self, keys: Sequence[str] | None = None) -> None:
        """Read the rows of the scenes of ``keys``, or all there are; only those are known from then on."""
        ...

    def scene(self, key: str) -> Scene | None:
        """Boxes ``before`` and ``after``, the box that was ``inserted`` if any, and the ``image``."""
        ...

    def pictures(self, key: str) -> tuple[Pixels, Pixels] | None:
        """The photo and the edited picture."""
        ...


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
                record["found"].append([*_sides(row), row["label"], round(row["score"], 3), right])
        else:
            score = None if row["score"] is None else round(row["score"], 3)
            record["truth"].append([*_sides(row), row["label"], score, row["id"]])
    return records


def detections(runs: Mapping[str, Run]) -> list[Row]:
    """Objects and detections of images as they are, by the run that knows most of them."""
    best = next((study for study in TELLING if study in runs), None)
    if best is None:
        return []
    rows: list[Row] = runs[best].query(f"{detections_select(best)} ORDER BY t.case_index, t.row").to_pylist()
    return rows


def detections_select(study: str) -> str:
    """Objects and detections of images as they are, as a SELECT over the ``rows`` (``t``) of a run of ``study``."""
    box = ", ".join(f"t.{side}" for side in SIDES)
    if study == "detect":
        return f"SELECT 'detection' AS kind, t.image, NULL AS id, t.label, {box}, NULL AS tide, t.score FROM rows t"
    head = f"SELECT t.kind, t.image, t.id, t.label, {box}, t.tide, CASE WHEN t.kind = 'detection' THEN t.score"
    if study == "explain":
        return f"{head} WHEN t.found THEN 1.0 END AS score FROM rows t WHERE t.kind IN ('object', 'detection')"
    return (
        f"{head} WHEN t.found THEN d.score END AS score FROM rows t LEFT JOIN (FROM rows WHERE kind = 'detection') d "
        "ON t.case_index = d.case_index AND t.matched = d.id WHERE t.kind <> 'ignored'"
    )


def stages(runs: Mapping[str, Run], data: Mapping[str, Dataset]) -> dict[str, Stage]:
    """The stage of each study that has one, with all its scenes."""
    found = {study: stage_of(run, data[study]) for study, run in runs.items() if study in STAGED and study in data}
    for stage in found.values():
        stage.load()
    return found


def stage_of(run: Run, data: Dataset) -> Stage:
    """The stage of a run of one of the studies ``STAGED``; it knows no scene yet."""
    kinds: dict[str, Any] = {"scan": ScanStage, "fuzz": FuzzStage, "attack": AttackStage}
    made: Stage = kinds[run.study](run, data)
    return made


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


class ScanStage:
    """Positions of a scan: what the object, or its null control, does there."""

    def __init__(self, run: Run, data: Dataset) -> None:
        self._run, self._study = run, rebuild_scan(run, data)
        self._rows: dict[tuple[Any, ...], Row] = {}

    def load(self, keys: Sequence[str] | None = None) -> None:
        asked = None if keys is None else ["/".join(key.split("/")[1:3]) for key in keys]
        place = "concat(pair, '/', x, ',', y)"
        rows = self._run.query(
            f"SELECT pair, condition, x, y, background, objects, new FROM rows WHERE {_among(place, asked)} "
            "ORDER BY case_index, row",
            [] if asked is None else [asked],
        ).to_pylist()
        self._rows = {(row["pair"], row["x"], row["y"], row["condition"]): row for row in rows}

    def scene(self, key: str) -> Scene | None:
        number, x, y, condition = _position(key)
        row = self._rows.get((number, x, y, condition))
        if row is None:
            return None
        width, height = self._study.open_pair(number).cutout.size
        before, after = [], []
        for each in row["objects"]:
            kept = each["outcome"] in ("kept", "moved")
            before.append(_box(each, each["score"], "kept" if kept else "lost"))
            if kept:  # where it has moved to is not in the rows, so that it is drawn where it was, as moved
                after.append(_box(each, each["new_score"], each["outcome"]))
        for each in row["new"]:
            after.append(_box(each, each["score"], "own" if each["own"] else "new"))
        inserted = [x, y, x + width, y + height]
        return {"image": row["background"], "before": before, "after": after, "inserted": inserted}

    def pictures(self, key: str) -> tuple[Pixels, Pixels] | None:
        number, x, y, condition = _position(key)
        pair = self._study.open_pair(number)
        return pair.background.image, pair.picture(condition, x, y, self._study.how.seed).render()


def _position(key: str) -> tuple[int, int, int, str]:
    _, pair, place, *control = key.split("/")
    x, _, y = place.partition(",")
    return int(pair), int(x), int(y), NULL if control else OBJECT


class FuzzStage:
    """Insertions of a campaign."""

    def __init__(self, run: Run, data: Dataset) -> None:
        self._run, self._bench = run, rebuild_fuzz(run, data).bench
        self._clean: dict[str, Any] = {}
        self._rows: dict[str, Row] = {}

    def load(self, keys: Sequence[str] | None = None) -> None:
        asked = None if keys is None else [key.removeprefix("fuzz/") for key in keys]
        rows = self._run.query(
            'SELECT "case", image, number, cutout, x, y, width, height, beside, reach, opacity, found FROM rows '
            f"WHERE phase = 'insertion' AND found IS NOT NULL AND {_among('rows.case', asked)}",
            [] if asked is None else [asked],
        ).to_pylist()
        self._rows = {f"fuzz/{row['case']}": row for row in rows}
        clean = self._run.query(
            "SELECT image, detections FROM rows WHERE phase = 'clean' AND image IN (SELECT unnest(?))",
            [sorted({row["image"] for row in rows})],
        ).to_pylist()
        self._clean = {row["image"]: row["detections"] for row in clean}

    def scene(self, key: str) -> Scene | None:
        row = self._rows.get(key)
        if row is None:
            return None
        least, box = self._bench.how.score, Insertion.of_row(row).box
        before = [each for each in self._clean.get(row["image"], ()) if each["score"] >= least]
        after = [each for each in row["found"] if each["score"] >= least]
        return {"image": row["image"], **_paired(before, after, box), "inserted": list(box)}

    def pictures(self, key: str) -> tuple[Pixels, Pixels] | None:
        insertion = Insertion.of_row(self._rows[key])
        return self._bench.sample(insertion.image).image, self._bench.picture(insertion).render()


class AttackStage:
    """Attacked images, as far as the run kept them."""

    def __init__(self, run: Run, data: Dataset) -> None:
        self._run, self._data, self._place = run, data, places(data)
        self._boxes: dict[tuple[str, str], list[Row]] = {}
        self._clean = lru_cache(4)(self._open)

    def load(self, keys: Sequence[str] | None = None) -> None:
        asked = None if keys is None else [_attacked(key)[0] for key in keys]
        self._boxes = {}
        for row in self._run.query(
            f"SELECT image, condition, label, score, {', '.join(SIDES)} FROM rows WHERE kind = 'detection' "
            f"AND variant = 'vanilla' AND score >= ? AND {_among('image', asked)} ORDER BY case_index, row",
            [attack_settings(self._run).score, *([] if asked is None else [asked])],
        ).to_pylist():
            self._boxes.setdefault((row["image"], row["condition"]), []).append(row)

    def _open(self, image: str) -> Pixels:
        return self._data[self._place[image]].image

    def scene(self, key: str) -> Scene | None:
        image, attack = _attacked(key)
        before, after = (self._boxes.get((image, condition), []) for condition in (CLEAN, attack))
        return {"image": image, **_paired(before, after, None)}

    def pictures(self, key: str) -> tuple[Pixels, Pixels] | None:
        image, attack = _attacked(key)
        kept = self._run.query(
            "SELECT png FROM rows WHERE kind = 'image' AND image = ? AND condition = ? AND png IS NOT NULL",
            [image, attack],
        ).to_pylist()
        return (self._clean(image), pixels_of(kept[0]["png"])) if kept else None


def _attacked(key: str) -> tuple[str, str]:
    image, _, attack = key.removeprefix("attack/").rpartition("/")
    return image, attack


def _paired(before: Sequence[Row], after: Sequence[Row], inserted: Sequence[float] | None) -> dict[str, list[Box]]:
    """Detections before and after: lost or new where the other side has none of their class in their place."""
    first, last = boxes_of(before), boxes_of(after)
    names = [np.array([each["label"] for each in side], dtype=object) for side in (before, after)]
    on: Bools = np.asarray(iou(first, last) >= _SAME) & np.asarray(names[0][:, None] == names[1][None, :], np.bool_)
    put = np.array([] if inserted is None else [inserted], dtype=np.float64).reshape(-1, 4)
    own: Bools = np.asarray((iou(last, put) >= _SAME).any(axis=1))
    kept, stays = np.asarray(on.any(axis=1)), np.asarray(on.any(axis=0))
    return {
        "before": [_box(each, each["score"], "kept" if kept[i] else "lost") for i, each in enumerate(before)],
        "after": [
            _box(each, each["score"], "kept" if stays[i] else "own" if own[i] else "new")
            for i, each in enumerate(after)
        ],
    }


def _box(each: Row, score: float | None, state: str) -> Box:
    return [*_sides(each), each["label"], None if score is None else round(score, 3), state]


def _sides(each: Row) -> list[float]:
    return [round(each[side], 1) for side in SIDES]


def _among(value: str, asked: Sequence[Any] | None) -> str:
    """That ``value`` is one of the parameter's, which is a list; anything where nothing is asked for."""
    return "true" if asked is None else f"{value} IN (SELECT unnest(?))"


def places(data: Dataset) -> dict[str, int]:
    """Where in ``data`` each image is."""
    return {sample.id: i for i, sample in enumerate(data)}

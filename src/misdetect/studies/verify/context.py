"""The context study: what each hallucination of an image hangs on (paper 2's future work), asked of the detector.

One edit takes away the neighbouring parts and leaves the pixels in the hallucinated box alone; one moves everything in
the frame; one replaces only the pixels in the box, by those of another bike that misses the same part; one mirrors; and
a control covers as much elsewhere. Whatever an edit does to present parts that it leaves alone is counted beside it.
"""

from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cv2
import numpy as np

from misdetect.compose.cover import Covered
from misdetect.compose.move import Flipped, Moved
from misdetect.compose.paste import Paste, drawn_once
from misdetect.data.cutouts import Cutout
from misdetect.data.dataset import Dataset
from misdetect.engine.requests import Detect
from misdetect.metrics.causes import cause_of
from misdetect.nouns.boxes import Bools, Floats, Ints, gaps, iou, sides
from misdetect.nouns.detections import Detections
from misdetect.nouns.picture import Picture, digest
from misdetect.studies.verify.rows import CONTROL, COVERED, EDIT, FLIPPED, HALLUCINATION, MOVED, PATCHED, Looked
from misdetect.studies.verify.survey import Survey

_SPILL = 2
"""Pixels by which the masks of neighbours are widened: their edges are blurred."""
_LEFT = 0.5
"""Share of a box that must still lie in the frame after a move for anything to be said of it."""
_TRIES = 5
"""Places per axis that are tried for the control."""


@dataclass(frozen=True)
class Hallucination:
    """Missing part ``part`` (row of the annotations) that detection ``detection`` reports."""

    part: int
    detection: int


def hallucinations(looked: Looked) -> list[Hallucination]:
    """The missing parts that are detected: by the best-scored detection of their class with the least IoU asked for."""
    how, found = looked.how, looked.found
    part, overlap = looked.partners
    able = (found.scores >= how.score) & (overlap >= how.missing_iou) & (part >= 0)
    made = []
    for row in np.flatnonzero(looked.missing).tolist():
        own = np.flatnonzero(able & (part == row))
        if own.size:
            made.append(Hallucination(row, int(own[found.scores[own].argmax()])))
    return made


class Donors:
    """Where parts are missing, what is to be seen instead: lent by other images of ``data``, by ``seed``."""

    def __init__(self, data: Dataset, survey: Survey, seed: int) -> None:
        self._data, self._survey, self._seed = data, survey, seed
        self._lent: dict[tuple[int, int], Cutout] = {}

    def patch(self, looked: Looked, label: int) -> Cutout | None:
        """The pixels where another image misses part ``label`` too, by seed, image and part; ``None`` if none does."""
        others = self._survey.donors(label, looked.place)
        if not others:
            return None
        thrown = int(digest("donor", self._seed, looked.sample.id, label)[:12], 16)
        place = others[thrown % len(others)]
        if (place, label) not in self._lent:
            self._lent[place, label] = self._cut(place, label)
        return self._lent[place, label]

    def _cut(self, place: int, label: int) -> Cutout:
        sample = self._data[place]
        x0, y0, x1, y1 = sample.truth.boxes[int(np.flatnonzero(sample.truth.labels == label)[0])]
        left, top = min(max(int(x0), 0), sample.width - 1), min(max(int(y0), 0), sample.height - 1)
        crop = drawn_once(sample)[top : max(int(np.ceil(y1)), top + 1), left : max(int(np.ceil(x1)), left + 1)]
        rgba = np.full((*crop.shape[:2], 4), 255, np.uint8)
        rgba[:, :, :3] = crop
        return Cutout(rgba, "", sample=sample.id)


class Context:
    """The edits of one image ``looked`` at, with what ``donors`` lend."""

    def __init__(self, looked: Looked, donors: Donors, to_data: Ints) -> None:
        self.looked, self.how, self.donors, self.to_data = looked, looked.how, donors, to_data
        self.width, self.height = looked.sample.width, looked.sample.height

    def rows(self) -> Generator[Any, Any, list[dict[str, Any]]]:
        """Ask about all edits at once; a row per hallucination, and one per edit."""
        found = hallucinations(self.looked)
        if not found:
            return []
        whole: dict[str, Picture] = {MOVED: self.moved, FLIPPED: self.flipped}
        edits = [self.edits(each) for each in found]
        pictures = [*whole.values(), *(picture for views in edits for picture in views.values())]
        answers = iter((yield [Detect(picture) for picture in pictures]))
        shared = {name: translated(next(answers), self.to_data) for name in whole}
        rows = [self._kept(name, None, whole[name], answer) for name, answer in shared.items()]
        for each, views in zip(found, edits, strict=True):
            told = {name: translated(next(answers), self.to_data) for name in views}
            rows.append(self._judged(each, views, told, shared))
            rows += [self._kept(name, each, picture, told[name]) for name, picture in views.items()]
        return rows

    # The edits.

    def edits(self, each: Hallucination) -> dict[str, Picture]:
        """The edits for one hallucination, by name; those that cannot be made are left out."""
        sample, region = self.looked.sample, self.region(each)
        views: dict[str, Picture] = {}
        mask = self.neighbours(each)
        if mask.any():
            views[COVERED] = Covered(sample, mask, self.how.filling)
            views[CONTROL] = Covered(sample, self._elsewhere(mask, region), self.how.filling)
        patch = self.patch(each)
        if patch is not None:
            views[PATCHED] = Paste(sample, patch, region[:2], (region[2] - region[0], region[3] - region[1]))
        return views

    def box(self, each: Hallucination) -> Floats:
        """The hallucinated box ``[4]``; without localisation, where detections have no place, the likely one."""
        likely = self.how.missing_iou == 0
        box: Floats = self.looked.truth.boxes[each.part] if likely else self.looked.found.boxes[each.detection]
        return box

    def region(self, each: Hallucination) -> tuple[int, int, int, int]:
        """The hallucinated box in whole pixels, inside the image."""
        x0, y0, x1, y1 = self.box(each).tolist()
        left, top = min(max(int(np.floor(x0)), 0), self.width - 1), min(max(int(np.floor(y0)), 0), self.height - 1)
        right = max(min(int(np.ceil(x1)), self.width), left + 1)
        bottom = max(min(int(np.ceil(y1)), self.height), top + 1)
        return left, top, right, bottom

    def near(self, each: Hallucination) -> Ints:
        """Rows of the present parts that are neighbours of a hallucination."""
        reach = self.how.reach * float(np.hypot(self.width, self.height))
        distance = gaps(self.looked.truth.boxes, self.box(each)[None])[:, 0]
        return np.flatnonzero(self.looked.present & (distance <= reach))

    def neighbours(self, each: Hallucination) -> Bools:
        """The pixels ``[H, W]`` of the neighbours outside the hallucinated box."""
        mask = np.zeros((self.height, self.width), np.bool_)
        for row in self.near(each).tolist():
            mask |= self._pixels(row)
        x0, y0, x1, y1 = self.region(each)
        mask[y0:y1, x0:x1] = False
        return mask

    def _pixels(self, row: int) -> Bools:
        """The pixels of a part: its mask, a little wider, or its box where the data has no mask."""
        if row not in self._masks:
            truth, mask = self.looked.truth, np.zeros(0, np.bool_)
            if truth.masks is not None and truth.masks.has(row):
                kernel = np.ones((2 * _SPILL + 1, 2 * _SPILL + 1), np.uint8)
                mask = cv2.dilate(truth.masks[row].astype(np.uint8), kernel).astype(np.bool_)
            self._masks[row] = mask if mask.any() else self._within(truth.boxes[row : row + 1])
        return self._masks[row]

    @cached_property
    def _masks(self) -> dict[int, Bools]:
        return {}

    @cached_property
    def _occupied(self) -> Bools:
        """Pixels in the boxes of parts, present or missing."""
        return self._within(self.looked.truth.boxes)

    def _within(self, boxes: Floats) -> Bools:
        """The pixels ``[H, W]`` that lie in any of ``boxes``."""
        mask = np.zeros((self.height, self.width), np.bool_)
        for x0, y0, x1, y1 in boxes.tolist():
            mask[max(int(y0), 0) : int(np.ceil(y1)), max(int(x0), 0) : int(np.ceil(x1))] = True
        return mask

    def _elsewhere(self, mask: Bools, region: tuple[int, int, int, int]) -> Bools:
        """``mask`` moved to where it covers the fewest pixels of parts, the hallucinated box spared: the control."""
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        shape = mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        height, width = shape.shape
        best, least = (0, 0), mask.size + 1
        for y in np.linspace(0, self.height - height, _TRIES).astype(int).tolist():
            for x in np.linspace(0, self.width - width, _TRIES).astype(int).tolist():
                covers = int(np.count_nonzero(self._occupied[y : y + height, x : x + width] & shape))
                if covers < least:
                    best, least = (x, y), covers
        moved = np.zeros_like(mask)
        moved[best[1] : best[1] + height, best[0] : best[0] + width] = shape
        x0, y0, x1, y1 = region
        moved[y0:y1, x0:x1] = False
        return moved

    def patch(self, each: Hallucination) -> Cutout | None:
        """What another image shows where it misses the same part."""
        return self.donors.patch(self.looked, int(self.looked.labels[each.part]))

    @cached_property
    def moved(self) -> Moved:
        """Everything moved to the side where the least of the parts leaves the frame."""
        boxes = self.looked.truth.boxes
        room = {
            (1, 0): self.width - boxes[:, 2].max(),
            (-1, 0): boxes[:, 0].min(),
            (0, 1): self.height - boxes[:, 3].max(),
            (0, -1): boxes[:, 1].min(),
        }
        steps = {way: max(1, round(self.how.shift * (self.width if way[0] else self.height))) for way in room}
        way = max(room, key=lambda each: room[each] - steps[each])
        return Moved(self.looked.sample, (way[0] * steps[way], way[1] * steps[way]))

    @cached_property
    def flipped(self) -> Flipped:
        """Everything mirrored."""
        return Flipped(self.looked.sample)

    # The verdicts.

    def _judged(
        self, each: Hallucination, views: dict[str, Picture], told: dict[str, Detections], shared: dict[str, Detections]
    ) -> dict[str, Any]:
        """The row of a hallucination: what is left of it under each edit, and the cause."""
        looked, before = self.looked, self.box(each)
        label, score = int(looked.labels[each.part]), float(looked.found.scores[each.detection])
        after: dict[str, float | None] = {name: self._best(told[name], label, before) for name in views}
        stayed: dict[str, float | None] = {}
        for name, picture in ((MOVED, self.moved), (FLIPPED, self.flipped)):
            after[name], stayed[name] = self._followed(shared[name], label, before, picture)
        cause, reason = cause_of(score, after, stayed[MOVED], self.how.score)
        _, overlap = looked.partners
        patch = self.patch(each)
        return {
            **looked.own(),
            "kind": HALLUCINATION,
            "id": int(np.asarray(looked.truth.ids)[each.part]),
            "label": looked.names[label],
            "state": (looked.truth.states or ())[each.part],
            "missing": True,
            **sides(before),
            "score": score,
            "iou": float(overlap[each.detection]),
            **{f"score_{name}": value for name, value in after.items()},
            "score_stayed": stayed[MOVED],
            "score_flip_stayed": stayed[FLIPPED],
            "cause": cause,
            "reason": reason,
            "neighbours": len(self.near(each)),
            "donor": None if patch is None else patch.sample,
            "dx": self.moved.by[0],
            "dy": self.moved.by[1],
        }

    def _best(self, answer: Detections, label: int, box: Floats) -> float:
        """The best score of ``label`` at ``box``; 0 where it is not reported."""
        overlap = iou(answer.boxes, box[None])[:, 0]
        return float(answer.scores[(answer.labels == label) & (overlap >= self.how.missing_iou)].max(initial=0))

    def _followed(
        self, answer: Detections, label: int, box: Floats, picture: Moved | Flipped
    ) -> tuple[float | None, float | None]:
        """The best score of ``label`` at the place that the hallucinated ``box`` has moved to, and at its old one; a
        detection counts where it fits better. ``None``, ``None`` where the box has left the frame. Without
        localisation there is only one place, the image."""
        if self.how.missing_iou == 0:
            return self._best(answer, label, box), None
        there = picture.boxes(box[None], self.width, self.height)
        sizes = [(b[2] - b[0]) * (b[3] - b[1]) for b in (there[0], box)]
        if sizes[0] < _LEFT * sizes[1]:
            return None, None
        new, old = (iou(answer.boxes, place)[:, 0] for place in (there, box[None]))
        own = answer.labels == label
        least = self.how.missing_iou
        follows = own & (new >= least) & (new >= old)
        stays = own & (old >= least) & (old > new)
        return float(answer.scores[follows].max(initial=0)), float(answer.scores[stays].max(initial=0))

    @cached_property
    def _found(self) -> Ints:
        """Rows of the present parts that are found in the image as it is."""
        part, overlap = self.looked.partners
        good = (self.looked.found.scores >= self.how.score) & (overlap >= self.how.present_iou) & (part >= 0)
        rows = np.unique(part[good])
        found: Ints = rows[self.looked.present[rows]]
        return found

    def _touched(self, picture: Picture) -> Bools:
        """The pixels that an edit of single pixels changes."""
        if isinstance(picture, Covered):
            return picture.mask
        return self._within(np.array([picture.box] if isinstance(picture, Paste) else []))

    def _kept(self, name: str, each: Hallucination | None, picture: Picture, answer: Detections) -> dict[str, Any]:
        """How many of the present parts that were found, and that the edit leaves as they are, it leaves found."""
        looked, how, rows = self.looked, self.how, self._found
        boxes = looked.truth.boxes[rows]
        if isinstance(picture, (Moved, Flipped)):
            boxes = picture.boxes(boxes, self.width, self.height)
            before, after = (each[:, 2:] - each[:, :2] for each in (looked.truth.boxes[rows], boxes))
            whole = (after >= 0.9 * before).all(axis=1)
        else:
            touched = self._touched(picture)
            whole = np.array([not (touched & self._pixels(row)).any() for row in rows.tolist()], np.bool_)
        rows, boxes = rows[whole], boxes[whole]
        fits = iou(boxes, answer.boxes) >= how.present_iou
        fits &= (looked.labels[rows][:, None] == answer.labels[None, :]) & (answer.scores >= how.score)[None, :]
        about = {} if each is None else {"id": int(np.asarray(looked.truth.ids)[each.part])}
        kept = int(fits.any(axis=1).sum()) if fits.size else 0
        return {**looked.own(), **about, "kind": EDIT, "edit": name, "before": len(rows), "kept": kept}


def translated(answer: Detections, to_data: Ints) -> Detections:
    """``answer`` of a detector in the labels of the data, without classes that the data does not have."""
    labels = to_data[answer.labels]
    known = labels >= 0
    return answer.instead(labels=labels) if known.all() else answer[known].instead(labels=labels[known])

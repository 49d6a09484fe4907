"""What a detector answered, read in one way or another, and how well that fits the objects.

``Evidence`` holds the answers of every way of asking and the objects they are judged by; ``best_reading`` finds what
the numbers most likely mean on some images. Nothing here asks anything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from misdetect.compose.resend import EDITS, come_back, sent_size
from misdetect.engine.boundary import check_detections
from misdetect.metrics.matching import overlap_of_pairs, pairs_within_images
from misdetect.metrics.paired import Boxes, Objects, Precision
from misdetect.nouns.boxes import Floats, Ints, clip, iou
from misdetect.said.errors import DetectorFailed
from misdetect.studies.doctor.changes import Change
from misdetect.studies.doctor.readings import (
    AS_GIVEN,
    BOX_READINGS,
    SCORE_READINGS,
    LabelReading,
    assigned,
    label_readings,
    suppressed,
)

AS_IS = "as is"
_CHOSEN = (0.5, 0.75)
"""IoU thresholds at which readings are compared: enough to choose by, five times as fast as all ten."""
_LOOKED_AT = 40
"""Boxes per image by which readings of boxes are screened."""
_SCREENED = 5
_LEARNT = "learnt from "
TIE = 0.01
"""Fits that differ by less are equally good."""


@dataclass(frozen=True)
class Answer:
    """What was said of one picture: boxes ``[N, 4]``, scores and labels as they came."""

    boxes: Floats
    scores: Floats
    labels: Ints


@dataclass(frozen=True)
class Reading:
    """What the numbers mean. ``turned``: boxes are in the places of the picture that was sent, not of what was seen."""

    boxes: str = AS_GIVEN
    labels: str = "given"
    scores: str = "given"
    nms: bool = False
    turned: bool = True

    @property
    def given(self) -> bool:
        """Whether nothing is read otherwise than it was meant."""
        return self == Reading()


GIVEN = Reading()


@dataclass(frozen=True)
class Fit:
    """How well a way of asking and a reading do: pooled AP with and without regard to classes."""

    ap: float
    place: float

    @property
    def total(self) -> float:
        return self.ap + self.place


@dataclass(eq=False)
class Evidence:
    """Answers by way of asking and image, of images of ``sizes`` (width, height); ``objects`` have labels among
    ``space``, the names they are judged by, and ``to_space`` the place in it of each of the detector's ``names``."""

    sizes: Sequence[tuple[int, int]]
    objects: Objects
    names: Sequence[str]
    space: Sequence[str]
    to_space: Ints
    changes: Mapping[str, Change]
    answers: dict[str, dict[int, Answer]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.label_readings: dict[str, LabelReading] = label_readings(self.names, self.space)

    def add(self, answers: Mapping[str, Mapping[int, Answer]]) -> None:
        """Take in more ``answers``."""
        for query, by_image in answers.items():
            self.answers.setdefault(query, {}).update(by_image)

    def said(self, query: str, image: int) -> Answer | None:
        """The answer, or ``None`` where there is none."""
        return self.answers.get(query, {}).get(image)

    def parts(self, query: str) -> list[Change]:
        """The changes of which a way of asking is made."""
        return [] if query == AS_IS else [self.changes[name] for name in query.split(" + ")]

    def edits(self, query: str) -> list[str]:
        """Its edits of the picture."""
        return [change.edit for change in self.parts(query) if change.edit]

    def read(self, query: str, reading: Reading, images: Sequence[int], *, strict: bool = False) -> Boxes:
        """The detections on ``images``, numbered in that order, with labels of ``space``. ``strict``: an answer that
        could not be used as it is read counts as none."""
        parts: list[tuple[Ints, Floats, Floats, Ints]] = []
        for place, image in enumerate(images):
            boxes, scores, labels = self._one(query, reading, image, strict)
            parts.append((np.full(len(scores), place, np.int64), boxes, scores, labels))
        image_of, boxes, scores, labels = (np.concatenate(each) for each in zip(*parts, strict=True))
        known = labels >= 0
        mapped = np.where(known, self.to_space[np.clip(labels, 0, None)] if len(self.to_space) else -1, -1)
        if reading.nms and len(boxes):
            keep = suppressed(image_of, boxes, scores, np.where(known, labels, len(self.names)))
            image_of, boxes, scores, mapped = image_of[keep], boxes[keep], scores[keep], mapped[keep]
        return Boxes(image_of, mapped, boxes, scores)

    def _one(self, query: str, reading: Reading, image: int, strict: bool) -> tuple[Floats, Floats, Ints]:
        answer = self.said(query, image)
        if answer is None or not len(answer.scores):
            return np.zeros((0, 4)), np.zeros(0), np.zeros(0, np.int64)
        width, height = self.sizes[image]
        edits = self.edits(query)
        boxes = BOX_READINGS[reading.boxes].read(answer.boxes, *sent_size(edits, width, height))
        boxes = come_back(boxes, edits, width, height, turned=reading.turned)
        scores = SCORE_READINGS[reading.scores].read(answer.scores)
        labels = self.label_readings[reading.labels].read(answer.labels)
        if strict and not self._usable(answer, boxes, scores, labels, reading, (width, height)):
            return np.zeros((0, 4)), np.zeros(0), np.zeros(0, np.int64)
        sound = np.isfinite(boxes).all(axis=1) & np.isfinite(scores)
        boxes = clip(np.where(sound[:, None], boxes, 0), width, height)
        sound &= (boxes[:, 2:] > boxes[:, :2]).all(axis=1)
        return boxes[sound], scores[sound], labels[sound]

    def _usable(
        self, answer: Answer, boxes: Floats, scores: Floats, labels: Ints, reading: Reading, size: tuple[int, int]
    ) -> bool:
        """Whether the engine would take this answer, so read."""
        told = answer.labels if reading.labels == "given" else np.clip(labels, 0, None)
        try:
            check_detections((boxes, scores, told), size[1], size[0], len(self.names))
        except DetectorFailed:
            return False
        return True

    def precision(
        self, query: str, reading: Reading, images: Sequence[int], *, pooled: bool, strict: bool
    ) -> Precision:
        """AP on ``images``, at COCO's ten thresholds."""
        found = self.read(query, reading, images, strict=strict)
        return Precision(self.objects.of(images), found[found.label >= 0], pooled=pooled)

    def fit(self, query: str, reading: Reading, images: Sequence[int], *, strict: bool = False) -> Fit:
        """How well a reading does on ``images``."""
        found, objects = self.read(query, reading, images, strict=strict), self.objects.of(images)
        return Fit(
            Precision(objects, found[found.label >= 0], pooled=True, thresholds=_CHOSEN).ap,
            Precision(objects, found, any_class=True, thresholds=_CHOSEN).ap,
        )

    def _place(self, query: str, reading: Reading, images: Sequence[int]) -> float:
        found = self.read(query, reading, images)
        return Precision(self.objects.of(images), found, any_class=True, thresholds=_CHOSEN).ap

    def best_reading(self, query: str, images: Sequence[int], known: Reading | None = None) -> tuple[Reading, Fit]:
        """What the answers to ``query`` on ``images`` most likely mean: boxes first, by their places alone, then
        scores, suppression and labels. Of readings that do equally well the plainest. Where it is ``known`` what the
        numbers mean, it is only asked whether this way of asking makes their boxes plain."""
        turns = any(EDITS[how].turns for how in self.edits(query))
        if known is not None:
            formats = dict.fromkeys((AS_GIVEN, known.boxes))
            places = (True, False) if turns else (True,)
            readings = [replace(known, boxes=name, turned=turned) for name in formats for turned in places]
            if self._score_readings(query, images)[0] == GIVEN.scores:
                readings.insert(0, GIVEN)
            best = self._plainest(query, readings, images, by_place=False)
            return best, self.fit(query, best, images)
        scored = replace(GIVEN, scores=self._score_readings(query, images)[0])
        readings = [replace(scored, boxes=name) for name in self._screened(query, images)]
        if turns:  # places of what was seen are plainer than another format
            unturned = [replace(reading, turned=False) for reading in readings]
            given = [reading for reading in (*readings, *unturned) if reading.boxes == AS_GIVEN]
            readings = [*given, *(reading for reading in (*readings, *unturned) if reading.boxes != AS_GIVEN)]
        best = self._plainest(query, readings, images, by_place=True)
        scores = [replace(best, scores=name) for name in self._score_readings(query, images)]
        best = self._plainest(query, scores, images, by_place=True)
        best = self._plainest(query, [best, replace(best, nms=True)], images, by_place=False)
        labels = [name for name in self.label_readings if not name.startswith(_LEARNT)]
        learnt = assigned(self.names, self._votes(query, best, images))
        if learnt is not None:
            labels.append(_LEARNT + query)
            self.label_readings[labels[-1]] = learnt
        best = self._plainest(query, [replace(best, labels=name) for name in labels], images, by_place=False)
        return best, self.fit(query, best, images)

    def _plainest(self, query: str, readings: Sequence[Reading], images: Sequence[int], by_place: bool) -> Reading:
        """The first of ``readings`` that does (nearly) as well as the best of them."""
        if len(readings) == 1:
            return readings[0]
        values = [
            self._place(query, reading, images) if by_place else self.fit(query, reading, images).total
            for reading in readings
        ]
        return next(reading for reading, value in zip(readings, values, strict=True) if value >= max(values) - TIE)

    def _score_readings(self, query: str, images: Sequence[int]) -> list[str]:
        """Those that the scores allow. Scores outside 0..1 are not what they are given as."""
        told = [answer.scores for image in images if (answer := self.said(query, image)) is not None]
        scores = np.concatenate(told) if told else np.zeros(0)
        scores = scores[np.isfinite(scores)]
        if not len(scores):
            return ["given"]
        names = [name for name, reading in SCORE_READINGS.items() if reading.fits(scores)]
        if scores.min() < 0 or scores.max() > 1:
            names = [name for name in names if name != "given"] or ["given"]
        return names

    def _screened(self, query: str, images: Sequence[int]) -> list[str]:
        """The readings of boxes that cover the objects best, in their own order."""
        names = list(BOX_READINGS) if query == AS_IS else [*self._plain_names, *self._network_names]
        values = self._covers(query, names, images)
        order = sorted(range(len(names)), key=lambda i: (-round(values[i], 3), i))
        chosen = {AS_GIVEN, *(names[i] for i in order[:_SCREENED])}
        return [name for name in names if name in chosen]

    @cached_property
    def _plain_names(self) -> list[str]:
        return [name for name in BOX_READINGS if "network" not in name]

    @cached_property
    def _network_names(self) -> list[str]:
        """Sizes of a network that the answers as they are do not speak against."""
        chosen = sorted(self.answers.get(AS_IS, {}))[:16]
        return [name for name in self._screened(AS_IS, chosen) if "network" in name]

    def _covers(self, query: str, names: Sequence[str], images: Sequence[int]) -> list[float]:
        """For each reading of boxes how well the best-scored ones, so read, cover the objects: the sum over objects of
        the best IoU."""
        told = [(i, answer) for i in images if (answer := self.said(query, i)) is not None and len(answer.scores)]
        real = ~self.objects.crowd & np.isin(self.objects.image, [i for i, _ in told])
        if not told or not real.any():
            return [0.0] * len(names)
        best = [np.argsort(-answer.scores, kind="stable")[:_LOOKED_AT] for _, answer in told]
        boxes = np.concatenate([answer.boxes[rows] for (_, answer), rows in zip(told, best, strict=True)])
        image = np.repeat([i for i, _ in told], [len(rows) for rows in best])
        order = np.argsort(image, kind="stable")
        boxes, image = np.nan_to_num(boxes[order], posinf=0.0, neginf=0.0), image[order]
        width, height = np.array(self.sizes)[image].T
        edits = self.edits(query)
        sent = sent_size(edits, width, height)
        truth_box = self.objects.boxes[real]
        truth, box = pairs_within_images(self.objects.image[real], image)
        starts = np.flatnonzero(np.diff(truth, prepend=-1))
        plain = np.zeros(len(truth), np.bool_)

        def cover(name: str) -> float:
            corners = come_back(BOX_READINGS[name].read(boxes, *sent), edits, width, height)
            overlap = overlap_of_pairs(truth_box[truth], corners[box], plain)
            return float(np.maximum.reduceat(overlap, starts).sum()) if len(starts) else 0.0

        return [cover(name) for name in names]

    def unfound(self, query: str, images: Sequence[int]) -> float:
        """The share of the objects on which no box lies (IoU of .5), whatever its class."""
        objects, found = self.objects.of(images), self.read(query, GIVEN, images)
        truth, box = pairs_within_images(objects.image, found.image)
        overlap = overlap_of_pairs(objects.boxes[truth], found.boxes[box], np.zeros(len(truth), np.bool_))
        real = np.flatnonzero(~objects.crowd)
        return float((~np.isin(real, truth[overlap >= 0.5])).mean()) if len(real) else 0.0

    def _votes(self, query: str, reading: Reading, images: Sequence[int]) -> Floats:
        """For each label of the detector, as it is given, which class the objects in its place have: ``[C, C]``. Each
        object has one vote, that of the best-scored box on it."""
        names = len(self.names)
        votes = np.zeros((names, names))
        back = np.full(len(self.space), -1, np.int64)
        for label in range(names - 1, -1, -1):
            if self.to_space[label] >= 0:
                back[self.to_space[label]] = label
        for image in images:
            boxes, scores, labels = self._one(query, replace(reading, labels="given"), image, False)
            rows = np.flatnonzero((self.objects.image == image) & ~self.objects.crowd)
            if not len(rows) or not len(boxes):
                continue
            overlaps = iou(self.objects.boxes[rows], boxes)
            for row, overlap in zip(rows, overlaps, strict=True):
                near = np.flatnonzero(overlap >= 0.5)
                label = self.objects.label[row]
                if len(near) and label >= 0 and back[label] >= 0:
                    told = int(labels[near[np.argmax(scores[near])]])
                    if 0 <= told < names:
                        votes[told, back[label]] += 1
        return votes

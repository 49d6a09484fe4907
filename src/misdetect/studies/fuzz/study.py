"""``FuzzStudy``: a campaign of metamorphic object insertion against one detector (paper 4).

Backgrounds are asked about first; what is inserted where is then planned in rounds (``plan.py``). A case asks about one
edit, and where it fails also about its null control: the same shape in the same place, filled from the background.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from misdetect.compose.fade import Faded
from misdetect.compose.naturalness import Naturalness
from misdetect.compose.paste import Paste, resized
from misdetect.compose.placement import boxes_at, free
from misdetect.compose.texture import elsewhere, texture
from misdetect.data import load_data
from misdetect.data.cutouts import Cutout
from misdetect.data.dataset import Dataset, Sample
from misdetect.detections import Detections
from misdetect.engine.requests import Case, Detect, Steps
from misdetect.errors import BadData
from misdetect.labels import join_labels
from misdetect.metrics.metamorphic import Change, compare, judge
from misdetect.picture import Picture, Pixels, digest
from misdetect.pool.pool import Pool
from misdetect.pool.similarity import Similarity
from misdetect.studies.fuzz.plan import Planner, Row, Task
from misdetect.studies.fuzz.reach import Scene, companions, offers
from misdetect.studies.fuzz.rows import (
    CLEAN,
    INSERTION,
    RELOCATION,
    SCHEMA,
    WATCH,
    Insertion,
    change_of,
    change_records,
    detection_records,
)
from misdetect.studies.fuzz.search import Found, Search, relocate, shrink
from misdetect.studies.fuzz.settings import Fuzzing

TWICE = 5
"""Backgrounds that are asked about twice, to see whether the detector says the same again."""
_PER_BACKGROUND = 10
"""Without a number of backgrounds, a campaign uses one per so many queries."""
_OPEN = 64
_KEPT = 64 << 20
"""Bytes of histograms of backgrounds that are kept, for naturalness: about a hundred photos, or two of a camera."""


@dataclass(frozen=True, eq=False)
class Again:
    """``picture`` asked another time: the same pixels under another name, so that no cache answers."""

    picture: Picture

    @property
    def key(self) -> str:
        return digest("again", self.picture.key)

    def render(self) -> Pixels:
        return self.picture.render()


class FuzzStudy:
    """A campaign on ``data`` (a spec, or a ``Dataset``) with objects of ``pool``, for a detector with class ``names``.

    It plans in the parent process and runs cases anywhere. ``scenes`` and ``planner`` are there once all backgrounds
    have been asked about. ``more``: larger budgets that the campaign was resumed with.
    """

    name = "fuzz"
    schema: pa.Schema = SCHEMA

    def __init__(
        self,
        data: str | Dataset,
        pool: Pool,
        names: Sequence[str],
        fuzzing: Fuzzing,
        limit: int | None = None,
        embedding: str | None = None,
        more: Sequence[int] = (),
    ) -> None:
        self._spec, self.limit = data, limit
        self.pool, self.names, self.fuzzing = pool, tuple(names), fuzzing
        self._embedding, self._more = embedding, tuple(more)
        self._data: Dataset | None = None
        if not len(pool):
            raise BadData(f"the pool {pool.found_at} is empty, so there is nothing to insert; relax its limits.")
        if not any(pool.of(name) for name in names):
            raise BadData(
                f"the pool {pool.found_at} has no label in common with the detector: it has "
                f"{', '.join(pool.labels[:4])}, the detector knows {', '.join(self.names[:4])}."
            )
        self._similarity = Similarity(pool, embedding)
        self._together = self._companions() if fuzzing.reach >= 2 else {}
        self._rows: dict[int, list[Row]] = {}
        self.planner: Planner | None = None
        self._forget()

    def _forget(self) -> None:
        self.sample = lru_cache(_OPEN)(self._open)
        self._cutout = lru_cache(4 * _OPEN)(self._make_cutout)
        self._naturalness: dict[int, Naturalness] = {}

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("_data", "_rows", "planner", "sample", "_cutout", "_naturalness")
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _data=None, _rows={}, planner=None)
        self._forget()

    @property
    def data(self) -> Dataset:
        """The data set, opened when first needed (a worker opens its own)."""
        if self._data is None:
            self._data = load_data(self._spec).limit(self.limit)
        return self._data

    def _open(self, image: int) -> Sample:
        """The last few backgrounds stay open, so that their files are hashed once."""
        return self.data[image]

    def settings(self) -> dict[str, Any]:
        """What decides the rows, for ``run.json``."""
        pool = {"pool": self.pool.found_at, "pool_fingerprint": self.pool.fingerprint}
        return {**self.fuzzing.document(), **pool, "embedding": self._embedding, "names": list(self.names)}

    def _companions(self) -> dict[str, list[str]]:
        """Which labels occur together, by the detector's names."""
        together = companions(self.data)
        joined = join_labels(self.names, self.data.names, "the detector", self.data.spec)
        return {
            name: together.get(self.data.names[other], [])
            for name, other in zip(self.names, joined.tolist(), strict=True)
            if other >= 0
        }

    # Cases.

    def backgrounds(self) -> list[int]:
        """Images that are used, at random."""
        wanted, queries = self.fuzzing.backgrounds, self.fuzzing.queries
        if wanted is None and queries is not None:
            wanted = max(1, queries // _PER_BACKGROUND)
        order = np.random.default_rng([self.fuzzing.seed, 4]).permutation(len(self.data))
        return [int(i) for i in order[:wanted]]

    def __len__(self) -> int:
        """Cases planned so far; more come as they are planned."""
        return max(len(self.backgrounds()), self._planned)

    _planned = 0

    def learn(self, index: int, rows: list[Row]) -> None:
        """Take in the rows of a case that is done."""
        self._rows[index] = rows

    def cases(self) -> Iterator[Case | None]:
        """Backgrounds first, then round after round."""
        chosen = self.backgrounds()
        yield from (Case(i, f"clean/{image}", (image, i < TWICE)) for i, image in enumerate(chosen))
        clean = [row for _, row in (yield from self._wait(range(len(chosen))))]
        self._planned = len(chosen)
        score = self.fuzzing.oracle.score
        scenes = [Scene.of_row(row, score) for row in clean if any(d["score"] >= score for d in row["detections"])]
        if not scenes:
            raise BadData(
                f"no detections of score {score:g} or more on {len(chosen)} backgrounds of {self.data.spec}, so "
                "nothing can fail there; lower --score."
            )
        if not any(scene.offers for scene in scenes):
            raise BadData(
                f"the pool {self.pool.found_at} has nothing for what is detected on {len(scenes)} backgrounds of "
                f"{self.data.spec}; use a larger pool, more backgrounds or --reach 2."
            )
        noisy = any(row["differs"] for row in clean)
        self.planner = Planner(scenes, self.fuzzing, sum(row["queries"] for row in clean), noisy, self._more)
        yield from self.planner.rounds(lambda tasks: self._hand_out(tasks, noisy), self._wait)

    def _hand_out(self, tasks: list[Task], noisy: bool) -> "Generator[Case, None, range]":
        """Yield the cases of a round; returns their indices."""
        first = self._planned
        self._planned += len(tasks)
        for i, task in enumerate(tasks, first):
            assert self.planner is not None
            scene = self.planner.scenes[task.insertion.image]
            yield Case(i, f"{task.phase}/{i}", (task, scene, self._kept(task), noisy))
        return range(first, self._planned)

    def _wait(self, indices: range) -> "Generator[None, None, list[tuple[int, Row]]]":
        """Wait until cases are done; returns ``(index, row)`` in order."""
        while not all(i in self._rows for i in indices):
            yield None
        return [(i, row) for i in indices for row in self._rows[i]]

    def _kept(self, task: Task) -> Change | None:
        """The change that a shrunk case has to keep."""
        return change_of(self._rows[task.origin][0]["changes"][task.change]) if task.change >= 0 else None

    def run(self, case: Case) -> Steps:
        """Ask about a background, an insertion, or all that a search wants to know."""
        if isinstance(case.content[1], bool):
            return self._clean(*case.content)
        task, scene, kept, noisy = case.content
        if task.phase == INSERTION:
            return self._insert(scene, task.insertion, task.known, noisy)
        return self._search(scene, task, kept)

    def _clean(self, image: int, twice: bool) -> Steps:
        sample = self.sample(image)
        asks = [Detect(sample), Detect(Again(sample))] if twice else [Detect(sample)]
        found: list[Detections] = yield asks
        before, oracle = found[0], self.fuzzing.oracle
        kept = before.above(min(WATCH, oracle.low))
        firm = before.above(oracle.score)
        chosen = offers(
            sample, firm, self.names, self.pool, self._similarity, self.fuzzing.reach, self._together
        ) if len(firm) else []  # fmt: skip
        nowhere = (-1e9, -1e9, -1e9, -1e9)
        return [
            {
                "phase": CLEAN,
                "image": image,
                "background": sample.id,
                "queries": len(asks),
                "width": sample.width,
                "height": sample.height,
                "detections": detection_records(kept),
                "offers": [offer.as_dict() for offer in chosen],
                "differs": not _same(before, found[1]) if twice else None,
                "noise": any(c.counts for c in compare(before, found[1], nowhere, oracle)) if twice else None,
            }
        ]

    def _insert(self, scene: Scene, insertion: Insertion, known: Sequence[Change], noisy: bool) -> Steps:
        oracle = self.fuzzing.oracle
        picture = self.picture(insertion)
        row, least = self._row(INSERTION, scene, insertion), self.fuzzing.min_naturalness
        if least and (natural := self._natural(insertion, picture)) < least:
            return [{**row, "naturalness": natural, "queries": 0, "failed": None, "changes": []}]
        after = yield Detect(picture)
        verdict = judge(scene.before, after, insertion.box, oracle)
        changes = verdict.changes
        null = again = None
        queries = 1
        new = [change for change in changes if not any(change.same_as(other) for other in known)]
        if self._fails(new, None):
            asks = [Detect(self.control(insertion))] + ([Detect(Again(picture))] if noisy else [])
            answers = yield asks
            null = compare(scene.before, answers[0], insertion.box, oracle)
            again = compare(scene.before, answers[1], insertion.box, oracle) if noisy else None
            queries += len(asks)
        return [
            {
                **row,
                **_outcome(change_records(changes, null, again)),
                "naturalness": self._natural(insertion, picture),
                "queries": queries,
                "standing": verdict.standing.tolist(),
                "found": detection_records(after.above(oracle.low)) if changes else None,
            }
        ]

    def _search(self, scene: Scene, task: Task, kept: Change | None) -> Steps:
        """Relocate a failing insertion, or shrink it as long as the failure ``kept`` stays."""
        steps: Search
        if task.phase == RELOCATION:
            steps = relocate(task.insertion, np.array(task.destination), lambda moved: _allowed(scene, moved))
        else:
            steps = shrink(task.insertion)
        outcomes: dict[Insertion, list[Change]] = {}
        answers: dict[Insertion, Detections] = {}
        tried = next(steps, None)
        while tried is not None:
            answers[tried] = yield Detect(self.picture(tried))
            outcomes[tried] = compare(scene.before, answers[tried], tried.box, self.fuzzing.oracle)
            try:
                tried = steps.send(self._fails(outcomes[tried], kept))
            except StopIteration as stop:
                found: Found = stop.value
                break
        else:
            found = Found(task.insertion)
        end = found.insertion
        return [
            {
                **self._row(task.phase, scene, end),
                "naturalness": self._natural(end, self.picture(end)),
                **_outcome(change_records(outcomes.get(end, []), None)),
                "failed": True,  # at least where it began
                "queries": len(outcomes),
                "origin": task.origin,
                "found": detection_records(answers[end].above(self.fuzzing.oracle.low)) if end in answers else None,
                "progress": found.progress if task.phase == RELOCATION else None,
                "strength": found.strength if task.phase != RELOCATION else None,
            }
        ]

    def _fails(self, changes: list[Change], kept: Change | None) -> bool:
        firm = [c for c in changes if c.counts and (self.fuzzing.count_flicker or not c.flickers)]
        return any(c.same_as(kept) for c in firm) if kept is not None else bool(firm)

    # Pictures.

    def picture(self, insertion: Insertion) -> Paste | Faded:
        """The synthetic image."""
        cutout = self._cutout(insertion.cutout, insertion.size)
        paste = Paste(self.sample(insertion.image), cutout, insertion.at)
        return paste if insertion.opacity == 1 else Faded(paste, insertion.opacity)

    def control(self, insertion: Insertion) -> Paste:
        """Its null control: the same shape at the same place with pixels from elsewhere in the background."""
        sample, shape = self.sample(insertion.image), self._cutout(insertion.cutout, insertion.size)
        generator = np.random.default_rng([self.fuzzing.seed, 7, insertion.image, *insertion.at, *insertion.size])
        corner = elsewhere(sample.width, sample.height, insertion.box, generator)
        return Paste(sample, texture(sample, shape, corner), insertion.at)

    def _make_cutout(self, index: int, size: tuple[int, int]) -> Cutout:
        return resized(self.pool[index], size)

    def _natural(self, insertion: Insertion, picture: Paste | Faded) -> float:
        """How natural the ``picture`` of an insertion is; the histograms of the first backgrounds are kept."""
        natural = self._naturalness.get(insertion.image)
        if natural is None:
            keep = sum(known.nbytes for known in self._naturalness.values()) < _KEPT
            natural = self._naturalness[insertion.image] = Naturalness(self.sample(insertion.image), keep)
        return natural.of(picture.part(insertion.box), insertion.at)

    def _row(self, phase: str, scene: Scene, insertion: Insertion) -> dict[str, Any]:
        cutout = self.pool[insertion.cutout]
        return {
            "phase": phase,
            "background": self.sample(scene.image).id,
            "label": cutout.label,
            "source": cutout.sample,
            **insertion.columns(),
        }


def _same(one: Detections, other: Detections) -> bool:
    return len(one) == len(other) and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("boxes", "scores", "labels")
    )


def _allowed(scene: Scene, insertion: Insertion) -> bool:
    boxes = boxes_at(np.array([insertion.at]), insertion.size)
    return bool(free(boxes, scene.firm, scene.width, scene.height)[0])


def _outcome(changes: list[dict[str, Any]]) -> dict[str, Any]:
    """The columns that follow from a row's changes. ``failed``: the oracle minds, flicker or not."""
    minded = [change for change in changes if change["counts"]]
    firm = [change for change in minded if not change["flickers"]]
    asked = [change["null"] for change in firm if change["null"] is not None]
    return {
        "changes": changes,
        "failed": bool(minded),
        "flicker": bool(minded) and not firm,
        "null_failed": any(asked) if asked else None,
        "attributable": any(change["attributable"] for change in changes),
    }

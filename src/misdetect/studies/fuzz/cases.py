"""The cases of a campaign: look at a background, try an insertion, follow a failing one. Each asks, and makes its row.

Where an insertion fails, controls are asked about too, one after the other until it is clear whose doing it was:
the same shape in the same place, filled from the background. A case is a small value that knows its own steps, so that
nothing has to tell the three apart.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from misdetect.compose.placement import boxes_at, free
from misdetect.engine.requests import Detect, Steps
from misdetect.metrics.control import Control
from misdetect.metrics.metamorphic import Change, Verdict, compare, judge
from misdetect.nouns.detections import Detections
from misdetect.nouns.picture import Picture, Pixels, digest
from misdetect.studies.fuzz.plan import Task
from misdetect.studies.fuzz.reach import Background
from misdetect.studies.fuzz.rows import CLEAN, RELOCATION, WATCH, Insertion
from misdetect.studies.fuzz.search import Search, SearchResult, relocate, shrink
from misdetect.studies.fuzz.settings import FuzzSettings
from misdetect.studies.fuzz.workbench import Workbench, merged

_NOWHERE = (-1e9, -1e9, -1e9, -1e9)
"""Where nothing was inserted."""


@dataclass(frozen=True, eq=False)
class Again:
    """``picture`` asked another time: the same pixels under another name, so that no cache answers."""

    picture: Picture

    @property
    def key(self) -> str:
        return digest("again", self.picture.key)

    def render(self) -> Pixels:
        return self.picture.render()


@dataclass(frozen=True)
class Look:
    """Ask about a background, the first few of them ``twice``: does the detector say the same again?"""

    image: int
    twice: bool
    budget: int | None = None

    def steps(self, bench: Workbench) -> Steps:
        """One row: what is detected, what of it is right, and what may be inserted."""
        sample, oracle = bench.sample(self.image), bench.how.rules
        asks = [Detect(sample), Detect(Again(sample))] if self.twice else [Detect(sample)]
        found: list[Detections] = yield asks
        before = bench.classes.joined(found[0])
        kept = before.above(min(WATCH, oracle.low))
        noise = self.twice and any(c.counts for c in compare(before, bench.classes.joined(found[1]), _NOWHERE, oracle))
        return [
            {
                "phase": CLEAN,
                "image": sample.id,
                "number": self.image,
                "budget": self.budget,
                "queries": len(asks),
                "width": sample.width,
                "height": sample.height,
                "detections": merged(bench.classes.records(kept), bench.judge(self.image).detections(kept)),
                "offers": [asdict(offer) for offer in bench.offers(sample, before.above(oracle.score))],
                "least": min([*found[0].scores.tolist(), *bench.shown_from], default=None),
                "differs": not _same(found[0], found[1]) if self.twice else None,
                "noise": noise if self.twice else None,
            }
        ]


@dataclass
class Controls:
    """What is known of the ``changes`` of one insertion: ``patches``, of each change whether each patch of the null
    control makes it too; ``again``: what the same question changed when it was asked a second time; ``told``: whether
    the detector shows scores low enough to tell a failure from flicker."""

    changes: Sequence[Change]
    control: Control
    told: bool
    again: Sequence[Change] | None = None
    patches: list[list[bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.patches = [[] for _ in self.changes]

    def add(self, control: Sequence[Change]) -> None:
        """Take down what one more patch changed."""
        for change, seen in zip(self.changes, self.patches, strict=True):
            seen.append(any(change.same_as(other) for other in control))

    def holds(self, change: Change) -> bool:
        """Whether ``change`` is a failure, does not flicker, and repeats where it was asked about again."""
        repeats = self.again is None or any(change.same_as(other) for other in self.again)
        return change.counts and not change.flickers and repeats

    def cleared(self, number: int) -> bool | None:
        """Whether change ``number`` is none that patches make; ``None`` as long as another patch may tell."""
        seen = self.patches[number]
        return self.control.clear(len(seen), sum(seen)) if seen else None

    def records(self) -> Iterator[dict[str, Any]]:
        """What a row keeps of each change. ``cleared``: it holds, and patches do not make it."""
        for number, change in enumerate(self.changes):
            real = self.holds(change) and self.cleared(number) is True
            yield {"patches": self.patches[number] or None, "cleared": real, "attributable": real and self.told}


@dataclass(frozen=True, eq=False)
class Try:
    """Ask about an insertion into ``background``, and about its controls where something new fails; where the detector
    is ``noisy``, also once more. ``told``: the detector shows scores low enough to tell what flickers."""

    task: Task
    background: Background
    noisy: bool
    told: bool

    def steps(self, bench: Workbench) -> Steps:
        """One row: what changed, and whether it is the object's doing."""
        how, insertion, before = bench.how, self.task.insertion, self.background.before
        picture = bench.picture(insertion)
        row = _row(bench, self.task, insertion) | {"dropped": insertion.dropped if how.strategy != "adaptive" else None}
        least = how.min_naturalness
        if least and (natural := bench.naturalness(insertion, picture)) < least:
            return [{**row, "naturalness": natural, "queries": 0, "failed": None, "changes": []}]
        after = bench.classes.joined((yield Detect(picture)))
        verdict = judge(before, after, insertion.box, how.rules)
        seen = Controls(verdict.changes, how.control, self.told)
        asked = 1 + (yield from self._controls(bench, seen, picture))
        return [
            {
                **row,
                **_outcome(changes_of(bench, self.background, insertion, verdict, seen)),
                "naturalness": bench.naturalness(insertion, picture),
                "queries": asked,
                "standing": verdict.standing.tolist(),
                "found": bench.classes.records(after.above(how.rules.low)) if verdict.changes else None,
            }
        ]

    def _controls(self, bench: Workbench, seen: Controls, picture: Picture) -> Generator[Detect, Detections, int]:
        """Ask about patches until each new failure is clear, into ``seen``; how many questions that took.

        Of what is known to be an object's doing the adaptive strategy asks no more; of every other failing insertion
        one patch is asked about, as a fair control of a rate has to."""
        how, insertion, before = bench.how, self.task.insertion, self.background.before
        failing = firm(seen.changes, how)
        new = [change for change in failing if not any(change.same_as(known) for known in self.task.known)]
        if not new and (not failing or how.strategy == "adaptive"):
            return 0
        asked = 0
        if self.noisy and new:
            once_more = bench.classes.joined((yield Detect(Again(picture))))
            seen.again = compare(before, once_more, insertion.box, how.rules)
            asked += 1
        open_ = [i for i, change in enumerate(seen.changes) if change in new and seen.holds(change)]
        for patch in islice(bench.controls(insertion), self.task.patches):
            answer = bench.classes.joined((yield Detect(patch)))
            seen.add(compare(before, answer, insertion.box, how.rules))
            asked += 1
            if all(seen.cleared(number) is not None for number in open_):
                break
        return asked


@dataclass(frozen=True, eq=False)
class Follow:
    """Relocate a failing insertion, or shrink it as long as the failure ``kept`` stays."""

    task: Task
    background: Background
    kept: Change | None

    def steps(self, bench: Workbench) -> Steps:
        """One row: where the search ended."""
        task, before, how = self.task, self.background.before, bench.how
        search, result = self._search(), SearchResult(task.insertion)
        seen: dict[Insertion, tuple[Detections, Verdict]] = {}
        tried, asked = next(search, None), 0
        while tried is not None:
            asked += 1
            after = bench.classes.joined((yield Detect(bench.picture(tried))))
            verdict = judge(before, after, tried.box, how.rules)
            seen[tried] = after, verdict
            try:
                tried = search.send(self._fails(verdict.changes, how))
            except StopIteration as stop:
                result, tried = stop.value, None
        end = result.insertion
        changes, found = list[dict[str, Any]](), None
        if end in seen:
            after, verdict = seen[end]
            changes = changes_of(bench, self.background, end, verdict)
            found = bench.classes.records(after.above(how.rules.low))
        return [
            {
                **_row(bench, task, end),
                "naturalness": bench.naturalness(end, bench.picture(end)),
                **_outcome(changes),
                "failed": True,  # at least where it began
                "queries": asked,  # some may be of the same edit: whole pixels are few
                "origin": task.origin,
                "found": found,
                "progress": result.progress if task.phase == RELOCATION else None,
                "strength": result.strength if task.phase != RELOCATION else None,
            }
        ]

    def _search(self) -> Search:
        if self.task.phase == RELOCATION:
            return relocate(self.task.insertion, np.array(self.task.destination), self._allowed)
        return shrink(self.task.insertion)

    def _allowed(self, moved: Insertion) -> bool:
        boxes = boxes_at(np.array([moved.at]), moved.size)
        return bool(free(boxes, self.background.firm, self.background.width, self.background.height)[0])

    def _fails(self, changes: Sequence[Change], how: FuzzSettings) -> bool:
        found = firm(changes, how)
        return any(change.same_as(self.kept) for change in found) if self.kept is not None else bool(found)


def firm(changes: Sequence[Change], how: FuzzSettings) -> list[Change]:
    """The changes that make a failure."""
    return [change for change in changes if change.counts and (how.count_flicker or not change.flickers)]


def _row(bench: Workbench, task: Task, insertion: Insertion) -> dict[str, Any]:
    return {"phase": task.phase, "budget": task.budget, **bench.columns(insertion)}


def changes_of(
    bench: Workbench,
    background: Background,
    insertion: Insertion,
    verdict: Verdict,
    seen: Controls | None = None,
) -> list[dict[str, Any]]:
    """The changes as a row keeps them, with what the controls (``None``: not asked) and the annotations say of each."""
    if not verdict.changes:
        return []
    judged = bench.judge(insertion.image).changes(verdict, background.objects, background.right, insertion.box)
    own = [bench.classes.change_record(change) for change in verdict.changes]
    seen = seen or Controls(verdict.changes, bench.how.control, told=False)
    return merged(own, seen.records(), judged)


def _same(one: Detections, other: Detections) -> bool:
    return len(one) == len(other) and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("boxes", "scores", "labels")
    )


def _outcome(changes: list[dict[str, Any]]) -> dict[str, Any]:
    """The columns that follow from a row's changes. ``failed``: the oracle minds, flicker or not."""
    minded = [change for change in changes if change["counts"]]
    certain = [change for change in minded if not change["flickers"]]
    first = [change["patches"][0] for change in certain if change["patches"]]
    return {
        "changes": changes,
        "failed": bool(minded),
        "flicker": bool(minded) and not certain,
        "control_failed": any(first) if first else None,
        "attributable": any(change["attributable"] for change in changes),
    }

"""``Table``: photos, objects and a detector, and what the detector makes of an object laid on a photo.

An edit is one insertion of a campaign (``studies.fuzz.live``, which no other file of the app knows), asked about at a
``Desk``. Nothing here knows of HTTP.
"""

from asyncio import to_thread, wrap_future
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from misdetect.app.desk import Desk
from misdetect.app.inside import inside_of
from misdetect.data.dataset import Dataset, Sample
from misdetect.data.opened import Opened
from misdetect.detectors import load_detector
from misdetect.engine.requests import Detect, Trace
from misdetect.metrics.metamorphic import EXTRA, MISSED, MOVED, RENAMED
from misdetect.nouns.boxes import SIDES, coverage, iou
from misdetect.nouns.detections import Detections
from misdetect.nouns.protocols import Detector, Traced, require
from misdetect.nouns.spec import Spec
from misdetect.pools.pool import Pool, build_pool, load_pool, mirrored
from misdetect.said.errors import BadArray, BadData, BadSpec
from misdetect.studies.fuzz.live import HOW, LEAST_SIDE, MOST, Changed, Insertion, Kept, Live, Seen
from misdetect.studies.running import showing_faint

_LOOKED_AT = 64
"""Photos whose clean detections are remembered."""
Box = list[Any]
"""x0, y0, x1, y1, the class, the score, and what became of it: "kept", "moved", "lost", "new" or "own"."""
Edit = Insertion
QUESTIONS = MOST
"""Asked by a search at most, controls included."""
T = TypeVar("T")


class Table:
    """The photos of ``data`` (or of its spec), the objects of ``pool`` (as ``load_pool`` takes it; by default the
    data's own) and ``detector``. Of the pool's mirror images, ``pool`` here has as many again behind its ``objects``.
    """

    def __init__(self, detector: Detector, data: str | Dataset, pool: str | Pool | None = None) -> None:
        opened = Opened(data)
        if not len(opened.data):
            raise BadData(f"{opened.data.spec} has no images.")
        own = load_pool(pool if pool is not None else own_pool(opened.data))
        self.how = HOW
        shown, _ = showing_faint(detector, self.how.faint)
        self.detector = one_at_a_time(shown)
        self.data, self.objects, self.pool = opened.data, len(own), mirrored(own)
        self.bench = Live(opened, self.pool, self.detector.names)
        self.desk = Desk(self.detector)
        self._seen: dict[int, Seen] = {}

    def insertion(self, edit: Mapping[str, Any]) -> Insertion:
        """The edit that a stranger describes: ``photo`` and ``object`` by number, ``x``, ``y``, ``width`` and
        ``height`` in whole pixels, ``opacity`` and ``flip``. A ``BadArray`` says what is wrong with it."""
        numbers: list[Any] = [edit.get(name) for name in ("photo", "object", "x", "y", "width", "height")]
        if not all(type(number) is int for number in numbers):
            raise BadArray("an edit has photo, object, x, y, width and height as whole numbers.")
        photo, thing, x, y, width, height = numbers
        opacity, flip = edit.get("opacity", 1.0), edit.get("flip", False)
        if type(opacity) not in (int, float) or not 0 <= opacity <= 1 or type(flip) is not bool:
            raise BadArray("opacity is a number from 0 to 1, flip is true or false.")
        sample = self.photo(photo)
        self.thing(thing)
        fits = 0 <= x <= sample.width - width and 0 <= y <= sample.height - height
        if min(width, height) < LEAST_SIDE or not fits:
            raise BadArray(
                f"an object of at least {LEAST_SIDE} pixels lies inside the photo of {sample.width}x{sample.height}; "
                f"got one of {width}x{height} at {x}, {y}."
            )
        return self.bench.insertion(photo, thing + flip * self.objects, (x, y), (width, height), float(opacity))

    def photo(self, number: int) -> Sample:
        """Photo ``number``."""
        if not 0 <= number < len(self.data):
            raise BadArray(f"there is no photo {number}; there are {len(self.data)}.")
        return self.bench.sample(number)

    def thing(self, number: int) -> int:
        """``number``, if there is such an object."""
        if not 0 <= number < self.objects:
            raise BadArray(f"there is no object {number}; there are {self.objects}.")
        return number

    def run(self, asker: str, steps: Generator[Any, Any, T]) -> T:
        """Run ``steps``, which yield what has to be asked; what they return."""
        answer = None
        while True:
            try:
                asks = steps.send(answer)
            except StopIteration as stop:
                found: T = stop.value
                return found
            single = not isinstance(asks, Sequence)
            answers = self.desk.ask(asker, [asks] if single else list(asks))
            answer = answers[0] if single else answers

    def seen(self, asker: str, photo: int) -> Seen:
        """What is detected on a photo as it is; asked once."""
        known = self._seen.get(photo)
        if known is None:
            known = self._seen[photo] = self.run(f"{asker} looking", self.bench.look(photo))
            for oldest in list(self._seen)[:-_LOOKED_AT]:
                self._seen.pop(oldest, None)
        return known

    def answer(self, asker: str, insertion: Insertion, turn: int = 0, control: bool = False) -> dict[str, Any]:
        """What the object (or its control) changes: the ``boxes`` to draw, and the ``changes``. Of an older
        ``turn`` of the same asker nobody wants to know any more."""
        seen = self.seen(asker, insertion.image)
        picture = self.bench.control(insertion) if control else self.bench.picture(insertion)
        (found,) = self.desk.ask(asker, [Detect(picture)], turn)
        return self.told(seen, insertion, found)

    async def answer_soon(self, asker: str, insertion: Insertion, turn: int) -> dict[str, Any]:
        """The same of the object, where every millisecond counts: no thread waits for the detector."""
        seen = self._seen.get(insertion.image)
        if seen is None:
            seen = await to_thread(self.seen, asker, insertion.image)
        (found,) = await wrap_future(self.desk.asked(asker, [Detect(self.bench.picture(insertion))], turn))
        return self.told(seen, insertion, found)

    def told(self, seen: Seen, insertion: Insertion, found: Detections) -> dict[str, Any]:
        """What changed from what was ``seen`` to what is ``found`` with an edit."""
        changed = self.bench.changed(insertion, seen, found)
        return {
            "boxes": self._boxes(seen.background.before, changed),
            "changes": [_told(change, insertion) for change in changed.changes],
        }

    def _boxes(self, before: Detections, changed: Changed) -> list[Box]:
        """What is detected now, and what is lost, with what became of each."""
        oracle, names, verdict = self.how.rules, self.bench.classes.names, changed.verdict
        before, found = before.above(oracle.score), changed.after.above(oracle.score)
        fates = verdict.fates
        if fates is None:  # nothing changed: what continues no original is the object's own
            on = (iou(found.boxes, before.boxes) >= oracle.iou) & (found.labels[:, None] == before.labels)
            states = ["kept" if kept else "own" for kept in on.any(axis=1)]
        else:
            states = ["own" if own else "kept" for own in fates.own]
            for change, row in zip(verdict.changes, fates.now.tolist(), strict=True):
                if row >= 0:
                    states[row] = "moved" if change.type == MOVED else "new"
        columns = zip(found.boxes.tolist(), found.scores.tolist(), found.labels.tolist(), states, strict=True)
        drawn = [[*box, names[label], score, state] for box, score, label, state in columns]
        lost = (change for change in verdict.changes if change.type in (MISSED, RENAMED))
        return drawn + [[*change.box, names[change.label], change.score, "lost"] for change in lost]

    def inside(self, asker: str, insertion: Insertion) -> dict[str, Any]:
        """The candidates near the object, who suppressed whom, and what became of those that were lost."""
        require(self.detector, Traced, "looking inside", "the boxes are all it shows")
        seen = self.seen(asker, insertion.image)
        sample, picture = self.photo(insertion.image), self.bench.picture(insertion)
        clean, edited, found = self.desk.ask(asker, [Trace(sample), Trace(picture), Detect(picture)])
        verdict = self.bench.changed(insertion, seen, found).verdict
        missed = [change.thing for change in verdict.changes if change.type in (MISSED, RENAMED)]
        before = seen.background.before.above(self.how.score)
        return inside_of(clean, edited, insertion.box, before, missed, self.detector.names, self.how.score)

    def search(self, asker: str, spot: Insertion, most: int = QUESTIONS) -> Iterator[dict[str, Any]]:
        """Look for a failure around ``spot``: each place that is tried, and how it ends."""
        seen = self.seen(asker, spot.image)
        return self.bench.search(
            spot, seen, lambda place, part: self.run(asker, self.bench.attempt(place, seen, part)), most
        )

    def keep(self, asker: str, insertion: Insertion, kept: Kept) -> dict[str, str]:
        """Try ``insertion`` as a campaign does and keep it; the case, and the command that asks about it again."""
        seen = self.seen(asker, insertion.image)
        row = self.run(asker, self.bench.attempt(insertion, seen, seen.background))
        if not row["changes"]:
            raise BadArray("nothing changes here, so there is nothing to save.")
        return kept.add(seen.row, row)

    def close(self) -> None:
        """Answer nobody any more."""
        self.desk.close()


def own_pool(data: Dataset) -> str | Pool:
    """The objects of ``data`` itself; of all its images, as a campaign has it, if its spec says which these are."""
    return data.spec if data.by_spec else build_pool(data)


def one_at_a_time(detector: Detector) -> Detector:
    """``detector`` with batches of one image, where its spec knows that option: one that fills up its batches takes as
    long for one image as for all of them."""
    spec = getattr(detector, "spec", None)
    if getattr(detector, "batch_size", 1) == 1 or not isinstance(spec, str):
        return detector
    try:
        return load_detector(Spec.parse(spec).instead("batch", 1), tuple(detector.names))
    except BadSpec:
        return detector


def _told(change: Mapping[str, Any], insertion: Insertion) -> dict[str, Any]:
    """A change for the page: ``covered`` is how much of what was detected lies under the object's box."""
    names = ("type", "label", "became", "score", "after", "flickers", "counts", "harm", "thing")
    box = [change[side] for side in SIDES]
    hidden = 0.0 if change["type"] == EXTRA else float(coverage([box], by=[insertion.box])[0, 0])
    return {name: change[name] for name in names} | {"box": box, "covered": hidden}

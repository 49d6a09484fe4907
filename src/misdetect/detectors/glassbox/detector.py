"""``glassbox:`` — a detector made from the ground truth, with planted faults whose answer is known for every object.

It keeps the project honest: what a study says about it is compared with what was planted. Without a fault it is
perfect. It is no model and looks at pixels only to recognise which image of its data they are. docs/glassbox.md
describes the faults; ``glassbox_inside`` what they look like inside.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from misdetect.compose.cover import Covered
from misdetect.compose.move import Flipped, Moved
from misdetect.compose.paste import Paste
from misdetect.data import load_data
from misdetect.data.dataset import Dataset, Sample
from misdetect.detectors.glassbox.answers import CROWDED, Plan, Traced, answers
from misdetect.detectors.glassbox.faults import (
    GHOSTLY,
    NEAR,
    Cap,
    Fault,
    HallucinateAppearance,
    HallucinateContext,
    HallucinatePart,
    HallucinatePosition,
    Planted,
    TopK,
    Treatment,
    parse_faults,
)
from misdetect.detectors.glassbox.inside import PER_OBJECT, Inside, anchors, inside, reach, shifted
from misdetect.detectors.glassbox.moving import Move, moved, stays
from misdetect.detectors.glassbox.recognise import Recogniser
from misdetect.detectors.glassbox.scene import Known, Layer, Scene, Things, Whites, edit, layer_of, share_seen
from misdetect.detectors.selection import Selection
from misdetect.nouns.boxes import Bools, Floats, Ints, area, gaps
from misdetect.nouns.candidates import Candidates, Dropped, Pairs, Reason
from misdetect.nouns.detections import Detections
from misdetect.nouns.labels import join_labels
from misdetect.nouns.picture import Picture, Pixels, digest
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec, DetectorFailed

VERSION = 1
SCORE = 0.3
NMS = 0.5
_UNLIMITED = 1 << 40
_UNTOUCHED = 0.5
"""Share of a box that must not be edited for its pixels to count as its own."""
Seen = tuple[Known, list[Layer], Move | None]
"""What a picture is: an image of the data, what is laid over it, and how all of it was then moved."""


class GlassBox:
    """The truth of ``dataset`` as a detector, with ``faults``. Each object is hit by at most one fault, the first that
    selects it, and only if its answer cannot be blurred by a neighbour (see docs/glassbox.md).

    ``visible``: the share of an object that must stay visible under a paste for it to be still there. ``unknown``:
    what an image that is not of this data gives, an "error" or "empty" detections.
    """

    batch_size = 8

    def __init__(
        self, dataset: Dataset, faults: Iterable[Fault] = (), *, visible: float = 0.25, unknown: str = "error"
    ) -> None:
        self.dataset, self.faults, self.visible, self.unknown = dataset, tuple(faults), visible, unknown
        self.names: tuple[str, ...] = tuple(dataset.names)
        self._check()
        self._local = [i for i, f in enumerate(self.faults) if f.treatment and not isinstance(f, NEAR)]
        self._near = [i for i, f in enumerate(self.faults) if isinstance(f, NEAR)]
        self._ghostly = [i for i, f in enumerate(self.faults) if isinstance(f, GHOSTLY)]
        self.top_k = min((f.k for f in self.faults if isinstance(f, TopK)), default=None)
        self.cap = min((f.cap for f in self.faults if isinstance(f, Cap)), default=None)
        self._recogniser, self._whites = Recogniser(dataset), Whites()
        self._plans: WeakKeyDictionary[Known, Plan] = WeakKeyDictionary()
        self.settings: dict[str, Any] = {
            "score": SCORE,
            "nms": NMS,
            "top_k": self.top_k,
            "cap": self.cap,
            "visible": visible,
            "faults": [repr(fault) for fault in self.faults],
        }
        self.fingerprint = digest("glassbox", VERSION, dataset.fingerprint, repr(self.faults), visible, unknown)

    def __repr__(self) -> str:
        extra = "" if self.visible == 0.25 else f", visible={self.visible}"
        extra += "" if self.unknown == "error" else f", unknown={self.unknown!r}"
        return f"GlassBox({self.dataset!r}, faults={list(self.faults)!r}{extra})"

    def _check(self) -> None:
        if not self.names:
            raise BadSpec(f"glassbox: {self.dataset.spec} has no classes, so there is nothing to detect in it.")
        if not 0 <= self.visible <= 1:
            raise BadSpec(f"glassbox: visible should be a share from 0 to 1. Got {self.visible!r}.")
        if self.unknown not in ("error", "empty"):
            raise BadSpec(f"glassbox: unknown should be error or empty. Got {self.unknown!r}.")
        for fault in self.faults:
            for name in (*fault.classes, *filter(None, [getattr(fault, "to", "")])):
                if name not in self.names:
                    some = ", ".join(self.names[:6])
                    raise BadSpec(f"glassbox:{fault.name}: {self.dataset.spec} has no class {name!r}; it has {some}, …")
            if fault.treatment == Treatment.RENAMED and len(self.names) < 2:
                raise BadSpec(f"glassbox:{fault.name}: {self.dataset.spec} has no second class to take an object for.")
            if isinstance(fault, GHOSTLY) and len(self.dataset) and self.dataset[0].truth.states is None:
                raise BadSpec(f"glassbox:{fault.name} needs data with part states; {self.dataset.spec} has none.")

    # The two levels, for pixels and for pictures.

    def detect(self, images: Sequence[Pixels]) -> list[Detections]:
        """One ``Detections`` per image, recognised by its pixels. Whatever was pasted hides, but is not recognised."""
        return [candidates.select() for candidates in self.trace(images)]

    def trace(self, images: Sequence[Pixels]) -> list[Candidates]:
        """One ``Candidates`` per image, recognised by its pixels."""
        return [self._candidates(self._by_pixels(image)) for image in images]

    def detect_pictures(self, pictures: Sequence[Picture], images: Sequence[Pixels] | None = None) -> list[Detections]:
        """As ``detect``, for pictures whose description is known, so that pasted objects are found too. ``images`` are
        the same pictures drawn, where the caller has them."""
        return [candidates.select() for candidates in self.trace_pictures(pictures, images)]

    def trace_pictures(self, pictures: Sequence[Picture], images: Sequence[Pixels] | None = None) -> list[Candidates]:
        """As ``trace``, for pictures whose description is known."""
        drawn: Sequence[Pixels | None] = [None] * len(pictures) if images is None else images
        found = (self._by_picture(picture, image) for picture, image in zip(pictures, drawn, strict=True))
        return [self._candidates(each) for each in found]

    def truth_of_fault(self, picture: Picture) -> list[Planted]:
        """The planted answer for every object of ``picture`` that a fault hit, and for every hallucinated part."""
        found = self._by_picture(picture, None)
        if found is None:
            return []
        return answers(self._trace(*found), self.faults)

    def planted_table(self, dataset: Dataset | None = None) -> list[dict[str, Any]]:
        """One JSON-able row per planted answer over ``dataset`` (all of the glass box's own if not given)."""
        return [
            {
                "sample": sample.id,
                "image_id": sample.image_id,
                "object": planted.object,
                "class": self.names[planted.label],
                "fault": planted.fault,
                "effect": planted.effect,
                "mechanism": planted.mechanism,
                "reason": None if planted.reason is None else planted.reason.name.lower(),
                "tide": planted.tide,
            }
            for sample in (self.dataset if dataset is None else dataset)
            for planted in self.truth_of_fault(sample)
        ]

    # Which image is it.

    def _by_pixels(self, image: Pixels) -> Seen | None:
        found = self._recogniser.by_pixels(image)
        if found is None and self.unknown == "error":
            raise DetectorFailed(
                f"the glass box knows only the images of {self.dataset.spec} and edits of them, not this "
                f"{image.shape[1]}x{image.shape[0]} image; give it the same data as the study, or unknown=empty."
            )
        return None if found is None else (*found, None)

    def _by_picture(self, picture: Picture, image: Pixels | None) -> Seen | None:
        if isinstance(picture, Sample):
            known = self._recogniser.by_sample(picture)
            if known is not None:
                return known, [], None
        if isinstance(picture, (Paste, Covered, Moved, Flipped)):
            below = self._by_picture(picture.base, None)
            if below is not None and below[2] is None:
                known, layers, _ = below
                if isinstance(picture, (Moved, Flipped)):
                    return known, layers, picture
                if isinstance(picture, Covered):
                    layer = layer_of(picture.mask, -1, picture.key, False)
                else:
                    label = self._label(picture.cutout.label)
                    layer = self._whites.layer(picture, known.scene.width, known.scene.height, label)
                return known, layers if layer is None else [*layers, layer], None
        return self._by_pixels(picture.render() if image is None else image)

    def _label(self, name: str) -> int:
        """The class called ``name`` (joined as everywhere, without regard to case and spaces), or -1."""
        try:
            return int(join_labels([name], self.names, "", "")[0]) if name else -1
        except BadSpec:
            return -1

    # What goes wrong with whom.

    def _plan(self, scene: Scene) -> Plan:
        """Who is hit by what, among the objects of ``scene``. The first fault that selects an object has it, unless a
        candidate that any other object may have would come near enough (IoU .5) to blur its answer."""
        things = scene.present
        if not self._local and not self._near:
            return Plan.idle(things)
        fault = np.full(len(things), -1, dtype=np.int64)
        for i in (*self._local, *self._near):
            chosen = self.faults[i].selects(things, self.names, scene.key, scene.width, scene.height)
            chosen &= ~things.pasted if i in self._near else True
            fault[(fault < 0) & chosen] = i
        by = np.array([getattr(f, "shift", 0.0) for f in self.faults] + [0.0])[fault]
        kinds = np.array([int(f.treatment) for f in self.faults] + [0], dtype=np.int64)
        claimed = Plan(
            fault=fault,
            treatment=kinds[fault],
            near=np.isin(fault, self._near),
            targets=shifted(things.boxes, by, things.boxes, scene.width, scene.height),
            taken_for=self._taken_for(fault, things.labels),
        )
        spared = (self._reach(scene, claimed) >= CROWDED) | _unfit(things.boxes, scene.width, scene.height)
        return replace(
            claimed,
            fault=np.where(spared, -1, fault),
            treatment=np.where(spared, int(Treatment.HEALTHY), claimed.treatment),
            near=claimed.near & ~spared,
        )

    def _taken_for(self, fault: Ints, labels: Ints) -> Ints:
        """The label each object is taken for: the fault's, or the next; never its own."""
        to = np.array([self.names.index(n) if (n := getattr(f, "to", "")) else -1 for f in self.faults] + [-1])[fault]
        following = (labels + 1) % len(self.names)
        return np.where((to < 0) | (to == labels), following, to)

    def _reach(self, scene: Scene, claimed: Plan) -> Floats:
        """How far any candidate that another object may have, healthy or hit, comes to each object."""
        things = scene.present
        if self._ghostly:
            things = things.join(scene.absent)
        extra = len(things) - len(scene.present)
        treatment = np.concatenate([claimed.treatment, np.zeros(extra, dtype=np.int64)])
        targets = np.concatenate([claimed.targets, things.boxes[len(scene.present) :]])
        frame = scene.width, scene.height
        healthy = inside(things, scene.key, np.zeros_like(treatment), targets, *frame)
        hit = inside(things, scene.key, treatment, targets, *frame)
        return reach([healthy.proposals, healthy.refined, hit.proposals, hit.refined], scene.present.boxes)

    def _edited_plan(self, known: Known, scene: Scene) -> Plan:
        """The plan of a picture: objects of the image are treated as without the edit, so that an edit far away changes
        nothing; pasted ones by what is around them; faults that need an intruder act only if one is near."""
        if known not in self._plans:
            self._plans[known] = self._plan(known.scene)
        base = self._plans[known]
        if scene is known.scene:
            plan = base
        else:
            stay = np.isin(known.scene.present.places, scene.present.places)
            pasted = scene.present.pasted
            # only faults that need no neighbour hit a pasted object
            added = self._plan(scene) if self._local and pasted.any() else Plan.idle(scene.present)
            plan = base.take(stay).join(added.take(pasted))
        distance = np.array([getattr(f, "distance", np.inf) for f in self.faults] + [np.inf])[plan.fault]
        gap = gaps(scene.present.boxes, scene.intruders).min(axis=1, initial=np.inf)
        asleep = plan.near & ~(gap <= distance)
        return replace(
            plan,
            fault=np.where(asleep, -1, plan.fault),
            treatment=np.where(asleep, int(Treatment.HEALTHY), plan.treatment),
        )

    def _ghosts(self, known: Known, scene: Scene, layers: Sequence[Layer]) -> tuple[Things, Ints]:
        """The missing parts that are hallucinated, and by which fault."""
        fault = np.full(len(scene.absent), -1, dtype=np.int64)
        if self._ghostly and len(fault):
            own = scene.present.take(~scene.present.pasted)
            apart = gaps(scene.absent.boxes, own.boxes)
            for i in self._ghostly:
                kind = self.faults[i]
                chosen = kind.selects(scene.absent, self.names, scene.key, scene.width, scene.height)
                if isinstance(kind, HallucinatePart):
                    chosen &= (apart <= kind.distance).sum(axis=1) >= kind.neighbours
                elif isinstance(kind, HallucinateContext):
                    near = (apart <= kind.distance) & self._around(known, scene.absent.boxes, own.places)
                    chosen &= near.any(axis=1)
                elif isinstance(kind, HallucinateAppearance):
                    chosen &= np.array([share_seen(box, layers) >= _UNTOUCHED for box in scene.absent.boxes])
                fault[(fault < 0) & chosen] = i
        return scene.absent.take(fault >= 0), fault[fault >= 0]

    def _around(self, known: Known, boxes: Floats, places: Ints) -> Bools:
        """``[N, M]``: whether object ``places[j]`` lies so far outside ``boxes[i]`` that covering what is outside would
        hide it."""
        within = [[known.share_within(place, box) for place in places.tolist()] for box in boxes]
        return np.array(within).reshape(len(boxes), len(places)) < self.visible

    # The detector itself.

    def _candidates(self, found: Seen | None) -> Candidates:
        if found is not None:
            return self._trace(*found).candidates
        none = np.zeros((0, 4))
        return self._select(none, none, np.zeros((0, len(self.names))), np.zeros(0, np.int64), np.zeros(0, np.int64))

    def _trace(self, known: Known, layers: list[Layer], move: Move | None) -> Traced:
        scene = edit(known, layers, self.visible)
        plan = self._edited_plan(known, scene)
        ghosts, ghost_fault = self._ghosts(known, scene, layers)
        if move is not None:
            left = stays(scene, move, self.visible)
            scene, plan = replace(scene, present=scene.present.take(left)), plan.take(left)
        things = scene.present.join(ghosts)
        healthy = np.zeros(len(ghosts), dtype=np.int64)
        seen = inside(
            things,
            scene.key,
            np.concatenate([plan.treatment, healthy]),
            np.concatenate([plan.targets, ghosts.boxes]),
            scene.width,
            scene.height,
        )
        if move is not None:
            bound = [isinstance(self.faults[i], HallucinatePosition) for i in ghost_fault.tolist()]
            seen, scene, ghosts = moved(seen, scene, ghosts, np.array(bound, np.bool_), move)
            things = scene.present.join(ghosts)
        taken = np.concatenate([scene.present.boxes, scene.absent.boxes, scene.shunned])
        cells, numbers, clear = anchors(scene.width, scene.height, taken)
        cells, numbers = cells[clear], numbers[clear]
        scores = np.zeros((len(cells) + PER_OBJECT * len(things), len(self.names)))
        scores[np.arange(len(cells)), numbers % len(self.names)] = 0.02
        taken_for = np.concatenate([plan.taken_for, ghosts.labels])
        _fill(scores[len(cells) :], seen, things.labels, taken_for)
        owner = np.concatenate([np.full(len(cells), -1), np.repeat(np.arange(len(things)), PER_OBJECT)])
        places = things.places[:, None] * PER_OBJECT + np.arange(PER_OBJECT) + 16
        candidates = self._select(
            np.concatenate([cells, seen.proposals.reshape(-1, 4)]),
            np.concatenate([cells, seen.refined.reshape(-1, 4)]),
            scores,
            np.concatenate([numbers, places.reshape(-1)]),
            owner,
        )
        return Traced(scene, plan, ghosts, ghost_fault, owner, candidates)

    def _select(self, proposals: Floats, refined: Floats, scores: Floats, identity: Ints, owner: Ints) -> Candidates:
        """Threshold, top-k, suppression among the candidates of one object and label, cap."""
        how = Selection(SCORE, NMS, _UNLIMITED if self.cap is None else self.cap)
        pairs = how.pairs(scores)
        value = scores[pairs.candidate, pairs.label]
        order = np.argsort(-value, kind="stable")
        inner, outer = np.sort(order[: self.top_k]), np.sort(order[len(order) if self.top_k is None else self.top_k :])
        # suppression groups by object as well as label: two people side by side are no duplicates
        classes = scores.shape[1]
        grouped = Pairs(pairs.candidate[inner], pairs.label[inner] + classes * owner[pairs.candidate[inner]])
        kept, dropped = how.decide(grouped, refined[grouped.candidate], value[inner])
        return Candidates(
            proposals=proposals,
            refined=refined,
            scores=scores,
            background=1 - scores.sum(axis=1),
            identity=identity,
            kept=Pairs(kept.candidate, kept.label % classes),
            dropped=Dropped(
                np.concatenate([dropped.candidate, pairs.candidate[outer]]),
                np.concatenate([dropped.label % classes, pairs.label[outer]]),
                np.concatenate([dropped.reason, np.full(len(outer), int(Reason.TOP_K))]),
                np.concatenate([dropped.by, np.full(len(outer), -1)]),
            ),
            settings=self.settings,
        )


def _fill(scores: Floats, seen: Inside, labels: Ints, taken_for: Ints) -> None:
    """Write the class scores of the objects' candidates into ``scores`` ``[4 N, C]``."""
    rows = np.arange(len(scores))
    scores[rows, np.repeat(taken_for, PER_OBJECT)] = seen.wrong.reshape(-1)
    scores[rows, np.repeat(labels, PER_OBJECT)] = seen.right.reshape(-1)


def _unfit(boxes: Floats, width: int, height: int) -> Bools:
    """Boxes without area, or that stick out of the image: no answer could be promised for them."""
    out = (boxes[:, :2] < -0.5).any(axis=1) | (boxes[:, 2] > width + 0.5) | (boxes[:, 3] > height + 0.5)
    return np.asarray(out | (area(boxes) <= 0))


def load_glassbox(spec: Spec) -> GlassBox:
    """``glassbox:FAULT[/option=value…][+FAULT…][,option=value…],data=SPEC``: whatever follows ``data=`` belongs to the
    data. ``visible=`` and ``unknown=`` are the glass box's own; the rest goes to every fault that knows it."""
    head, found, data = spec.text.partition(",data=")
    if not found or not data:
        raise BadSpec(f"{spec.text!r} needs data=SPEC as its last option, the data whose truth it knows.")
    mine = Spec.parse(head)
    visible, unknown = mine.take("visible", 0.25), mine.take("unknown", "error", choices=("error", "empty"))
    shared = {key: value for key, value in mine.options.items() if key not in ("visible", "unknown")}
    return GlassBox(load_data(data), parse_faults(mine.target, shared), visible=visible, unknown=unknown)

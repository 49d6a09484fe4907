"""What was assumed of a network in a file, tried on a few annotated images before anything is computed with it.

Every plausible reading (what values the network wants for pixels, what its outputs mean) is asked about three images,
the best few about eight. What was assumed first stays unless another is clearly better: by the precision at which each
object is found, compared object by object. What was found out is one sentence, which the detector carries.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.data.opened import Opened
from misdetect.detectors.catalogue import load
from misdetect.detectors.exported import ExportedDetector, Guess
from misdetect.detectors.look import SIZES, Options
from misdetect.detectors.preprocess import IMAGENET_MEAN, IMAGENET_STD, PRESETS, Preprocess
from misdetect.detectors.wiring import WIRING
from misdetect.nouns.boxes import Floats, iou
from misdetect.nouns.detections import Detections, Truth
from misdetect.nouns.labels import Joined
from misdetect.nouns.picture import Pixels
from misdetect.said.errors import BadImage, BadSpec, MisdetectError

IMAGES = 8
"""Annotated images on which the best readings are compared."""
_FINALISTS = 4
"""How many readings are compared on all of them."""
_LOOKED = 64
"""Samples that are looked through for annotated ones."""
_OBJECTS = 25
"""Objects in an image, at the most: crowded photos tell readings apart no better, but slower."""
_SECONDS = 5.0
"""About how long it may take; a network that is slow is asked less."""
_PLANS = ((52, 3, IMAGES, False), (33, 2, 5, False), (24, 1, 4, False), (15, 1, 3, True))
"""By the number of questions: images on which all readings are tried, on which the best are compared, and whether only
the likely readings are tried."""
_CLEAR = 2.5
"""Standard errors of the mean difference that make one reading clearly better than another."""
_LEAST = 0.02
"""What it has to be better by at least, in mean precision."""


def settled(found: Any, given: str, data: Opened | None) -> tuple[Any, str, str]:
    """``found``, a detector with a ``guess``, or the one that annotated images of ``data`` show to be meant instead;
    the spec that was ``given``; and a sentence on what was assumed."""
    guess: Guess = found.guess
    options, sentence = ({}, "") if data is None else confirmed(guess, data.data)
    if options:
        found = load(replace(guess.spec(options), known_names=guess.make(options).names))
    said = sentence or f"assumed {guess.words(options)}, as is usual; nothing annotated was there to try it on."
    return found, given, f"{said} The whole spec: {guess.spec(options).text}"


@dataclass(eq=False)  # so that each is only itself
class _Way:
    """One way to wire and read the network, as ``options`` and in ``words``: in how many respects it is ``unlike`` what
    was assumed, and what it found on each image."""

    options: Options
    words: str
    unlike: float
    found: dict[int, Detections | None] = field(default_factory=dict)


def confirmed(guess: Guess, data: Dataset) -> tuple[Options, str]:
    """What to take in place of what was guessed (nothing, where that is best), and a sentence; an empty one where
    ``data`` has no annotations. A ``BadSpec`` where no reading gives a box."""
    shown = list(_annotated(data))
    if not shown:
        return {}, ""
    return _Trial(guess, data.names, shown).run()


def _annotated(data: Dataset) -> Iterator[tuple[Pixels, Truth]]:
    """Up to ``IMAGES`` images with objects, from all over ``data``."""
    places = np.unique(np.linspace(0, len(data) - 1, min(_LOOKED, len(data))).round().astype(int))
    count = 0
    for place in np.random.default_rng(0).permutation(places).tolist():
        sample = data[place]
        truth = sample.truth
        real = truth[~np.asarray(truth.crowd, np.bool_) & truth.present]
        if not 0 < len(real) <= _OBJECTS:
            continue
        try:
            yield sample.image, real
        except BadImage:
            continue
        count += 1
        if count == IMAGES:
            return


class _Trial:
    def __init__(self, guess: Guess, names: Sequence[str], shown: Sequence[tuple[Pixels, Truth]]) -> None:
        self.guess, self.names, self.shown = guess, names, shown
        self.first = guess.make({})
        self.boxes = 0

    def run(self) -> tuple[Options, str]:
        own = _Way({}, "", 0)
        self._ask([own], [0])  # the first call may load something
        began = time.perf_counter()
        self._ask([own], [len(self.shown) - 1])
        took = time.perf_counter() - began
        few, many, narrow = next((plan[1:] for plan in _PLANS if plan[0] * took < _SECONDS), _PLANS[-1][1:])
        screened, every = range(min(few, len(self.shown))), range(min(many, len(self.shown)))
        ways = self._screen([own, *self._wirings(narrow)], screened)
        best = max([own, *ways], key=lambda way: self._worth(way, screened))
        for way in self._resized(best):
            self._ask([way], screened)
            ways.append(way)
        if not self.boxes:
            raise BadSpec(
                f"{self.guess.spec({}).text!r}: no reading of it finds a box on {len(screened)} annotated images; "
                f"{self.guess.words({})} was assumed: state what is not so."
            )
        ranked = sorted(ways, key=lambda way: -self._worth(way, screened))
        likely = min(ranked, key=lambda way: (way.unlike, -self._worth(way, screened)), default=own)
        finals = list(dict.fromkeys([own, *ranked[:_FINALISTS], likely]))
        for way in finals:
            self._ask([way], every)
        return self._decide(finals, every)

    # --- asking ------------------------------------------------------------------------------------------------------

    def _screen(self, wirings: Sequence[_Way], images: Sequence[int]) -> list[_Way]:
        """Every reading with each of ``wirings``; the outputs for one wiring are decoded in all ways."""
        found: list[_Way] = []
        for wired in wirings:
            ways = [wired] if wired.options else []
            for reading in self.guess.readings:
                words = _joined(_told(reading, self.guess.added), wired.words)
                ways.append(_Way({**reading, **wired.options}, words, wired.unlike + 1))
            self._ask(ways, images)
            found += ways
        return found

    def _ask(self, ways: Sequence[_Way], images: Sequence[int]) -> None:
        """Let ``ways``, which see the same values, look at ``images``; a way that cannot be finds nothing."""
        made = [(way, self._made(way.options)) for way in ways]
        for image in images:
            pixels, outputs = self.shown[image][0], None
            for way, detector in made:
                if image in way.found:
                    continue
                way.found[image] = None
                if detector is None:
                    continue
                try:
                    tensor, placements = detector.prepare([pixels])
                    if outputs is None:
                        outputs = [output.copy() for output in detector.infer(tensor)]
                    way.found[image] = detector.decode(outputs, [pixels], placements)[0]
                except MisdetectError:
                    continue
                self.boxes += len(way.found[image] or ())

    def _made(self, options: Options) -> ExportedDetector | None:
        try:
            return self.guess.make(options)
        except MisdetectError:
            return None

    # --- ways to make values of pixels -------------------------------------------------------------------------------

    def _wirings(self, narrow: bool) -> Iterator[_Way]:
        """The usual values, in either order of channels; those of the spec stay."""
        if self.guess.wired:
            return
        own, asked = self.first.preprocess, self.guess.fixed
        colours = [own.colour] if "colour" in asked or narrow else ["rgb", "bgr"]
        ranges = [""] if own.dtype == "uint8" or {"scale", "mean", "std"} & asked else list(_RANGES)
        for values in ranges:
            for colour in colours:
                changed = _rewired(own, values, colour, own.resize)
                if not _alike(changed, own):
                    words = f"{colour.upper()}{f' as {values}' if values else ''}"
                    unlike = _RARE * (values == "-1..1") + (colour != own.colour)
                    unlike += not _alike(replace(changed, colour=own.colour), own)
                    yield _Way(_options_of(changed, self.guess), words, unlike)

    def _resized(self, best: _Way) -> Iterator[_Way]:
        """``best`` with other sizes and ways to get there."""
        found = self._made(best.options)
        if found is None or self.first.settings["preprocess"]["width"] is None:
            return
        if any(each.option == "size" for each in self.guess.findings):
            for side in SIZES[:4]:
                if (side, side) != (found.preprocess.width, found.preprocess.height):
                    larger = {**best.options, "size": f"{side}x{side}"}
                    yield _Way(larger, _joined(best.words, f"{side} x {side} pixels"), best.unlike + 1)
        if self.guess.wired or "resize" in self.guess.fixed:
            return
        rest = {name: value for name, value in best.options.items() if name not in WIRING}
        for resize, words in _RESIZES.items():
            if resize != found.preprocess.resize:
                options = _options_of(_rewired(found.preprocess, "", found.preprocess.colour, resize), self.guess)
                yield _Way({**rest, **options}, _joined(best.words, words), best.unlike + 1)

    # --- comparing ---------------------------------------------------------------------------------------------------

    def _precisions(self, way: _Way, images: Sequence[int]) -> tuple[Floats, Floats]:
        """Of every object the precision at which it is found, with its class and at its place alone; 0 if it is not."""
        names = self._names(way.options)
        joined = Joined.loosely(names, self.names)
        by_class: list[tuple[float, int]] = []
        by_place: list[tuple[float, int]] = []
        count = 0
        for image in images:
            truth, found = self.shown[image][1], way.found.get(image)
            if found is not None:
                labels = joined.in_data(found.labels)
                overlap = iou(found.boxes, truth.boxes) >= 0.5
                by_class += _hits(found.scores, overlap & (labels[:, None] == truth.labels[None]), count)
                by_place += _hits(found.scores, overlap, count)
            count += len(truth)
        return _at_rank(by_class, count), _at_rank(by_place, count)

    def _names(self, options: Options) -> Sequence[str]:
        if "names" not in options:
            return self.first.names
        made = self._made({k: v for k, v in options.items() if k not in WIRING})
        return self.first.names if made is None else made.names

    def _worth(self, way: _Way, images: Sequence[int]) -> float:
        return float(self._objects(way, images).mean())

    def _objects(self, way: _Way, images: Sequence[int]) -> Floats:
        by_class, by_place = self._precisions(way, images)
        return (by_class + by_place) / 2

    def _decide(self, finals: Sequence[_Way], images: Sequence[int]) -> tuple[Options, str]:
        worth = [self._objects(way, images) for way in finals]
        top = max(range(len(finals)), key=lambda i: worth[i].mean())
        able = [i for i in range(len(finals)) if not _clearly(worth[top], worth[i])]
        best = min(able, key=lambda i: (finals[i].unlike, -worth[i].mean()))  # what is likelier stays
        counts = [int((self._precisions(way, images)[0] >= 0.5).sum()) for way in finals]
        placed = int((self._precisions(finals[best], images)[1] >= 0.5).sum())
        chosen, others = finals[best], [i for i in range(len(finals)) if i != best]
        told = f"assumed {self.guess.words(chosen.options)}"
        total = len(worth[0])
        on = f"on {len(images)} image{'s' * (len(images) > 1)}"
        if not placed:
            none = f"none of {total} annotated objects is found {on}, nor with what else was tried: check each of them."
            return chosen.options, f"{told}, as is usual, but {none}"
        said = f"{told}: {counts[best]} of {total} annotated objects found {on}"
        if placed >= 5 and counts[best] < placed / 3:
            said += f", but {placed} with any class: are names= in the right order?"
            return chosen.options, said
        if not others:
            return chosen.options, said + "."
        near = [i for i in others if not _clearly(worth[best], worth[i])]
        clear = [i for i in others if i not in near]
        words = [each.words or "what was assumed first" for each in finals]
        if near:
            said += f", which cannot be told from {' or '.join(f'{words[i]} ({counts[i]})' for i in near[:2])}"
        if clear:
            said += f"; the next reading, {words[clear[0]]}, finds {counts[clear[0]]}"
        return chosen.options, said + "."


def _hits(scores: Floats, fits: Any, start: int) -> list[tuple[float, int]]:
    """Each detection of an image by its score: the object (numbered from ``start``) that it finds, or -1."""
    taken: set[int] = set()
    found = []
    for row in np.argsort(-scores, kind="stable").tolist():
        free = [int(each) for each in np.flatnonzero(fits[row]) if int(each) not in taken]
        taken |= set(free[:1])
        found.append((float(scores[row]), start + free[0] if free else -1))
    return found


def _at_rank(hits: list[tuple[float, int]], count: int) -> Floats:
    """Of ``count`` objects the precision among all detections that score as high as the one that finds it."""
    values, right = np.zeros(count), 0
    for rank, (_, hit) in enumerate(sorted(hits, key=lambda each: -each[0]), start=1):
        if hit >= 0:
            right += 1
            values[hit] = right / rank
    return values


def _clearly(one: Floats, other: Floats) -> bool:
    """Whether objects are found clearly better by ``one``."""
    difference = one - other
    error = difference.std() / np.sqrt(max(len(difference), 1))
    return bool(difference.mean() > max(_LEAST, _CLEAR * error))


_NONE, _ONE = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
_RANGES: dict[str, tuple[float, tuple[float, float, float], tuple[float, float, float]]] = {
    "0..1": (1 / 255, _NONE, _ONE),
    "0..255": (1.0, _NONE, _ONE),
    "ImageNet's": (1 / 255, IMAGENET_MEAN, IMAGENET_STD),
    "-1..1": (1 / 127.5, _ONE, _ONE),
}
"""Scale, mean and deviation of the usual values, in the order RGB."""
_RARE = 0.5
"""What the last of them is less likely by: they are nearly ImageNet's, and few but TensorFlow's networks want them."""
_RESIZES = {"letterbox": "letterboxed", "letterbox-topleft": "letterboxed at the top left", "stretch": "stretched"}
_FRACTIONS = {1 / 255: "1/255", 1 / 127.5: "1/127.5"}


def _rewired(own: Preprocess, values: str, colour: Any, resize: Any) -> Preprocess:
    scale, mean, std = _RANGES[values] if values else (own.scale, own.mean, own.std)
    if values and colour == "bgr":
        mean, std = mean[::-1], std[::-1]
    if not values and colour != own.colour:
        mean, std = mean[::-1], std[::-1]
    pad = own.pad if own.resize != "stretch" else 114.0
    return replace(own, scale=scale, mean=mean, std=std, colour=colour, resize=resize, pad=pad)


def _alike(one: Preprocess, other: Preprocess) -> bool:
    """Whether both make the same values of every image."""
    padded = one.resize != "stretch"
    return (one.colour, one.resize) == (other.colour, other.resize) and all(
        np.allclose(a, b, rtol=1e-3, atol=1e-6)
        for a, b in zip(_affine(one, padded), _affine(other, padded), strict=True)
    )


def _affine(how: Preprocess, padded: bool) -> tuple[Any, ...]:
    std = np.array(how.std)
    return how.scale / std, np.array(how.mean) / std, how.pad if padded else 0.0


def _options_of(how: Preprocess, guess: Guess) -> Options:
    """``how`` as options of a spec: a preset where one is the same, unless spec or file state a part of it."""
    if not guess.fixed and how.dtype != "uint8":
        for name, preset in PRESETS.items():
            if _alike(Preprocess(**{**vars(how), "mean": (0.0,) * 3, "std": (1.0,) * 3, **preset}), how):
                return {"preset": name}
    parts = {"scale": _FRACTIONS.get(how.scale, f"{how.scale:g}")}
    for name, default in (("mean", _NONE), ("std", _ONE)):
        if getattr(how, name) != default or name in guess.usual:
            parts[name] = ",".join(f"{value:g}" for value in getattr(how, name))
    padded = {} if how.resize == "stretch" else {"pad": f"{how.pad:g}"}
    return {"resize": how.resize, "colour": how.colour, **parts, **padded}


def _joined(*words: str) -> str:
    return ", ".join(filter(None, words))


def _told(options: Options, assumed: Options) -> str:
    """What of ``options`` is not as it was ``assumed``."""
    changed = {name: value for name, value in options.items() if assumed.get(name) != value}
    return ", ".join(f"{name.replace('_', '-')}={value}" for name, value in changed.items())

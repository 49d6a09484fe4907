"""Which object goes into which image: pairs (I, J) and an object of J, drawn at random with a seed or named by hand.

"We discard pairs for which the transplanted object is too large (allowing a degenerate amount of translations) or too
small, without any distinguishing visual features except its context." Where the limits lie the paper does not say;
here they are ``Sizes``. A ``Transplant`` is a pair with its grid, as ``run.json`` has it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from misdetect.data.cutouts import cut
from misdetect.data.dataset import Dataset, Sample
from misdetect.data.faults import NothingToCut
from misdetect.nouns.boxes import Ints
from misdetect.said.errors import BadData, BadSpec

_TRIES = 1000


@dataclass(frozen=True)
class Pair:
    """Object ``truth`` (row in the annotation) of image ``source`` (J), to be moved over image ``background`` (I); both
    are indices into the data."""

    background: int
    source: int
    truth: int


@dataclass(frozen=True)
class Sizes:
    """Limits for T: its mask has at least ``min_area`` of the background's pixels, and its box at most ``max_side`` of
    the background's width and of its height."""

    min_area: float = 0.01
    max_side: float = 0.5

    def __post_init__(self) -> None:
        if not (0 <= self.min_area < 1 and 0 < self.max_side <= 1):
            raise BadSpec(
                f"the limits of the object's size are shares of the image: 0 <= min-area < 1 and 0 < max-side <= 1. "
                f"Got {self.min_area} and {self.max_side}."
            )

    def fitting(self, background: Sample, source: Sample) -> Ints:
        """Rows of ``source``'s objects with a mask that are neither too small nor too large for ``background``."""
        truth = source.truth
        if truth.masks is None or not len(truth):
            return np.zeros(0, dtype=np.int64)
        assert truth.areas is not None
        assert truth.crowd is not None
        size = truth.boxes[:, 2:] - truth.boxes[:, :2]
        fits = (size[:, 0] <= self.max_side * background.width) & (size[:, 1] <= self.max_side * background.height)
        fits &= (truth.areas >= self.min_area * background.width * background.height) & ~truth.crowd
        rows: Ints = np.flatnonzero(fits)
        return np.array([row for row in rows if truth.masks.has(int(row))], dtype=np.int64)


def candidates(data: Dataset, seed: int) -> list[int]:
    """All images in a random order: those whose clean detections are asked for until enough have any."""
    return [int(i) for i in np.random.default_rng([seed, 1]).permutation(len(data))]


_FRUITLESS = 100
"""How often every background is tried in vain before no more pairs are expected."""


def choose_pairs(
    data: Dataset,
    count: int,
    backgrounds: Sequence[int],
    *,
    seed: int = 0,
    sizes: Sizes | None = None,
    same_image: bool = False,
    thing: tuple[int, int] | None = None,
) -> list[Pair]:
    """``count`` pairs on ``backgrounds`` (indices, used in turn, so that images repeat only where there are too few).

    The object is drawn from a random other image; from the background itself with ``same_image``; or it is ``thing``
    (image, row). Backgrounds that nothing fits into are passed over.
    """
    if not backgrounds:
        raise BadData(f"{data.spec}: no image to put an object into.")
    generator, sizes = np.random.default_rng([seed, 2]), sizes or Sizes()
    pairs: list[Pair] = []
    barren: set[int] = set()
    last = 0
    for turn in range(count * len(backgrounds)):
        if turn - last > _FRUITLESS * len(backgrounds):  # all there is was drawn
            break
        background = backgrounds[turn % len(backgrounds)]
        if background in barren:
            continue
        pair = _draw(data, background, generator, sizes, same_image, thing)
        if pair is None:
            barren.add(background)
        elif pair not in pairs:
            pairs.append(pair)
            last = turn
        if len(pairs) == count or len(barren) == len(backgrounds):
            break
    if not pairs:
        raise NothingToCut(_why_none(data, sizes, same_image, thing))
    return pairs


def _draw(
    data: Dataset,
    background: int,
    generator: np.random.Generator,
    sizes: Sizes,
    same_image: bool,
    thing: tuple[int, int] | None,
) -> Pair | None:
    image = data[background]
    if thing is not None:
        source, row = thing
        return Pair(background, source, row) if row in sizes.fitting(image, data[source]) else None
    for source in _sources(len(data), background, generator, same_image):
        rows = sizes.fitting(image, data[source])
        if rows.size:
            return Pair(background, source, int(generator.choice(rows)))
    return None


def _sources(size: int, background: int, generator: np.random.Generator, same_image: bool) -> Iterator[int]:
    """Images J to look for an object in: the background itself, or random others."""
    if same_image:
        yield background
        return
    others = generator.permutation(size) if size <= _TRIES else generator.integers(size, size=_TRIES)
    yield from (int(i) for i in others if i != background)


def _why_none(data: Dataset, sizes: Sizes, same_image: bool, thing: tuple[int, int] | None) -> str:
    limits = f"min-area {sizes.min_area:g} and max-side {sizes.max_side:g} of the image"
    if thing is not None:
        return f"{data.spec}: the object named is too small or too large for the image ({limits}); widen the limits."
    if not any(sample.truth.masks is not None for sample in data.limit(_TRIES)):
        return f"{data.spec} has no masks to cut objects by; scan needs data with instance masks."
    where = "the images themselves" if same_image else "other images"
    return f"{data.spec}: no object of {where} is within the limits of its size ({limits}); widen them."


def find_image(data: Dataset, name: str) -> int:
    """Index of the image called ``name``."""
    for index, sample in enumerate(data):
        if sample.id == name or str(sample.image_id) == name or sample.file_name == name:
            return index
    raise BadSpec(
        f"{data.spec} has no image {name!r}; it has {data[0].id!r}, …" if len(data) else f"{data.spec} is empty."
    )


def find_object(data: Dataset, annotation: int) -> tuple[int, int]:
    """Image index and row of the object with this annotation id."""
    for index, sample in enumerate(data):
        ids: Any = sample.truth.ids
        rows = np.flatnonzero(ids == annotation)
        if rows.size:
            return index, int(rows[0])
    raise BadSpec(f"{data.spec} has no annotation {annotation}.")


def grid(width: int, height: int, size: tuple[int, int], step: int) -> Ints:
    """All left and top positions ``[P, 2]`` (x, y), row by row, of an object of ``size`` (width, height) that lies
    fully inside an image of ``width`` × ``height``: multiples of ``step`` from 0."""
    xs = np.arange(0, width - size[0] + 1, step)
    ys = np.arange(0, height - size[1] + 1, step)
    return np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)


@dataclass(frozen=True)
class Transplant:
    """A pair and its grid: all that can be said of it without the data. ``at`` is the ``Pair`` as indices into the
    data; ``background`` and ``source`` are the images' ids, ``annotation`` and ``label`` (the data's name) those of the
    object T; ``width`` and ``height`` of the background, ``t_width`` and ``t_height`` of T, in pixels; ``positions`` on
    the grid."""

    at: tuple[int, int, int]
    background: str
    source: str
    annotation: int
    label: str
    width: int
    height: int
    t_width: int
    t_height: int
    positions: int

    @property
    def pair(self) -> Pair:
        """Which object goes into which image."""
        return Pair(*self.at)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of T."""
        return self.t_width, self.t_height

    def grid(self, step: int) -> Ints:
        """Its positions ``[P, 2]``."""
        return grid(self.width, self.height, self.size, step)

    def document(self) -> dict[str, Any]:
        """For ``run.json``."""
        return {**asdict(self), "at": list(self.at)}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Transplant":
        """From ``run.json``."""
        return cls(**{**document, "at": tuple(document["at"])})


def transplants(data: Dataset, pairs: Sequence[Pair], step: int) -> list[Transplant]:
    """The ``pairs`` with their grids; a grid of one position is refused, since nothing moves on it."""
    found = []
    for number, pair in enumerate(pairs):
        background, source = data[pair.background], data[pair.source]
        thing = cut(source, pair.truth, data.names, data=data.spec)
        count = len(grid(background.width, background.height, thing.size, step))
        if count < 2:
            raise BadSpec(
                f"the object of pair {number} ({thing.size[0]}x{thing.size[1]} pixels, image {source.id!r}) has "
                f"{count} positions on image {background.id!r} ({background.width}x{background.height}) at step "
                f"{step}; choose a smaller step or another object."
            )
        at, image = (pair.background, pair.source, pair.truth), (background.width, background.height)
        found.append(
            Transplant(at, background.id, source.id, thing.truth, thing.label, *image, *thing.size, positions=count)
        )
    return found

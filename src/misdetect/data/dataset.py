"""``Sample`` and ``Dataset``: photos with what is in them, read lazily.

A data set is a sequence of samples that knows its class names. Opening one reads annotations only; a sample reads its
pixels when asked and keeps nothing, so memory does not grow with what has been looked at.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, overload

from misdetect.nouns.detections import Truth
from misdetect.nouns.picture import Pixels, digest


class Source(Protocol):
    """Where a sample's pixels come from: a file, or a procedure."""

    def read(self) -> Pixels:
        """The pixels ``[H, W, 3]`` uint8 RGB."""
        ...

    def key(self) -> str:
        """Hash of the content, without decoding it."""
        ...


class Sample:
    """One image of a data set. It is a ``Picture``: ``key`` and ``render`` make it usable wherever an edit is.

    ``id`` is unique within the data; ``image_id`` is what COCO results call it (int where the data has ints; by
    default the same). ``truth`` may be a function that makes it when first asked for, where that is costly (procedural
    data); ``measure`` one that finds out width and height, where nothing declares them and the file may turn out to be
    no image.
    """

    def __init__(
        self,
        id: str,
        source: Source,
        truth: Truth | Callable[[], Truth],
        width: int,
        height: int,
        image_id: int | str | None = None,
        file_name: str = "",
        measure: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        self.id, self.source = id, source
        self.image_id, self.file_name = id if image_id is None else image_id, file_name
        self._truth, self._measure = truth, measure or (lambda: (width, height))

    def __repr__(self) -> str:
        return f"Sample({self.id!r}, {self.width}x{self.height})"

    @property
    def width(self) -> int:
        """In pixels."""
        return self._measure()[0]

    @property
    def height(self) -> int:
        """In pixels."""
        return self._measure()[1]

    @property
    def truth(self) -> Truth:
        """What is annotated in the image."""
        if not isinstance(self._truth, Truth):
            self._truth = self._truth()
        return self._truth

    @property
    def image(self) -> Pixels:
        """The pixels ``[H, W, 3]`` uint8 RGB, read anew each time."""
        return self.source.read()

    def render(self) -> Pixels:
        return self.source.read()

    @cached_property
    def key(self) -> str:
        return self.source.key()

    def larger(self, factor: int) -> "Sample | None":
        """The same scene drawn with sides ``factor`` times as long, for people to look at; ``None`` of a photo."""
        draw = getattr(self.source, "larger", None)
        return None if draw is None else draw(factor)


@dataclass(frozen=True)
class Warned:
    """Something wrong with the data that does not stop its use: ``count`` records, the first of them named."""

    kind: str
    count: int
    example: str


class Dataset(Sequence[Sample]):
    """Samples of one spec. ``names[label]`` is a class, ``category_ids[label]`` its number in the original file.

    ``fingerprint`` is that of the whole data; of a view, ``limited_to`` says how many of the first images it shows, or
    ``part`` is a hash of those that were chosen.
    """

    def __init__(
        self,
        spec: str,
        names: Sequence[str],
        size: int,
        sample: Callable[[int], Sample],
        *,
        fingerprint: str,
        category_ids: Sequence[int] | None = None,
        warnings: Sequence[Warned] = (),
        limited_to: int | None = None,
        part: str | None = None,
    ) -> None:
        self.spec = spec
        self.limited_to, self.part = limited_to, part
        self.names = tuple(names)
        self.category_ids = tuple(category_ids) if category_ids is not None else tuple(range(1, len(names) + 1))
        self.fingerprint = fingerprint
        self.warnings = tuple(warnings)
        self._size = size
        self._sample = sample

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> "Dataset": ...
    def __getitem__(self, index: int | slice) -> "Sample | Dataset":
        """Sample ``index``; a slice gives a ``Dataset`` view of that range."""
        if isinstance(index, slice):
            return self.subset(range(self._size)[index])
        if not -self._size <= index < self._size:
            raise IndexError(f"{self.spec} has {self._size} images; there is no image {index}.")
        return self._sample(index % self._size)

    def __iter__(self) -> Iterator[Sample]:
        return (self._sample(i) for i in range(self._size))

    def __repr__(self) -> str:
        return f"Dataset({self.spec!r}: {self._size} images, {len(self.names)} classes)"

    @property
    def by_spec(self) -> bool:
        """Whether its spec alone says what it is, but for how many of its images are used."""
        return self.part is None and self.spec != "memory:"

    def subset(self, chosen: Sequence[int]) -> "Dataset":
        """A view of the images at ``chosen``."""
        chosen = list(chosen)
        return self._view(chosen, None, digest(self.limited_to, self.part, chosen))

    def limit(self, count: int | None) -> "Dataset":
        """The first ``count`` images, or all."""
        if count is None or count >= self._size:
            return self
        return self._view(range(count), count if self.part is None else None, self.part and digest(self.part, count))

    def renamed(self, names: Mapping[str, str]) -> "Dataset":
        """The same data with other names for its classes; those not in ``names`` keep theirs."""
        new = tuple(names.get(name, name) for name in self.names)
        return self._with(names=new, fingerprint=digest(self.fingerprint, list(new)))

    def _view(self, chosen: Sequence[int], limited_to: int | None, part: str | None) -> "Dataset":
        made, own = self._with(limited_to=limited_to, part=part, warnings=()), self._sample
        made._size, made._sample = len(chosen), lambda i: own(chosen[i])
        return made

    def _with(self, **changed: Any) -> "Dataset":
        made = copy(self)
        vars(made).update(changed)
        return made

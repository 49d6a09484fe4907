"""What a study may ask of a detector, and what a study is.

A study never calls a detector. Each case is a generator that yields a request (or a list of them, answered as a list)
and receives the answer; what it returns are its rows. So the same search code is adaptive and batched, and is tested
without any detector at all: send it made-up answers.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from misdetect.data.dataset import Dataset
from misdetect.nouns.boxes import Floats
from misdetect.nouns.candidates import Candidates
from misdetect.nouns.detections import Detections, Truth
from misdetect.nouns.picture import Picture
from misdetect.nouns.protocols import Loss


@dataclass(frozen=True)
class Detect:
    """What does the detector see in ``picture``? Answer: ``Detections``."""

    picture: Picture


@dataclass(frozen=True)
class Trace:
    """What happens inside the detector on ``picture``? Answer: ``Candidates``."""

    picture: Picture


@dataclass(frozen=True, eq=False)
class Gradient:
    """Loss value and slope at ``pixels`` (``[H, W, 3]`` float32, 0..255). Answer: ``(float, [H, W, 3] array)``."""

    pixels: Floats
    truth: Truth
    loss: Loss


Request = Detect | Trace | Gradient
Answer = Detections | Candidates | tuple[float, Floats]
Asks = Request | Sequence[Request]
Row = Mapping[str, Any]
Steps = Generator[Asks, Any, Iterable[Row]]
"""A running case: yields what it asks, is sent the answers, returns its rows."""


@dataclass(frozen=True)
class Case:
    """A unit of work. ``index`` is its place in the study's order and ``id`` names it for people; both depend only on
    data, settings and seed. ``content`` is a small picklable value that the study understands."""

    index: int
    id: str
    content: Any = field(default=None, repr=False)


@dataclass(frozen=True)
class Finished:
    """A case that is done: its rows, or the reason it has none, and then the ``image`` that it was about."""

    case: Case
    rows: Sequence[Row]
    error: str | None = None
    image: str | None = None


@dataclass(frozen=True)
class UnderWay:
    """A case that goes on after so many of its ``questions`` were answered, for a study that plans by that."""

    case: Case
    questions: int


class Study(Protocol):
    """Turns data into cases and runs one case at a time. It must be picklable: workers get their own copy. One whose
    cases are not called by their image also has ``image_of(case)``, for documents that name what failed; one with a
    budget ``progress()``, the queries done and in all (0: nobody knows), which is shown instead of cases."""

    @property
    def name(self) -> str:
        """The verb."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """Columns of its rows; the engine adds ``case_index``, ``case``, ``row`` and ``error``."""
        ...

    @property
    def data(self) -> Dataset:
        """What it looks at."""
        ...

    def settings(self) -> Mapping[str, Any]:
        """What decides its rows beside data and detector: JSON-able, for ``run.json``."""
        ...

    def cases(self) -> Iterable[Case | None]:
        """All cases in order, lazily.

        ``None`` says "not yet": what comes next depends on cases that are still running. A study that works in such
        rounds also has ``learn(index, rows)``, which the engine calls with the rows of each case that is done, in any
        order (none for a case that failed), also with those of earlier sittings. It may have ``answered(index,
        questions)`` too, to be told how far a case is each time that it goes on; its cases then take turns, instead of
        one being finished before the next is begun.
        """
        ...

    def __len__(self) -> int:
        """How many cases there are."""
        ...

    def run(self, case: Case) -> Steps:
        """The generator of one case."""
        ...

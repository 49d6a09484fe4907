"""What studies of annotated data are built on: the data, opened where it is needed, and its classes joined with the
detector's."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from misdetect.data.dataset import Dataset
from misdetect.data.opened import Opened
from misdetect.engine.requests import Case
from misdetect.nouns.labels import Joined
from misdetect.nouns.open_names import fixed
from misdetect.studies.running import Running


class JoinedStudy:
    """A study of ``opened`` with a detector of the classes ``names``, done as ``how`` says. What is cached stays behind
    when it travels to a worker."""

    how: Running

    def __init__(self, opened: Opened, names: Sequence[str]) -> None:
        self._opened, self.names = opened, fixed(names)

    def __getstate__(self) -> dict[str, Any]:
        cached = {name for name in self.__dict__ if isinstance(getattr(type(self), name, None), cached_property)}
        return {name: value for name, value in self.__dict__.items() if name not in cached}

    @property
    def data(self) -> Dataset:
        """What it looks at."""
        return self._opened.data

    def settings(self) -> dict[str, Any]:
        """What decides the rows, for ``run.json``."""
        return self.how.document()

    @cached_property
    def joined(self) -> Joined:
        """The detector's classes and the data's."""
        return Joined.of(self.names, self.data.names, "the detector", self.data.spec)


class ImageStudy(JoinedStudy):
    """One case per image, named by the sample."""

    def __len__(self) -> int:
        return len(self.data)

    def cases(self) -> Iterator[Case]:
        """One case per image, named by the sample."""
        return (Case(i, self.data[i].id) for i in range(len(self.data)))

"""Which studies, detector families and data formats there are: what installed packages register as entry points.

The project's own stand in its ``pyproject.toml``, others' in theirs; nothing is imported before it is used. A name that
two packages claim, and one that cannot be imported, is a ``BadPlugin`` where it is used, and hinders nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from misdetect.said.errors import BadPlugin

T = TypeVar("T")
STUDIES, DETECTORS, DATA = "misdetect.studies", "misdetect.detectors", "misdetect.data"
_WHAT = {STUDIES: "study", DETECTORS: "detector family", DATA: "data format"}
_OWN = "misdetect"


@dataclass(frozen=True)
class Registered:
    """A ``name`` in a ``group``, and the entry points that claim it: one, unless packages disagree."""

    group: str
    name: str
    claims: tuple[EntryPoint, ...]

    @property
    def own(self) -> bool:
        """Whether it is the project's own."""
        return _package(self.claims[0]) == _OWN

    def load(self, kind: type[T]) -> T:
        """The object, which is imported now; a ``BadPlugin`` where there is not exactly one, or it is no ``kind``."""
        if len(self.claims) > 1:
            both = " and ".join(map(_told, self.claims))
            raise BadPlugin(f"the {self} is claimed by two packages, {both}; uninstall one of them.")
        try:
            found = self.claims[0].load()
        except (Exception, SystemExit) as error:  # whatever a stranger's package may raise when it is imported
            if self.own:
                raise
            why = f"{type(error).__name__}: {str(error).rstrip('.')}"
            raise self.broken(f"it cannot be imported, {why}") from error
        if not isinstance(found, kind):
            raise self.broken(f"{self.claims[0].value} is no {kind.__name__} but a {type(found).__name__}")
        return found

    def broken(self, why: str) -> BadPlugin:
        """That what the package registers is not what it should be."""
        return BadPlugin(f"the {self} of {_told(self.claims[0])} cannot be used: {why}; update or uninstall it.")

    def __str__(self) -> str:
        return f"{_WHAT[self.group]} {self.name!r}"


@cache
def registered(group: str) -> Mapping[str, Registered]:
    """Everything in ``group`` by name: the project's own first."""
    claims: dict[str, dict[tuple[str, str], EntryPoint]] = {}
    for each in sorted(entry_points(group=group), key=lambda each: (_package(each) != _OWN, _package(each))):
        claims.setdefault(each.name, {}).setdefault((_package(each), each.value), each)  # one may be found twice
    if not claims:
        raise BadPlugin("misdetect is on the path but not installed: pip install -e . in its folder.")
    return {name: Registered(group, name, tuple(each.values())) for name, each in claims.items()}


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else ""


def _told(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unknown package"

"""The kinds of study that are registered, the project's own and those of other packages."""

from collections.abc import Collection, Iterator, Mapping
from math import inf
from typing import Any

from misdetect.registry import STUDIES, registered
from misdetect.said.errors import BadData, BadPlugin
from misdetect.studies.contract import Evidence, Kind

REPORTED = 0.3
"""From which score on a detection counts as reported where no study says."""


def names() -> list[str]:
    """The names of all studies; nothing is imported for them."""
    return list(registered(STUDIES))


def kind_of(study: str) -> Kind:
    """The study of that name; a ``BadPlugin`` where its package is broken."""
    found = registered(STUDIES).get(study)
    if found is None:
        raise BadData(f"this misdetect has no study {study!r}; it has {', '.join(sorted(names()))}.")
    kind = found.load(Kind)
    if kind.name != study:
        raise found.broken(f"it calls itself {kind.name!r}")
    if kind.registered is None:
        if kind.missing:
            raise found.broken(f"it has no {' and no '.join(kind.missing)}")
        kind.registered = found
    return kind


def kinds() -> Iterator[Kind]:
    """All kinds but those whose package is broken, which only hinders their own use."""
    for name in names():
        try:
            yield kind_of(name)
        except BadPlugin:
            continue


def having(part: str) -> Iterator[tuple[Kind, Any]]:
    """The kinds that have ``part``, each with it; a package whose part is broken is left out, as in ``kinds``."""
    for kind in kinds():
        try:
            found = kind.part(part)
        except BadPlugin:
            continue
        if found is not None:
            yield kind, found


def place_of(study: str) -> float:
    """Where a study stands among others: as a checkup runs them, but those of images as they are before those of edited
    ones, in the order in which their word counts."""
    shown = list(looked_at())
    if study in shown:
        return 1000 + shown.index(study)
    checkup = kind_of(study).checkup
    return checkup.order if checkup is not None else inf


def in_checkup() -> list[Kind]:
    """The kinds that a checkup runs, in its order."""
    return [kind for kind, _ in sorted(having("checkup"), key=lambda pair: pair[1].order)]


def known_by(studies: Collection[str]) -> str | None:
    """Which of ``studies`` knows most of the detections of images as they are."""
    found = {name: each.knows for name in studies if (each := kind_of(name).evidence) is not None and each.boxes}
    return max(found, key=lambda name: found[name], default=None)


def reported_by(studies: Mapping[str, float | None]) -> float:
    """From which score on a detection is reported, given each study's own ``score``: as the first says that knows."""
    known = (studies.get(name) for name, each in looked_at().items() if each.reports)
    return float(next((score for score in known if score is not None), REPORTED))


def looked_at() -> dict[str, Evidence]:
    """The studies with rows that people look at one by one, in the order in which they are shown: those of images as
    they are first."""
    found = {kind.name: each for kind, each in having("evidence") if each.rows}
    return dict(sorted(found.items(), key=lambda item: (item[1].edited, item[1].rank)))


def words() -> dict[str, dict[str, str]]:
    """By study, what stands over a picture that it edited, and beside a row of it."""
    edited = {name: each for name, each in looked_at().items() if each.edited}
    return {name: {"titled": e.titled, "control": e.control, "told": e.told} for name, e in edited.items()}

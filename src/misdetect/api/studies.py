"""The studies as functions: ``explain(detector, data, loc=0.5, out="RUN")``.

Each is made from its kind: a detector (a spec, an object, a torch module, a function), data (a spec, a ``Dataset``,
pairs of image and truth), and the settings of the study as keywords. Their signatures are those of the settings
classes, so there is one definition of every setting.
"""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from misdetect.api.run import Place, Run
from misdetect.data import load_data
from misdetect.data.dataset import Dataset
from misdetect.data.opened import Opened
from misdetect.detectors import load_detector, remembered
from misdetect.detectors.catalogue import is_stored
from misdetect.engine import Outcome
from misdetect.engine.store import RUN_JSON
from misdetect.engine.store import Run as Directory
from misdetect.nouns.protocols import Detector
from misdetect.nouns.settings import settings_of
from misdetect.said.errors import BadSpec, MisdetectError
from misdetect.said.glossary import SETTINGS, told_of
from misdetect.studies.contract import Kind
from misdetect.studies.documents import keep_document
from misdetect.studies.kinds import kind_of
from misdetect.studies.running import Running, budget_file, run_kind

P = ParamSpec("P")
S = TypeVar("S")
Subject = TypeVar("Subject")
Result = TypeVar("Result")
DetectorLike = str | object
"""A spec, an object with ``names`` and ``detect``, a torch module with ``names``, or a function with ``names``."""
DataLike = str | Dataset | Iterable[tuple[Any, Any]]
"""A spec, a ``Dataset``, or pairs of image and truth."""
StudyFunction = Callable[..., Run]


@cache
def study(name: str) -> StudyFunction:
    """The function of the study ``name``: its two subjects (most have a detector and data), and the fields of its
    settings as keywords."""
    kind = kind_of(name)

    def run(first: DetectorLike, second: DataLike, how: Any) -> Run:
        return run_settings(name, first, second, how)

    return keywords_for_last(run, kind.settings, name, [each.name for each in kind.subjects])


def with_keywords(
    run: Callable[[Subject, DataLike, S], Result], settings: Callable[P, S], name: str
) -> Callable[Concatenate[Subject, DataLike, P], Result]:
    """``run`` as the function ``name`` that takes the fields of ``settings`` as keywords instead of its last
    parameter, with their names, defaults and help."""
    return cast("Callable[Concatenate[Subject, DataLike, P], Result]", keywords_for_last(run, settings, name))


def keywords_for_last(
    run: Callable[..., Any], settings: Callable[..., Any], name: str, called_: Iterable[str] | None = None
) -> Callable[..., Any]:
    """``with_keywords`` of a function of any parameters before its settings, which may be ``called_`` otherwise."""
    assert isinstance(settings, type)
    *own, _ = inspect.signature(run).parameters.values()
    if called_ is not None:
        own = [each.replace(name=other) for each, other in zip(own, called_, strict=True)]
    signature = inspect.Signature([*own, *inspect.signature(settings).parameters.values()])

    def called(*args: Any, **kwargs: Any) -> Any:
        unknown = [each for each in kwargs if each not in signature.parameters]
        if (renamed := told_of(unknown, SETTINGS)) is not None:
            raise BadSpec(f"{name}: {renamed}")
        given = signature.bind(*args, **kwargs).arguments
        subjects = [given.pop(parameter.name) for parameter in own]
        return run(*subjects, settings(**given))

    called.__name__ = called.__qualname__ = name
    called.__module__ = run.__module__
    called.__doc__, called.__signature__ = _doc(settings), signature  # type: ignore[attr-defined]
    return called


def _doc(settings: type[Any]) -> str:
    lines = [f"    {s.name}: {s.help}" for s in settings_of(settings)]
    return "\n".join([inspect.getdoc(settings) or "", "", *lines])


def run_settings(name: str, detector: DetectorLike, data: DataLike, settings: Any) -> Run:
    """Run study ``name`` as ``settings`` say, and keep its document beside the rows. What is stored (predictions, a run
    of detect) may stand for a detector where the study only looks at answers."""
    kind = kind_of(name)
    given = detector.directory if isinstance(detector, Run) else detector
    if kind.run is not None:
        place = Place(settings.out)
        directory, found = kind.run(given, load_data(data), settings, place.path)
        return Run(directory, data=found, document=keep_document(directory), place=place)
    return _run_asking(kind, given, data, settings)


def _run_asking(kind: Kind, given: DetectorLike, data: DataLike, settings: Running) -> Run:
    place = Place(settings.out)
    if kind.stored is not None and _is_stored(given):
        model, settings = kind.stored(given, load_data(data), settings)
    else:
        counted, shown = budget_file(place.path), looked_at(data, settings.limit, getattr(settings, "truth", None))
        model = load_again(given, settings.out, data=shown, counted=counted, limited=settings.limited)
    source = data if isinstance(data, str) else load_data(data, model.names)
    made, outcome = run_kind(kind, model, source, settings, place.path)
    if model is not given:
        outcome = saying_assumed(outcome, model)
    return Run(outcome.run, data=made.data, outcome=outcome, document=keep_document(outcome.run), place=place)


def looked_at(data: DataLike, limit: int | None, truth: str | Dataset | None = None) -> Opened | None:
    """``data`` for a detector of which something has to be assumed; pairs are not read before its classes are known."""
    return Opened(data, limit, truth) if isinstance(data, str | Dataset) else None


def saying_assumed(outcome: Outcome, model: object) -> Outcome:
    """``outcome`` with a note of what was assumed of ``model``, where something was."""
    assumed = getattr(model, "assumed", None)
    return replace(outcome, notes=(assumed, *outcome.notes)) if assumed else outcome


def _is_stored(given: DetectorLike) -> bool:
    """Whether that is a run of detect, or stored predictions."""
    if isinstance(given, Directory) or (isinstance(given, str | Path) and (Path(given) / RUN_JSON).is_file()):
        return True
    return isinstance(given, str | Path) and is_stored(str(given))


def load_again(detector: DetectorLike, out: Path | str | None, **how: Any) -> Detector:
    """``detector``, loaded ``how`` ``load_detector`` does: with the classes that an earlier sitting of the run ``out``
    was told, since a paid endpoint is not asked for them each time, and by the spec that was assumed then."""
    try:
        about = Directory.open(out).about if out is not None else None
        known = about["identity"]["detector"] if about else {}
        before = about["detector_settings"] if about else {}
        names = tuple(known["names"]) if known else None
    except (MisdetectError, OSError, LookupError, TypeError):  # no run yet, or none that can be read: said later
        return load_detector(detector, **how)
    if isinstance(detector, str) and known and before.get("given") == detector:
        model = load_detector(known["spec"], names, **how)
        return remembered(model, detector, before.get("assumed", ""))
    return load_detector(detector, names if known and known["spec"] == detector else None, **how)

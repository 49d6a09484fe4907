"""The studies as functions: ``explain(detector, data, loc=0.5, out="RUN")``.

Each takes a detector (a spec, an object, a torch module, a function), data (a spec, a ``Dataset``, pairs of image and
truth), and the settings of its study as keywords. Their signatures are those of the settings classes, so there is one
definition of every setting, and editors and type checkers know it.
"""

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from misdetect.api.run import Place, Run
from misdetect.data import load_data
from misdetect.data.dataset import Dataset
from misdetect.detectors import load_detector
from misdetect.detectors.catalogue import is_stored
from misdetect.engine.store import RUN_JSON
from misdetect.engine.store import Run as Directory
from misdetect.nouns.settings import settings_of
from misdetect.said.errors import MisdetectError
from misdetect.studies.attack.settings import AttackSettings
from misdetect.studies.confusion.settings import ConfusionSettings
from misdetect.studies.confusion.stored import StoredDetector
from misdetect.studies.contract import Running, budget_file, keep_document, kind_of, run_kind
from misdetect.studies.detect import DetectSettings
from misdetect.studies.doctor.settings import DoctorSettings
from misdetect.studies.explain.settings import ExplainSettings
from misdetect.studies.fuzz.settings import FuzzSettings
from misdetect.studies.scan.settings import ScanSettings
from misdetect.studies.verify.settings import VerifySettings

P = ParamSpec("P")
S = TypeVar("S")
Subject = TypeVar("Subject")
Result = TypeVar("Result")
DetectorLike = str | object
"""A spec, an object with ``names`` and ``detect``, a torch module with ``names``, or a function with ``names``."""
DataLike = str | Dataset | Iterable[tuple[Any, Any]]
"""A spec, a ``Dataset``, or pairs of image and truth."""


def study(
    settings: Callable[P, Running], name: str, *, stored: bool = False
) -> Callable[Concatenate[DetectorLike, DataLike, P], Run]:
    """The function of study ``name``: a detector, data, and the fields of ``settings`` as keywords. What is ``stored``
    may stand for a detector where the study only looks at answers."""

    def run(detector: DetectorLike, data: DataLike, how: Running) -> Run:
        return run_settings(name, _stored(detector, data) if stored else detector, data, how)

    return with_keywords(run, settings, name)


def _stored(detector: DetectorLike, data: DataLike) -> DetectorLike:
    """Stored predictions of ``data``, or a run of ``detect`` on it, as a detector; any other detector as it is."""
    given = detector.directory if isinstance(detector, Run) else detector
    is_run = isinstance(given, Directory) or (isinstance(given, str | Path) and (Path(given) / RUN_JSON).is_file())
    if is_run or is_stored(given):
        assert isinstance(given, Directory | str | Path)
        return StoredDetector(given, load_data(data))
    return detector


def with_keywords(
    run: Callable[[Subject, DataLike, S], Result], settings: Callable[P, S], name: str
) -> Callable[Concatenate[Subject, DataLike, P], Result]:
    """``run`` as the function ``name`` that takes the fields of ``settings`` as keywords instead of its last
    parameter, with their names, defaults and help."""
    return cast("Callable[Concatenate[Subject, DataLike, P], Result]", keywords_for_last(run, settings, name))


def keywords_for_last(run: Callable[..., Any], settings: Callable[..., Any], name: str) -> Callable[..., Any]:
    """``with_keywords`` of a function of any parameters before its settings."""
    assert isinstance(settings, type)
    *own, _ = inspect.signature(run).parameters.values()
    signature = inspect.Signature([*own, *inspect.signature(settings).parameters.values()])

    def called(*args: Any, **kwargs: Any) -> Any:
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


def run_settings(name: str, detector: DetectorLike, data: DataLike, settings: Running) -> Run:
    """Run study ``name`` as ``settings`` say, and keep its document beside the rows."""
    kind, place = kind_of(name), Place(settings.out)
    if kind.stored is not None and isinstance(detector, str) and is_stored(detector):
        stored = load_data(data)
        source: str | Dataset = stored
        model, settings = kind.stored(detector, stored, settings)
    else:
        known, counted = known_names(detector, settings.out), budget_file(place.path)
        model = load_detector(detector, known, counted=counted, limited=settings.limited)
        source = data if isinstance(data, str) else load_data(data, model.names)
    made, outcome = run_kind(kind, model, source, settings, place.path)
    return Run(outcome.run, data=made.data, outcome=outcome, document=keep_document(outcome.run), place=place)


def known_names(detector: DetectorLike, out: Path | str | None) -> tuple[str, ...] | None:
    """The classes of ``detector`` as an earlier sitting of the run ``out`` was told: a paid endpoint is not asked for
    them each time."""
    try:
        known = Directory.open(out).about["identity"]["detector"] if out is not None else {}
    except (MisdetectError, OSError, LookupError, TypeError):  # no run yet, or none that can be read: said later
        return None
    return tuple(known["names"]) if known and known["spec"] == detector else None


attack = study(AttackSettings, "attack")
confusion = study(ConfusionSettings, "confusion", stored=True)
detect = study(DetectSettings, "detect")
doctor = study(DoctorSettings, "doctor")
explain = study(ExplainSettings, "explain")
fuzz = study(FuzzSettings, "fuzz")
scan = study(ScanSettings, "scan")
verify = study(VerifySettings, "verify")

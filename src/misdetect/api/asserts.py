"""Assertions for tests: a detector is stable, hallucinates nothing, scores enough. Each runs a study and, where it
fails, says with which number, on which cases, and where the run is.

They need no test framework; ``misdetect.pytest_plugin`` has fixtures to go with them. A rate fails where its interval
lies above what is allowed: a detector is not blamed for what few images cannot tell. ``certain=False`` goes by the
number itself.
"""

import shutil
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Literal, TypeAlias

from misdetect.api.ledger import make_ledger
from misdetect.api.run import Run
from misdetect.api.score import score
from misdetect.api.studies import DataLike, DetectorLike, detect, fuzz, scan, verify
from misdetect.data import load_data
from misdetect.data.dataset import Dataset
from misdetect.detectors import load_detector
from misdetect.nouns.protocols import Detector
from misdetect.said.gates import check
from misdetect.said.printable import printable
from misdetect.studies.contract import kind_of

Out: TypeAlias = Path | str | None
QUERIES = 200
"""Questions of a campaign that is given no budget."""
_SHOWN = 5
_LOOKED = 50
"""Samples in which annotations and states are looked for."""
_BY_OBJECT = "NOT control AND attributable AND harm IN ('harmful', 'unknown')"
_HALLUCINATED = {"verify": "condition = 'clean' AND outcome = 'extra'", "fuzz": f"{_BY_OBJECT} AND outcome = 'extra'"}


def assert_stable(
    detector: DetectorLike,
    data: DataLike,
    *,
    by: Literal["fuzz", "scan"] = "fuzz",
    most: float = 0.0,
    certain: bool = True,
    out: Out = None,
    **settings: Any,
) -> Run:
    """Objects that are put into a picture change nothing else that is detected there.

    ``by`` fuzz: ``most`` distinct failures per 1,000 questions that inserted objects cause and that do harm (of data
    without annotations: all that they cause); 200 questions unless ``settings`` have another budget. ``by`` scan:
    ``most`` percent of positions at which a transplanted object does harm, beyond its null control. ``settings`` are
    those of the study, ``out`` its run directory. Returns the run.
    """
    __tracebackhide__ = True
    model, opened = _loaded(detector, data)
    if by == "fuzz":
        settings = _with_budget(settings)
        name = "harmful_per_1000" if _annotated(opened) else "attributable_per_1000"
        key, low = name, f"intervals.{name}[0]"
    else:
        key, low = "harm.difference", "harm.intervals.difference[0]"
    study: Callable[..., Run] = fuzz if by == "fuzz" else scan
    with _kept(out) as place:
        run = study(model, opened, out=place, **settings)
        _hold(run, f"{low if certain else key} > {most!r}", key, most, "is not stable", _BY_OBJECT)
    return _passed(run, out)


def assert_no_hallucination(
    detector: DetectorLike,
    data: DataLike,
    *,
    most: float = 0.0,
    certain: bool = True,
    out: Out = None,
    **settings: Any,
) -> Run:
    """Nothing is detected that is not there.

    Where parts have states (``verify``): at most the share ``most`` of the missing parts is detected. Elsewhere
    (``fuzz``): at most ``most`` distinct detections come up where there is nothing, because of inserted objects; there
    is no interval of these. ``settings`` are those of the study, ``out`` its run directory. Returns the run.
    """
    __tracebackhide__ = True
    model, opened = _loaded(detector, data)
    study: Callable[..., Run]
    if _any(opened, lambda truth: truth.states is not None):
        study, key = verify, "with_localisation.missing_recall"
        gate = "with_localisation.intervals.missing_recall[0]" if certain else key
    else:
        study, settings = fuzz, _with_budget(settings)
        key = gate = "effects['new hallucination']" if _annotated(opened) else "attributable_by_type.extra"
    with _kept(out) as place:
        run = study(model, opened, out=place, **settings)
        _hold(run, f"{gate} > {most!r}", key, most, "hallucinates", _HALLUCINATED[run.study])
    return _passed(run, out)


def assert_score(
    detector: DetectorLike,
    data: DataLike,
    *,
    out: Out = None,
    limit: int | None = None,
    workers: int = 1,
    cache: bool = True,
    **least: float,
) -> Run:
    """The detector scores at least so much: ``assert_score(detector, data, AP50=0.8, AR100=0.6)``, by any of COCO's
    numbers. ``out`` is the run directory of the score, ``limit`` the number of images. Returns the run."""
    __tracebackhide__ = True
    model, opened = _loaded(detector, data)
    with _kept(out) as place:
        found = detect(model, opened, limit=limit, workers=workers, cache=cache)
        run = score(found, found.data, out=place)
        said = [verdict for name, value in least.items() for verdict in check(run.document, f"ap.{name} < {value!r}")]
        if failed := [verdict for verdict in said if verdict.failed]:
            wanted = ", ".join(
                f"{each.key} is {each.value:.4g}, at least {each.gate.rpartition(' ')[2]} is wanted" for each in failed
            )
            worst = [
                f"{each['image']}: {each['not_found']} of {each['objects']} not found, "
                f"{each['false_detections']} false detections"
                for each in run.document["worst_images"]
            ]
            raise AssertionError(_message(run, f"scores too little: {wanted}", worst))
    return _passed(run, out)


def _loaded(detector: DetectorLike, data: DataLike) -> tuple[Detector, Dataset]:
    model = load_detector(detector)
    return model, load_data(data, model.names)


def _with_budget(settings: dict[str, Any]) -> dict[str, Any]:
    limited = any(settings.get(name) is not None for name in ("queries", "usd", "minutes"))
    return settings if limited else {**settings, "queries": QUERIES}


def _annotated(data: Dataset) -> bool:
    return _any(data, len)


def _any(data: Dataset, of: Callable[[Any], Any]) -> bool:
    return any(of(data[i].truth) for i in range(min(len(data), _LOOKED)))


@contextmanager
def _kept(out: Out) -> Iterator[Path]:
    """Where a run goes: ``out``, or a new folder, which stays where the assertion fails: somebody will look at it."""
    place = Path(mkdtemp(prefix="misdetect-")) / "run" if out is None else Path(out)
    try:
        yield place
    except AssertionError:
        raise
    except BaseException:
        if out is None:
            shutil.rmtree(place.parent, ignore_errors=True)
        raise


def _passed(run: Run, out: Out) -> Run:
    """``run``; where it was given no directory its own goes with it."""
    if out is None:
        weakref.finalize(run, shutil.rmtree, run.path.parent, ignore_errors=True)
    return run


def _hold(run: Run, gate: str, key: str, most: float, what: str, where: str) -> None:
    """Fail where ``gate`` does; ``key`` is the number to tell, ``where`` chooses the ledger's rows to name."""
    __tracebackhide__ = True
    (verdict,) = check(run.document, gate)
    if not verdict.failed:
        return
    (told,) = check(run.document, f"{key} > {most!r}")
    number = told.says.partition("failed: ")[2] or told.says
    rows = make_ledger(run, f"SELECT * FROM ledger WHERE {where}").to_pylist()
    worst = sorted(rows, key=lambda row: (-(row["score_before"] or row["score"] or 0), row["case"]))
    headline = f"{what}: {number.removesuffix('.')}, and at most {most:g} is allowed"
    raise AssertionError(_message(run, headline, list(dict.fromkeys(map(_case, worst)))))


def _case(row: dict[str, Any]) -> str:
    became = f" as {row['became']}" if row["became"] else ""
    before, after = (row[name] for name in ("score_before", "score"))
    scores = f"{before:.2f} -> {after or 0:.2f}" if before is not None else f"{after or 0:.2f}"
    return f"{row['case']}: {row['outcome']} {row['label']}{became} on {row['image']}, {scores}"


def _message(run: Run, headline: str, cases: list[str]) -> str:
    """A headline, what the study says, the worst cases, and where to look."""
    document = run.document
    more = [f"… and {len(cases) - _SHOWN} more"] if len(cases) > _SHOWN else []
    lines = [
        f"{document['detector'] or 'the detector'} on {document['data']} {headline}.",
        *(f"  {line}" for line in [*kind_of(run.study).sentences(document)[:1], *cases[:_SHOWN], *more]),
        f"  The run is in {run.address}; misdetect replay {run.address} CASE asks about one case again.",
    ]
    return "\n".join(map(printable, lines))

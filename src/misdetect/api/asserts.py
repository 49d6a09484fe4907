"""Assertions for tests: a detector is stable, hallucinates nothing, scores enough. Each runs a study and, where it
fails, says with which number, on which cases, and where the run is.

They need no test framework; ``misdetect.pytest_plugin`` has fixtures to go with them. A rate fails where its interval
lies above what is allowed: a detector is not blamed for what few images cannot tell. ``certain=False`` goes by the
number itself.
"""

import shutil
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeAlias

from misdetect.api.ledger import make_ledger
from misdetect.api.run import Run
from misdetect.api.studies import DataLike, DetectorLike, looked_at, study
from misdetect.data import load_data
from misdetect.data.dataset import Dataset
from misdetect.detectors import load_detector
from misdetect.nouns.protocols import Detector
from misdetect.said.errors import BadSpec
from misdetect.said.gates import check
from misdetect.said.printable import printable
from misdetect.studies.contract import Claim, Kind
from misdetect.studies.kinds import having, kind_of

Out: TypeAlias = Path | str | None
_SHOWN = 5
_LOOKED = 50
"""Samples in which annotations are looked for."""
_BUDGETS = ("queries", "usd", "minutes")


def assert_stable(
    detector: DetectorLike,
    data: DataLike,
    *,
    by: str | None = None,
    most: float = 0.0,
    certain: bool = True,
    out: Out = None,
    **settings: Any,
) -> Run:
    """Objects that are put into a picture change nothing else that is detected there.

    ``by`` fuzz (the default): ``most`` distinct failures per 1,000 questions that inserted objects cause and that do
    harm (of data without annotations: all that they cause); 200 questions unless ``settings`` have another budget.
    ``by`` scan: ``most`` percent of positions at which an object that is put in does harm, beyond its control.
    ``settings`` are those of the study, ``out`` its run directory. Returns the run.
    """
    __tracebackhide__ = True
    return _asserted("stable", "is not stable", detector, data, by, most, certain, out, settings)


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
    return _asserted("no_hallucination", "hallucinates", detector, data, None, most, certain, out, settings)


def _asserted(
    name: str,
    fails: str,
    detector: DetectorLike,
    data: DataLike,
    by: str | None,
    most: float,
    certain: bool,
    out: Out,
    settings: dict[str, Any],
) -> Run:
    """Run the first study that claims ``name`` and fits the data, or that of the name ``by``, and hold it to that."""
    __tracebackhide__ = True
    model, opened = _loaded(detector, data)
    kind, claim = _claim(name, opened, by)
    key, low = claim.unknown if claim.unknown is not None and not _annotated(opened) else (claim.key, claim.end)
    if not any(settings.get(budget) is not None for budget in _BUDGETS):
        settings = {**claim.settings, **settings}
    with _kept(out) as place:
        run = study(kind.name)(model, opened, out=place, **settings)
        _hold(run, f"{low if certain else key} > {most!r}", key, most, fails, claim.rows)
    return _passed(run, out)


def _claim(name: str, data: Dataset, by: str | None) -> tuple[Kind, Claim]:
    """The study that holds ``name`` of a detector, and how."""
    found = [(kind, claims[name]) for kind, claims in having("claims") if name in claims]
    if by is not None and by not in (names := [kind.name for kind, _ in found]):
        raise BadSpec(f"by should be {' or '.join(names)}. Got {by!r}.")
    fitting = [(kind, each) for kind, each in found if (each.fits(data) if by is None else kind.name == by)]
    return min(fitting, key=lambda pair: pair[1].rank)


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
        found = study("detect")(model, opened, limit=limit, workers=workers, cache=cache)
        run = study("score")(found, found.data, out=place)
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
    model = load_detector(detector, data=looked_at(data, None))
    return model, load_data(data, model.names)


def _annotated(data: Dataset) -> bool:
    return any(len(data[i].truth) for i in range(min(len(data), _LOOKED)))


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

"""A campaign from its settings: which objects, which budget, new or going on where an earlier sitting ended.

``prepare`` is what ``md.fuzz`` and the verb begin with; ``rebuild`` makes the study of a finished run again, to draw or
replay its cases. Nothing is written here but the pool that a segmenter cuts out, beside the run.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from misdetect.data import load_data
from misdetect.data.dataset import Dataset
from misdetect.data.opened import Opened
from misdetect.engine.backend import Asking
from misdetect.engine.store import Run
from misdetect.nouns.protocols import Detector, Traced
from misdetect.pools.pool import Pool, build_pool, load_pool
from misdetect.pools.settings import PoolSettings
from misdetect.said.errors import BadData, BadSpec, RunMismatch
from misdetect.studies.fuzz.settings import FuzzSettings
from misdetect.studies.fuzz.study import ENDLESS, FuzzStudy
from misdetect.studies.segment import make_pool

_TIMED = 100
"""Images of a campaign that is limited by time alone."""


def prepare(detector: Detector, opened: Opened, settings: FuzzSettings, asking: Asking) -> FuzzStudy:
    """The campaign that ``settings`` ask for, or the one that is in their ``out`` with what they add to it."""
    if not len(opened.data):  # before a pool is built from it, which would say that it has no masks
        raise BadData(f"{opened.data.spec} has no images.")
    assert settings.out is not None
    planned = _planned(detector, settings)
    earlier = _earlier(Path(settings.out))
    timed = settings.minutes is not None and planned in (None, ENDLESS)
    how = replace(
        settings,
        queries=earlier.get("queries", planned),
        backgrounds=settings.backgrounds or earlier.get("backgrounds", _TIMED if timed else None),
    )
    pool = _objects(opened, settings)
    return FuzzStudy(opened, pool, detector.names, how, ENDLESS if planned is None else planned, _shown_from(detector))


def _shown_from(detector: Detector) -> float | None:
    """The lowest score that ``detector`` reports, where nothing can hide another: its own threshold, if its inside is
    open. What a file or an endpoint says of itself may not be all that it does."""
    own = getattr(detector, "settings", {}).get("score")
    return float(own) if isinstance(detector, Traced) and isinstance(own, int | float) else None


def _planned(detector: Detector, settings: FuzzSettings) -> int | None:
    """How many queries the campaign may plan with."""
    own: dict[str, Any] = dict(getattr(detector, "limits", None) or {})
    price = settings.price or 0.0
    dollars = [n for n in (settings.usd, own.get("usd")) if n is not None and price > 0]
    most = [n for n in (settings.queries, own.get("queries")) if n is not None]
    most += [int(n / price + 1e-9) for n in dollars]
    if not most and settings.strategy == "adaptive":
        if settings.minutes is None:
            raise BadSpec("the adaptive strategy decides what to do with a budget; give --queries, --usd or --minutes.")
        return ENDLESS
    return min(most, default=None)


def _earlier(out: Path) -> Mapping[str, Any]:
    """The settings of the campaign that is in ``out``, if there is one; another run there is refused later."""
    try:
        run = Run.open(out)
    except BadData:
        return {}
    return run.settings if run.study == FuzzStudy.name else {}


def _objects(opened: Opened, settings: FuzzSettings) -> Pool:
    """What is inserted: a given pool, one of given data, or one of the data itself, of all its images if these can be
    found again by its spec."""
    if settings.segmenter is not None:
        return _segmented(opened.data, settings.segmenter, settings)
    if settings.pool is not None:
        return load_pool(settings.pool)
    return build_pool(opened.whole if opened.whole.by_spec else opened.data)


def _segmented(data: Dataset, segmenter: str, settings: FuzzSettings) -> Pool:
    """The pool that ``segmenter`` cuts from ``data`` (or from the data ``settings.pool``), kept beside the run."""
    given = settings.pool
    if isinstance(given, Pool) or (given is not None and Path(given).is_dir()):
        raise BadSpec(f"{given} is a stored pool, which needs no --segmenter; --pool with one is a data spec.")
    source = data if given is None else load_data(str(given))
    assert settings.out is not None
    folder = settings.out.with_name(settings.out.name + ".pool")
    if not folder.exists():
        make_pool(
            source,
            PoolSettings(segmenter=segmenter, out=folder, cache=settings.cache, progress=_without_counts(settings)),
        )
    found = load_pool(folder)
    wanted = {"segmenter": segmenter, "data": source.spec, "images": len(source)}
    if any(found.settings.get(name) != value for name, value in wanted.items()):
        raise RunMismatch(f"{folder} holds a pool of other data or of another segmenter; choose another --out.")
    return found


def _without_counts(settings: FuzzSettings) -> Callable[[int, int], None] | None:
    progress = settings.progress
    return None if progress is None else lambda done, total: progress(done, total, {})


def rebuild(run: Run, data: Dataset) -> FuzzStudy:
    """The study of ``run`` again. Its pool must be what it was."""
    stored = run.settings
    same = stored["pool"] == data.spec and (data.limited_to is None or not data.by_spec)
    pool = build_pool(data) if same else load_pool(stored["pool"])
    if pool.fingerprint != stored["pool_fingerprint"]:
        raise RunMismatch(
            f"the pool {stored['pool']} has changed since {run.address} was run, or was never stored: it is another."
        )
    # A row says what was inserted; what else might have been (which takes a look at the data, or someone's code) is
    # not asked again.
    how = replace(FuzzSettings.of({**stored, "pool": None}), reach=0, embedding=None)
    return FuzzStudy(Opened(data), pool, run.about["identity"]["detector"]["names"], how)

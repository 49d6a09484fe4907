"""``misdetect fuzz``: a campaign of metamorphic object insertion with a budget (paper 4)."""

import json as decoder
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from misdetect.budget import Budget
from misdetect.cli.pool import new_pool
from misdetect.cli.running import Asking, Batch, NoCache, Workers, identity
from misdetect.cli.shell import DataSpec, DetectorSpec, Document, Json, Limit, Seed, messages, present
from misdetect.data import load_data
from misdetect.data.dataset import Dataset
from misdetect.detectors import load_detector
from misdetect.engine.store import Run
from misdetect.errors import BadData, BadSpec, RunMismatch
from misdetect.files import write_atomically
from misdetect.metrics.metamorphic import Oracle
from misdetect.pool.pool import SEGMENTED, Pool, Refinement, load_pool
from misdetect.protocols import Detector, require
from misdetect.report.fuzz import draw_failures
from misdetect.studies.fuzz.plan import Listed
from misdetect.studies.fuzz.results import Campaign, summarise
from misdetect.studies.fuzz.settings import WIDEST, Destination, Fuzzing
from misdetect.studies.fuzz.study import FuzzStudy
from misdetect.studies.fuzz.tables import page, tables

_ENDLESS = 10**6
"""What a campaign plans with where only time, or nothing, limits it."""
_TIMED = 100
"""Images of a campaign that is limited by time alone."""
_MORE, _TABLES = "budgets.json", "tables.md"


def fuzz(
    detector: DetectorSpec,
    data: DataSpec,
    out: Annotated[Path, typer.Option("--out", help="Run directory.")],
    pool: Annotated[
        str | None, typer.Option("--pool", help="Objects to insert: a folder of `misdetect pool`, or a data spec.")
    ] = None,
    segmenter: Annotated[
        str | None, typer.Option("--segmenter", help="Detector whose masks cut the objects out, of the data or --pool.")
    ] = None,
    strategy: Annotated[
        Literal["random", "guided", "adaptive"], typer.Option("--strategy", help="Where the next object goes.")
    ] = "adaptive",
    queries: Annotated[
        int | None, typer.Option("--queries", min=3, help="Ask at most N times, null controls included.")
    ] = None,
    usd: Annotated[float | None, typer.Option("--usd", min=0, help="Spend at most X dollars.")] = None,
    price: Annotated[float | None, typer.Option("--price", min=0, help="Dollars per query.")] = None,
    minutes: Annotated[float | None, typer.Option("--minutes", min=0, help="Stop after M minutes.")] = None,
    reach: Annotated[
        int | None,
        typer.Option("--reach", min=0, max=WIDEST, help="How far the paper's rule is widened; adaptive: 3, else 0."),
    ] = None,
    oracle: Annotated[
        Literal["paper", "strict"], typer.Option("--oracle", help="mAP = 100 %, or one to one.")
    ] = "paper",
    iou: Annotated[float, typer.Option("--iou", help="From where two boxes are the same.")] = 0.5,
    score: Annotated[float, typer.Option("--score", min=0, max=1, help="What counts as a detection.")] = 0.5,
    flicker: Annotated[float, typer.Option("--flicker", help="A score this near --score flickers.")] = 0.05,
    count_flicker: Annotated[bool, typer.Option("--count-flicker", help="Flicker makes a failure too.")] = False,
    per_object: Annotated[int, typer.Option("--per-object", min=1, help="Insertions per detection.")] = 10,
    backgrounds: Annotated[int | None, typer.Option("--backgrounds", min=1, help="Images to insert into.")] = None,
    min_naturalness: Annotated[float, typer.Option("--min-naturalness", help="HOG intersection, 0 to 1.")] = 0.0,
    relocate: Annotated[bool, typer.Option("--relocate/--no-relocate", help="Move failing objects on.")] = True,
    destination: Annotated[
        str, typer.Option("--destination", help="Where to: centroid (of detections), centre, or X,Y in pixels.")
    ] = "centroid",
    shrink: Annotated[bool, typer.Option("--shrink/--no-shrink", help="Reduce failures to the least edit.")] = True,
    embedding: Annotated[
        str | None, typer.Option("--embedding", help="Similarity by python:module:function instead of a hash.")
    ] = None,
    pictures: Annotated[int, typer.Option("--pictures", min=0, help="Draw the first N failures.")] = 12,
    limit: Limit = None,
    seed: Seed = 0,
    workers: Workers = 1,
    batch: Batch = None,
    no_cache: NoCache = False,
    json: Json = False,
) -> None:
    """Insert objects beside others and see which detections that breaks, within a budget."""
    model: Detector = require(load_detector(detector), Detector, "fuzz", "use a detector that can be asked")
    dataset = load_data(data).limit(limit)
    if not len(dataset):  # before a pool is built from it, which would say that it has no masks
        raise BadData(f"{dataset.spec} has no images.")
    asking = Asking(detector, workers, batch, queries, no_cache)
    price = _price(model, price, usd)
    planned = _planned(model, queries, usd, price, strategy, minutes)
    budgets = _budgets(out, planned)
    fuzzing = Fuzzing(
        strategy, budgets[0], per_object, _reach(reach, strategy), _backgrounds(out, backgrounds, planned, minutes),
        min_naturalness, relocate, _destination(destination), shrink, count_flicker, seed,
        Oracle(score, iou, oracle == "strict", flicker),
    )  # fmt: skip
    objects = load_pool(pool or data) if segmenter is None else _segmented(segmenter, pool, dataset, out, not no_cache)
    study = FuzzStudy(data, objects, model.names, fuzzing, limit, embedding, budgets[1:])
    with _leaving_nothing(out):
        budget = Budget(queries, usd, price, minutes, _counted(out))
        document = _fuzzed(asking, study, model, dataset, out, limit, budget, budgets[1:], pictures)
    present({"data": data, **document}, json, _show)


def _fuzzed(
    asking: Asking,
    study: FuzzStudy,
    model: Any,
    dataset: Dataset,
    out: Path,
    limit: int | None,
    budget: Budget,
    more: list[int],
    pictures: int,
) -> dict[str, Any]:
    """Run the campaign into ``out`` and sum it up: the document of the verb, its pictures and tables drawn."""
    _remember(out, {"study": study.name, **identity(model, dataset, limit, **study.settings())}, more)
    outcome = asking.run(study, model, out, dataset, limit, budget=budget, **study.settings())
    campaign = Campaign.of(outcome.run, study.fuzzing)
    hunter = study.planner.hunter if study.planner is not None else None
    document: dict[str, Any] = {"detector": asking.detector, "out": str(out), **outcome.document()}
    document |= summarise(campaign, study.names, hunter.dropped if isinstance(hunter, Listed) else None)
    document["cost"] = {**budget.spent, "price": budget.price}
    document["settings"] = {**study.settings(), "limit": limit}
    document["tables"] = tables(document)
    write_atomically(out / _TABLES, page(document).encode())
    first = sorted(campaign.distinct, key=lambda failure: not failure.attributable)
    document["pictures"] = [str(path) for path in draw_failures(out / "images", study, campaign, first, pictures)]
    if document["noise"]["differing"]:
        messages().print(
            f"warning: the detector is not deterministic: {document['noise']['differing']} of "
            f"{document['noise']['asked_twice']} answers differ when asked again; every failure was asked about twice."
        )
    return document


def _segmented(segmenter: str, pool: str | None, dataset: Dataset, out: Path, cached: bool) -> Pool:
    """The pool that ``segmenter`` cuts from ``dataset`` (or from the data ``pool``), kept beside the run ``out``."""
    if pool is not None and Path(pool).is_dir():
        raise BadSpec(f"{pool} is a stored pool, which needs no --segmenter; --pool with one is a data spec.")
    source = dataset if pool is None else load_data(pool)
    folder = out.with_name(out.name + ".pool")
    if not folder.exists():
        new_pool(source, folder, segmenter, SEGMENTED, Refinement(), cached=cached)
    found = load_pool(folder)
    wanted = {"segmenter": segmenter, "data": source.spec, "images": len(source)}
    if any(found.settings.get(name) != value for name, value in wanted.items()):
        raise RunMismatch(f"{folder} holds a pool of other data or of another segmenter; choose another --out.")
    return found


def _reach(asked: int | None, strategy: str) -> int:
    """The adaptive strategy is ours and takes what it can; the others are the paper's."""
    return asked if asked is not None else WIDEST if strategy == "adaptive" else 0


def _limits(model: Any) -> dict[str, Any]:
    """What a paid endpoint's own spec allows: ``queries``, ``usd``, ``price``."""
    return dict(getattr(model, "limits", {}) or {})


def _price(model: Any, price: float | None, usd: float | None) -> float:
    price = price if price is not None else float(_limits(model).get("price") or 0.0)
    if usd is not None and price == 0:
        raise BadSpec("--usd needs the price of one query: give --price USD as well.")
    return price


def _planned(
    model: Any, queries: int | None, usd: float | None, price: float, strategy: str, minutes: float | None
) -> int | None:
    """How many queries the campaign may plan with."""
    own = _limits(model)
    dollars = [n for n in (usd, own.get("usd")) if n is not None and price > 0]
    most = [n for n in (queries, own.get("queries")) if n is not None] + [int(n / price + 1e-9) for n in dollars]
    if not most and strategy == "adaptive":
        if minutes is None:
            raise BadSpec("the adaptive strategy decides what to do with a budget; give --queries, --usd or --minutes.")
        return _ENDLESS
    return min(most, default=None)


def _budgets(out: Path, planned: int | None) -> list[Any]:
    """The queries that each sitting of the run ``out`` plans with: a larger number goes on where the last one ended.

    The first is one of the settings that the run is known by; larger ones are remembered in ``budgets.json``.
    """
    try:
        found = Run.open(out).document["identity"]
        more = [int(n) for n in decoder.loads((out / _MORE).read_text())] if (out / _MORE).exists() else []
        before = [found["settings"]["queries"], *more]
    except (BadData, LookupError, TypeError):  # no run yet, or none of fuzz, which is refused later
        return [planned]
    except (OSError, ValueError) as error:
        raise BadData(f"{out / _MORE} cannot be read: {error}.") from None
    wanted = _ENDLESS if planned is None else planned
    return [*before, wanted] if before[-1] is not None and wanted > before[-1] else before


def _backgrounds(out: Path, asked: int | None, planned: int | None, minutes: float | None) -> int | None:
    """How many images are used: as ``asked``, as in the sittings before, or, where time alone limits the campaign, so
    few that looking at them does not use it up. ``None``: as the queries allow."""
    try:
        return asked or Run.open(out).document["identity"]["settings"]["backgrounds"]
    except (BadData, LookupError, TypeError):
        return _TIMED if minutes is not None and planned in (None, _ENDLESS) else None


def _remember(out: Path, identity: Document, more: list[int]) -> None:
    """Take down the budgets ``more`` than the first before anything is planned with them, if ``out`` is this run."""
    if more and Run.open(out).document.get("identity") == decoder.loads(decoder.dumps(identity)):
        write_atomically(out / _MORE, decoder.dumps(more).encode())


def _counted(out: Path) -> Path:
    """Where the queries of the run ``out`` are counted, as for all verbs."""
    return out.with_name(out.name + ".budget")


@contextmanager
def _leaving_nothing(out: Path) -> Iterator[None]:
    """Bad input that only the run itself finds (no detections, say) leaves neither a run nor a count behind, unless
    they were there before."""
    begun, counted = (out / "run.json").exists(), _counted(out).exists()
    try:
        yield
    except (BadData, BadSpec, RunMismatch):
        if not begun and (out / "run.json").exists():
            Run.open(out).discard()
        if not counted:
            _counted(out).unlink(missing_ok=True)
        raise


def _destination(text: str) -> Destination:
    if text == "centroid":
        return "centroid"
    if text == "centre":
        return "centre"
    try:
        x, y = (int(part) for part in text.split(","))
    except ValueError:
        raise BadSpec(f"--destination is centroid, centre or X,Y in pixels. Got {text!r}.") from None
    return x, y


def _show(console: Console, document: Document) -> None:
    settings, reach = document["settings"], document["reach"]
    console.print(
        f"{document['insertions']} insertions into {document['backgrounds']} backgrounds, {document['queries']} "
        f"queries ({document['engine']['queries']} asked now), {settings['strategy']}, reach {settings['reach']}, "
        f"score {settings['oracle']['score']:g}, IoU {settings['oracle']['iou']:g} -> {document['out']}",
        markup=False,
    )
    low, high = document["intervals"]["attributable_per_1000"]
    per = document["attributable_per_1000"]
    console.print(
        f"\n{document['attributable']} distinct failures are the inserted object's doing"
        + (f" ({per:.1f} per 1000 queries, 90 % interval {low:.1f} to {high:.1f})" if low is not None else ""),
        style="bold",
        markup=False,
    )
    raw, rate = document["raw_failures"], document["raw_failure_rate"]
    rows: list[tuple[str, Any]] = [
        ("failing insertions, as the paper counts", f"{raw} ({100 * (rate or 0):.1f} %)"),
        ("  of these only a score that flickers", document["flicker"]),
        ("  the rest", raw - document["flicker"]),
        ("    the background's own texture fails too", f"{document['null_failures']} of {document['null_asked']}"),
        ("distinct failures (object, type)", document["unique_failures"]),
        ("  of the object's doing, by type", _types(document["attributable_by_type"])),
        ("backgrounds tested", _percent(reach["backgrounds"])),
        ("objects tested", f"{_percent(reach['objects'])} of {reach['detected_objects']}"),
        ("relocated", f"{document['relocated']} ({document['relocated_unique']} unique)"),
        ("shrunk", _shrunk([case["strength"] for case in document["shrunk"]])),
        ("naturalness", _points(document["naturalness"]["inserted"])),
    ]
    if document["cost"]["usd"]:
        rows.append(("cost", f"{document['cost']['usd']:.2f} USD"))
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        console.print(f"{name:<{width}}  {value}", markup=False)
    for case in [case for case in document["cases"] if case["attributable"]][:10]:
        became = f" as {case['became']}" if case["became"] else ""
        console.print(
            f"  {case['case']}: {case['type']} {case['object']}{became} on {case['background']}, "
            f"{case['score']:.2f} -> {case['after']:.2f}",
            markup=False,
        )
    if document["pictures"]:
        folder = Path(document["pictures"][0]).parent
        console.print(f"Pictures: {folder} ({len(document['pictures'])})", markup=False)
    console.print(f"The paper's tables: {Path(document['out']) / _TABLES}", markup=False)
    if document["stopped"]:
        console.print(f"Stopped by the {document['stopped']}; the same command with a larger one goes on.")


def _types(counts: Document) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"


def _shrunk(strengths: list[float]) -> str:
    return f"{len(strengths)}, to {_percent(median(strengths))} of the edit (median)" if strengths else "0"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def _points(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} % HOG intersection"

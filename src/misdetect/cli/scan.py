"""``misdetect scan``: transplant an object and watch the rest (paper 1), beside its null control."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from misdetect.budget import Budget
from misdetect.cli.running import Asking, Batch, NoCache, Queries, Workers, remarks
from misdetect.cli.shell import DataSpec, DetectorSpec, Document, Json, Limit, Seed, messages, present
from misdetect.data import load_data
from misdetect.data.dataset import Dataset
from misdetect.detectors import load_detector
from misdetect.engine import Outcome, run_study
from misdetect.engine.store import Run
from misdetect.errors import BadSpec
from misdetect.metrics.transplant import Own, Rules
from misdetect.protocols import Detector, Traced, require
from misdetect.report.figures import save_png
from misdetect.report.scan import draw_pictures, interference_strip
from misdetect.studies.scan.adaptive import AdaptiveScan, Search
from misdetect.studies.scan.backgrounds import with_detections
from misdetect.studies.scan.interference import InterferenceStudy, verdicts, wrong_detections
from misdetect.studies.scan.pairs import Pair, Sizes, choose_pairs, find_image, find_object
from misdetect.studies.scan.results import PAPER, ROWS, TAUS, Average, Policy, View
from misdetect.studies.scan.study import Scanning, ScanStudy
from misdetect.studies.scan.summary import summarise

_SPARE = 8
"""Images with detections beyond those asked for, in case nothing fits into some."""

Out = Annotated[Path, typer.Option("--out", help="Run directory.")]
Pairs = Annotated[int, typer.Option("--pairs", min=1, help="Pairs of image and object.")]
Step = Annotated[int, typer.Option("--step", min=1, help="Step of the grid in pixels.")]
Tau = Annotated[str, typer.Option("--tau", help="Thresholds on S, separated by commas.")]
HowAffected = Annotated[Policy, typer.Option("--policy", help="tau is put on S (eq. 1), or on the least IoU.")]
HowOwn = Annotated[Own, typer.Option("--own", help="What is done about detections of the object itself.")]
Score = Annotated[float, typer.Option("--score", min=0, max=1, help="What counts as a detection.")]
Image = Annotated[str | None, typer.Option("--image", help="Transplant into this image (its id).")]
Object = Annotated[int | None, typer.Option("--object", help="Transplant this object (annotation id).")]
SameImage = Annotated[bool, typer.Option("--same-image", help="Duplicate an object within its image.")]
MinArea = Annotated[float, typer.Option("--min-area", help="Least area of the object, share of the image.")]
MaxSide = Annotated[float, typer.Option("--max-side", help="Longest side of the object, share of image.")]
Adaptive = Annotated[bool, typer.Option("--adaptive", help="Ask only where it tells something.")]
Precision = Annotated[float, typer.Option("--precision", help="Adaptive: points to know the rates by.")]
Null = Annotated[bool, typer.Option("--null/--no-null", help="Scan the null control too.")]
Look = Annotated[
    bool | None, typer.Option("--trace/--no-trace", help="Look inside where objects are lost; default: if possible.")
]
Margin = Annotated[float, typer.Option("--margin", min=0, max=1, help="A score this near --score flickers.")]
HowAveraged = Annotated[Average, typer.Option("--average", help="What counts the same in a rate.")]
Confidence = Annotated[float, typer.Option("--confidence", help="Of the intervals, in percent.")]
Pictures = Annotated[int, typer.Option("--pictures", min=0, help="Draw maps and strips of the N worst pairs.")]
Interference = Annotated[int, typer.Option("--interference", min=0, help="Take N wrong detections apart (Fig. 3).")]


def scan(
    detector: DetectorSpec,
    data: DataSpec,
    out: Out,
    pairs: Pairs = 29,
    step: Step = 10,
    tau: Tau = "0.3,0.5,0.7,0.95,0.99",
    policy: HowAffected = "body",
    own: HowOwn = "minus-one",
    score: Score = 0.5,
    image: Image = None,
    object: Object = None,
    same_image: SameImage = False,
    min_area: MinArea = 0.01,
    max_side: MaxSide = 0.5,
    adaptive: Adaptive = False,
    precision: Precision = 2.5,
    null: Null = True,
    trace: Look = None,
    margin: Margin = 0.05,
    average: HowAveraged = "positions",
    confidence: Confidence = 90.0,
    pictures: Pictures = 3,
    interference: Interference = 0,
    limit: Limit = None,
    seed: Seed = 0,
    workers: Workers = 1,
    batch: Batch = None,
    queries: Queries = None,
    no_cache: NoCache = False,
    json: Json = False,
) -> None:
    """Transplant objects over a dense grid and watch what happens to the other detections."""
    view = View(_taus(tau), policy, average, confidence / 100, seed=seed)
    search = Search(precision, view.taus, view.policy) if adaptive else None
    choice = _Choice(pairs, image, object, same_image, Sizes(min_area, max_side))
    asking = Asking(detector, workers, batch, queries, no_cache)
    model: Detector = require(load_detector(detector), Detector, "scan", "use a detector that can be asked")
    rules = Rules(score=score, own=own, margin=margin)
    scanning = Scanning(step, seed, null, _looks_inside(model, trace), rules)
    study, outcome = _scanned(asking, model, data, limit, out, choice, scanning, search)
    document: dict[str, Any] = {"detector": detector, "data": data, "out": str(out), **outcome.document()}
    if outcome.stopped is None:
        document |= summarise(outcome.run, study, view)
        document["settings"] |= {"min_area": min_area, "max_side": max_side, "same_image": same_image, "limit": limit}
        document |= _evidence(outcome.run, study, model, document["pairs"], pictures, interference, not no_cache)
    present(document, json, _show)


def _taus(text: str) -> tuple[float, ...]:
    try:
        return tuple(sorted({float(part) for part in text.split(",")}))
    except ValueError:
        raise BadSpec(f"--tau takes numbers separated by commas. Got {text!r}.") from None


def _looks_inside(model: Detector, wanted: bool | None) -> bool:
    if wanted:
        require(model, Traced, "scan --trace", "leave --trace out")
    return isinstance(model, Traced) if wanted is None else wanted


@dataclass(frozen=True)
class _Choice:
    """Which pairs: ``count`` at random, or what ``image`` (an id) and ``object`` (an annotation's) name."""

    count: int
    image: str | None
    object: int | None
    same_image: bool
    sizes: Sizes

    @property
    def wanted(self) -> int:
        """How many pairs that makes: named by hand, there is one."""
        return 1 if self.image is not None and (self.object is not None or self.same_image) else self.count

    def pairs(
        self, model: Detector, data: Dataset, scanning: Scanning, cached: bool, budget: Budget | None
    ) -> list[Pair]:
        """The pairs: by hand where named, else at random on images with detections."""
        only = None if self.image is None else find_image(data, self.image)
        thing = None if self.object is None else find_object(data, self.object)
        seed, score = scanning.seed, scanning.rules.score
        backgrounds = with_detections(
            model, data, self.wanted + _SPARE, score, seed=seed, only=only, cached=cached, budget=budget
        )
        if thing is not None and self.same_image:
            backgrounds = [index for index in backgrounds if index == thing[0]]
        return choose_pairs(
            data, self.wanted, backgrounds, seed=seed, sizes=self.sizes, same_image=self.same_image, thing=thing
        )


def _scanned(
    asking: Asking,
    model: Detector,
    data: str,
    limit: int | None,
    out: Path,
    choice: _Choice,
    scanning: Scanning,
    search: Search | None,
) -> tuple[ScanStudy, Outcome]:
    """Draw the pairs and scan them into ``out``."""
    dataset = load_data(data).limit(limit)
    budget = asking.budget(out)
    chosen = choice.pairs(model, dataset, scanning, not asking.no_cache, budget)
    if len(chosen) < choice.wanted:
        messages().print(f"note: only {len(chosen)} of {choice.wanted} pairs could be drawn.")
    study = (
        ScanStudy(data, chosen, model.names, scanning, limit)
        if search is None
        else AdaptiveScan(data, chosen, model.names, scanning, limit, search)
    )
    settings = {**study.settings(), "positions": study.positions}  # counted first: a grid of one position is refused
    return study, asking.run(study, model, out, dataset, limit, budget=budget, **settings)


def _evidence(
    run: Run, study: ScanStudy, model: Detector, pairs: list[Any], pictures: int, interference: int, cached: bool
) -> dict[str, Any]:
    """Pictures of the worst of ``pairs``, and wrong detections taken apart."""
    worst = sorted(pairs, key=lambda pair: -sum(pair["affected"].values()))
    drawn = draw_pictures(run, study, [pair["pair"] for pair in worst if pair["detections"]][:pictures])
    apart = None
    if interference:
        apart, more = _interference(run, study, model, interference, cached)
        drawn = drawn + more
    return {"interference": apart, "pictures": [str(path) for path in drawn]}


def _interference(run: Run, study: ScanStudy, model: Any, most: int, cached: bool) -> tuple[list[Any], list[Path]]:
    """The most confident wrong detections taken apart, and a strip of each."""
    apart = InterferenceStudy(study, wrong_detections(run, study, most))
    if not len(apart):
        messages().print("note: no wrong detection lies on an object of a class that the detector knows.")
        return [], []
    settings = apart.settings()
    outcome = run_study(apart, model, run.path / "interference", {"settings": settings}, cached=cached)
    remarks(outcome)
    found = verdicts(outcome.run, apart)
    drawn = [
        save_png(run.path / "images" / f"interference-{i:02d}.png", interference_strip(apart, wrong, entry["views"]))
        for i, (wrong, entry) in enumerate(zip(apart.wrongs, found, strict=True))
    ]
    return found, drawn


def _show(console: Console, document: Document) -> None:
    if document["stopped"]:
        console.print(f"{document['done']} of {document['cases']} cases done; stopped: {document['stopped']}")
        return
    settings, engine = document["settings"], document["engine"]
    console.print(
        f"{document['positions']} positions of {len(document['pairs'])} pairs, {document['queries']} questions "
        f"({engine['queries']} asked now), score {settings['score']:g}, step {settings['step']} px, own "
        f"{settings['own']}, policy {settings['policy']} -> {document['out']}"
    )
    console.print(_table_one(document))
    flicker = document["flicker"]["affected"]
    console.print(
        f"\nOf these, only a score flickering within {settings['margin']:g} of the threshold: "
        + ", ".join(f"{value:.1f} at {tau}" for tau, value in flicker.items() if value is not None)
    )
    _show_effects(console, document)
    for entry in document["interference"] or ():
        views = ", ".join(f"{name}: {view['label'] or 'nothing'}" for name, view in entry["views"].items())
        console.print(f"{entry['really']} taken for {entry['detected_as']}, decided by {entry['decided_by']} ({views})")
    for path in document["pictures"]:
        console.print(f"Picture: {path}")


def _table_one(document: Document) -> Table:
    percent = f"{100 * document['settings']['confidence']:g} %"
    title = f"\nTable I: positions at which the scene is affected, in percent ({percent} intervals over images)"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    taus = list(document["affected"])
    for heading in ("", *(f"τ = {tau}" for tau in taus)):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    intervals = document["intervals"]
    parts = [("object", document, intervals)]
    if document["null_control"] is not None:
        parts += [
            (name, document[key], intervals[key])
            for name, key in (("null", "null_control"), ("difference", "difference"))
        ]
    for row in ROWS:
        table.add_row(row.replace("_", " "), style="bold")
        if document["settings"]["taus"] == list(TAUS):
            table.add_row("  paper", *(f"{value:g}" for value in PAPER[row]), style="dim")
        for name, rates, ranges in parts:
            table.add_row(f"  {name}", *(_cell(rates[row][tau], ranges[row][tau]) for tau in taus))
    return table


def _cell(value: float | None, ends: list[float] | None) -> str:
    return "–" if value is None or ends is None else f"{value:.1f} {ends[0]:.0f}..{ends[1]:.0f}"


def _show_effects(console: Console, document: Document) -> None:
    t, step = document["stability"], document["stability"]["step"]
    console.print(
        f"The object itself: detected at {t['detected']:.0f} % of positions, as itself {t['as_itself']:.0f} %, as "
        f"another class {t['as_another']:.0f} %"
        + (f"; one step flips it in {step['flips']:.1f} %" if step["compared"] else "")
    )
    table = Table(title="\nOriginals renamed or lost, by distance from the object (percent of the diagonal)", box=None)
    table.title_justify = "left"
    for heading in ("distance", "object", "null", "object, flicker only", "null, flicker only"):
        table.add_column(heading, justify="right", no_wrap=True)
    for bin in document["distance"]["bins"]:
        reach = (
            "touching"
            if bin["to"] == 0
            else f"> {100 * bin['from']:g}" + (f"–{100 * bin['to']:g}" if bin["to"] else "")
        )
        both = [bin.get(condition, {}) for condition in ("object", "null")]
        cells = [f"{c[key]:.2f}" if key in c else "–" for key in ("changed", "flicker") for c in both]
        table.add_row(reach, *cells)
    console.print(table)
    for title, key in (("What became of its candidate", "suppression"), ("What failed", "mechanisms")):
        for where, counts in (document[key] or {}).items():
            found = ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"
            console.print(f"{title}, objects lost while {where}: {found}")
    if document["adaptive"] is not None:
        saved = document["adaptive"]
        console.print(f"Adaptive: {saved['asked']} of {saved['positions']} positions asked ({saved['share']:.1f} %)")

"""``misdetect pool``: cut out, refine and store the objects that ``fuzz`` inserts."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from misdetect.cli.running import NoCache, watching
from misdetect.cli.shell import DataSpec, Document, Json, Limit, messages, present
from misdetect.data import load_data
from misdetect.data.dataset import Dataset
from misdetect.data.export import check_new_folder
from misdetect.detectors import load_detector
from misdetect.errors import BadData
from misdetect.pool.pool import SEGMENTED, Pool, Refinement, build_pool, write_pool
from misdetect.protocols import Detector, require
from misdetect.studies.segment import segmented_pool

_DEFAULT = Refinement()
_REASONS = {
    "min_side": "too small",
    "max_side": "too large",
    "border": "at the image's edge",
    "component": "in pieces",
    "solidity": "too ragged",
    "keep": "not among the largest of their class",
}


def pool(
    data: DataSpec,
    out: Annotated[Path, typer.Option("--out", help="The new folder to write: pool.json, objects/ and pool.png.")],
    segmenter: Annotated[
        str | None, typer.Option("--segmenter", help="Detector whose masks cut the objects out; default: the data's.")
    ] = None,
    score: Annotated[float, typer.Option("--score", min=0, max=1, help="Least score of a segmenter's object.")] = (
        SEGMENTED
    ),
    keep: Annotated[float, typer.Option("--keep", min=0, max=1, help="Share of each class kept, the largest.")] = (
        _DEFAULT.keep
    ),
    few: Annotated[int, typer.Option("--few", min=0, help="A class with fewer objects is kept whole.")] = _DEFAULT.few,
    component: Annotated[
        float, typer.Option("--component", min=0, max=1, help="Largest share of a second piece in an object's area.")
    ] = _DEFAULT.component,
    border: Annotated[int, typer.Option("--border", min=0, help="Least distance to the image's edge, in pixels.")] = (
        _DEFAULT.border
    ),
    solidity: Annotated[
        float, typer.Option("--solidity", min=0, max=1, help="Least share of an object in its convex hull.")
    ] = _DEFAULT.solidity,
    max_side: Annotated[
        float, typer.Option("--max-side", min=0, max=1, help="Largest share of the image's width and height.")
    ] = _DEFAULT.max_side,
    min_side: Annotated[int, typer.Option("--min-side", min=0, help="Least pixels of the shorter side.")] = (
        _DEFAULT.min_side
    ),
    limit: Limit = None,
    no_cache: NoCache = False,
    json: Json = False,
) -> None:
    """Cut out, refine and store the objects that fuzz inserts into photos.

    Criteria are applied in this order, and an object counts for the first one it fails: --min-side, --max-side,
    --border, --component, --solidity, and of what is left --keep and --few.
    """
    check_new_folder(out)
    refinement = Refinement(keep, few, component, border, solidity, max_side, min_side)
    dataset = load_data(data).limit(limit)
    if not len(dataset):
        raise BadData(f"{dataset.spec} has no images.")
    built = new_pool(dataset, out, segmenter, score, refinement, cached=not no_cache)
    document = {
        "objects": len(built),
        "labels": {label: len(places) for label, places in built.by_label.items()},
        "extracted": built.extracted,
        "dropped": built.dropped,
        "settings": built.settings,
        "out": str(out),
        "fingerprint": built.fingerprint,
    }
    present(document, json, _show)


def new_pool(
    dataset: Dataset, out: Path, segmenter: str | None, score: float, refinement: Refinement, *, cached: bool
) -> Pool:
    """Build a pool, with a progress bar, and write it to the folder ``out``."""
    model = None
    if segmenter is not None:
        model = require(load_detector(segmenter), Detector, "pool", "cut by the masks of the data instead")
    with watching("pool") as report:

        def progress(done: int, total: int) -> None:
            report(done, total, {})

        if model is None:
            built = build_pool(dataset, refinement=refinement, progress=progress)
        else:
            built = segmented_pool(dataset, model, score=score, refinement=refinement, cached=cached, progress=progress)
    write_pool(built, out)
    for note in built.notes:
        messages().print(f"warning: {note}", markup=False)
    return built


def _show(console: Console, document: Document) -> None:
    table = Table("class", "objects", box=None, pad_edge=False)
    for label, count in sorted(document["labels"].items(), key=lambda item: (-item[1], item[0])):
        table.add_row(escape(label), str(count))
    console.print(table)
    console.print(f"{document['objects']} of {document['extracted']} objects kept; dropped:")
    for criterion, count in document["dropped"].items():
        console.print(f"  {count:5d} {_REASONS[criterion]} (--{criterion.replace('_', '-')})", markup=False)
    console.print(f"written to {document['out']}; pool.png there shows them", markup=False)

"""``misdetect pool``: cut out, refine and store the objects that ``fuzz`` inserts."""

import inspect
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from misdetect.api.pool import pool as build
from misdetect.cli.options import options, signed, subject
from misdetect.cli.shell import Document, of_file, present, tell, watching
from misdetect.pools.settings import PoolSettings
from misdetect.studies.contract import DATA

_REASONS = {
    "min_side": "too small",
    "max_side": "too large",
    "border": "at the image's edge",
    "component": "in pieces",
    "solidity": "too ragged",
    "keep": "not among the largest of their class",
}
_Out = Annotated[Path, Parameter(name="--out", help="The new folder to write: pool.json, objects/ and pool.png.")]


def _run(data: str, *, out: Path, json: bool = False, **given: Any) -> None:
    with watching("pool") as report:
        built = build(data, out=out, progress=lambda done, total: report(done, total, {}), **given)
    for note in built.notes:
        tell(f"warning: {note}")
    document = {
        "objects": len(built),
        "labels": {label: len(places) for label, places in built.by_label.items()},
        "extracted": built.extracted,
        "dropped": built.dropped,
        "settings": built.settings,
        "out": str(out),
        "fingerprint": built.fingerprint,
    }
    present(document, json, of_file(show))


def show(console: Console, document: Document) -> None:
    """The document for a person: what is kept of each class, and why the rest is not."""
    table = Table("class", "objects", box=None, pad_edge=False)
    for label, count in sorted(document["labels"].items(), key=lambda item: (-item[1], item[0])):
        table.add_row(escape(label), str(count))
    console.print(table)
    console.print(f"{document['objects']} of {document['extracted']} objects kept; dropped:")
    for criterion, count in document["dropped"].items():
        console.print(f"  {count:5d} {_REASONS[criterion]} (--{criterion.replace('_', '-')})", markup=False)
    console.print(f"written to {document['out']}; pool.png there shows them", markup=False)


_own = [
    subject(DATA),
    inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, annotation=_Out),
]
_rest = [option for option in options(PoolSettings) if option.name != "out"]
pool = signed(_run, "pool", inspect.getdoc(PoolSettings) or "", [*_own, *_rest])

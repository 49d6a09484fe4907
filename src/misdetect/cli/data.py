"""``misdetect data SPEC``: what is in a data set and what is wrong with it, and its export to COCO."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from misdetect.cli.shell import Document, Json, Quiet, is_quiet, messages, present, whole_number
from misdetect.data import load_data
from misdetect.data.check import inspect
from misdetect.data.export import export_coco
from misdetect.data.formats import examples

_SHOWN = 30


def data(
    spec: Annotated[str, Parameter(help=f"{examples()}.")],
    /,
    *,
    limit: Annotated[
        int | None, Parameter(help="Use only the first N images.", validator=Number(gte=1), converter=whole_number)
    ] = None,
    masks: Annotated[bool, Parameter(negative=(), help="Also decode and check every mask.")] = False,
    strict: Annotated[bool, Parameter(negative=(), help="End with exit code 1 if anything is wrong.")] = False,
    out: Annotated[Path | None, Parameter(help="Write the data as COCO to this new folder.")] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Print what is in a data set and what is wrong with it; with --out, export it to COCO."""
    dataset = load_data(spec).limit(limit)
    document = inspect(dataset, masks=masks)
    if out is not None:
        console = messages()
        console.quiet = is_quiet() or not console.is_terminal
        with console.status("exporting") as status:
            total = len(dataset)
            written = export_coco(dataset, out, progress=lambda n: status.update(f"exporting {n} of {total} images"))
        document["export"] = {"folder": str(out), **written}
    present(document, json, _show)
    if strict and document["warnings"]:
        raise SystemExit(1)


def _show(console: Console, document: Document) -> None:
    console.print(f"[bold]{escape(document['data'])}[/bold]", soft_wrap=True)
    console.print(
        f"{document['images']} images ({document['images_without_objects']} without objects), "
        f"{document['objects']} objects ({document['crowd']} crowd, {document['masks']} with masks)"
    )
    console.print("sizes: " + ", ".join(f"{count} {size}" for size, count in document["sizes"].items()))
    if document["states"]:
        shares = (f"{state} {100 * row['share']:.1f} %" for state, row in document["states"].items())
        console.print("states: " + ", ".join(shares))
    _show_classes(console, document)
    if not document["warnings"]:
        console.print("nothing found wrong")
    for row in document["warnings"]:
        console.print(f"[yellow]{row['kind']}[/yellow] × {row['count']}: {escape(row['example'])}")
    if "export" in document:
        console.print(f"written to {escape(document['export']['folder'])}")


def _show_classes(console: Console, document: Document) -> None:
    ranked = sorted(document["classes"], key=lambda row: (-row["objects"], row["name"]))
    if not ranked:
        return
    table = Table("class", "objects", "images", box=None, pad_edge=False)
    for row in ranked[:_SHOWN]:
        table.add_row(escape(row["name"]), str(row["objects"]), str(row["images"]))
    console.print(table)
    if len(ranked) > _SHOWN:
        console.print(f"… and {len(ranked) - _SHOWN} more classes (all with --json)")

"""``misdetect confusion``: what each object was taken for (paper 5's Detection Confusion Matrix), of any detector."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from misdetect.drawing.terminal import Document, plain_table, show_pictures, show_progress
from misdetect.drawing.words import UNKNOWN, number, percent
from misdetect.studies.told import change_cell, show_why_not_paired

_CLASSES, _WORST = 12, 10


def show(console: Console, document: Document) -> None:
    """The document for a person: the matrix, the worst classes, why recall is what it is, and one cell."""
    show_progress(console, document)
    settings, detections = document["settings"], document["conservation"]["detections"]
    console.print(
        f"{document['objects']} objects, {detections['in_cells']} detections in cells: score >= {settings['score']:g}, "
        f"IoU >= {settings['iou']:g}, policy {settings['policy']}, background {settings['background']}"
    )
    if (cell := document["cell"]) is not None:
        _show_cell(console, cell)
        missed = document["missed"].get(cell["actual"])
        if cell["predicted"] == document["labels"][-1] and missed:
            console.print(Text(f"{missed} more have no detection at all: --cell {cell['actual']},missed"))
        return
    console.print(Text(", ".join(f"{n} {name}" for name, n in document["outcomes"].items())))
    if len(document["labels"]) - 1 <= _CLASSES:
        console.print(_matrix(document))
    console.print(_classes(document))
    if document["confusions"]:
        table = plain_table("Taken for another class", "actual", "predicted", ">detections", ">Σ confidence", "")
        for each in document["confusions"][:_WORST]:
            mark = "depends on the policy" if each["policy_dependent"] else ""
            names = Text(each["actual"]), Text(each["predicted"])
            table.add_row(*names, _count(each["count"]), f"{each['confidence']:.1f}", mark)
        console.print(table)
    console.print(_steps(document))
    show_pictures(console, document)


def _matrix(document: Document) -> Text:
    """Narrower than a table: twelve classes fit into eighty columns."""
    labels = document["labels"]
    marked = {(each["actual"], each["predicted"]) for each in document["policy_dependent"]}
    lines = [["", *labels, "missed"]]
    for name, row in zip(labels, document["counts"], strict=True):
        cells = [
            (_count(count) or "·") + ("*" if (name, other) in marked else "")
            for other, count in zip(labels, row, strict=True)
        ]
        lines.append([name, *cells, str(document["missed"].get(name, ""))])
    wide = [max(4, *(len(line[i]) for line in lines[1:])) for i in range(len(lines[0]))]
    told = [line[0].ljust(wide[0]) + "".join(cell[:w].rjust(w + 1) for cell, w in zip(line[1:], wide[1:], strict=True))
            for line in lines]  # fmt: skip
    title = "\nRows: actual; columns: predicted; * other detections under another policy"
    return Text("\n".join([title, *told]))


def _classes(document: Document) -> Table:
    known = [(name, row) for name, row in document["by_class"].items() if row["recall"] is not None]
    worst = sorted(known, key=lambda item: (item[1]["recall"], -item[1]["objects"]))[:_WORST]
    table = plain_table(
        "Worst classes", "class", ">objects", ">right", ">confused", ">background", ">missed", ">recall", ">precision"
    )
    for name, row in worst:
        counts = (str(row[key]) for key in ("objects", "right", "confused", "background", "missed"))
        table.add_row(Text(name), *counts, percent(row["recall"]), percent(row["precision"]))
    return table


def _steps(document: Document) -> Table:
    table = plain_table(
        "Why recall is what it is", "objects found by", ">objects", ">recall", ">change", wrapped=("objects found by",)
    )
    for step in document["recall_steps"]:
        change = "" if step["change"] is None else f"{step['change']:+d}"
        table.add_row(Text(step["rule"]), str(step["objects"]), percent(step["recall"]), change)
    return table


def _show_cell(console: Console, cell: Document) -> None:
    title = f"Actual {cell['actual']}, predicted {cell['predicted']}: the worst first"
    if not cell["entries"]:
        console.print(Text(f"{title}: there is none."))
        return
    table = plain_table(title, "file", ">object", ">score", ">background", ">IoU", "box")
    for each in cell["entries"]:
        known = UNKNOWN if each["object"] is None else str(each["object"])
        scores = (number(each.get(name), 2) for name in ("score", "background", "iou"))
        table.add_row(Text(each["file"]), known, *scores, " ".join(f"{side:g}" for side in each["box"]))
    console.print(table)


def _count(value: float) -> str:
    """Whole detections, or in soft mode parts of them; nothing where there are none to speak of."""
    return "" if value < 0.05 else f"{value:g}" if float(value).is_integer() else f"{value:.1f}"


def show_compared(console: Console, document: Document) -> None:
    """Runs side by side: what became of the objects, and the cells that differ most."""
    names = [run["name"] for run in document["runs"]]
    show_why_not_paired(console, document)
    if document["paired"]:
        console.print(f"Paired: the same objects, judged by the same rules, in all {len(names)} runs.")
    table = plain_table("What became of the objects", "", *(f">{name}" for name in names), wrapped=names)
    table.add_row("objects", *map(str, document["objects"]))
    for name, counts in document["outcomes"].items():
        table.add_row(name, *map(str, counts))
    console.print(table)
    others = [each for each in document["differences"] if each["first"] == names[0]]
    title = f"Per 100 objects, more (+) or fewer (-) than {names[0]}; * the interval excludes 0"
    table = plain_table(title, "", *(f">{each['second']}" for each in others))
    for name in document["outcomes"]:
        table.add_row(name, *(change_cell(each["outcomes"].get(name)) for each in others))
    if document["paired"]:
        table.add_row("McNemar's p of right", *(f"{each['p']:.2g}" for each in others))
    console.print(table)
    table = plain_table("The cells that differ most", "actual", "predicted", *(f">{name}" for name in names))
    for cell in document["cells"][:10]:
        table.add_row(Text(cell["actual"]), Text(cell["predicted"]), *(f"{count:g}" for count in cell["counts"]))
    console.print(table)

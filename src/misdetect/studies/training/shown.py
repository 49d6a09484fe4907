"""How ``misdetect show`` shows a training; it has no verb of its own, `misdetect zoo train` makes one."""

from rich.console import Console
from rich.text import Text

from misdetect.drawing.terminal import Document, plain_table, show_progress
from misdetect.studies.training.document import sentences

_SHOWN = 20


def show(console: Console, document: Document) -> None:
    """What was learnt, and the last points of the curve: those with scores, where there are any."""
    show_progress(console, document)
    for sentence in sentences(dict(document)):
        console.print(Text(sentence))
    points = [point for point in document["curve"] if point["scores"]] or document["curve"]
    if points:
        names = list(points[-1]["scores"])
        table = plain_table("Curve", ">step", ">loss", *(f">{name}" for name in names))
        for point in points[-_SHOWN:]:
            scores = (f"{point['scores'][name]:.3f}" for name in names)
            table.add_row(str(point["step"]), f"{point['loss']:.4g}", *scores)
        console.print(table)

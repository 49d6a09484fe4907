"""How a terminal shows a run of detect."""

from rich.console import Console
from rich.text import Text

from misdetect.drawing.terminal import Document, unfinished


def show(console: Console, document: Document) -> None:
    """The document for a person."""
    if (line := unfinished(document)) is not None:
        console.print(Text(line))
        return
    told = f"{document['detections']} detections on {document['images']} images"
    if "out" in document:
        engine, timing = document["engine"], document["timing"]
        told += f" -> {document['out']} ({engine['queries']} asked, {engine['cached']} from cache, "
        told += f"{timing['seconds']:.1f} s)"
    console.print(Text(told))

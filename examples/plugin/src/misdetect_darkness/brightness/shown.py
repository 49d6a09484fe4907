"""How a terminal shows a run: a line per light."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from misdetect.drawing.terminal import plain_table
from misdetect.studies.advice import percent
from misdetect_darkness.brightness.document import sentences


def show(console: Console, document: Mapping[str, Any]) -> None:
    """What was found, and the share that is lost at each light."""
    console.print(Text("\n".join(sentences(dict(document)))))
    table = plain_table(f"Of {document['found']} objects found with all light", ">light", ">lost (interval)")
    for light, ends in document["intervals"]["by_light"].items():
        lost = "–" if ends is None else percent(document["by_light"][light], ends)
        table.add_row(f"{100 * float(light):g} %", lost)
    console.print(table)

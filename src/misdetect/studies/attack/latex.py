"""Paper 5's AP under attack, in LaTeX."""

from collections.abc import Iterator, Sequence

from misdetect.drawing.tables import Table, called, number
from misdetect.studies.contract import Document


def tables(documents: Sequence[Document]) -> Iterator[Table]:
    """Paper 5: AP under attacks on either loss."""
    for document in documents:
        parts = {"clean": document["clean"], **document["attacks"]}
        rows = [
            [
                name,
                number(part["AP"], part["intervals"].get("AP"), 3),
                number(part["AP50"], part["intervals"].get("AP50"), 3),
                number(part["success"], part["intervals"].get("success"), 1, 100),
            ]
            for name, part in parts.items()
        ]
        settings = document["settings"]
        caption = f"{called(document)}: AP under attack, eps {settings['eps']:g} of 255, {settings['steps']} steps."
        yield Table(caption, ["attack", "AP", "AP50", "objects lost, percent"], rows)

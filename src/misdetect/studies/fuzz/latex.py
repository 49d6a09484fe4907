"""Paper 4's Tables 1, 3 and 4, in LaTeX."""

from collections.abc import Iterator, Sequence

from misdetect.drawing.tables import Table, called, number
from misdetect.studies.contract import Document


def tables(documents: Sequence[Document]) -> Iterator[Table]:
    """Paper 4, Tables 1, 3 and 4, counted as the paper does, and what is left of it after the controls."""
    named = [(called(document), document["tables"], document) for document in documents]
    counts = ("synthetic_images", "detected_objects", "images_causing_failures")
    yield Table(
        "Result overview.",
        ["", "synthetic images", "detected objects", "images causing failures", "percent", "USD"],
        [
            [
                name,
                *(str(tables["1"][count]) for count in counts),
                number(tables["1"]["share_causing_failures"], None, 1, 100),
                number(tables["1"]["usd"], None, 2),
            ]
            for name, tables, _ in named
        ],
    )
    yield Table(
        "Breakdown of images causing failures.",
        ["", "inserted object", "relocated object", "unique of these"],
        [[name, *map(str, tables["3"].values())] for name, tables, _ in named],
    )
    yield Table(
        "Naturalness: average HOG intersection with the background, in percent.",
        ["", "inserted object", "relocated object"],
        [[name, *map(number, tables["4"].values())] for name, tables, _ in named],
    )
    rate = "harmful_per_1000"
    yield Table(
        "Distinct failures that inserted objects, and no patches of texture, cause.",
        ["", "attributable", "harmful", "harmful per 1,000 queries"],
        [
            [name, str(own["attributable"]), str(own["harm"]["harmful"]), number(own[rate], own["intervals"][rate])]
            for name, _, own in named
        ],
    )

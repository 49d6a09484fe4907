"""Paper 4's Tables 1, 3 and 4, in LaTeX."""

from collections.abc import Iterator, Sequence

from misdetect.drawing.tables import Table, called, number
from misdetect.studies.contract import Document


def tables(documents: Sequence[Document]) -> Iterator[Table]:
    """Paper 4, Tables 1, 3 and 4, counted as the paper does, and what is left of it after the controls."""
    found = [(document, document["tables"]) for document in documents]
    yield Table(
        "Result overview.",
        ["", "synthetic images", "detected objects", "images causing failures", "percent", "USD"],
        [
            [
                called(document),
                str(tables["1"]["synthetic_images"]),
                str(tables["1"]["detected_objects"]),
                str(tables["1"]["images_causing_failures"]),
                number(tables["1"]["share_causing_failures"], None, 1, 100),
                number(tables["1"]["usd"], None, 2),
            ]
            for document, tables in found
        ],
    )
    yield Table(
        "Breakdown of images causing failures.",
        ["", "inserted object", "relocated object", "unique of these"],
        [[called(document), *map(str, tables["3"].values())] for document, tables in found],
    )
    yield Table(
        "Naturalness: average HOG intersection with the background, in percent.",
        ["", "inserted object", "relocated object"],
        [[called(document), *map(number, tables["4"].values())] for document, tables in found],
    )
    ends = "intervals"
    yield Table(
        "Distinct failures that inserted objects, and no patches of texture, cause.",
        ["", "attributable", "harmful", "harmful per 1,000 queries"],
        [
            [
                called(document),
                str(document["attributable"]),
                str(document["harm"]["harmful"]),
                number(document["harmful_per_1000"], document[ends]["harmful_per_1000"]),
            ]
            for document in documents
        ],
    )

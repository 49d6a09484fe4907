"""What a checkup says of darkness."""

from collections.abc import Iterator, Mapping

from misdetect.studies.advice import LEAST
from misdetect.studies.contract import Document, Finding
from misdetect_darkness.brightness.document import sentences


def findings(document: Document, documents: Mapping[str, Document]) -> Iterator[Finding]:
    """What is certainly lost with less light."""
    share, ends = document["lost"], document["intervals"]["lost"]
    if share is None or share < LEAST or ends[0] == 0:
        return
    yield Finding(
        sentences(document)[0],
        "Add darker images to the training data, or vary their brightness while training.",
        share,
        (ends[0], ends[1]),
        "brightness",
        "darkness",
    )

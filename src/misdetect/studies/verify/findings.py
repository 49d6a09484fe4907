"""What a checkup says of parts: those that are missing and reported all the same."""

from collections.abc import Iterator, Mapping

from misdetect.studies.advice import LEAST, pair, percent
from misdetect.studies.contract import Document, Finding

_CAUSES = {
    "context": "the parts around them",
    "position": "their place in the picture",
    "appearance": "the pixels in their place",
}


def findings(document: Document, documents: Mapping[str, Document]) -> Iterator[Finding]:
    """The missing parts that are reported."""
    row = document["with_localisation"]
    value, ends = row["missing_recall"], row["intervals"]["missing_recall"]
    if value is not None and value >= LEAST and ends is not None and ends[0] > 0:
        best = document["best_threshold"]["with_localisation"]["score"]
        yield Finding(
            f"{percent(value, ends)} of the parts that are missing are reported as present.{_hang_on(document)}",
            "Raise the score threshold" + (f" to {best:g}, which suits F_vv best." if best is not None else "."),
            value,
            pair(ends),
            "verify",
            "missing-part",
        )


def _hang_on(document: Document) -> str:
    """What most hallucinations hang on, if that is certain."""
    causes = (document.get("causes") or {}).items()
    found = next((name for name, each in causes if name in _CAUSES and (each["interval"] or [0])[0] > 0.5), None)
    return "" if found is None else f" Most hang on {_CAUSES[found]}."

"""What a checkup says of misses: each mechanism that is certain, where it strikes most, what to do."""

from collections.abc import Iterator, Mapping

from misdetect.studies.advice import LEAST, MECHANISMS, most, pair, percent
from misdetect.studies.contract import Document, Finding

_DISCARDED = {
    "suppressed": (
        "a right box was there and a worse one suppressed it",
        "Let scores say how well a box fits, or raise the IoU of the non-maximum suppression.",
    ),
    "top-k": (
        "a right box was there and not among the candidates that reach suppression",
        "Let more candidates (top-k) reach the non-maximum suppression.",
    ),
    "cap": (
        "a right box was there and the cap on detections cut it off",
        "Raise the cap on detections per image.",
    ),
    "score": (
        "a right box was there, below the score that counts as reported",
        "Lower the score threshold.",
    ),
}
"""More than ``discarded`` says, where one reason is behind most of it."""


def findings(document: Document, documents: Mapping[str, Document]) -> Iterator[Finding]:
    """The mechanisms that certainly lose objects."""
    if not document["objects"]:
        return
    rates = document["intervals"]["rates"]
    for name, (why, advice) in MECHANISMS.items():
        count, ends = document["mechanisms"].get(name, 0), rates.get(name)
        share = count / document["objects"]
        if share >= LEAST and ends is not None and ends[0] > 0:
            if name == "discarded":
                reasons = document["reasons"][name]
                why, advice = _DISCARDED.get(most(reasons) or "", (why, advice))
            yield Finding(
                f"{percent(share, ends)} of the objects are missed because {why} ({count} of {document['objects']})."
                + _where(document, name),
                advice,
                share,
                pair(ends),
                "explain",
                name,
                brings=(name, *(kind for kind in document["tide"] if _behind(document, kind) == name)),
            )


def _behind(document: Document, tide: str) -> str | None:
    """The mechanism behind most misses of a TIDE type, which is not worth more than that."""
    return most({mechanism: count for kind, mechanism, count in document["sankey"] if kind == tide})


def _where(document: Document, mechanism: str) -> str:
    """Where a mechanism strikes most, if that is certain."""
    for each in document["slices"]:
        if each["mechanism"] == mechanism and each["certain"]:
            rate, outside = 100 * each["rate"], 100 * each["rate_outside"]
            return f" Most often: {each['attribute']} {each['value']} ({rate:.0f} % against {outside:.0f} %)."
    return ""

"""What a checkup says of the wiring."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from misdetect.studies.advice import LEAST, pair
from misdetect.studies.contract import Document, Finding

_LIMITS = {"cap": ("cap", "top-k"), "threshold": ("score",)}
"""What doctor only suspects, and which reasons of ``discarded`` it can be."""


def findings(document: Document, documents: Mapping[str, Document]) -> Iterator[Finding]:
    """What is wrong with the wiring."""
    return (_bounded(each, documents.get("explain", {})) for each in _found(document))


def _found(document: Document) -> Iterator[Finding]:
    for each in document["findings"]:
        kind = str(each.get("kind", each["change"]))
        if each.get("before") is None or each.get("after") is None:
            said = str(each["change"]).rstrip(".")
            yield Finding(f"The wiring is suspicious: {said}.", str(each["fix"]), 1.0, None, "doctor", kind)
            continue
        gain = each["after"] - each["before"]
        yield Finding(
            f"The wiring is wrong: with {each['change']} AP rises from {each['before']:.2f} to {each['after']:.2f}.",
            str(each["fix"]),
            min(1.0, abs(gain) + 0.5),  # whatever else is found may only follow from it
            pair(each.get("interval")),
            "doctor",
            kind,
        )


def _bounded(one: Finding, explain: Document) -> Finding:
    """A limit that doctor only suspects costs no more than the misses that may be its doing."""
    if one.kind not in _LIMITS or one.interval is not None or not explain.get("objects"):
        return one
    cut = sum(explain["reasons"]["discarded"].get(reason, 0) for reason in _LIMITS[one.kind])
    return replace(one, value=max((cut + explain["mechanisms"].get("unknown", 0)) / explain["objects"], LEAST))

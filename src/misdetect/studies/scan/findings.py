"""What a checkup says of a scan: what a foreign object harms beyond its control."""

from collections.abc import Iterator, Mapping

from misdetect.studies.advice import LEAST, MECHANISMS, most, pair, percent
from misdetect.studies.contract import Document, Finding


def findings(document: Document, documents: Mapping[str, Document]) -> Iterator[Finding]:
    """What a foreign object harms beyond its control."""
    harm = document["harm"]
    if harm is None or harm["difference"] is None or harm["intervals"]["difference"] is None:
        return
    value, ends = harm["difference"] / 100, [end / 100 for end in harm["intervals"]["difference"]]
    if value >= LEAST and ends[0] > 0:
        points = f"{100 * value:.1f} points ({100 * ends[0]:.0f} to {100 * ends[1]:.0f})"
        yield Finding(
            f"A foreign object in the picture harms other detections at {percent(harm['object'] / 100, None)} of "
            f"positions, {points} more than a patch of background in its place.{_harmed_by(document)}",
            "Add images with objects in unusual places to the training data; `misdetect show` lists the worst pairs.",
            value,
            pair(ends),
            "scan",
            "insertion",
            follows=("discarded",) if most(_uncovered(document)) == "discarded" else (),
        )


def _uncovered(document: Document) -> Mapping[str, int]:
    """Detections that a foreign object takes away without covering them, by mechanism."""
    return (document.get("mechanisms") or {}).get("uncovered") or {}


def _harmed_by(document: Document) -> str:
    """How most detections are harmed that the foreign object does not cover, where that is known."""
    outcomes = document.get("outcomes", {}).get("object", {})
    if most({name: outcomes.get(name, 0) for name in ("renamed", "lost", "moved")}) == "renamed":
        return " Most of these are given another class."
    counts = _uncovered(document)
    mechanism = most(counts)
    if mechanism not in MECHANISMS:
        return ""
    why = MECHANISMS[mechanism][0]
    return f" Of {sum(counts.values())} that are lost and not covered, {counts[mechanism]} are because {why}."

"""What a checkup says of a campaign: the harm that inserted objects do."""

from collections.abc import Iterator, Mapping

from misdetect.studies.contract import Document, Finding


def findings(document: Document, documents: Mapping[str, Document]) -> Iterator[Finding]:
    """The harm that inserted objects certainly do."""
    harmful, queries = document["harm"]["harmful"], document["queries"]
    if not harmful or not queries:
        return
    per, ends = document["harmful_per_1000"], document["intervals"].get("harmful_per_1000")
    if ends is not None and ends[0] > 0:
        worst = next((each for each in document["distinct"] if each["harm"] == "harmful"), None)
        shown = f" The worst: {worst['type']} {worst['label']} on {worst['image']}." if worst else ""
        yield Finding(
            f"{harmful} detections break when an object is inserted beside them, {per:.0f} per 1,000 questions.{shown}",
            "Replay them with `misdetect replay`; fuzz training photos, and train on what fails there: `misdetect "
            "harden --with failures:RUN`.",
            min(per / 1000, 1.0),
            (ends[0] / 1000, ends[1] / 1000),
            "fuzz",
            "insertion",
        )

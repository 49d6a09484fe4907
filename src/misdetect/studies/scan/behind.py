"""What stands behind a finding of a scan: what an object harms, beside what its control does."""

from misdetect.drawing.values import mark
from misdetect.studies.contract import Behind, Document


def behind(finding: Document, document: Document) -> Behind:
    """The detections that the object harms."""
    harm = document["harm"]
    marks = [
        mark(name, harm[name] / 100, ends=[end / 100 for end in ends] if ends else None, chosen=name == "object",
             tone="discarded" if name == "object" else "unknown")
        for name, ends in ((name, harm["intervals"][name]) for name in ("object", "control"))
        if harm[name] is not None
    ]  # fmt: skip
    chart = {"kind": "bars", "title": "Positions at which something is harmed", "across": "of the positions",
             "form": "percent", "marks": marks}  # fmt: skip
    return Behind(
        {"study": ["scan"], "harm": ["harmful"], "flicker": [False], "control": [False]},
        chart,
        sure=f"{document['positions']:,} positions, each also with a control",
    )

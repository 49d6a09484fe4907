"""What stands behind a finding of a score: its wrong detections, and what each type of error costs."""

from misdetect.drawing.values import mark
from misdetect.studies.contract import Behind, Document

TYPES = ("Cls", "Loc", "Both", "Dupe", "Bkg", "Miss")


def behind(finding: Document, document: Document) -> Behind:
    """The wrong detections of a TIDE type."""
    kind, ends = finding["kind"], document.get("intervals", {}).get("tide", {})
    marks = [mark(name, document["tide"][name], ends=ends.get(name), chosen=name == kind) for name in TYPES]
    chart = {"kind": "bars", "title": "What each type of error costs", "across": "points of AP50", "marks": marks,
             "form": "points"}  # fmt: skip
    counts = document["counts"]
    return Behind(
        {"study": ["score"], "outcome": ["extra"], "tide": [kind]},
        chart,
        sure=f"{counts[kind]:,} of {counts['detections']:,} detections at any score, on {counts['images']:,} images",
        gain=f"{document['tide'][kind]:.1f} points of AP50",
    )

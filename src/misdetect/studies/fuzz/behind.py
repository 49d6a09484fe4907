"""What stands behind a finding of a campaign: the detections that inserted objects break."""

from misdetect.drawing.values import mark
from misdetect.studies.contract import Behind, Document


def behind(finding: Document, document: Document) -> Behind:
    """The detections that inserted objects break."""
    marks = [mark(name, n, tone="discarded" if name == "harmful" else "unknown", chosen=name == "harmful")
             for name, n in document["harm"].items() if n]  # fmt: skip
    chart = {"kind": "bars", "title": "What inserted objects change", "across": "distinct failures", "marks": marks}
    return Behind(
        {"study": ["fuzz"], "harm": ["harmful"], "attributable": [True], "flicker": [False]},
        chart,
        sure=f"{document['insertions']:,} insertions into {document['backgrounds']:,} images, each failure also tried "
        "with controls",
        gain=f"{document['harmful_per_1000']:.0f} failures per 1,000 questions",
    )

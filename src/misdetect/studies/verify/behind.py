"""What stands behind the finding of a verification: the parts that are reported though they are missing."""

from misdetect.drawing.values import mark
from misdetect.studies.contract import Behind, Document
from misdetect.studies.verify.table import WITH


def behind(finding: Document, document: Document) -> Behind:
    """The parts that are reported though they are missing."""
    row = document[WITH]
    marks = [
        mark(f"{name} parts reported", row[f"{name}_recall"], ends=row["intervals"][f"{name}_recall"],
             tone="discarded" if name == "missing" else "good", chosen=name == "missing")
        for name in ("present", "missing")
    ]  # fmt: skip
    chart = {"kind": "bars", "title": "Parts that are reported", "across": "of those parts", "form": "percent",
             "most": 1, "marks": marks}  # fmt: skip
    return Behind(
        {"study": ["verify"], "outcome": ["extra"]},
        chart,
        sure=f"{row['missing_found']:,} of {row['missing']:,} missing parts, on {document['images']:,} images",
        gain=f"{row['missing_found']:,} false reports fewer",
    )

"""What stands behind a finding of explain: the misses of a mechanism, and how often each strikes."""

from misdetect.drawing.values import mark
from misdetect.drawing.words import percent
from misdetect.studies.contract import Behind, Document


def behind(finding: Document, document: Document) -> Behind:
    """The misses of a mechanism."""
    kind, objects, rates = finding["kind"], document["objects"], document["intervals"]["rates"]
    marks = [
        mark(name, count / objects, ends=rates.get(name), tone=name, chosen=name == kind)
        for name, count in document["mechanisms"].items()
    ]
    chart = {"kind": "bars", "title": "Misses by mechanism", "across": "of the objects", "form": "percent",
             "marks": marks}  # fmt: skip
    count, potential = document["mechanisms"][kind], (document.get("potential") or {}).get(kind, {})
    return Behind(
        {"study": ["explain"], "outcome": ["missed"], "mechanism": [kind]},
        chart,
        sure=f"{count:,} of {objects:,} objects, at score ≥ {document['settings']['score']:g}",
        gain="" if potential.get("AP50_gain") else f"{percent(count / objects)} of the objects, which would be found",
    )

"""What stands behind a finding of the wiring: AP before and after its change."""

from misdetect.drawing.values import mark
from misdetect.studies.contract import Behind, Document


def behind(finding: Document, document: Document) -> Behind:
    """AP before and after; rows there are none, since the wiring is wrong on every image."""
    known = (each for each in document["findings"] if str(each.get("kind", each["change"])) == finding["kind"])
    found = next((each for each in known if None not in (each.get("before"), each.get("after"))), None)
    if found is None:
        return Behind({})
    marks = [mark("as it is", found["before"], tone="discarded"),
             mark("with the change", found["after"], tone="good", chosen=True)]  # fmt: skip
    chart = {"kind": "bars", "title": "AP before and after", "across": "AP", "form": "score", "most": 1, "marks": marks}
    images = f"measured on {document['images']:,} images" if isinstance(document["images"], int) else ""
    return Behind({}, chart, sure=images, gain=f"{found['after'] - found['before']:.2f} of AP")

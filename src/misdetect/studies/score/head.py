"""The numbers of a score at the head of a page: AP, and precision and recall at the threshold that is reported."""

from misdetect.engine.store import Run
from misdetect.studies.contract import Document, Fact
from misdetect.studies.ledger import query


def head(run: Run, document: Document, reported: float) -> list[Fact]:
    """AP, AP50, and what precision and recall are from the score ``reported`` on (IoU as TIDE's foreground)."""
    ap = document["ap"]
    if ap["AP"] is None:
        return []
    facts = [Fact("AP", ap["AP"], told="IoU .50 to .95"), Fact("AP50", ap["AP50"], told="IoU ≥ .50")]
    return [*facts, *_at(run, document, reported)]


def _at(run: Run, document: Document, reported: float) -> list[Fact]:
    (counts,) = query(
        [run],
        "SELECT count(*) FILTER (outcome = 'found' AND score >= $least) AS found, "
        "count(*) FILTER (outcome <> 'extra') AS objects, "
        "count(*) FILTER (outcome = 'extra' AND score >= $least) AS extra "
        "FROM ledger WHERE condition = 'clean' AND outcome <> 'ignored'".replace("$least", repr(float(reported))),
    ).to_pylist()
    found, objects, said = counts["found"], counts["objects"], counts["found"] + counts["extra"]
    iou = f"score ≥ {reported:g}, IoU ≥ {document['settings']['tide_foreground_iou']:g}"
    facts = []
    if said:
        facts.append(Fact("precision", found / said, told=f"{found:,} of {said:,} detections; {iou}", share=True))
    if objects:
        facts.append(Fact("recall", found / objects, told=f"{found:,} of {objects:,} objects; {iou}", share=True))
    return facts

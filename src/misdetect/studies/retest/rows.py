"""Every object on every picture that was shown, for the ledger; the rows themselves are those of
``studies.conditions``."""

from misdetect.engine.store import Run


def ledger(run: Run) -> str:
    """What became of each object, as it is annotated."""
    return """
        SELECT "case", image, id AS object, condition, false AS control, label, state, x0, y0, x1, y1,
        CASE WHEN kind = 'ignored' THEN 'ignored' WHEN found THEN 'found' WHEN became IS NOT NULL THEN 'renamed'
        ELSE 'missed' END AS outcome,
        CASE WHEN kind = 'ignored' THEN 'unknown' WHEN found THEN 'harmless' ELSE 'harmful' END AS harm,
        became, score, iou, mechanism FROM rows WHERE kind IN ('object', 'ignored')"""

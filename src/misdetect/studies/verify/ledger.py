"""The rows of a verify run in the ledger's columns: every part as it is, and every hallucination under each edit."""

from misdetect.engine.store import Run
from misdetect.studies.verify.rows import EDITS
from misdetect.studies.verify.settings import VerifySettings

_SCORES = ", ".join(f"{name} := score_{name}" for name in (*EDITS, "stayed", "flip_stayed"))


def ledger(run: Run) -> str:
    """Present parts are found or missed; a missing part is extra where it is hallucinated, else ignored: there is
    nothing to be found. By the IoU thresholds with localisation."""
    how = VerifySettings.of(run.settings)
    box, part = "t.x0, t.y0, t.x1, t.y1", 't."case", t.image, t.id AS object, t.label, t.state'
    edits = "\nUNION ALL BY NAME\n".join(
        f"""SELECT {part}, {box}, '{edit}' AS condition, {str(edit == "control").lower()} AS control,
        CASE WHEN t.score_{edit} >= {how.score} THEN 'extra' ELSE 'ignored' END AS outcome,
        CASE WHEN t.score_{edit} >= {how.score} THEN 'harmful' ELSE 'improvement' END AS harm,
        t.score AS score_before, t.score_{edit} AS score
        FROM rows t WHERE t.kind = 'hallucination' AND t.score_{edit} IS NOT NULL"""
        for edit in EDITS
    )
    return f"""
        SELECT {part}, {box}, 'clean' AS condition, false AS control,
        CASE WHEN t.kind = 'ignored' THEN 'ignored' WHEN t.missing AND d.score IS NULL THEN 'ignored'
        WHEN t.missing THEN 'extra' WHEN d.score IS NULL THEN 'missed' ELSE 'found' END AS outcome,
        CASE WHEN t.kind = 'ignored' THEN 'unknown' WHEN t.missing <> (d.score IS NULL) THEN 'harmful' ELSE 'harmless'
        END AS harm, d.score AS score, d.iou AS iou, h.cause AS mechanism, coalesce(h.reason, t.reason) AS reason,
        h.evidence AS evidence
        FROM rows t LEFT JOIN (
            SELECT p.case_index, p.label, max(d.score) AS score, arg_max(d.iou, d.score) AS iou
            FROM rows p JOIN rows d ON p.case_index = d.case_index AND p.label = d.label AND d.kind = 'detection'
            WHERE p.kind = 'part' AND d.score >= {how.score} AND d.iou >= CASE WHEN p.missing THEN {how.missing_iou}
            ELSE {how.present_iou} END GROUP BY ALL
        ) d ON t.kind = 'part' AND t.case_index = d.case_index AND t.label = d.label
        LEFT JOIN (
            SELECT case_index, id, cause, reason, CAST(to_json(struct_pack({_SCORES})) AS VARCHAR) AS evidence
            FROM rows WHERE kind = 'hallucination'
        ) h ON t.kind = 'part' AND t.case_index = h.case_index AND t.id = h.id
        WHERE t.kind IN ('part', 'ignored')
        UNION ALL BY NAME
        {edits}"""

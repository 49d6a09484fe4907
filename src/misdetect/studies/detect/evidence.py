"""What a run of detect knows of images: their detections, and nothing of whether these are right."""

from misdetect.studies.contract import Evidence

EVIDENCE = Evidence(
    boxes="""SELECT 'detection' AS kind, t.image, NULL AS id, t.label, t.x0, t.y0, t.x1, t.y1, NULL AS tide, t.score
        FROM rows t""",
    knows=1,
    rows=False,
)

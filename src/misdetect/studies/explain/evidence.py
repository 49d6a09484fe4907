"""The rows of explain that people look at: misses and wrong detections of images as they are."""

from misdetect.studies.contract import Evidence

EVIDENCE = Evidence(
    rank=10,
    boxes="""SELECT t.kind, t.image, t.id, t.label, t.x0, t.y0, t.x1, t.y1, t.tide,
        CASE WHEN t.kind = 'detection' THEN t.score WHEN t.found THEN 1.0 END AS score
        FROM rows t WHERE t.kind IN ('object', 'detection')""",
    knows=2,
    reports=True,
)

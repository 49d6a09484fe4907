"""The rows of a score that people look at: objects never found, and wrong detections."""

from misdetect.studies.contract import Evidence

EVIDENCE = Evidence(
    rank=20,
    boxes="""SELECT t.kind, t.image, t.id, t.label, t.x0, t.y0, t.x1, t.y1, t.tide,
        CASE WHEN t.kind = 'detection' THEN t.score WHEN t.found THEN d.score END AS score
        FROM rows t LEFT JOIN (FROM rows WHERE kind = 'detection') d
        ON t.case_index = d.case_index AND t.matched = d.id WHERE t.kind <> 'ignored'""",
    knows=3,
    faint=True,  # a detection of a low score costs precision at thresholds that nobody uses
    asks=False,
)

"""The ledger of a campaign: each insertion beside each detection of its background, what became of that detection, and
what the null control made of it. Relocations and shrunk cases are searches that start from these, and are left out.
"""

from misdetect.engine.store import Run

_PLACE = """struct_pack(inserted := label, box := [x, y, x + width, y + height], opacity := opacity,
    naturalness := naturalness)"""


def ledger(run: Run) -> str:
    """One row per detection of ``score`` or more and insertion, one per extra detection, and a control row for each
    change whose null control was asked, by its first patch: there the same happens, or what was detected is found."""
    return f"""
        WITH clean AS (SELECT image, unnest(detections) AS d, generate_subscripts(detections, 1) AS place
            FROM rows WHERE phase = 'clean'),
        firm AS (SELECT *, row_number() OVER (PARTITION BY image ORDER BY place) - 1 AS thing
            FROM clean WHERE d.score >= {float(run.settings["score"])!r}),
        inserted AS (SELECT case_index, "case", image, standing, CAST(to_json({_PLACE}) AS VARCHAR) AS evidence
            FROM rows WHERE phase = 'insertion' AND failed IS NOT NULL),
        changed AS (SELECT case_index, unnest(changes) AS c, generate_subscripts(changes, 1) AS turn
            FROM rows WHERE phase = 'insertion'),
        told AS (
            SELECT inserted.case_index, "case", image, false AS control, coalesce(c.object, d.object) AS object,
                d.label AS label, d.x0 AS x0, d.y0 AS y0, d.x1 AS x1, d.y1 AS y1, coalesce(c.type, 'found') AS outcome,
                coalesce(c.harm, 'harmless') AS harm, c.became AS became, d.score AS score_before,
                coalesce(c.after, standing[place]) AS score, coalesce(c.flickers, false) AS flicker,
                coalesce(c.attributable, false) AS attributable, evidence, thing AS turn
            FROM inserted JOIN firm USING (image) LEFT JOIN changed
                ON changed.case_index = inserted.case_index AND c.thing = firm.thing
            UNION ALL BY NAME
            SELECT case_index, "case", image, false AS control, c.object AS object, c.label AS label, c.x0 AS x0,
                c.y0 AS y0, c.x1 AS x1, c.y1 AS y1, c.type AS outcome, c.harm AS harm, c.score AS score_before,
                c.after AS score, c.flickers AS flicker, c.attributable AS attributable, evidence,
                1000000 + turn AS turn
            FROM inserted JOIN changed USING (case_index) WHERE c.type = 'extra'
            UNION ALL BY NAME
            SELECT case_index, "case", image, true AS control, c.object AS object, c.label AS label, c.x0 AS x0,
                c.y0 AS y0, c.x1 AS x1, c.y1 AS y1, CASE WHEN c.patches[1] THEN c.type ELSE 'found' END AS outcome,
                CASE WHEN c.patches[1] THEN c.harm ELSE 'harmless' END AS harm, c.score AS score_before,
                false AS attributable, evidence, turn
            FROM inserted JOIN changed USING (case_index) WHERE c.patches IS NOT NULL)
        SELECT * EXCLUDE (case_index, turn), 'insertion' AS condition FROM told ORDER BY case_index, control, turn"""

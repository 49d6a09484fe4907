"""Which rows of the ledger people look at one by one, in SQL: for a page, the app, an export and a comparison alike.

A failure is what harms and is the condition's own doing: no flicker, no control, nothing that the control shows too.
"""

from misdetect.engine.store import Run
from misdetect.metrics.slices import BINS
from misdetect.studies.contract import Evidence
from misdetect.studies.kinds import REPORTED, kind_of

_SMALL, _LARGE = BINS["size"][0]
AREA = "greatest(x1 - x0, 0) * greatest(y1 - y0, 0)"
"""Of a row's box, square pixels."""


def evidence_of(run: Run) -> Evidence:
    """What ``run`` has to look at; nothing, where its study has no such rows."""
    return kind_of(run.study).evidence or Evidence(rows=False)


def fails(evidence: Evidence, reported: float = REPORTED) -> str:
    """Whether a row of the ledger is a failure."""
    faint = f" AND NOT (outcome = 'extra' AND score < {float(reported)!r})" if evidence.faint else ""
    return f"""coalesce(NOT coalesce(control, false) AND flicker IS NOT TRUE AND attributable IS NOT FALSE
        AND harm = 'harmful' AND outcome <> 'found'{faint}, false)"""


def counted(run: Run) -> str:
    """Which rows of the ledger of ``run`` tell of its failures, or that there is none: neither what verify tries out on
    a hallucination nor the rungs of an attack's ladder does."""
    evidence = evidence_of(run)
    if not evidence.edited:
        return "condition = 'clean'"
    return "true" if evidence.among is None else f"(condition = 'clean' OR {evidence.among(run)})"


def looked_at(run: Run, reported: float, ledger: str = "ledger") -> str:
    """A SELECT over the ``ledger`` of ``run`` (a relation, or a SELECT in brackets): its rows that people look at, with
    ``by``, ``scene``, ``size`` (COCO's) and ``failure``."""
    evidence = evidence_of(run)
    among = [f"condition {'<>' if evidence.edited else '='} 'clean'", evidence.shown]
    among += ["outcome <> 'found'"] if evidence.edited else []  # of an edited picture only what is not as before
    among += [evidence.among(run)] if evidence.among is not None else []
    by = "NULL" if evidence.by is None else evidence.by(run)
    return f"""SELECT *, CAST({by} AS VARCHAR) AS "by", {evidence.scene} AS scene,
        CASE WHEN {AREA} < {_SMALL} THEN 'small' WHEN {AREA} < {_LARGE} THEN 'medium' ELSE 'large' END AS size,
        {fails(evidence, reported)} AS failure FROM {ledger}
        WHERE outcome IS NOT NULL AND outcome <> 'ignored' AND x0 IS NOT NULL AND {" AND ".join(among)}"""

"""What else a scan shows, out of its rows: T's own stability, the fate of the originals, effects over distance, pairs.

These are the phenomena that paper 1 lists after its Fig. 1: detection of T is not stable, its identity is not
consistent, and objects far from it change. Queries over the run's rows; nothing here asks a detector.
"""

from collections.abc import Sequence
from typing import Any

from misdetect.engine.store import Run
from misdetect.metrics.transplant import OUTCOMES

DISTANCES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)
"""Upper ends of the bins of distance, as shares of the image's diagonal; the first is "touching"."""

_NEIGHBOURS = """
WITH t AS (SELECT pair, condition, x, y, t_detected, t_label, t_confidence FROM rows WHERE condition = 'object'),
steps AS (
  SELECT a.*, b.t_detected AS next_detected, b.t_label AS next_label, b.t_confidence AS next_confidence
  FROM t a JOIN t b ON a.pair = b.pair AND b.x = a.x + {step} AND b.y = a.y
  UNION ALL
  SELECT a.*, b.t_detected, b.t_label, b.t_confidence
  FROM t a JOIN t b ON a.pair = b.pair AND b.x = a.x AND b.y = a.y + {step}
)
SELECT count(*) AS steps,
  avg((t_detected <> next_detected)::int) AS flips,
  avg((t_detected AND next_detected AND t_label <> next_label)::int) AS renames,
  avg(abs(t_confidence - next_confidence)) AS mean_jump,
  max(abs(t_confidence - next_confidence)) AS largest_jump
FROM steps
"""


def stability(run: Run, step: int) -> dict[str, Any]:
    """T along the scan: how often it is detected and as what, and what one step of the grid changes (in percent)."""
    seen = run.query(
        "SELECT sum(weight * t_detected::int) / sum(weight) AS detected, "
        "sum(weight * (t_label = t_class)::int) / sum(weight) AS as_itself, "
        "sum(weight * (t_label <> t_class)::int) / sum(weight) AS as_another, "
        "sum(weight * t_confidence) / sum(weight) AS confidence FROM rows WHERE condition = 'object'"
    ).to_pylist()[0]
    spread = run.query(
        "SELECT avg(identities) AS identities, avg(deviation) AS deviation FROM (SELECT count(DISTINCT t_label) AS "
        "identities, stddev_pop(t_confidence) AS deviation FROM rows WHERE condition = 'object' GROUP BY pair)"
    ).to_pylist()[0]
    step_by_step = run.query(_NEIGHBOURS.format(step=int(step))).to_pylist()[0]
    return {
        "detected": _percent(seen["detected"]),
        "as_itself": _percent(seen["as_itself"] or 0.0),
        "as_another": _percent(seen["as_another"] or 0.0),
        "confidence": _rounded(seen["confidence"]),
        "confidence_deviation": _rounded(spread["deviation"]),
        "identities": _rounded(spread["identities"]),
        "step": {
            "compared": step_by_step["steps"],
            "flips": _percent(step_by_step["flips"]),
            "renames": _percent(step_by_step["renames"]),
            "mean_jump": _rounded(step_by_step["mean_jump"]),
            "largest_jump": _rounded(step_by_step["largest_jump"]),
        },
    }


def outcomes(run: Run) -> dict[str, Any]:
    """What happened to the originals, in percent of objects times positions, by condition; and how much of what is lost
    or renamed only flickers."""
    shares = ", ".join(f"sum(weight * (o.outcome = '{name}')::int) / sum(weight) AS {name}" for name in OUTCOMES)
    table = run.query(
        f"SELECT condition, {shares}, sum(weight * o.flicker::int) / sum(weight) AS flicker "
        "FROM (SELECT condition, weight, unnest(objects) AS o FROM rows) GROUP BY condition ORDER BY condition"
    ).to_pylist()
    return {row.pop("condition"): {name: _percent(value) for name, value in row.items()} for row in table}


def over_distance(run: Run) -> dict[str, Any]:
    """Share of originals that are renamed or lost, and that moved, against their distance from T's box; flicker apart.

    Bins are shares of the image's diagonal; ``farthest`` is the largest distance in pixels at which something that is
    more than flicker was renamed or lost, by condition.
    """
    bin_of = " + ".join(f"(o.distance > {end} * sqrt(width * width + height * height))::int" for end in DISTANCES)
    changed = "o.outcome IN ('renamed', 'lost')"
    table = run.query(
        f"SELECT condition, {bin_of} AS bin, count(*) AS objects, "
        f"sum(weight * ({changed} AND NOT o.flicker)::int) / sum(weight) AS changed, "
        f"sum(weight * ({changed} AND o.flicker)::int) / sum(weight) AS flicker, "
        "sum(weight * (o.outcome = 'moved')::int) / sum(weight) AS moved, "
        f"max(o.distance) FILTER (WHERE {changed} AND NOT o.flicker) AS farthest "
        "FROM (SELECT condition, width, height, weight, unnest(objects) AS o FROM rows) GROUP BY ALL ORDER BY bin"
    ).to_pylist()
    bins = []
    for bin in sorted({row["bin"] for row in table}):
        entry: dict[str, Any] = {
            "from": DISTANCES[bin - 1] if bin else 0.0,
            "to": DISTANCES[bin] if bin < len(DISTANCES) else None,
        }
        for row in table:
            if row["bin"] == bin:
                shares = {name: _percent(row[name]) for name in ("changed", "flicker", "moved")}
                entry[row["condition"]] = {"objects": row["objects"], **shares}
        bins.append(entry)
    farthest: dict[str, float | None] = {}
    for row in table:
        known = [d for d in (farthest.get(row["condition"]), row["farthest"]) if d is not None]
        farthest[row["condition"]] = max(known, default=None)
    return {"bins": bins, "farthest": farthest}


def suppression(run: Run) -> dict[str, Any] | None:
    """Why originals were lost, where the detector could be traced: losses by what became of the candidate that
    had survived on the clean image, near T and far from it; ``None`` where nothing was traced."""
    return _losses_by(run, "fate")


def mechanisms(run: Run) -> dict[str, Any] | None:
    """The same losses by the mechanism that failed on the edited image (paper 3)."""
    return _losses_by(run, "mechanism")


def _losses_by(run: Run, what: str) -> dict[str, Any] | None:
    table = run.query(
        f"SELECT o.coverage > 0 AS covered, o.{what} AS found, count(*) AS losses FROM (SELECT unnest(objects) AS o "
        f"FROM rows WHERE condition = 'object') WHERE o.outcome = 'lost' AND o.{what} IS NOT NULL GROUP BY ALL "
        "ORDER BY ALL"
    ).to_pylist()
    if not table:
        return None
    return {
        name: {row["found"]: row["losses"] for row in table if row["covered"] == covered}
        for name, covered in (("covered", True), ("uncovered", False))
    }


def per_pair(run: Run, taus: Sequence[float]) -> list[dict[str, Any]]:
    """Each pair's images, positions and affected share (percent, by S) under both conditions."""
    shares = ", ".join(f'sum(weight * (score < {float(tau)})::int) / sum(weight) AS "{tau:g}"' for tau in taus)
    table = run.query(
        f"SELECT pair, condition, any_value(background) AS background, any_value(source) AS source, "
        f"any_value(annotation) AS annotation, any_value(before) AS detections, count(*) AS asked, "
        f"sum(weight) AS positions, {shares} FROM rows GROUP BY pair, condition ORDER BY pair, condition DESC"
    ).to_pylist()
    pairs: dict[int, dict[str, Any]] = {}
    for row in table:
        rates = {f"{tau:g}": _percent(row[f"{tau:g}"]) for tau in taus}
        names = ("pair", "background", "source", "annotation", "detections")
        entry = pairs.setdefault(row["pair"], {name: row[name] for name in names})
        entry["positions"] = round(row["positions"])
        entry["affected" if row["condition"] == "object" else "null_control"] = rates
    return list(pairs.values())


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 2)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)

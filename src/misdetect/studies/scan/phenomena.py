"""What else a scan shows: T's own stability, the fate of the originals, effects on them, changes over distance, pairs.

These are the phenomena that paper 1 lists after its Fig. 1: detection of T is not stable, its identity is not
consistent, and objects far from it change. Queries over the run's rows; nothing here asks a detector.
"""

from collections.abc import Sequence
from typing import Any

from misdetect.engine.store import Run
from misdetect.metrics.harm import EFFECTS, HARMS
from misdetect.metrics.transplant import OUTCOMES
from misdetect.studies.scan.rows import CONTROL, OBJECT

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
        # no row has both names where T is never detected, or is nothing that the detector knows
        "coalesce(sum(weight * (t_label = t_class)::int), 0) / sum(weight) AS as_itself, "
        "coalesce(sum(weight * (t_label <> t_class)::int), 0) / sum(weight) AS as_another, "
        "sum(weight * t_confidence) / sum(weight) AS confidence FROM rows WHERE condition = 'object'"
    ).to_pylist()[0]
    spread = run.query(
        "SELECT avg(identities) AS identities, avg(deviation) AS deviation FROM (SELECT count(DISTINCT t_label) AS "
        "identities, stddev_pop(t_confidence) AS deviation FROM rows WHERE condition = 'object' GROUP BY pair)"
    ).to_pylist()[0]
    step_by_step = run.query(_NEIGHBOURS.format(step=int(step))).to_pylist()[0]
    return {
        "detected": _percent(seen["detected"]),
        "as_itself": _percent(seen["as_itself"]),
        "as_another": _percent(seen["as_another"]),
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


def effects(run: Run) -> dict[str, Any]:
    """What the changes that do not flicker mean against the truth: by condition the effects and the harms, in percent
    of originals times positions (what comes up by itself is counted against the same whole)."""
    whole = run.query(
        "SELECT condition, sum(weight * len(objects)) AS whole FROM rows GROUP BY condition ORDER BY condition DESC"
    ).to_pylist()
    table = run.query(
        "SELECT condition, change.effect AS effect, change.harm AS harm, sum(weight) AS weight FROM ("
        "SELECT condition, weight, unnest([{'effect': o.effect, 'harm': o.harm, 'flicker': o.flicker} FOR o IN objects]"
        " || [{'effect': n.effect, 'harm': n.harm, 'flicker': n.flicker} FOR n IN new]) AS change FROM rows) "
        "WHERE change.harm IS NOT NULL AND NOT change.flicker GROUP BY ALL ORDER BY ALL"
    ).to_pylist()

    def shares(column: str, names: Sequence[str], condition: str, among: float | None) -> dict[str, float | None]:
        counts = dict.fromkeys(names, 0.0)
        for row in table:
            if row["condition"] == condition and row[column] is not None:
                counts[row[column]] += row["weight"]
        return {name: _percent(count / among if among else None) for name, count in counts.items()}

    return {
        key: {row["condition"]: shares(column, names, row["condition"], row["whole"]) for row in whole}
        for key, column, names in (("effects", "effect", EFFECTS), ("harms", "harm", HARMS))
    }


def hides_faint(run: Run, faint: float) -> bool:
    """Whether originals were lost and not one left a score of up to ``faint`` behind: then the detector may hide what
    is faint, unless its inside is open and its own threshold lower."""
    seen = run.query(
        "SELECT count(*) FILTER (o.outcome = 'lost' AND o.score_left = 0) AS gone, "
        "count(*) FILTER (o.score_left > 0 AND o.score_left <= ?) AS faint "
        "FROM (SELECT unnest(objects) AS o FROM rows)",
        [faint],
    ).to_pylist()[0]
    own = run.about.get("detector_settings", {}).get("score")
    known = bool(run.settings.get("trace")) and isinstance(own, int | float) and own <= faint
    return seen["gone"] > 0 and not seen["faint"] and not known


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
        "FROM (SELECT condition, width, height, weight, unnest(objects) AS o FROM rows) GROUP BY ALL "
        "ORDER BY bin, condition DESC"
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


def losses(run: Run, by: str) -> dict[str, Any] | None:
    """Why originals were lost, where the detector could be traced, near T and far from it: losses ``by`` "fate", what
    became of the candidate that had survived on the clean image, or by "mechanism", which one of paper 3 failed on the
    edited image; ``None`` where nothing was traced."""
    table = run.query(
        f"SELECT o.coverage > 0 AS covered, o.{by} AS found, count(*) AS losses FROM (SELECT unnest(objects) AS o "
        f"FROM rows WHERE condition = 'object') WHERE o.outcome = 'lost' AND o.{by} IS NOT NULL GROUP BY ALL "
        "ORDER BY ALL"
    ).to_pylist()
    if not table:
        return None
    return {
        name: {row["found"]: row["losses"] for row in table if row["covered"] == covered}
        for name, covered in (("covered", True), ("uncovered", False))
    }


def per_pair(run: Run, taus: Sequence[float]) -> list[dict[str, Any]]:
    """Each pair's images, object, positions and affected share (percent, by S) under both conditions; ``None`` where
    nothing was scanned."""
    shares = ", ".join(f'sum(weight * (score < {float(tau)})::int) / sum(weight) AS "{tau:g}"' for tau in taus)
    table = run.query(
        f"SELECT pair, condition, any_value(before) AS detections, count(*) AS asked, {shares} FROM rows "
        "GROUP BY pair, condition"
    ).to_pylist()
    known = {(row["pair"], row["condition"]): row for row in table}

    def rates(number: int, condition: str) -> dict[str, float | None] | None:
        row = known.get((number, condition))
        return None if row is None else {f"{tau:g}": _percent(row[f"{tau:g}"]) for tau in taus}

    pairs = []
    for number, each in enumerate(run.settings["transplants"]):
        seen = known.get((number, OBJECT)) or known.get((number, CONTROL)) or {"detections": None}
        pairs.append(
            {
                "pair": number,
                **{name: each[name] for name in ("background", "source", "annotation", "label", "positions")},
                "detections": seen["detections"],
                "asked": known.get((number, OBJECT), {"asked": 0})["asked"],
                "affected": rates(number, OBJECT),
                "control": rates(number, CONTROL),
            }
        )
    return pairs


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 2)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)

"""Table I of paper 1 and its null control, out of the rows of a scan.

Every rate is a weighted share of positions (all weights are 1 unless the scan was adaptive) with a bootstrap interval
over background images. τ, the policy, the average and the confidence are choices of this view: they can be changed
without asking the detector again. Pairs on whose clean image nothing was detected are left out and named.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from misdetect.boxes import Bools, Floats, Ints
from misdetect.engine.store import Run
from misdetect.errors import BadData, BadSpec
from misdetect.metrics.bootstrap import REPEATS, interval, ratios, resamples

Policy = Literal["body", "caption"]
Average = Literal["positions", "images"]
TAUS = (0.3, 0.5, 0.7, 0.95, 0.99)
ROWS = ("affected", "class_agnostic", "occlusion_20", "no_occlusion")
PAPER: Mapping[str, tuple[float, ...]] = {
    "affected": (10.3, 20.6, 31.3, 53.7, 75.6),
    "class_agnostic": (6.6, 15.9, 25.7, 52.6, 75.5),
    "occlusion_20": (3.1, 6.7, 8.2, 22.6, 51.3),
    "no_occlusion": (2.4, 4.5, 4.95, 9.0, 22.4),
}
"""Table I as printed, in percent, at the τ of ``TAUS``."""

Rates = dict[str, dict[str, float | None]]


@dataclass(frozen=True)
class View:
    """How rows become rates. ``policy``: "body" puts τ on S (eq. 1), "caption" on the smallest IoU of an original with
    its partner. ``average``: every position counts the same, or every image. ``confidence`` of the intervals."""

    taus: tuple[float, ...] = TAUS
    policy: Policy = "body"
    average: Average = "positions"
    confidence: float = 0.9
    repeats: int = REPEATS
    seed: int = 0

    def __post_init__(self) -> None:
        if self.policy not in get_args(Policy) or self.average not in get_args(Average):
            raise BadSpec(f"policy is body or caption, average positions or images. Got {self.policy}, {self.average}.")
        if not self.taus or not all(0 < tau <= 1 for tau in self.taus):
            raise BadSpec(f"every tau lies in (0, 1]. Got {', '.join(f'{t:g}' for t in self.taus) or 'none'}.")
        if not 0 < self.confidence < 1:
            raise BadSpec(f"the confidence of an interval lies between 0 and 1. Got {self.confidence}.")


@dataclass(frozen=True, eq=False)
class Positions:
    """The columns of all positions under one condition; ``image`` numbers the background images."""

    image: Ints
    weight: Floats
    coverage: Floats
    value: Floats
    value_agnostic: Floats
    settled: Floats
    pair: Ints


def read_positions(run: Run, condition: str, policy: Policy) -> Positions:
    """The positions of ``condition`` on images with clean detections."""
    value, agnostic, settled = (
        ("score", "agnostic", "settled") if policy == "body" else ("least", "least_agnostic", "settled_least")
    )
    table = run.query(
        f"SELECT dense_rank() OVER (ORDER BY background) - 1 AS image, weight, coverage, {value} AS value, "
        f"{agnostic} AS value_agnostic, {settled} AS settled, pair FROM rows WHERE condition = ? AND before > 0 "
        "ORDER BY case_index, row",
        [condition],
    )
    columns: dict[str, Any] = {name: table[name].to_numpy() for name in table.column_names}
    return Positions(**columns)


def table_one(run: Run, view: View) -> dict[str, Any]:
    """The four rows of Table I, those of the null control, their difference (points), intervals and flicker shares."""
    found = {condition: _counts(read_positions(run, condition, view.policy), view) for condition in ("object", "null")}
    scanned = found["object"]
    if not scanned.images:
        raise BadData(
            "no detections on any of the clean images at this score, so nothing can be affected; lower --score."
        )
    draws = resamples(scanned.images, view.repeats, view.seed)
    everything = np.ones((1, scanned.images))

    def rate(counts: "_Counts", numerators: Floats) -> tuple[Floats, Floats]:
        return tuple(100 * ratios(d, numerators, counts.whole) for d in (everything, draws))  # type: ignore[return-value]

    value, samples = rate(scanned, scanned.affected)
    document: dict[str, Any] = {**_rows(value[0], view), "intervals": _interval_rows(samples, view)}
    flicker = {"affected": _flicker_rows(rate(scanned, scanned.flicker)[0][0], view)}
    document["null_control"] = document["difference"] = None
    if found["null"].images:
        null = found["null"]
        null_value, null_samples = rate(null, null.affected)
        document["null_control"] = _rows(null_value[0], view)
        document["difference"] = _rows(value[0] - null_value[0], view)
        document["intervals"] |= {
            "null_control": _interval_rows(null_samples, view),
            "difference": _interval_rows(samples - null_samples, view),
        }
        flicker["null_control"] = _flicker_rows(rate(null, null.flicker)[0][0], view)
    document["flicker"] = {**flicker["affected"], "null_control": flicker.get("null_control")}
    return document


@dataclass(frozen=True, eq=False)
class _Counts:
    """Per image ``[K, 4, τ]``: weight of positions that are ``affected``, that are so by ``flicker`` only, and of all
    positions in the row (``whole``)."""

    images: int
    affected: Floats
    flicker: Floats
    whole: Floats


def kept_rows(coverage: Floats) -> Bools:
    """``[4, P]``: which positions each row of Table I counts. No-Occ keeps coverage 0: the body's sentence says the
    opposite, the caption what is meant."""
    every = np.ones(len(coverage), np.bool_)
    return np.stack([every, every, coverage <= 0.2, coverage == 0])


def _counts(positions: Positions, view: View) -> _Counts:
    images = int(positions.image.max(initial=-1)) + 1
    taus = np.array(view.taus)
    kept = kept_rows(positions.coverage) * positions.weight
    values = np.stack([positions.value, positions.value_agnostic, positions.value, positions.value])
    below = values[:, :, None] < taus
    # flicker is told from the rest for class-aware matching; the agnostic row borrows its positions
    only = below & (positions.settled[:, None] >= taus)[None]

    def summed(chosen: Floats) -> Floats:
        total = np.zeros((images, *chosen.shape[::2]))
        np.add.at(total, positions.image, np.moveaxis(chosen, 1, 0))
        return total

    affected, flicker = summed(kept[:, :, None] * below), summed(kept[:, :, None] * only)
    whole = summed(np.repeat(kept[:, :, None], len(taus), axis=2))
    if view.average == "images":
        affected, flicker = (
            np.divide(part, whole, out=np.zeros_like(part), where=whole > 0) for part in (affected, flicker)
        )
        whole = (whole > 0).astype(np.float64)
    return _Counts(images, affected, flicker, whole)


def _rows(rates: Floats, view: View) -> Rates:
    return _by_name(lambda r, t: _number(rates[r, t]), view)


def _flicker_rows(rates: Floats, view: View) -> Rates:
    rows = _rows(rates, view)
    del rows["class_agnostic"]
    return rows


def _interval_rows(samples: Floats, view: View) -> dict[str, dict[str, Any]]:
    low, high = interval(samples, view.confidence)
    return _by_name(lambda r, t: None if np.isnan(low[r, t]) else [_number(low[r, t]), _number(high[r, t])], view)


def _by_name(entry: Callable[[int, int], Any], view: View) -> dict[str, dict[str, Any]]:
    return {name: {f"{tau:g}": entry(r, t) for t, tau in enumerate(view.taus)} for r, name in enumerate(ROWS)}


def _number(value: Any) -> float | None:
    return None if np.isnan(value) else round(float(value), 2)

"""Table I of paper 1 and its control, what is harmed, and the scene apart from T's own parts, out of rows.

Every rate is a weighted share of positions (all weights are 1 unless the scan was adaptive) with a bootstrap interval
over background images, the same draws for both conditions, so that their difference is paired. Pairs on whose clean
image nothing was detected are left out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from misdetect.engine.store import Run
from misdetect.metrics.bootstrap import REPEATS, interval, ratios, resamples
from misdetect.nouns.boxes import Bools, Floats, Ints
from misdetect.studies.scan.rows import CONTROL, OBJECT
from misdetect.studies.scan.settings import Average, ScanSettings

ROWS = ("affected", "class_agnostic", "occlusion_20", "no_occlusion")
"""Those of Table I."""
SCENE, DIFFERENCE = "scene", "difference"
"""The row of our own below them, S of the scene without what is detected on T and its parts; and what the object does
beyond its control."""
PAPER: Mapping[str, tuple[float, ...]] = {
    "affected": (10.3, 20.6, 31.3, 53.7, 75.6),
    "class_agnostic": (6.6, 15.9, 25.7, 52.6, 75.5),
    "occlusion_20": (3.1, 6.7, 8.2, 22.6, 51.3),
    "no_occlusion": (2.4, 4.5, 4.95, 9.0, 22.4),
}
"""Table I as printed, in percent, at the τ of ``TAUS``."""

_HARMFUL = (
    "len([1 FOR o IN objects IF o.harm = 'harmful' AND NOT o.flicker]) + "
    "len([1 FOR n IN new IF n.harm = 'harmful' AND NOT n.flicker]) > 0"
)
_KEEPS_ALL = "len([1 FOR o IN objects IF o.outcome <> 'kept']) + len([1 FOR n IN new IF NOT n.on_parts]) = 0"


@dataclass(frozen=True, eq=False)
class Positions:
    """Columns ``[P]`` of the positions under one condition. ``image`` numbers the background images, the same under
    both; ``value`` is what τ is put on, ``agnostic`` that with edges between all classes, ``settled`` that without
    flicker; ``harmful``: something is harmed that does not flicker; ``keeps_all``: every original is kept and nothing
    is new but on T's own parts."""

    image: Ints
    weight: Floats
    coverage: Floats
    value: Floats
    agnostic: Floats
    settled: Floats
    scene: Floats
    scene_settled: Floats
    harmful: Bools
    keeps_all: Bools

    def __len__(self) -> int:
        return len(self.image)


def read_positions(run: Run, how: ScanSettings, pairs: Sequence[int] | None = None) -> tuple[dict[str, Positions], int]:
    """The positions by condition, on images with clean detections (of some ``pairs`` only), and how many such images
    there are. A case that failed under one condition only must not shift the numbers of the images under the other."""
    chosen = "" if pairs is None else f"AND pair IN ({', '.join(str(int(pair)) for pair in pairs)}) "
    value, agnostic, settled = (
        ("score", "agnostic", "settled") if how.policy == "body" else ("least", "least_agnostic", "settled_least")
    )
    table = run.query(
        f"SELECT condition, dense_rank() OVER (ORDER BY background) - 1 AS image, weight, coverage, {value} AS value, "
        f"{agnostic} AS agnostic, {settled} AS settled, scene, scene_settled, {_HARMFUL} AS harmful, "
        f"{_KEEPS_ALL} AS keeps_all FROM rows WHERE before > 0 {chosen}ORDER BY case_index, row"
    )
    condition = np.array(table["condition"].to_pylist(), dtype=object)
    columns: dict[str, Any] = {name: table[name].to_numpy() for name in table.column_names if name != "condition"}
    found = {
        name: Positions(**{key: column[condition == name] for key, column in columns.items()})
        for name in (OBJECT, CONTROL)
    }
    return found, int(columns["image"].max(initial=-1)) + 1


@dataclass(frozen=True, eq=False)
class Rate:
    """A rate, or an array of them, in percent: its ``value``, and ``samples`` ``[R, …]`` of the bootstrap."""

    value: Floats
    samples: Floats

    def __sub__(self, other: "Rate") -> "Rate":
        return Rate(self.value - other.value, self.samples - other.samples)

    def ends(self, confidence: float) -> Floats:
        """Low and high end of its interval, ``[2, …]``."""
        return np.array(interval(self.samples, confidence))


@dataclass(frozen=True, eq=False)
class Images:
    """The images over which rates are taken, and how often each is drawn ``[R, K]``."""

    draws: Floats
    average: Average

    @classmethod
    def of(cls, count: int, how: ScanSettings) -> "Images":
        # without an image there is nothing to draw from, and every rate is NaN
        return cls(resamples(count, REPEATS, how.seed) if count else np.zeros((1, 0)), how.average)

    def rate(self, positions: Positions, hits: Bools, among: Bools) -> Rate:
        """Share of positions that are ``hits`` of those ``among`` ``[P, …]``."""
        counts = [self._summed(positions, part) for part in (hits & among, among)]
        if self.average == "images":
            above, below = counts
            counts = [np.divide(above, below, out=np.zeros_like(above), where=below > 0), (below > 0).astype(float)]
        every = np.ones((1, self.draws.shape[1]))
        value, samples = (100 * ratios(draws, *counts) for draws in (every, self.draws))
        return Rate(value[0], samples)

    def _summed(self, positions: Positions, chosen: Bools) -> Floats:
        total = np.zeros((self.draws.shape[1], *chosen.shape[1:]))
        weight = positions.weight.reshape(-1, *[1] * (chosen.ndim - 1))
        np.add.at(total, positions.image, weight * chosen)
        return total


def kept_rows(coverage: Floats) -> Bools:
    """``[4, P]``: which positions each row of Table I counts. No-Occ keeps coverage 0: the body's sentence says the
    opposite, the caption what is meant."""
    every = np.ones(len(coverage), np.bool_)
    return np.stack([every, every, coverage <= 0.2, coverage == 0])


def table_one(run: Run, how: ScanSettings) -> dict[str, Any]:
    """Table I with the row ``scene`` below, the control's, their difference (points), intervals, flicker shares,
    and ``harm``."""
    found, count = read_positions(run, how)
    images = Images.of(count, how)
    rates, harm = rates_of(images, found, how)
    control = found[CONTROL] if len(found[CONTROL]) else None
    both = {"control": rates[CONTROL], "difference": rates[DIFFERENCE]}
    document = {
        **_rates(rates[OBJECT].value, how),
        **{name: None if control is None else _rates(rate.value, how) for name, rate in both.items()},
        "intervals": _intervals(rates[OBJECT], how),
        "flicker": _flicker(images, found[OBJECT], how),
        "harm": {
            **{name: _number(rate.value) for name, rate in harm.items()},
            "intervals": {name: _ends(rate.ends(how.confidence)) for name, rate in harm.items()},
        },
        "own_parts_only": _own_parts_only(images, found[OBJECT], how),
    }
    document["flicker"]["control"] = None if control is None else _flicker(images, control, how)
    if control is not None:
        document["intervals"] |= {name: _intervals(rate, how) for name, rate in both.items()}
    return document


def rates_of(
    images: Images, found: Mapping[str, Positions], how: ScanSettings
) -> tuple[dict[str, Rate], dict[str, Rate]]:
    """Table I with the scene (``[5, τ]``), and the share of positions at which something is harmed that does not
    flicker: under each condition, and their difference."""
    table = {name: _table_rates(images, part, how) for name, part in found.items()}
    harm = {name: images.rate(part, part.harmful, np.ones(len(part), np.bool_)) for name, part in found.items()}
    for rates in (table, harm):
        rates[DIFFERENCE] = rates[OBJECT] - rates[CONTROL]
    return table, harm


def _values(positions: Positions) -> tuple[Floats, Bools]:
    """What τ is put on in each row, and which positions the row counts: both ``[P, 5]``."""
    value, agnostic, scene = positions.value, positions.agnostic, positions.scene
    kept = np.concatenate([kept_rows(positions.coverage), np.ones((1, len(positions)), np.bool_)])
    return np.stack([value, agnostic, value, value, scene], axis=1), kept.T


def _table_rates(images: Images, positions: Positions, how: ScanSettings) -> Rate:
    values, kept = _values(positions)
    below = values[:, :, None] < np.array(how.tau)
    return images.rate(positions, below, np.broadcast_to(kept[:, :, None], below.shape))


def _flicker(images: Images, positions: Positions, how: ScanSettings) -> dict[str, Any]:
    """Share of positions that are affected by flicker only. It is told from the rest for class-aware matching."""
    values, kept = _values(positions)
    settled = np.stack([*[positions.settled] * len(ROWS), positions.scene_settled], axis=1)
    only = (values[:, :, None] < np.array(how.tau)) & (settled[:, :, None] >= np.array(how.tau))
    rows = _rates(images.rate(positions, only, np.broadcast_to(kept[:, :, None], only.shape)).value, how)
    del rows["class_agnostic"]
    return rows


def _own_parts_only(images: Images, positions: Positions, how: ScanSettings) -> dict[str, float | None]:
    """Of the positions that are affected without occlusion, the share at which every original is kept and nothing new
    is detected but on T's own parts, by τ."""
    affected = (positions.value[:, None] < np.array(how.tau)) & (positions.coverage == 0)[:, None]
    value = images.rate(positions, np.broadcast_to(positions.keeps_all[:, None], affected.shape), affected).value
    return {f"{tau:g}": _number(value[t]) for t, tau in enumerate(how.tau)}


def _rates(values: Floats, how: ScanSettings) -> dict[str, Any]:
    return _by_name(lambda r, t: _number(values[r, t]), how.tau)


def _intervals(rate: Rate, how: ScanSettings) -> dict[str, Any]:
    ends = rate.ends(how.confidence)
    return _by_name(lambda r, t: _ends(ends[:, r, t]), how.tau)


def _by_name(entry: Callable[[int, int], Any], taus: Sequence[float]) -> dict[str, Any]:
    names = (*ROWS, SCENE)
    return {name: {f"{tau:g}": entry(r, t) for t, tau in enumerate(taus)} for r, name in enumerate(names)}


def _number(value: Any) -> float | None:
    return None if np.isnan(value) else round(float(value), 2)


def _ends(ends: Floats) -> list[float | None] | None:
    return None if np.isnan(ends).any() else [_number(end) for end in ends]

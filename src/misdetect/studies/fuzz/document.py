"""The document of a campaign, out of its rows: what harms, what is attributable, and the paper's own counts beside."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from misdetect.engine.store import Run
from misdetect.kept.budget import Budget
from misdetect.metrics import bootstrap
from misdetect.metrics.control import posterior
from misdetect.metrics.harm import EFFECTS, HARMFUL, HARMS, UNKNOWN
from misdetect.metrics.metamorphic import TYPES
from misdetect.nouns.boxes import SIDES, Bools, Floats, boxes_of, gaps
from misdetect.studies.contract import Document, Headline
from misdetect.studies.fuzz.failures import counted
from misdetect.studies.fuzz.plan import shows_flicker
from misdetect.studies.fuzz.results import Campaign, Distinct, Row
from misdetect.studies.fuzz.rows import Insertion
from misdetect.studies.fuzz.tables import tables
from misdetect.studies.running import budget_file

_BINS = 5
RATES = {"failure_rate": (2, 1, 1), "attributable_per_1000": (3, 0, 1000), "harmful_per_1000": (4, 0, 1000)}
"""Rates of a campaign: which of the columns of ``tallies`` they are, over which, times what."""


def document(run: Run) -> Document:
    """The JSON-able document of ``run``."""
    campaign = Campaign.of(run)
    found = {**_headline(campaign), **_counts(campaign)}
    found |= {
        "coverage": _coverage(campaign),
        "relocation": _relocation(campaign.relocations),
        "shrunk": [_shrunk(row) for row in campaign.shrunk],
        "naturalness": _naturalness(campaign),
        "noise": _noise(campaign.clean),
        "intervals": _intervals(campaign),
        "distinct": [_entry(failure, campaign.how.confidence) for failure in campaign.distinct],
        "cost": _cost(run),
    }
    return {**found, "tables": tables(found), "notes": _notes(found, campaign)}


def _headline(campaign: Campaign) -> Document:
    """What the inserted objects break, and what of that does harm."""
    real = campaign.attributable
    harms = _count((failure.change["harm"] for failure in real), HARMS)
    return {
        "queries": campaign.queries,
        "harm": harms,
        "harmful_per_1000": _share(1000 * harms[HARMFUL], campaign.queries),
        "effects": _count((failure.change["effect"] for failure in real), EFFECTS),
        "attributable": len(real),
        "attributable_per_1000": _share(1000 * len(real), campaign.queries),
        "attributable_by_type": _count((failure.key[1] for failure in real), TYPES),
        "unique_failures": len(campaign.distinct),
        "by_control": _by_control(campaign),
        "scores": _scores(campaign),
    }


def _by_control(campaign: Campaign) -> dict[str, int]:
    """Distinct failures that patches of texture do not make, that they make too, and where that is not clear."""
    words = {True: "cleared", False: "shared", None: "unclear"}
    return _count((words[failure.by_patches(campaign.how.control)] for failure in campaign.distinct), [*words.values()])


def _scores(campaign: Campaign) -> Document:
    """The lowest score that the detector was seen to report, and whether that is low enough to tell flicker."""
    least = [row["least"] for row in campaign.clean if row["least"] is not None]
    return {"least": min(least, default=None), "flicker_told": shows_flicker(campaign.clean, campaign.how.rules)}


def _counts(campaign: Campaign) -> Document:
    """How many insertions fail, and in which way: the paper's numbers, and what is behind them."""
    failing, insertions = campaign.failing, len(campaign.asked)
    raw = sum(row["failed"] for row in campaign.asked)
    places = {(row["image"], row["cutout"], row["x"], row["y"]) for row in campaign.relocated}
    return {
        "backgrounds": len(campaign.clean),
        "insertions": insertions,
        "failing_insertions": len(failing),
        "failure_rate": _share(len(failing), insertions),
        "raw_failures": raw,
        "raw_failure_rate": _share(raw, insertions),
        "flicker": sum(bool(row["flicker"]) for row in campaign.asked),
        "control_failures": sum(row["control_failed"] is True for row in failing),
        "control_asked": sum(row["control_failed"] is not None for row in failing),
        "by_type": _by_type(failing, campaign.how.count_flicker),
        "relocated": len(campaign.relocated),
        "relocated_unique": len(places),
    }


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _count(values: Iterable[Any], names: Sequence[str]) -> dict[str, int]:
    found = Counter(values)
    return {name: found[name] for name in names}


def _by_type(failing: Sequence[Row], count_flicker: bool) -> dict[str, int]:
    """Failing insertions that show each type; one may show several."""
    return _count((name for row in failing for name in {c["type"] for c in counted(row, count_flicker)}), TYPES)


def _coverage(campaign: Campaign) -> Document:
    """Which backgrounds and objects were tested: an object is when something was inserted in the ring around it."""
    objects, tested, usable = 0, 0, 0
    inserted: dict[str, list[tuple[int, int, int, int]]] = defaultdict(list)
    for row in campaign.asked:
        inserted[row["image"]].append(Insertion.of_row(row).box)
    for row in campaign.clean:
        firm = boxes_of(found for found in row["detections"] if found["score"] >= campaign.how.score)
        objects += len(firm)
        usable += bool(len(firm))
        if len(firm) and row["image"] in inserted:
            tested += int(_in_ring(firm, np.array(inserted[row["image"]], dtype=np.float64)).sum())
    reaches = Counter(row["reach"] for row in campaign.asked)
    listed = campaign.how.strategy != "adaptive"
    return {
        "backgrounds": _share(len(inserted), usable),
        "objects": _share(tested, objects),
        "detected_objects": objects,
        "backgrounds_with_detections": usable,
        "insertions_by_reach": {str(reach): reaches[reach] for reach in sorted(reaches)},
        "dropped": sum(row["dropped"] for row in campaign.insertions) if listed else None,
        "unnatural": len(campaign.insertions) - len(campaign.asked),
    }


def _in_ring(firm: Floats, boxes: Floats) -> Bools:
    """Which of ``firm`` ``[M, 4]`` have one of ``boxes`` within half that box's size."""
    half = np.hypot(*((boxes[:, 2:] - boxes[:, :2]) / 2).T)
    return np.asarray((gaps(firm, boxes) <= half[None, :] + 1).any(axis=1))


def _relocation(rows: Sequence[Row]) -> Document:
    """Fig. 8: how far relocated objects got, in percent of those that moved at all."""
    moved = np.array([row["progress"] for row in rows if row["progress"] > 0], dtype=np.float64)
    edges = np.linspace(0, 1, _BINS + 1)
    arrived = moved >= 1 - 1e-9
    counts, _ = np.histogram(moved[~arrived], edges)
    bins = {f"{100 * a:.0f}-{100 * b:.0f}": int(n) for a, b, n in zip(edges, edges[1:], counts, strict=False)}
    return {
        "tried": len(rows),
        "queries": sum(row["queries"] for row in rows),
        "moved": len(moved),
        "arrived": int(arrived.sum()),
        "arrived_share": _share(float(arrived.sum()), len(moved)),
        "at_least_40": _share(float((moved >= 0.4).sum()), len(moved)),
        "progress": bins | {"100": int(arrived.sum())},
    }


def _shrunk(row: Row) -> Document:
    own = {name: row[name] for name in ("case", "origin", "strength", "opacity")}
    return own | {"size": [row["width"], row["height"]]}


def _naturalness(campaign: Campaign) -> dict[str, float | None]:
    """Table 4: mean HOG intersection with the background, in percent."""
    parts = {"inserted": campaign.asked, "failing": campaign.failing, "relocated": campaign.relocated}
    return {
        name: 100 * float(np.mean([row["naturalness"] for row in rows])) if rows else None
        for name, rows in parts.items()
    }


def _noise(clean: Sequence[Row]) -> dict[str, int]:
    """Backgrounds asked about twice, how many answers differed at all, and how many so that the oracle minds."""
    twice = [row for row in clean if row["differs"] is not None]
    return {
        "asked_twice": len(twice),
        "differing": sum(row["differs"] for row in twice),
        "failing": sum(row["noise"] for row in twice),
    }


def _intervals(campaign: Campaign) -> dict[str, Any]:
    """Percentile intervals over backgrounds; ``None`` where there is nothing to draw from."""
    known = {"confidence": campaign.how.confidence}
    if not campaign.clean:  # a budget that was spent before it began
        return dict.fromkeys(RATES) | known
    draws = bootstrap.resamples(len(campaign.place), seed=campaign.how.seed)
    drawn = rates(tallies(campaign), draws)
    return {name: bootstrap.ends_of(rate, campaign.how.confidence) for name, rate in drawn.items()} | known


def rates(counts: Floats, draws: Floats) -> dict[str, Floats]:
    """Each rate ``[R]`` of the ``draws`` ``[R, K]`` of backgrounds with ``counts`` ``[K, 5]``, as ``tallies`` are."""
    return {name: k * bootstrap.ratios(draws, counts[:, a], counts[:, b]) for name, (a, b, k) in RATES.items()}


def tallies(campaign: Campaign) -> Floats:
    """Of each background ``[K, 5]``: queries, insertions, failing ones, failures that are the inserted objects' doing,
    and those of them that do harm."""
    images = campaign.place
    counts = np.zeros((len(images), 5))
    for row in campaign.everything:
        counts[images[row["image"]], 0] += row["queries"]
    for row in campaign.asked:
        counts[images[row["image"]], 1] += 1
    for row in campaign.failing:
        counts[images[row["image"]], 2] += 1
    for failure in campaign.attributable:
        counts[images[failure.key[0]], 3:] += 1, failure.change["harm"] == HARMFUL
    return counts


def _entry(failure: Distinct, confidence: float) -> Document:
    """A distinct failure, with the case that shows it best."""
    row, change = failure.row, failure.change
    told = ("type", "label", "became", "object", "effect", "harm", "score", "after", "attributable", "cleared")
    asked, failing = len(change["patches"] or ()), sum(change["patches"] or ())
    chance, *ends = posterior(asked, failing, confidence)
    return {
        "case": row["case"],
        "image": row["image"],
        "inserted": row["label"],
        **{name: change[name] for name in told},
        "box": [change[name] for name in SIDES],
        "times": failure.times,
        "patches": asked,
        "patches_failing": failing,
        "chance": chance if asked else None,
        "chance_interval": ends if asked else None,
    }


def _cost(run: Run) -> Document | None:
    """What was asked and paid for over all sittings: in the file beside the run, if that is still there."""
    counted_in = budget_file(run.path)
    return dict(Budget(path=counted_in).spent) if counted_in.is_file() else None


def _notes(found: Document, campaign: Campaign) -> list[str]:
    noise, notes, how = found["noise"], list[str](), campaign.how
    least = found["scores"]["least"]
    if least is not None and not found["scores"]["flicker_told"]:
        notes.append(
            f"the detector reported no score below {least:.2f}, so what flickers at {how.score:g} cannot be told from "
            f"what fails, and nothing is called attributable: have it report scores from {how.rules.low:g} on (score= "
            f"of its spec), or use --score {min(least + how.flicker, 1):.2f} or more."
        )
    if noise["differing"]:
        notes.append(
            f"the detector is not deterministic: {noise['differing']} of {noise['asked_twice']} answers differ when "
            "asked again; every failure was asked about twice."
        )
    if found["attributable"] and found["harm"][UNKNOWN] == found["attributable"]:
        notes.append("nothing is annotated here that could say whether a failure does harm.")
    return notes


def sentences(document: Document) -> list[str]:
    """What was found, the most important first."""
    harm, real = document["harm"], document["attributable"]
    harmful = [each["effect"] for each in document["distinct"] if each["attributable"] and each["harm"] == HARMFUL]
    found = [
        f"{harm[HARMFUL]} distinct failures that inserted objects cause do harm"
        f"{per_1000(document, 'harmful_per_1000')}{_listed(Counter(harmful))}.",
        f"{real} distinct failures are the inserted objects' doing"
        f"{per_1000(document, 'attributable_per_1000')}{_listed(harm)}.",
    ]
    if real and harm[UNKNOWN] == real:
        found = found[1:]  # a 0 in the first would look like good news
    if not document["scores"]["flicker_told"] and document["unique_failures"]:
        cleared = document["by_control"]["cleared"]
        found = [f"{cleared} distinct failures that patches of texture do not cause; flicker cannot be told."]
    if document["insertions"]:
        found.append(
            f"As the paper counts, {document['raw_failures']} of {document['insertions']} insertions fail "
            f"({100 * document['raw_failure_rate']:.1f} %), {document['flicker']} only by a score that flickers."
        )
    return [*found, *document["notes"]]


def per_1000(document: Document, name: str) -> str:
    """A rate with its interval, in words."""
    ends = document["intervals"][name]
    if ends is None:
        return ""
    return f" ({document[name]:.1f} per 1,000 queries, {ends[0]:.1f} to {ends[1]:.1f})"


def _listed(counts: Mapping[str, int]) -> str:
    text = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    return f": {text}" if text else ""


def numbers(document: Document) -> dict[str, Headline]:
    """For comparing runs."""
    ends = document["intervals"]
    found = {name: Headline(document[name], ends[name]) for name in reversed(RATES)}
    found |= {name: Headline(document[name]) for name in ("raw_failure_rate", "unique_failures", "queries")}
    return found | {"coverage.objects": Headline(document["coverage"]["objects"])}

"""What is wrong with a detector, in plain sentences with numbers, the worst first, each with what to do about it.

One function per study reads that study's document. ``value`` is a share of the objects (or of AP50) that is at stake,
so that findings of different studies can be put in an order; a finding is one only where it is certain: its interval
excludes what a sound detector would show. What only follows from another finding does not come before it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

Document = Mapping[str, Any]
LEAST = 0.01
"""Share of the objects, or points of AP50 / 100, below which nothing is called a finding."""


@dataclass(frozen=True)
class Finding:
    """``sentence`` and ``advice`` for a person; ``value`` in 0..1 with its ``interval`` where it has one; ``kind`` is
    what is wrong in one word: a mistake of wiring, a TIDE type, a mechanism, or what was done to the image. Findings of
    one ``study`` and ``kind`` are of the same thing, whatever the detector."""

    sentence: str
    advice: str
    value: float
    interval: tuple[float, float] | None
    study: str
    kind: str


_TIDE = {
    "Cls": (
        "right boxes with the wrong class cost {points:.1f} points of AP50",
        "Add examples of the classes that are confused; `misdetect confusion` lists the pairs and the objects.",
    ),
    "Loc": (
        "boxes that fit badly cost {points:.1f} points of AP50",
        "Check the annotations' tightness, the input size and the box scaling; quantised weights do this too.",
    ),
    "Both": (
        "boxes that are wrong in place and class cost {points:.1f} points of AP50",
        "Raise the score threshold, and look at the images named as worst.",
    ),
    "Dupe": (
        "second boxes on one object cost {points:.1f} points of AP50",
        "Lower the IoU of the non-maximum suppression.",
    ),
    "Bkg": (
        "boxes where nothing is annotated cost {points:.1f} points of AP50",
        "Add images without objects to the training data, or raise the threshold; check for missing annotations.",
    ),
}
_MECHANISMS = {
    "proposal": (
        "nothing was proposed where they are",
        "Check anchor sizes and strides against the objects' sizes, or use a larger input.",
    ),
    "regressor": (
        "the box was moved away from them",
        "Train the box head longer, or check the annotations' tightness.",
    ),
    "interclass": (
        "another class scored higher",
        "Add examples of the confused classes; `misdetect confusion` lists the pairs.",
    ),
    "background": (
        "their score sank into the background",
        "Lower the score threshold, or add examples like them to the training data.",
    ),
    "calibration": (
        "a right box was there and lost to a worse one, or to a cap",
        "Adjust the threshold, the IoU of the suppression, or the cap on detections.",
    ),
}
_CALIBRATION = {
    "suppressed": (
        "a right box was there and a worse one suppressed it",
        "Let scores say how well a box fits, or raise the IoU of the non-maximum suppression.",
    ),
    "top-k": (
        "a right box was there and not among the candidates that reach suppression",
        "Let more candidates (top-k) reach the non-maximum suppression.",
    ),
    "cap": (
        "a right box was there and the cap on detections cut it off",
        "Raise the cap on detections per image.",
    ),
    "score": (
        "a right box was there, below the score that counts as reported",
        "Lower the score threshold.",
    ),
}
"""More than ``calibration`` says, where one reason is behind most of it."""
_CAUSES = {
    "context": "the parts around them",
    "position": "their place in the picture",
    "appearance": "the pixels in their place",
}
_LIMITS = {"cap": ("cap", "top-k"), "threshold": ("score",)}
"""What doctor only suspects, and which reasons of ``calibration`` it can be."""


def _doctor(document: Document) -> Iterator[Finding]:
    for each in document["findings"]:
        kind = str(each.get("kind", each["change"]))
        if each.get("before") is None or each.get("after") is None:
            said = str(each["change"]).rstrip(".")
            yield Finding(f"The wiring is suspicious: {said}.", str(each["fix"]), 1.0, None, "doctor", kind)
            continue
        gain = each["after"] - each["before"]
        yield Finding(
            f"The wiring is wrong: with {each['change']} AP rises from {each['before']:.2f} to {each['after']:.2f}.",
            str(each["fix"]),
            min(1.0, abs(gain) + 0.5),  # whatever else is found may only follow from it
            _pair(each.get("interval")),
            "doctor",
            kind,
        )


def _score(document: Document) -> Iterator[Finding]:
    intervals = document.get("intervals", {}).get("tide", {})
    for kind, (words, advice) in _TIDE.items():
        points, ends = document["tide"].get(kind) or 0.0, intervals.get(kind)
        if points / 100 >= LEAST and ends is not None and ends[0] > 0:
            said = f"{words.format(points=points)} ({ends[0]:.1f} to {ends[1]:.1f})."
            share = ends[0] / 100, ends[1] / 100
            yield Finding(said[0].upper() + said[1:], advice, points / 100, share, "score", kind)


def _explain(document: Document) -> Iterator[Finding]:
    if not document["objects"]:
        return
    rates = document["intervals"]["rates"]
    for name, (why, advice) in _MECHANISMS.items():
        count, ends = document["mechanisms"].get(name, 0), rates.get(name)
        share = count / document["objects"]
        if share >= LEAST and ends is not None and ends[0] > 0:
            if name == "calibration":
                reasons = document["reasons"][name]
                why, advice = _CALIBRATION.get(_most(reasons) or "", (why, advice))
            yield Finding(
                f"{_percent(share, ends)} of the objects are missed because {why} ({count} of {document['objects']})."
                + _where(document, name),
                advice,
                share,
                _pair(ends),
                "explain",
                name,
            )


def _most(counts: Mapping[str, int]) -> str | None:
    """What more than half of ``counts`` is of."""
    return next((name for name, count in counts.items() if 2 * count > sum(counts.values())), None)


def _where(document: Document, mechanism: str) -> str:
    """Where a mechanism strikes most, if that is certain."""
    for each in document["slices"]:
        if each["mechanism"] == mechanism and each["certain"]:
            rate, outside = 100 * each["rate"], 100 * each["rate_outside"]
            return f" Most often: {each['attribute']} {each['value']} ({rate:.0f} % against {outside:.0f} %)."
    return ""


def _scan(document: Document) -> Iterator[Finding]:
    harm = document["harm"]
    if harm is None or harm["difference"] is None or harm["intervals"]["difference"] is None:
        return
    value, ends = harm["difference"] / 100, [end / 100 for end in harm["intervals"]["difference"]]
    if value >= LEAST and ends[0] > 0:
        points = f"{100 * value:.1f} points ({100 * ends[0]:.0f} to {100 * ends[1]:.0f})"
        yield Finding(
            f"A foreign object in the picture harms other detections at {_percent(harm['object'] / 100, None)} of "
            f"positions, {points} more than a patch of background in its place.{_harmed_by(document)}",
            "Add images with objects in unusual places to the training data; `misdetect show` lists the worst pairs.",
            value,
            _pair(ends),
            "scan",
            "insertion",
        )


def _uncovered(document: Document) -> Mapping[str, int]:
    """Detections that a foreign object takes away without covering them, by mechanism."""
    return (document.get("mechanisms") or {}).get("uncovered") or {}


def _harmed_by(document: Document) -> str:
    """How most detections are harmed that the foreign object does not cover, where that is known."""
    outcomes = document.get("outcomes", {}).get("object", {})
    if _most({name: outcomes.get(name, 0) for name in ("renamed", "lost", "moved")}) == "renamed":
        return " Most of these are given another class."
    counts = _uncovered(document)
    mechanism = _most(counts)
    if mechanism not in _MECHANISMS:
        return ""
    why = _MECHANISMS[mechanism][0]
    return f" Of {sum(counts.values())} that are lost and not covered, {counts[mechanism]} are because {why}."


def _fuzz(document: Document) -> Iterator[Finding]:
    harmful, queries = document["harm"]["harmful"], document["queries"]
    if not harmful or not queries:
        return
    per, ends = document["harmful_per_1000"], document["intervals"].get("harmful_per_1000")
    if ends is not None and ends[0] > 0:
        worst = next((each for each in document["distinct"] if each["harm"] == "harmful"), None)
        shown = f" The worst: {worst['type']} {worst['label']} on {worst['image']}." if worst else ""
        yield Finding(
            f"{harmful} detections break when an object is inserted beside them, {per:.0f} per 1,000 questions.{shown}",
            "Replay them with `misdetect replay`; fuzz training photos, and train on what fails there: `misdetect "
            "harden --with failures:RUN`.",
            min(per / 1000, 1.0),
            (ends[0] / 1000, ends[1] / 1000),
            "fuzz",
            "insertion",
        )


def _verify(document: Document) -> Iterator[Finding]:
    row = document["with_localisation"]
    value, ends = row["missing_recall"], row["intervals"]["missing_recall"]
    if value is not None and value >= LEAST and ends is not None and ends[0] > 0:
        best = document["best_threshold"]["with_localisation"]["score"]
        yield Finding(
            f"{_percent(value, ends)} of the parts that are missing are reported as present.{_hang_on(document)}",
            "Raise the score threshold" + (f" to {best:g}, which suits F_vv best." if best is not None else "."),
            value,
            _pair(ends),
            "verify",
            "missing-part",
        )


def _hang_on(document: Document) -> str:
    """What most hallucinations hang on, if that is certain."""
    causes = (document.get("causes") or {}).items()
    found = next((name for name, each in causes if name in _CAUSES and (each["interval"] or [0])[0] > 0.5), None)
    return "" if found is None else f" Most hang on {_CAUSES[found]}."


def _attack(document: Document) -> Iterator[Finding]:
    clean, noise = document["clean"]["AP50"], document["attacks"].get("noise", {}).get("AP50")
    tried = {name: each for name, each in document["attacks"].items() if name not in ("noise", "fgsm")}
    if not tried or clean is None:
        return
    name, worst = min(tried.items(), key=lambda item: item[1]["AP50"])
    fall, ends = clean - worst["AP50"], worst["intervals"].get("fall")
    if fall >= LEAST and ends is not None and ends[0] > 0:
        beside = "" if noise is None else f" (random noise of that size: {noise:.2f})"
        yield Finding(
            f"A change of at most {document['settings']['eps']:g} of 255 per pixel takes AP50 from {clean:.2f} to "
            f"{worst['AP50']:.2f} (attack on {name}), a fall of {fall:.2f} ({ends[0]:.2f} to {ends[1]:.2f}){beside}.",
            "Where an attacker can reach the pixels, `misdetect harden --with adversarial`; else know that noise alone "
            "does not do this.",
            0.2 * fall,  # no accident: it takes an attacker
            (0.2 * ends[0], 0.2 * ends[1]),
            "attack",
            "attack",
        )


_READ: dict[str, Callable[[Document], Iterator[Finding]]] = {
    "doctor": _doctor,
    "score": _score,
    "explain": _explain,
    "scan": _scan,
    "fuzz": _fuzz,
    "verify": _verify,
    "attack": _attack,
}


def findings(documents: Mapping[str, Document]) -> list[dict[str, Any]]:
    """What the ``documents`` of studies, by name, say is wrong: JSON-able, the worst first."""
    found = [each for study, read in _READ.items() if study in documents for each in read(documents[study])]
    found = [_bounded(each, documents.get("explain", {})) for each in found]
    order = sorted(found, key=lambda each: (-_weight(each, found, documents), each.study != "explain"))
    return [asdict(each) for each in order]


def _bounded(one: Finding, explain: Document) -> Finding:
    """A limit that doctor only suspects costs no more than the misses that may be its doing."""
    if one.study != "doctor" or one.kind not in _LIMITS or one.interval is not None or not explain.get("objects"):
        return one
    cut = sum(explain["reasons"]["calibration"].get(reason, 0) for reason in _LIMITS[one.kind])
    return replace(one, value=max((cut + explain["mechanisms"].get("unknown", 0)) / explain["objects"], LEAST))


def _weight(one: Finding, found: Sequence[Finding], documents: Mapping[str, Document]) -> float:
    """What is at stake in ``one``, but no more than in what it follows from: a TIDE type from the mechanism behind most
    misses of that type; what a foreign object displaces from what is displaced without it."""
    cause = None
    if one.study == "score":
        flows = documents.get("explain", {}).get("sankey", ())
        cause = _most({mechanism: count for kind, mechanism, count in flows if kind == one.kind})
    elif one.study == "scan" and _most(_uncovered(documents["scan"])) == "calibration":
        cause = "calibration"
    return min([one.value, *(each.value for each in found if each.study == "explain" and each.kind == cause)])


def _pair(ends: Sequence[float] | None) -> tuple[float, float] | None:
    return None if ends is None else (float(ends[0]), float(ends[1]))


def _percent(value: float, ends: Sequence[float] | None) -> str:
    if ends is None:
        return f"{100 * value:.1f} %"
    low, high = (100 * end for end in ends)
    digits = 0 if high - low >= 2 else 1  # or a narrow interval would be told as "2 to 2"
    return f"{100 * value:.1f} % ({low:.{digits}f} to {high:.{digits}f})"

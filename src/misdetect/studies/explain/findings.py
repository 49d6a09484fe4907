"""What a checkup says of misses: each mechanism that is certain, what most misses by it are, what to do about it."""

from collections.abc import Iterator, Mapping
from typing import Any

from misdetect.studies.advice import LEAST, MECHANISMS, listed, most, pair, percent
from misdetect.studies.contract import Document, Finding
from misdetect.studies.explain.outside import UNKNOWN

_DISCARDED = {
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
"""More than ``discarded`` says, where one reason is behind most of it."""
SIZES = {"small": "below 32 px", "medium": "of 32 to 96 px", "large": "above 96 px"}
"""COCO's sizes, by the side of a square."""

_UNSEEN = (
    "of something that boxes alone do not tell",
    "Open the detector, and this names the step that loses them: a torch model opens as it is, an ONNX file with the "
    "extra 'onnx-torch'.",
)
_WORDS = {
    "size": "objects {}",
    "crowding": "objects with {}",
    "occlusion": "objects that are {}",
    "truncation": "objects that are {}",
    "aspect": "{} objects",
    "brightness": "objects of {} brightness",
}
"""How the slices of each attribute but the class are called."""
_PLAIN = {"clear": "not covered", "whole": "not cut by the border"}


def findings(document: Document, documents: Mapping[str, Document]) -> Iterator[Finding]:
    """The mechanisms that certainly lose objects."""
    if not document["objects"]:
        return
    rates = document["intervals"]["rates"]
    for name, (why, advice) in {**MECHANISMS, UNKNOWN: _UNSEEN}.items():
        count, ends = document["mechanisms"].get(name, 0), rates.get(name)
        share = count / document["objects"]
        if share >= LEAST and ends is not None and ends[0] > 0:
            typical = document.get("typical", {}).get(name)  # a checkup of an earlier version has none
            if name == "discarded":
                reasons = document["reasons"][name]
                why, advice = _DISCARDED.get(most(reasons) or "", (why, advice))
            elif typical is not None:
                advice = _advice(document, name, typical) or advice
            yield Finding(
                f"{percent(share, ends)} of the objects are missed because {why} ({count} of {document['objects']})."
                + ("" if typical is None or not _groups(typical) else f" Most often: {_groups(typical)}.")
                + _where(document, name),
                advice + _gain(document, name),
                share,
                pair(ends),
                "explain",
                name,
                brings=(name, *(kind for kind in document["tide"] if _behind(document, kind) == name)),
            )


def _advice(document: Document, mechanism: str, typical: Mapping[str, Any]) -> str | None:
    """What to do about the misses that there are; ``None`` where nothing more is known than the mechanism."""
    count, photos = document["mechanisms"][mechanism], listed(typical["images"])
    small = typical["sizes"]["small"]
    if mechanism in ("proposal", "regressor") and 2 * small > count:
        return f"Use a larger input, or cut the images into tiles: {small} of these {count} are {SIZES['small']}."
    if mechanism == "regressor":
        return f"See whether the annotated boxes fit tightly, first in {photos}."
    if mechanism == "interclass" and document["confusions"]:
        pairs = listed([f"{label} from {rival} ({n})" for label, rival, n in document["confusions"][:3]])
        return f"Add photos that teach it to tell {pairs}; `misdetect confusion` shows the objects."
    if mechanism == "background":
        score, found = typical["half"]
        lower = f"A score threshold of {score:g} reports up to {found} of them. " if found else ""
        what = _groups(typical, counted=False) or "such objects"
        return f"{lower}For {'the others' if found else 'them'}, train on more photos with {what}, as in {photos}."
    return None


def _groups(typical: Mapping[str, Any], *, counted: bool = True) -> str:
    """The kinds of objects that a tenth of the misses are of, twice at least: ``person below 32 px (41), …``."""
    least = max(0.1 * sum(typical["sizes"].values()), 2)
    often = [each for each in typical["groups"] if each[2] >= least]
    return listed([f"{label} {SIZES[size]}" + (f" ({n})" if counted else "") for label, size, n, _ in often])


def _gain(document: Document, mechanism: str) -> str:
    """What AP50 would be worth more if none were lost in this way."""
    gain = (document.get("potential") or {}).get(mechanism, {}).get("AP50_gain") or 0
    return f" All of them found would be worth up to {100 * gain:.0f} points of AP50." if gain >= LEAST else ""


def _behind(document: Document, tide: str) -> str | None:
    """The mechanism behind most misses of a TIDE type, which is not worth more than that."""
    return most({mechanism: count for kind, mechanism, count in document["sankey"] if kind == tide})


def _where(document: Document, mechanism: str) -> str:
    """Which objects a mechanism hits more often than the others, if that is certain."""
    for each in document["slices"]:
        if each["mechanism"] == mechanism and each["certain"]:
            rate, outside = 100 * each["rate"], 100 * each["rate_outside"]
            value = SIZES.get(each["value"], _PLAIN.get(each["value"], each["value"]))
            what = _WORDS.get(each["attribute"], "{}").format(value)
            return f" Hit hardest: {what} ({rate:.0f} % against {outside:.0f} % of the others)."
    return ""

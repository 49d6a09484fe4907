"""The verdict in words, with the numbers that say so: what the attack does, and which part of the detector gives way.

A function of the document alone. Localisation is judged by R_all (the attacked boxes under the clean image's scores),
classification by R_idx (the attacked scores in the clean image's places), both as a share of the clean AP50.
"""

from collections.abc import Sequence

from misdetect.drawing.words import number, percent, within
from misdetect.studies.attack.ladder import LEAST, STRONG, UNCHECKED
from misdetect.studies.attack.plan import NOISE
from misdetect.studies.contract import Document

HOLDS, FALLS = 0.8, 0.5
"""Shares of the clean AP50 from which on a part "holds", and below which it "falls"; between them it "weakens"."""


def verdict(document: Document, losses: Sequence[str]) -> Document:
    """``attack`` (what the ladder says), by loss what ``localisation`` and ``classification`` do and where the
    ``foreground`` goes, and all of it as sentences, ``says``."""
    ladder = document["ladder"]
    found: Document = {
        "attack": UNCHECKED if ladder is None or not ladder["images"] else ladder["verdict"],
        "rung": None if ladder is None else ladder["rung"],
        "localisation": {},
        "classification": {},
        "foreground": {},
        "says": [],
    }
    if not document["attacks"] or not document["right"]:
        return found | {"says": ["No image is done under every attack yet."]}
    says = [_strength(document, found["attack"])]
    for loss in losses:
        says.append(_effect(document, loss))
        parts = document["clsaval"].get(loss)
        if parts:
            for name, key in (("localisation", "r_all"), ("classification", "r_idx")):
                share = _share(parts[key]["AP50"], document["clean"]["AP50"])
                found[name][loss] = {"verdict": _word(share), "share": share}
            says.append(_parts(document, loss, found))
            found["foreground"][loss] = parts["r_idx"]["dcm"]["on_objects"]
            says.append(_foreground(loss, found["foreground"][loss]))
        else:
            says.append(_outside(document, loss))
    return found | {"says": says}


def _strength(document: Document, word: str) -> str:
    ladder = document["ladder"]
    kind = "transfer" if document["transfer"] else "white-box"
    if word == UNCHECKED:
        tried = f"on {ladder['images']} images only" if ladder is not None else "not at all"
        return (
            f"Whether this {kind} attack is strong enough was checked {tried} (--ladder {LEAST} or more): its numbers "
            "are lower bounds."
        )
    if word == STRONG:
        return (
            f"On {ladder['images']} images no step of the ladder is broken: {ladder['says']}. What is left under the "
            f"{kind} attack is what attacks of this kind leave."
        )
    return (
        f"{word[0].upper()}{word[1:]}, at the step {ladder['rung']!r}: {ladder['says']}. What survives below says "
        "nothing for the detector."
    )


def _effect(document: Document, loss: str) -> str:
    entry, clean, noise = document["attacks"][loss], document["clean"], document["attacks"][NOISE]
    return (
        f"{loss}: AP50 falls from {number(clean['AP50'])} to {number(entry['AP50'])}"
        f"{within(entry['intervals'].get('AP50'))}; {entry['lost']} of {document['right']} objects that were found are "
        f"lost ({percent(entry['success'], 0)}), by noise of the same size {percent(noise['success'], 0)}."
    )


def _parts(document: Document, loss: str, found: Document) -> str:
    parts = document["clsaval"][loss]
    boxes, scores = found["localisation"][loss], found["classification"][loss]
    return (
        f"{loss}: localisation {boxes['verdict']} (R_all AP50 {number(parts['r_all']['AP50'])}), classification "
        f"{scores['verdict']} (R_idx AP50 {number(parts['r_idx']['AP50'])})."
    )


def _foreground(loss: str, on_objects: Document) -> str:
    total = sum(on_objects.values())
    if not total:
        return f"{loss}: no box that was reported on an object stays on it."
    shares = {name: on_objects[name] / total for name in ("background", "other", "right")}
    most = "the background" if shares["background"] > shares["other"] else "other classes"
    most = "both background and other classes" if shares["background"] == shares["other"] else most
    lead = f"{loss}: foreground is lost to {most}" if shares["right"] < 1 else f"{loss}: no foreground is lost"
    said = {name: percent(share, 0) for name, share in shares.items()}
    return (
        f"{lead}: of {total:g} boxes that were reported and still lie on an object, {said['background']} are now "
        f"called background, {said['other']} another class, {said['right']} are right."
    )


def _outside(document: Document, loss: str) -> str:
    entry = document["attacks"][loss]
    return (
        f"{loss}: of {entry['lost']} lost objects {entry['renamed']} are reported as another class, the rest not at "
        "all; which part of the detector gives way cannot be seen from outside."
    )


def _share(value: float | None, of: float | None) -> float | None:
    return None if value is None or not of else value / of


def _word(share: float | None) -> str:
    if share is None:
        return "unknown"
    return "holds" if share >= HOLDS else "falls" if share < FALLS else "weakens"

"""The glossary: what each of our words means, in one sentence, and what words of earlier versions are called now.

``WORDS`` is what a page, the app and docs/words.md explain; ``RENAMED`` what ``--fail-if``, an option, a keyword, a
query and a run directory of an earlier version may still say.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

WORDS: Mapping[str, str] = {
    # what people bring
    "image": "One picture of the data, as its file has it.",
    "object": "One thing that an annotation says is in an image: a class and a box, sometimes a mask.",
    "ground truth": "The annotations of an image, which detections are compared with.",
    "class": "What an object or a detection is said to be, such as cup.",
    "detection": "What a detector answers: a box, a class and a score.",
    "box": "The rectangle around an object, along the sides of the image.",
    "score": "How sure the detector says it is of a detection, from 0 to 1.",
    "threshold": "The score from which on a detection counts.",
    "suppression": "Removing detections that overlap a better one of their class (NMS, non-maximum suppression).",
    "IoU": "How well two boxes agree: the area that they share, divided by the area that they cover together.",
    "AP": "Average precision: how well detections rank and fit, from 0 to 1, averaged over IoU from 0.5 to 0.95.",
    "AP50": "Average precision where a detection fits from an IoU of 0.5 on.",
    "interval": "Where the number would lie if other images of the same kind had been drawn, with the confidence said.",
    # what goes wrong
    "miss": "An object that no detection of its class fits.",
    "missed": "No detection of its class fits the object any more.",
    "ghost": "A detection where no object is.",
    "extra": "A detection came up that was not there before.",
    "hallucination": "A detection of something that is not there, such as a part that is missing.",
    "moved": "The detection is there, and its box no longer fits.",
    "renamed": "The detection is there, under another class.",
    "flicker": "A change of a detection whose score is so near the threshold that any edit may tip it.",
    "harm": "Whether a change makes the answer worse: harmful, harmless, an improvement, or unknown.",
    "attributable": "The object's own doing: a change that is no flicker, and that the control does not make.",
    "Cls": "TIDE's type of an error where the box fits and the class is wrong.",
    "Loc": "TIDE's type of an error where the class is right and the box fits badly.",
    "Both": "TIDE's type of an error where class and box are wrong.",
    "Dupe": "TIDE's type of an error where an object is found a second time.",
    "Bkg": "TIDE's type of an error where a detection lies on no object.",
    "Miss": "TIDE's type of an object that no other type of error explains.",
    # why objects are missed
    "mechanism": "Where a detector lost an object: proposal, regressor, interclass, background or discarded.",
    "proposal": "Mechanism of a miss: the detector never looked where the object is.",
    "regressor": "Mechanism of a miss: it looked there, and made the box worse.",
    "interclass": "Mechanism of a miss: the box was right, and another class scored higher.",
    "background": "Mechanism of a miss: the box was right, and the detector took it for background.",
    "discarded": "Mechanism of a miss: a right box was there after the network and was discarded: by suppression, a "
    "cap or the threshold.",
    "candidate": "A box that a detector considers on its way to its detections.",
    # what is tried
    "control": "The same thing put in without the object's meaning (a patch of texture), to tell what any change would "
    "do.",
    "adaptive": "A search that asks next where the answers so far promise most, instead of asking everything.",
    "S": "How well the other detections survive an object that is put in, from 0 (none) to 1 (all as before).",
    "τ": "The value of S below which a position counts as affected.",
    "eps": "How far an attack may change any pixel, in grey levels of 255.",
    "ladder": "Attacks of growing strength on the same images, to see whether an attack is strong enough to judge by.",
    "R_idx": "AP50 of the attacked detector only where the clean image has its detections: how well it classifies.",
    "R_all": "AP50 of the attacked boxes with the scores of the clean image: how well it locates.",
    "DCM": "Detection confusion matrix: what each object was taken for, and what each detection lies on.",
    "F_vv": "One number for a visual inspection: how well present parts are found and missing ones are noticed.",
    "naturalness": "How much of a photo an edit leaves as it was, from 0 to 1.",
    # what a detector lets us see
    "Detector": "Access level, boxes only: images go in, detections come out.",
    "Traced": "Access level, looks inside: every candidate, and why each was not kept.",
    "Differentiable": "Access level, gives gradients: which an attack needs.",
    "Trainable": "Access level, can be retrained: which harden needs.",
    # how work is kept
    "study": "One kind of question about a detector, such as scan or explain; each is a verb of the command line.",
    "case": "One unit of a study's work, such as one image; a run resumes at the first that is not done.",
    "run": "What a study found, as a directory that holds everything of it.",
    "document": "What a run says, as one JSON object: what --json prints.",
    "ledger": "One table over any runs, with one row per object and condition.",
    "gate": "A condition under which a command exits with 1, such as --fail-if 'miss_rate > 0.2'.",
    "finding": "Something that is wrong, in one sentence, with advice.",
}

SINCE = "0.2"
KEYS: Mapping[str, str] = {
    "null_control": "control",
    "null": "control",
    "null_failures": "control_failures",
    "null_asked": "control_asked",
    "beyond_null": "beyond_control",
    "calibration": "discarded",
}
"""Keys of documents, as a gate names them."""
SETTINGS: Mapping[str, str] = {"null": "control"}
"""Settings: keywords in Python, options, and what ``run.json`` has of them."""
COLUMNS: Mapping[str, str] = {"null_failed": "control_failed"}
"""Columns of rows."""
VALUES: Mapping[str, Mapping[str, str]] = {
    "mechanism": {"calibration": "discarded"},
    "condition": {"null": "control"},
}
"""Values, by the column (or the field of a column) that holds them."""
_WHY: Mapping[str, str] = {
    word: (plain := WORDS[word].removeprefix("Mechanism of a miss: "))[0].lower() + plain[1:]
    for word in ("control", "discarded")
}


def used(text: str) -> dict[str, str]:
    """The words of ``text`` that are explained, each with what it means, in the order of the glossary."""
    return {word: gloss for word, gloss in WORDS.items() if re.search(rf"(?<!\w){re.escape(word)}s?(?!\w)", text)}


def told(old: str, new: str) -> str:
    """The sentence that says what ``old`` is called now."""
    why = next((f"; {word} means: {gloss}" for word, gloss in _WHY.items() if word in new), ".")
    return f"{old!r} is called {new!r} since {SINCE}{why}"


def told_of(words: Iterable[str], renamed: Mapping[str, str]) -> str | None:
    """The same for the first of ``words`` that has been ``renamed``; ``None`` where none has."""
    return next((told(word, renamed[word]) for word in words if word in renamed), None)


def told_of_option(option: str) -> str | None:
    """The same for an option as it is written on the command line."""
    written = option.partition("=")[0]
    words = {f"{start}{old}": f"{start}{new}" for old, new in SETTINGS.items() for start in ("--", "--no-")}
    return told_of([written], {old.replace("_", "-"): new.replace("_", "-") for old, new in words.items()})


def told_of_query(sql: str) -> str | None:
    """The same for a query: a column that had another name, or a value that no row has any more."""
    for old, new in {**COLUMNS, **KEYS}.items():
        if "_" in old and re.search(rf"\b{old}\b", sql):
            return told(old, new)
    for column, renamed in VALUES.items():
        for old, new in renamed.items():
            if re.search(rf"\b{column}\b", sql, re.IGNORECASE) and f"'{old}'" in sql:
                return told(old, new)
    return None


def in_words_of_today(value: Any) -> Any:
    """A document that an earlier version wrote, with the keys and mechanisms of today."""
    if isinstance(value, dict):
        return {KEYS.get(key, key): in_words_of_today(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [in_words_of_today(each) for each in value]
    return VALUES["mechanism"].get(value, value) if isinstance(value, str) else value

"""What the labels of the cloud services mean: a map from each service's own words to class names.

The services answer from vocabularies that are open, partly unpublished and change without notice. A detector needs a
fixed list, so a label is looked up here, as names are joined everywhere; what is not found is left out and counted. The
maps name synonyms only: a label that says less than the class ("Vehicle") or something else is not forced into it.
"""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from misdetect.data.untrusted import parse, parse_yaml, read_bytes
from misdetect.detectors.http.formats import Found, four, number
from misdetect.nouns.labels import plain_name
from misdetect.said.errors import BadArray, BadSpec

_COMMON = {
    "motorcycle": "motorbike",
    "airplane": "aeroplane|plane",
    "fire hydrant": "hydrant",
    "cow": "cattle",
    "tie": "necktie",
    "frisbee": "flying disc",
    "skis": "ski",
    "sports ball": "ball|soccer ball|tennis ball|golf ball|cricket ball|rugby ball",
    "cup": "coffee cup|mug",
    "donut": "doughnut",
    "couch": "sofa",
    "potted plant": "houseplant",
    "dining table": "table|kitchen & dining room table",
    "tv": "television|monitor|computer monitor",
    "mouse": "computer mouse",
    "remote": "remote control",
    "keyboard": "computer keyboard",
    "cell phone": "mobile phone|smartphone",
    "microwave": "microwave oven",
    "refrigerator": "fridge",
    "clock": "alarm clock|analog clock|digital clock|wall clock",
    "hair drier": "hair dryer|blow dryer",
}
# Rekognition also reports each person as Man, Woman, Adult and the like, in boxes of their own: Person is enough.
_REKOGNITION = {
    "sports ball": "baseball (ball)|basketball (ball)|football (ball)|volleyball (ball)",
    "teddy bear": "teddy",
    "cake": "birthday cake",
}
# The names of Open Images, whose hierarchy makes these kinds of the class.
_GOOGLE = {
    "person": "man|woman|boy|girl",
    "car": "limousine|taxi|van",
    "boat": "barge|canoe|gondola",
    "bird": "blue jay|canary|chicken|duck|eagle|falcon|goose|magpie|ostrich|owl|parrot|penguin|raven|sparrow|swan|"
    "turkey|woodpecker",
    "cow": "bull",
    "bear": "brown bear|polar bear",
    "sports ball": "football|volleyball",
    "knife": "kitchen knife",
    "bowl": "mixing bowl",
    "sandwich": "submarine sandwich",
    "couch": "loveseat|sofa bed|studio couch",
}
_AZURE = {"person": "man|woman|boy|girl", "car": "taxi|van", "train": "passenger train", "sports ball": "football"}

SYNONYMS: dict[str, tuple[Mapping[str, str], ...]] = {
    "rekognition": (_COMMON, _REKOGNITION),
    "google-vision": (_COMMON, _GOOGLE),
    "azure-vision": (_COMMON, _AZURE),
    "max": (),
}
"""By service: class name to the other words for it. IBM MAX says COCO's names and needs none."""

OTHER_THINGS: dict[str, tuple[str, ...]] = {"google-vision": ("mouse",)}
"""By service: labels that are spelt like a class and mean something else. Google's Mouse is the animal."""

_LIMIT = 4 << 20
_counting = threading.Lock()


@dataclass(frozen=True)
class Sighting:
    """One box of an answer, not yet trusted, and what the service calls it: ``(label, score)``, the best first."""

    box: Any
    tags: Sequence[tuple[Any, Any]]


@dataclass(frozen=True)
class Labels:
    """Labels (by their ``plain_name``) to ``names``, or to ``None`` where one is known and not wanted.

    ``left_out`` counts what had no name; with ``strict`` that is an error of its image instead.
    """

    names: tuple[str, ...]
    known: Mapping[str, str | None]
    strict: bool = False
    left_out: Counter[str] = field(default_factory=Counter, compare=False)

    def found(self, sightings: Sequence[Sighting]) -> Found:
        """``sightings`` under class names. The first tag that has a name gives name and score.

        Services report one object under several labels. Where two of these mean one class, in the very same box, that
        is one detection with the higher score; the same label twice in one box is two, as the service said.
        """
        boxes: list[list[float]] = []
        scores: list[float] = []
        names: list[str] = []
        first: dict[tuple[str, tuple[float, ...]], tuple[str, int]] = {}
        for i, sighting in enumerate(sightings):
            named = self._named(sighting, i)
            if named is None:
                continue
            label, name, score = named
            box = four(sighting.box, f"the box of detection {i} ({label})")
            said, where = first.setdefault((name, tuple(box)), (label, len(boxes)))
            if said != label:
                scores[where] = max(scores[where], score)
                continue
            boxes.append(box)
            scores.append(score)
            names.append(name)
        return Found(boxes, scores, names)

    def _named(self, sighting: Sighting, i: int) -> tuple[str, str, float] | None:
        """Label, class name and score of a sighting; ``None`` where no label of it has a name."""
        unknown = ""
        for label, score in sighting.tags:
            if not isinstance(label, str) or not label:
                raise BadArray(f"the label of detection {i} should be text; found {str(label)[:80]!r}")
            name = self.known.get(plain_name(label))
            if name is not None:
                return label, name, number(score, f"the score of detection {i} ({label})")
            if plain_name(label) not in self.known:
                unknown = unknown or label
        if unknown and self.strict:
            raise BadArray(f"the label {unknown[:80]!r} has no class name (add it by labels=, or give unknown=drop)")
        with _counting:
            self.left_out[unknown or str(sighting.tags[0][0])] += 1
        return None


def service_labels(service: str, names: tuple[str, ...], own: Mapping[str, str | None], strict: bool) -> Labels:
    """The labels of ``service`` for ``names``: the names themselves, the synonyms of those that are among ``names``,
    and above both the user's ``own``."""
    spelt = {plain_name(name): name for name in reversed(names)}
    known: dict[str, str | None] = {}
    for table in SYNONYMS[service]:
        for name, words in table.items():
            if plain_name(name) in spelt:
                known |= {plain_name(word): spelt[plain_name(name)] for word in words.split("|")}
    known |= spelt | dict.fromkeys(map(plain_name, OTHER_THINGS.get(service, ())))
    return Labels(names, known | {plain_name(label): name for label, name in own.items()}, strict)


def read_labels(value: str, names: tuple[str, ...], spec: str) -> dict[str, str | None]:
    """The map in the JSON or YAML file that ``labels=value`` names: label to class name, or to null to leave it out."""
    path = Path(value)
    if not path.is_file() or path.stat().st_size > _LIMIT:
        raise BadSpec(f"{spec!r}: labels={value} is not a file of labels (JSON or YAML) that exists and is small.")
    data = read_bytes(path, what="labels", largest=_LIMIT)
    content = parse(data, path) if path.suffix.lower() == ".json" else parse_yaml(data, path)
    if not isinstance(content, dict) or not content:
        found = type(content).__name__ if content else "nothing"
        raise BadSpec(f'{spec!r}: {value} should map labels to class names, {{"Sofa": "couch"}}. Got {found}.')
    for label, name in content.items():
        if not isinstance(label, str) or not (name is None or name in names):
            raise BadSpec(
                f"{spec!r}: {value} gives {str(label)[:80]!r} the name {str(name)[:80]!r}, which is none of the "
                f"{len(names)} names ({', '.join(names[:4])}, …); give names=FILE, or null to leave the label out."
            )
    return content

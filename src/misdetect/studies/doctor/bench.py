"""``Bench``: a detector whose answers are taken down as they are, and whose spec's options are turned for single
pictures.

It is a detector like any other to the engine, so what is asked is cached, budgeted and resumed. A picture that is
``Wired`` names the options it is to be asked with, or that the reference is to be asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from misdetect.detectors import load_detector
from misdetect.engine.identity import known_by
from misdetect.nouns.detections import Detections, Said
from misdetect.nouns.picture import Picture, Pixels, digest
from misdetect.nouns.protocols import Detector
from misdetect.nouns.spec import Spec
from misdetect.said.errors import DetectorFailed, MisdetectError

Options = tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False)
class Wired:
    """``base``, to be shown to the detector with other ``options``, or to the ``reference``."""

    base: Picture = field(repr=False)
    options: Options = ()
    reference: bool = False

    @cached_property
    def key(self) -> str:
        return digest("wired", self.base.key, self.options, int(self.reference))

    def render(self) -> Pixels:
        return self.base.render()


def rewired(spec: str, options: Options) -> str:
    """``spec`` with ``options``; those that are empty are left out."""
    parsed = Spec.parse(spec)
    merged = {name.replace("_", "-"): value for name, value in parsed.options.items()}
    merged |= {name.replace("_", "-"): value for name, value in options}
    return f"{parsed.scheme}:{parsed.target}" + "".join(
        f",{name}={value}" for name, value in merged.items() if value != ""
    )


class Bench:
    """``detector``, and the ``reference`` it is compared with, where there is one."""

    def __init__(self, detector: Any, reference: Any = None) -> None:
        self.detector, self.reference = detector, reference
        self.names = tuple(detector.names)
        self.spec: str | None = getattr(detector, "spec", None)
        self.settings: dict[str, Any] = getattr(detector, "settings", {})
        self._variants: dict[Options, Detector] = {(): detector}
        own, other = (getattr(each, "fingerprint", None) for each in (detector, reference))
        if own and (reference is None or other):
            self.fingerprint = digest("bench", own, other or "")
        else:
            known = [known_by(each) for each in (detector, reference) if each is not None]
            self._misdetect_known_by = ", ".join(known)
        for name in ("batch_size", "concurrency", "limits", "counted_in", "close", "counted"):
            if hasattr(detector, name):
                setattr(self, name, getattr(detector, name))

    def __getattr__(self, name: str) -> Any:
        if name in ("budget", "asked_before") and "detector" in self.__dict__:  # of an endpoint, which charges itself
            return getattr(self.detector, name)
        raise AttributeError(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("budget", "asked_before"):
            setattr(self.detector, name, value)
        else:
            object.__setattr__(self, name, value)

    def detect(self, images: Sequence[Pixels]) -> list[Any]:
        """What the detector says, as it is wired."""
        return _said(self.detector, images)

    def detect_pictures(self, pictures: Sequence[Picture], images: Sequence[Pixels]) -> list[Any]:
        """What the detector says, each picture asked as it wants to be."""
        wired = [each if isinstance(each, Wired) else Wired(each) for each in pictures]
        groups: dict[tuple[Options, bool], list[int]] = {}
        for i, each in enumerate(wired):
            groups.setdefault((each.options, each.reference), []).append(i)
        found: dict[int, Any] = {}
        for (options, reference), rows in groups.items():
            asked = self.reference if reference else self._variant(options)
            said = _said(asked, [images[i] for i in rows], [wired[i].base for i in rows])
            found |= dict(zip(rows, said, strict=True))
        return [found[i] for i in range(len(wired))]

    def _variant(self, options: Options) -> Detector:
        if options not in self._variants:
            if self.spec is None:
                raise DetectorFailed("a detector without a spec has no options to turn.")
            self._variants[options] = load_detector(rewired(self.spec, options), self.names)
        return self._variants[options]

    def loads(self, options: Options) -> bool:
        """Whether the detector can be loaded with ``options`` at all, and has the same classes."""
        try:
            return tuple(self._variant(options).names) == self.names
        except MisdetectError:
            return False


def _said(detector: Any, images: Sequence[Pixels], pictures: Sequence[Picture] = ()) -> list[Any]:
    """What it says; an endpoint may also say why it has no answer: that its budget is spent, above all."""
    described = getattr(detector, "detect_pictures", None)
    answers = detector.detect(images) if described is None or not pictures else described(pictures, images)
    return [answer if isinstance(answer, Exception) else _as_said(answer) for answer in answers]


def _as_said(answer: Any) -> Said:
    found: Said | Detections = Said.of(answer)
    return found if isinstance(found, Said) else Said(found.boxes, found.scores, found.labels)

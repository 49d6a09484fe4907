"""The faults that can be planted in the glass box, each a small frozen value, and the answer that each one has.

A fault says *which* objects it may hit (class, size, region, rate) and *what* goes wrong with them. How that looks
inside the detector is in ``glassbox_inside``. ``parse_faults`` reads them from a spec: see docs/glassbox.md.
"""

from dataclasses import dataclass, fields
from enum import IntEnum
from hashlib import blake2b
from typing import Any, ClassVar

import numpy as np

from misdetect.detectors.glassbox.scene import Things
from misdetect.nouns.boxes import Bools
from misdetect.nouns.candidates import Reason
from misdetect.said.errors import BadSpec

SIZES = {"small": (0.0, 32.0**2), "medium": (32.0**2, 96.0**2), "large": (96.0**2, float("inf"))}
"""Square pixels, as COCO divides them: from the first up to, but without, the second."""


class Treatment(IntEnum):
    """What happens to an object's candidates."""

    HEALTHY = 0
    UNPROPOSED = 1
    SHIFTED = 2
    RENAMED = 3
    SUNK = 4
    MISRANKED = 5


MECHANISMS = {
    Treatment.UNPROPOSED: "proposal",
    Treatment.SHIFTED: "regressor",
    Treatment.RENAMED: "interclass",
    Treatment.SUNK: "background",
    Treatment.MISRANKED: "discarded",
}
"""Paper 3's name for the component that failed."""


@dataclass(frozen=True)
class Planted:
    """The known answer for one object: which ``fault`` hit it and what its diagnosis must say.

    ``object`` is its id in the data (-1, -2, … for pasted ones). ``effect`` is what the output shows of it:
    "vanished", "moved", "renamed", "hallucinated". ``mechanism`` is paper 3's (θ_loc .5, θ_cls .3), ``None`` where the
    object is not missed, or where a pasted object covers it so that no answer is claimed. ``reason`` is why a good
    candidate was dropped (discarded only); ``tide`` the type of the missed object, ``None`` where others overlap.
    """

    object: int
    label: int
    fault: str
    effect: str
    mechanism: str | None
    reason: Reason | None = None
    tide: str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Fault:
    """What all faults share: whom they may hit. ``classes`` by name (none: all); ``size`` "small", "medium", "large" or
    a range of square pixels "LOW:HIGH"; ``region`` x0, y0, x1, y1 as shares of the image, in which an object's centre
    must lie; ``rate`` the share of these that is hit, chosen by ``seed``, image and object, whatever else is there."""

    name: ClassVar[str]
    treatment: ClassVar[Treatment] = Treatment.HEALTHY

    classes: tuple[str, ...] = ()
    size: str = ""
    region: tuple[float, float, float, float] | None = None
    rate: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        self.area_range()
        self._require(0 <= self.rate <= 1, "rate", self.rate, "a share from 0 to 1")
        if self.region is not None:
            x0, y0, x1, y1 = self.region
            good = 0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1
            self._require(good, "region", self.region, "x0:y0:x1:y1 as shares of the image, x0 < x1, y0 < y1")

    def __repr__(self) -> str:
        given = [f for f in fields(self) if getattr(self, f.name) != f.default]
        return f"{type(self).__name__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in given)})"

    def _require(self, good: bool, option: str, found: object, wanted: str) -> None:
        if not good:
            raise BadSpec(f"The fault {self.name}: {option} should be {wanted}. Got {found!r}.")

    def area_range(self) -> tuple[float, float]:
        """Square pixels: from the first up to, but without, the second."""
        if not self.size:
            return 0.0, float("inf")
        if self.size in SIZES:
            return SIZES[self.size]
        low, colon, high = self.size.partition(":")
        try:
            bounds = float(low or 0), float(high or "inf")
        except ValueError:
            bounds = (1.0, 0.0)
        self._require(
            bool(colon) and 0 <= bounds[0] < bounds[1], "size", self.size, "small, medium, large or LOW:HIGH pixels²"
        )
        return bounds

    def selects(self, things: Things, names: tuple[str, ...], key: str, width: int, height: int) -> Bools:
        """Which of ``things`` ``[N]`` the fault may hit. Depends on each object alone."""
        low, high = self.area_range()
        chosen: Bools = (things.areas >= low) & (things.areas < high)
        if self.classes:
            chosen &= np.isin(things.labels, [names.index(name) for name in self.classes])
        if self.region is not None:
            x = (things.boxes[:, 0] + things.boxes[:, 2]) / (2 * width)
            y = (things.boxes[:, 1] + things.boxes[:, 3]) / (2 * height)
            x0, y0, x1, y1 = self.region
            chosen &= (x >= x0) & (x < x1) & (y >= y0) & (y < y1)
        if self.rate < 1:
            chosen &= np.array([self._die(key, token) < self.rate for token in things.tokens], dtype=np.bool_)
        return chosen

    def _die(self, key: str, token: str) -> float:
        thrown = blake2b(repr((self.name, self.seed, key, token)).encode(), digest_size=8).digest()
        return int.from_bytes(thrown, "little") / 2**64


@dataclass(frozen=True, kw_only=True, repr=False)
class _Shifts(Fault):
    shift: float = 0.6

    def __post_init__(self) -> None:
        super().__post_init__()
        # beyond .9 a box at the border would leave the image, and up to .5 the object may still count as found
        self._require(0 < self.shift <= 0.9, "shift", self.shift, "a share of the box's side, above 0 and up to 0.9")


@dataclass(frozen=True, kw_only=True, repr=False)
class _Renames(Fault):
    to: str = ""


@dataclass(frozen=True, kw_only=True, repr=False)
class _Near(Fault):
    distance: float = 32.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(self.distance >= 0, "distance", self.distance, "a number of pixels, 0 or more")


class NoProposal(Fault):
    """Nothing is proposed for the object: every box near it covers less than half."""

    name = "no-proposal"
    treatment = Treatment.UNPROPOSED


class Shift(_Shifts):
    """Good proposals, but the regressor moves them by ``shift`` of the box's side."""

    name = "shift"
    treatment = Treatment.SHIFTED


class OtherClass(_Renames):
    """The scores favour the class ``to`` (if not given, the next in the data's names)."""

    name = "other-class"
    treatment = Treatment.RENAMED


class Sink(Fault):
    """All class scores sink to the background."""

    name = "sink"
    treatment = Treatment.SUNK


class Misrank(Fault):
    """A poor box (IoU .42 with the object) scores above the good ones and suppresses them."""

    name = "misrank"
    treatment = Treatment.MISRANKED


class VanishNear(_Near):
    """The object sinks to the background when a pasted one comes within ``distance`` pixels of its box."""

    name = "vanish-near"
    treatment = Treatment.SUNK


@dataclass(frozen=True, kw_only=True, repr=False)
class MoveNear(_Near, _Shifts):
    """The object's box moves by ``shift`` of its side when a pasted one comes within ``distance`` pixels."""

    name = "move-near"
    treatment = Treatment.SHIFTED


@dataclass(frozen=True, kw_only=True, repr=False)
class RenameNear(_Near, _Renames):
    """The object is called ``to`` when a pasted one comes within ``distance`` pixels."""

    name = "rename-near"
    treatment = Treatment.RENAMED


@dataclass(frozen=True, kw_only=True, repr=False)
class TopK(Fault):
    """Only the ``k`` best (candidate, label) pairs of an image reach suppression. Hits whole images: no selection."""

    name = "top-k"
    k: int = 5

    def __post_init__(self) -> None:
        _whole_image(self)
        self._require(self.k >= 1, "k", self.k, "at least 1")


@dataclass(frozen=True, kw_only=True, repr=False)
class Cap(Fault):
    """At most ``cap`` detections per image. Hits whole images: no selection."""

    name = "cap"
    cap: int = 5

    def __post_init__(self) -> None:
        _whole_image(self)
        self._require(self.cap >= 1, "cap", self.cap, "at least 1")


@dataclass(frozen=True, kw_only=True, repr=False)
class HallucinatePart(_Near):
    """A missing part is detected at its likely box when at least ``neighbours`` present parts lie within ``distance``
    pixels of that box. For data with states."""

    name = "hallucinate-part"
    neighbours: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(self.neighbours >= 1, "neighbours", self.neighbours, "at least 1")


class Hallucinate(Fault):
    """A missing part is detected at its likely box, whatever is around it and wherever it is. For data with states."""

    name = "hallucinate"


class HallucinateContext(_Near):
    """A missing part is detected at its likely box, wherever that is in the frame, while at least one present part can
    be seen around it: within ``distance`` pixels, and most of it outside the box. For data with states."""

    name = "hallucinate-context"


class HallucinatePosition(Fault):
    """A missing part is detected where its likely box is in the unedited image, also when everything has moved. For
    data with states."""

    name = "hallucinate-position"


class HallucinateAppearance(Fault):
    """A missing part is detected at its likely box, wherever that is in the frame, while the pixels in the box are
    those of the unedited image. For data with states."""

    name = "hallucinate-appearance"


GHOSTLY = (HallucinatePart, Hallucinate, HallucinateContext, HallucinatePosition, HallucinateAppearance)
"""Faults that make a missing part seem present."""

FAULTS: dict[str, type[Fault]] = {
    kind.name: kind
    for kind in (
        NoProposal,
        Shift,
        OtherClass,
        Sink,
        Misrank,
        TopK,
        Cap,
        VanishNear,
        MoveNear,
        RenameNear,
        *GHOSTLY,
    )
}
NEAR = (VanishNear, MoveNear, RenameNear)


def _whole_image(fault: Fault) -> None:
    plain = not fault.classes and not fault.size and fault.region is None and fault.rate == 1
    fault._require(plain, "selection", repr(fault), "left out: it applies to whole images")


def parse_faults(target: str, shared: dict[str, str]) -> tuple[Fault, ...]:
    """The faults of ``NAME[/option=value…][+NAME…]``; ``shared`` options go to every fault that knows them."""
    if target in ("", "none"):
        if shared:
            raise BadSpec(f"glassbox:{target}: there is no fault that could take the option {next(iter(shared))!r}.")
        return ()
    made: list[Fault] = []
    used: set[str] = set()
    for text in target.split("+"):
        name, *own = text.split("/")
        if name not in FAULTS:
            raise BadSpec(f"glassbox:{target}: there is no fault {name!r} (known: none, {', '.join(FAULTS)}).")
        known = {"class" if f.name == "classes" else f.name for f in fields(FAULTS[name])}
        options = {key: value for key, value in shared.items() if key in known}
        used |= set(options)
        for item in own:
            key, equals, value = item.partition("=")
            if not equals or key not in known:
                raise BadSpec(f"glassbox:{target}: {name} has no option {item!r} (known: {', '.join(sorted(known))}).")
            options[key] = value
        made.append(FAULTS[name](**{_field(k): _value(name, k, v) for k, v in options.items()}))
    unused = sorted(set(shared) - used)
    if unused:
        raise BadSpec(f"glassbox:{target}: no fault has the option {unused[0]!r}; options of the data follow data=.")
    return tuple(made)


def _field(option: str) -> str:
    return "classes" if option == "class" else option


def _value(fault: str, option: str, text: str) -> Any:
    """An option's text as the type of its field."""
    try:
        if option == "class":
            return tuple(name.strip() for name in text.split(","))
        if option == "region":
            x0, y0, x1, y1 = (float(v) for v in text.split(":"))
            return x0, y0, x1, y1
        if option in ("seed", "k", "cap", "neighbours"):
            return int(text)
        return text if option in ("size", "to") else float(text)
    except ValueError:
        raise BadSpec(f"The fault {fault}: {option}={text} cannot be read; see docs/glassbox.md.") from None

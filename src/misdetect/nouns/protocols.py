"""The access levels of detectors, as structural protocols: nothing to inherit from.

A detector offers what it can; a study asks for what it needs with ``require`` and gets one plain sentence where the
detector offers less. Each level adds to the one before: ``Detector`` < ``Traced`` < ``Differentiable`` < ``Trainable``.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from misdetect.nouns.boxes import Floats
from misdetect.nouns.candidates import Candidates
from misdetect.nouns.detections import Detections, Truth
from misdetect.nouns.picture import Pixels
from misdetect.said.errors import LevelTooLow, MisdetectError

Loss = Literal["cls", "loc", "all"]


@runtime_checkable
class Detector(Protocol):
    """The black box: class names, and detections for a batch of images.

    It may also carry ``batch_size`` (how many images at once), ``images_per_call`` (where ``detect`` takes more than
    that and divides them itself), ``fingerprint`` (a hash of weights and settings; without it predictions are not
    cached between runs), ``settings`` (thresholds, for provenance), ``concurrency`` (how many ``detect`` calls may run
    at the same time; 1 if absent) and ``white_box()`` (see ``as_white_box``).
    """

    @property
    def names(self) -> Sequence[str]: ...

    def detect(self, images: Sequence[Pixels]) -> Sequence[Detections]:
        """One ``Detections`` per image, boxes in that image's pixels, labels indexing ``names``."""
        ...


@runtime_checkable
class Traced(Detector, Protocol):
    """A detector whose inside can be seen: ``detect`` is a selection from ``trace``."""

    def trace(self, images: Sequence[Pixels]) -> Sequence[Candidates]:
        """Every candidate the detector considered, one ``Candidates`` per image."""
        ...


@runtime_checkable
class Differentiable(Detector, Protocol):
    """A detector whose losses can be differentiated with respect to the pixels."""

    def gradient(self, images: Sequence[Floats], truths: Sequence[Truth], loss: Loss) -> tuple[Floats, list[Floats]]:
        """Per-image loss values ``[N]`` and gradients (each ``[H, W, 3]``, per unit of the 0..255 range).

        ``images`` are ``[H, W, 3]`` float32 in 0..255, so that an attack need not round; labels of ``truths`` index
        the detector's ``names``.
        """
        ...


@runtime_checkable
class Trainable(Detector, Protocol):
    """A detector that can be trained further."""

    def losses(self, images: Sequence[Floats], truths: Sequence[Truth]) -> Mapping[str, Any]:
        """Differentiable scalar losses of a batch in training mode, by name (torch tensors).

        Free adversarial training hands over torch tensors instead of arrays, of the same shape and range, which the
        gradients then have to reach.
        """
        ...

    def parameters(self) -> Iterable[Any]:
        """The trainable torch parameters."""
        ...

    def state(self) -> Mapping[str, Any]:
        """Everything that training changes, by name: the live parameters themselves, and the buffers. What is copied
        into these tensors is what the detector then is."""
        ...

    def save(self, path: Path) -> None:
        """Write the weights as safetensors."""
        ...

    def load(self, path: Path) -> None:
        """Read weights written by ``save``."""
        ...


LEVELS: tuple[tuple[str, type], ...] = (
    ("Trainable", Trainable),
    ("Differentiable", Differentiable),
    ("Traced", Traced),
    ("Detector", Detector),
)


PLAIN: Mapping[str, str] = {
    "Detector": "boxes only",
    "Traced": "looks inside",
    "Differentiable": "gives gradients",
    "Trainable": "can be retrained",
}
"""The levels in plain words."""
_NEEDED = {
    "Detector": "a detector",
    "Traced": "a detector that looks inside (Traced)",
    "Differentiable": "a detector that gives gradients (Differentiable)",
    "Trainable": "a detector that can be retrained (Trainable)",
}
_OFFERED = {
    "Detector": "returns boxes only",
    "Traced": "looks inside, and gives no gradients",
    "Differentiable": "gives gradients, and cannot be retrained",
    "Trainable": "can be retrained",
    "none": "is none",
}


def level(detector: object) -> str:
    """The highest level ``detector`` offers, by name; "none" for stored predictions and the like."""
    return next((name for name, protocol in LEVELS if isinstance(detector, protocol)), "none")


def in_words(name: str) -> str:
    """What a level is called where people meet it."""
    return PLAIN.get(name, name)


def require(detector: object, protocol: Any, study: str, instead: str) -> Any:
    """``detector`` if it offers ``protocol``, else a ``LevelTooLow`` that says what to use ``instead``."""
    if isinstance(detector, protocol):
        return detector
    needed, offered = _NEEDED[protocol.__name__], _OFFERED[level(detector)]
    raise LevelTooLow(f"{study} needs {needed}; {describe(detector)} {offered}: {instead}.")


def as_white_box(detector: Any) -> tuple[Any, str | None]:
    """What ``detector.white_box()`` opens, for a study that has to look inside; the detector as it is where it has no
    such method, or where that raises, and then why."""
    try:
        return (detector.white_box() if hasattr(detector, "white_box") else detector), None
    except MisdetectError as error:
        return detector, str(error)


def describe(detector: object) -> str:
    """How a detector is called in messages: its spec where it has one."""
    return str(getattr(detector, "spec", type(detector).__name__))

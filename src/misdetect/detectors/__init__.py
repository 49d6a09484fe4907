"""Detectors: one spec string names any of them, ``load_detector`` makes it.

Each family is a module of its own, imported only when its scheme is asked for, so that a missing optional dependency
matters to nobody else.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from misdetect.detectors.catalogue import family_of, load
from misdetect.nouns.protocols import Detector, require
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec


def load_detector(
    spec: str | object, names: Sequence[str] | None = None, *, counted: Path | None = None, limited: bool = False
) -> Detector:
    """The detector that a spec such as ``"zoo:yolox"`` names, or an object as one.

    An object with ``names`` and ``detect(images)`` is returned as it is; a torch module (torchvision's, transformers'
    or one that follows torchvision's convention) and a function become one, of classes ``names``. What was loaded from
    a spec carries its text as ``spec``; for an endpoint, ``names`` that are known from before save a request, and
    ``counted`` is the file in which a run that is ``limited``, by itself or by the spec, counts what it asks.
    """
    if not isinstance(spec, str):
        from misdetect.detectors.own import as_detector

        return as_detector(spec, names)
    found = load_any(spec, None if names is None else tuple(names), counted, limited)
    detector: Detector = require(
        found, Detector, "this", "use a detector that can be asked; score and verify take stored results"
    )
    return detector


def load_any(
    spec: str, names: tuple[str, ...] | None = None, counted: Path | None = None, limited: bool = False
) -> object:
    """What ``spec`` names, also where it is no ``Detector``: ``predictions:`` cannot look at new images."""
    parsed = Spec.parse(spec)
    parsed.known_names, parsed.counted, parsed.limited = names, counted, limited
    later = parsed.options.pop("weights", None) if family_of(parsed).trained_later else None
    try:
        detector = load(parsed)
    except BadSpec as error:
        raise BadSpec(parsed.misspelt() or str(error)) from error
    if later is not None:
        detector.load(Path(later))  # type: ignore[attr-defined]
    if getattr(detector, "spec", None) != parsed.text:
        with contextlib.suppress(AttributeError):  # an object with slots is called by its class name in messages
            detector.spec = parsed.text  # type: ignore[attr-defined]
    return detector

"""Detectors: one spec string names any of them, ``load_detector`` makes it.

Each family is a module of its own, imported only when its scheme is asked for, so that a missing optional dependency
matters to nobody else.
"""

import contextlib
import importlib
from collections.abc import Callable, Sequence
from pathlib import Path

from misdetect.detectors.catalogue import FAMILIES
from misdetect.nouns.protocols import Detector, require
from misdetect.nouns.spec import Spec, did_you_mean
from misdetect.said.errors import BadSpec, MissingExtra

_TRAINED_LATER = ("hf", "yolox")
"""Schemes whose target has weights itself; ``weights=FILE`` are those of a training that began with them."""


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
    later = parsed.options.pop("weights", None) if parsed.scheme in _TRAINED_LATER else None
    try:
        detector = _loader(parsed)(parsed)
    except BadSpec as error:
        raise BadSpec(parsed.misspelt() or str(error)) from error
    if later is not None:
        detector.load(Path(later))  # type: ignore[attr-defined]
    if getattr(detector, "spec", None) != parsed.text:
        with contextlib.suppress(AttributeError):  # an object with slots is called by its class name in messages
            detector.spec = parsed.text  # type: ignore[attr-defined]
    return detector


def _loader(spec: Spec) -> Callable[[Spec], object]:
    family = FAMILIES.get(spec.scheme)
    if family is None:
        raise BadSpec(
            f"{spec.text!r}: there is no detector scheme {spec.scheme!r} (known: {', '.join(FAMILIES)})."
            f"{did_you_mean(spec.scheme, FAMILIES)}"
        )
    if family.extra and family.missing:  # now, and not from wherever its code first wants them
        raise MissingExtra.named(f"{spec.scheme}:", family.extra)
    module, _, function = family.loader.partition(":")
    try:
        loader: Callable[[Spec], object] = getattr(importlib.import_module(module), function)
    except ModuleNotFoundError as error:
        if family.extra is None or (error.name or "misdetect").partition(".")[0] == "misdetect":
            raise
        raise MissingExtra.named(f"{spec.scheme}:", family.extra) from error
    return loader

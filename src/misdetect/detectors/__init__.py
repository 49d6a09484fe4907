"""Detectors: one spec string names any of them, ``load_detector`` makes it.

Each family is a module of its own, imported only when its scheme is asked for, so that a missing optional dependency
matters to nobody else.
"""

import contextlib
import importlib
from collections.abc import Callable

from misdetect.detectors.catalogue import FAMILIES
from misdetect.errors import BadSpec, MissingExtra
from misdetect.spec import Spec


def load_detector(spec: str | object) -> object:
    """The detector that a spec such as ``"zoo:yolox"`` names; an object that is a detector is returned as it is.

    The result carries the spec's text as ``spec``. ``predictions:`` gives ``StoredPredictions``, which is no
    ``Detector``: it cannot look at new images.
    """
    if not isinstance(spec, str):
        from misdetect.detectors.python import check_detector

        return check_detector(spec, "load_detector")
    parsed = Spec.parse(spec)
    detector = _loader(parsed)(parsed)
    if getattr(detector, "spec", None) != spec:
        with contextlib.suppress(AttributeError):  # an object with slots is called by its class name in messages
            detector.spec = spec  # type: ignore[attr-defined]
    return detector


def _loader(spec: Spec) -> Callable[[Spec], object]:
    family = FAMILIES.get(spec.scheme)
    if family is None:
        raise BadSpec(f"{spec.text!r}: there is no detector scheme {spec.scheme!r} (known: {', '.join(FAMILIES)}).")
    module, _, function = family.loader.partition(":")
    try:
        loader: Callable[[Spec], object] = getattr(importlib.import_module(module), function)
    except ModuleNotFoundError as error:
        if family.extra is None or (error.name or "misdetect").partition(".")[0] == "misdetect":
            raise
        raise MissingExtra.named(f"{spec.scheme}:", family.extra) from error
    return loader

"""Detectors: one spec string names any of them, ``load_detector`` makes it.

Each family is a module of its own, imported only when its scheme is asked for, so that a missing optional dependency
matters to nobody else.
"""

import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from misdetect.data.dataset import Dataset
from misdetect.data.opened import Opened
from misdetect.detectors.catalogue import family_of, load, parse_spec
from misdetect.detectors.names import read_names
from misdetect.nouns.protocols import Detector, require
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec, MisdetectError


def load_detector(
    spec: str | object,
    names: Sequence[str] | None = None,
    *,
    data: str | Dataset | Opened | None = None,
    counted: Path | None = None,
    limited: bool = False,
) -> Detector:
    """The detector that a spec such as ``"zoo:yolox"`` or the path of a model names, or an object as one.

    An object with ``names`` and ``detect(images)`` is returned as it is; a torch module (torchvision's, transformers'
    or one that follows torchvision's convention) and a function become one, of classes ``names``. What was loaded from
    a spec carries its text as ``spec``; for an endpoint, ``names`` that are known from before save a request, and
    ``counted`` is the file in which a run that is ``limited``, by itself or by the spec, counts what it asks.

    What a spec leaves out and a file does not say is assumed, and tried on some images of ``data``, which it is to look
    at: the detector's ``assumed`` is then a sentence, and its ``spec`` the whole one.
    """
    if not isinstance(spec, str):
        from misdetect.detectors.own import as_detector

        return as_detector(spec, names)
    shown = Opened(data) if isinstance(data, str | Dataset) else data
    found = load_any(spec, None if names is None else tuple(names), counted, limited, shown)
    detector: Detector = require(
        found, Detector, "this", "use a detector that can be asked; score and verify take stored results"
    )
    return detector


D = TypeVar("D")


def remembered(detector: D, given: str, assumed: str) -> D:
    """``detector``, which says that ``assumed`` of what was ``given``: a spec that left something out."""
    own: Any = detector
    own.assumed, own.settings = assumed, {**own.settings, "given": given, "assumed": assumed}
    return detector


def load_any(
    spec: str,
    names: tuple[str, ...] | None = None,
    counted: Path | None = None,
    limited: bool = False,
    data: Opened | None = None,
) -> object:
    """What ``spec`` names, also where it is no ``Detector``: ``predictions:`` cannot look at new images."""
    parsed = parse_spec(spec)
    parsed.known_names, parsed.counted, parsed.limited = names, counted, limited
    if data is not None:
        parsed.data_names = partial(_classes, data)
    later = parsed.options.pop("weights", None) if family_of(parsed).trained_later else None
    try:
        detector = load(parsed)
    except BadSpec as error:
        raise BadSpec(parsed.misspelt() or str(error)) from error
    if later is not None:
        detector.load(Path(later))  # type: ignore[attr-defined]
    if getattr(detector, "guess", None) is not None:
        from misdetect.detectors.trial import settled

        return remembered(*settled(detector, spec, data))
    if assumed := getattr(detector, "assumed", None):
        remembered(detector, spec, assumed)
    if getattr(detector, "spec", None) != parsed.text:
        with contextlib.suppress(AttributeError):  # an object with slots is called by its class name in messages
            detector.spec = parsed.text  # type: ignore[attr-defined]
    return detector


def _classes(data: Opened) -> tuple[tuple[str, ...], str]:
    """The classes of ``data``, and the file that holds them in their order, where there is one."""
    names = tuple(data.whole.names)
    with contextlib.suppress(MisdetectError):  # no spec of a file, or no list of names in it after all
        file = Path(Spec.parse(data.whole.spec).target)
        listed = file.suffix.lower() in (".json", ".yaml", ".yml") and file.is_file()
        return names, str(file) if listed and read_names(str(file), str(file)) == names else ""
    return names, ""

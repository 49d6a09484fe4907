"""Every detector family that is installed, by the scheme of its specs: the project's own, then other packages'.

The list behind ``load_detector`` and ``misdetect detectors``. Looking at it imports the families' declarations and
nothing else, so it is complete whatever is installed.
"""

import importlib
from pathlib import Path
from typing import Any

from misdetect.detectors.family import CODE, Family
from misdetect.nouns.spec import Spec, did_you_mean
from misdetect.nouns.user_code import sentence
from misdetect.registry import DETECTORS, registered
from misdetect.said.errors import BadPlugin, BadSpec, DetectorFailed, MisdetectError, MissingExtra


def families() -> tuple[dict[str, Family], dict[str, BadPlugin]]:
    """The families by scheme, in the order in which they are listed; and why others that are installed cannot be
    used."""
    found: dict[str, Family] = {}
    broken: dict[str, BadPlugin] = {}
    for scheme, each in registered(DETECTORS).items():
        try:
            found[scheme] = each.load(Family)
        except BadPlugin as error:
            broken[scheme] = error
    return dict(sorted(found.items(), key=lambda item: (item[1].place, item[0]))), broken


def parse_spec(text: str) -> Spec:
    """The spec ``text``, which may also be the path of a file or folder that a family recognises."""
    return Spec.parse(text, recognised)


def recognised(path: str) -> str | None:
    """The scheme of the first family, in the order in which they are listed, that recognises ``path``."""
    for scheme, family in families()[0].items():
        try:
            if family.recognises(Path(path)):
                return scheme
        except Exception as error:  # whatever a stranger's package may raise
            each = registered(DETECTORS)[scheme]
            if each.own:
                raise
            raise each.broken(f"it cannot tell whether it recognises a path, {sentence(error).rstrip('.')}") from error
    return None


def family_of(spec: Spec) -> Family:
    """The family of ``spec``; only its own declaration is imported."""
    known = registered(DETECTORS)
    if spec.scheme in known:
        return known[spec.scheme].load(Family)
    schemes = list(families()[0])
    raise BadSpec(
        f"{spec.text!r}: there is no detector scheme {spec.scheme!r} (known: {', '.join(schemes)})."
        f"{did_you_mean(spec.scheme, schemes)}"
    )


def load(spec: Spec) -> object:
    """What ``spec`` names, by the loader of its family."""
    return _call(spec, family_of(spec).loader)


def look_into(spec: Spec) -> dict[str, Any]:
    """The document of ``misdetect detectors FILE``: what ``spec`` names, how it is to be used, and how sure that is. Of
    a family without a look of its own, what is loaded says it: its files state all there is to know."""
    family = family_of(spec)
    if family.look is not None:
        seen = _call(spec, family.look)
        found: dict[str, Any] = seen if isinstance(seen, dict) else seen.document(spec)
        return found
    if family.stored or not Path(spec.target).exists():
        raise BadSpec(f"Expected the file or folder of a model to look into. Got {spec.text!r}.")
    detector: Any = load(spec)
    names, settings = tuple(detector.names), getattr(detector, "settings", {})
    stated = {"names": f"{names[0]}, …", **{name: str(value) for name, value in settings.items()}}
    return {
        "file": spec.target,
        "spec": spec.text,
        "sure": True,
        "inputs": [],
        "outputs": [],
        "classes": len(names),
        "findings": [
            {"option": option, "value": value, "sure": True, "why": "the file or its default", "implied": True}
            for option, value in stated.items()
        ],
    }


def _call(spec: Spec, name: str) -> Any:
    """``name``, a ``module:function`` of the family of ``spec``, called with ``spec``."""
    each, family = registered(DETECTORS)[spec.scheme], family_of(spec)
    if family.extra and family.missing:  # now, and not from wherever its code first wants them
        raise MissingExtra.named(f"{spec.scheme}:", family.extra, family.package)
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except Exception as error:  # whatever a stranger's package may raise when it is imported
        absent = (error.name or "") if isinstance(error, ImportError) else ""
        if family.extra and absent and absent.partition(".")[0] not in (module.partition(".")[0], "cv2"):
            raise MissingExtra.named(f"{spec.scheme}:", family.extra, family.package) from error
        if each.own:
            raise
        raise each.broken(f"{name} cannot be imported, {sentence(error).rstrip('.')}") from error
    try:
        return found(spec)
    except MisdetectError:
        raise
    except Exception as error:
        if each.own:
            raise
        raise DetectorFailed(f"{spec.text!r}: the {each} raised {sentence(error)}") from error


def extra_of(module: str) -> str | None:
    """The smallest extra of misdetect that brings ``module`` (dotted or not), or ``None``: "torch" for "torch.nn"."""
    package = module.partition(".")[0]
    found, _ = families()
    return next((each.extra for each in found.values() if package in each.needs and each.package == "misdetect"), None)


def reach(spec: str) -> str | None:
    """What loading ``spec`` would do beyond this machine's own files, which nobody should do because a stranger's file
    says so; ``None`` if nothing."""
    if "python:" in spec.lower() or "trust=" in spec:  # in an option, whatever the scheme
        return CODE
    try:
        parsed = parse_spec(spec)
        return family_of(parsed).reach(parsed)
    except BadSpec:
        return None  # it is not loaded


def is_stored(detector: object) -> bool:
    """Whether ``detector`` is a spec of answers that were given before."""
    try:
        return isinstance(detector, str) and family_of(parse_spec(detector)).stored
    except (BadSpec, BadPlugin):
        return False


def catalogue() -> list[dict[str, Any]]:
    """One JSON-able record per family, in the order of ``families``; of one that cannot be used, why."""
    found, broken = families()
    records: list[dict[str, Any]] = [
        {
            "scheme": scheme,
            "what": family.what,
            "level": family.level,
            "installed": not family.missing,
            "missing": list(family.missing),
            "extra": family.extra,
            "install": family.install,
            "example": family.example,
        }
        for scheme, family in found.items()
    ]
    return records + [{"scheme": scheme, "installed": False, "error": str(error)} for scheme, error in broken.items()]

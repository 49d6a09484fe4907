"""``python:`` — the user's own detector or decoder, by module or by file.

``python:package.module:factory`` or ``python:path/to/file.py:factory``; the factory is called with the spec's options
as keyword arguments (strings) and returns an object with ``names`` and ``detect(images)``. This runs the user's code:
it is meant for code they wrote or trust, unlike weights and data files.
"""

from collections.abc import Sequence

from misdetect.detectors.family import CODE, Family, named
from misdetect.nouns.protocols import Detector
from misdetect.nouns.spec import Spec
from misdetect.nouns.user_code import resolve, sentence
from misdetect.said.errors import BadSpec, DetectorFailed, MisdetectError

FAMILY = Family(
    "your own: an object with names and detect(images)",
    "what it offers",
    "python:package.module:factory",
    "misdetect.detectors.python:load_python",
    recognises=named(".py"),
    reach=lambda spec: CODE,
    place=170,
)


def load_python(spec: Spec) -> object:
    """The detector that the factory named by ``spec`` returns."""
    factory, _ = resolve(spec.target, spec.text)
    for name in spec.options:
        spec.take(name, "")
    try:
        detector = factory(**spec.options)
    except MisdetectError:
        raise
    except (Exception, SystemExit) as error:
        raise DetectorFailed(f"{spec.text!r}: calling the factory raised {sentence(error)}") from error
    return check_detector(detector, spec.text)


def check_detector(detector: object, where: str) -> Detector:
    """``detector`` itself if it has ``names`` (a sequence of strings) and ``detect``, else a ``BadSpec``."""
    if isinstance(detector, type):
        raise BadSpec(f"{where}: expected a detector object. Got the class {detector.__name__}: make one of it.")
    missing = [what for what in ("names", "detect") if not hasattr(detector, what)]
    if missing or not callable(getattr(detector, "detect", None)):
        lacks = " and ".join(missing) or "a detect that can be called"
        raise BadSpec(
            f"{where}: expected an object with names and detect(images). "
            f"Got {type(detector).__name__}, lacking {lacks}."
        )
    assert isinstance(detector, Detector)
    names = detector.names
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(n, str) for n in names):
        raise BadSpec(f"{where}: expected names to be a sequence of strings. Got {type(names).__name__}.")
    return detector

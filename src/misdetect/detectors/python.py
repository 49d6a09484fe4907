"""``python:`` — the user's own detector or decoder, by module or by file.

``python:package.module:factory`` or ``python:path/to/file.py:factory``; the factory is called with the spec's options
as keyword arguments (strings) and returns an object with ``names`` and ``detect(images)``. This runs the user's code:
it is meant for code they wrote or trust, unlike weights and data files.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any

from misdetect.detectors.protocols import Detector
from misdetect.errors import BadSpec, DetectorFailed, MisdetectError
from misdetect.spec import Spec


def load_python(spec: Spec) -> object:
    """The detector that the factory named by ``spec`` returns."""
    factory, _ = resolve(spec.target, spec.text)
    for name in spec.options:
        spec.take(name, "")
    try:
        detector = factory(**spec.options)
    except MisdetectError:
        raise
    except Exception as error:
        raise DetectorFailed(f"{spec.text!r}: calling the factory raised {_sentence(error)}") from error
    return check_detector(detector, spec.text)


def check_detector(detector: object, where: str) -> object:
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


def resolve(target: str, where: str) -> tuple[Callable[..., Any], str]:
    """What ``module:attribute`` or ``file.py:attribute`` names, and a hash of the file it is defined in.

    The current folder is importable, and so is the folder of a file named by path, as if it had been run as a script.
    """
    module_name, colon, attribute = target.rpartition(":")
    if not colon or not module_name or not attribute:
        raise BadSpec(f"{where!r}: expected python:package.module:name or python:path/to/file.py:name. Got {target!r}.")
    _make_importable(Path.cwd())
    try:
        if module_name.endswith(".py"):
            module = _import_file(Path(module_name), where)
        else:
            module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise BadSpec(f"{where!r}: there is no module {error.name!r} here or among what is installed.") from error
        raise DetectorFailed(f"{where!r}: importing {module_name} raised {_sentence(error)}") from error
    except MisdetectError:
        raise
    except Exception as error:
        raise DetectorFailed(f"{where!r}: importing {module_name} raised {_sentence(error)}") from error
    found = getattr(module, attribute, None)
    if not callable(found):
        kind = "has no" if found is None else "has, but cannot call,"
        raise BadSpec(f"{where!r}: {module_name} {kind} {attribute!r}.")
    return found, _source_hash(module)


def _import_file(path: Path, where: str) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise BadSpec(f"{where!r}: there is no file {path.name!r} in {str(path.parent)!r}.")
    # Registered under a name of its own, so that two files called the same do not become one module.
    name = f"misdetect_user_{path.stem}_{blake2b(str(path).encode(), digest_size=4).hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    _make_importable(path.parent)
    loaded = importlib.util.spec_from_file_location(name, path)
    assert loaded is not None
    assert loaded.loader is not None
    module = importlib.util.module_from_spec(loaded)
    sys.modules[name] = module
    try:
        loaded.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _make_importable(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _source_hash(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    return blake2b(Path(file).read_bytes(), digest_size=16).hexdigest() if file else module.__name__


def _sentence(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text.rstrip('.')}." if text else f"{type(error).__name__}."

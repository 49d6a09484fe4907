"""The user's own code by name: ``package.module:name`` or ``path/to/file.py:name``.

This runs what it names: it is meant for code that the user wrote or trusts, unlike weights and data files.
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any

from misdetect.kept.files import read_regular
from misdetect.said.errors import BadSpec, DetectorFailed, MisdetectError

_LARGEST = 64 << 20


def resolve(target: str, where: str) -> tuple[Callable[..., Any], str]:
    """What ``module:attribute`` or ``file.py:attribute`` names, and a hash of the file it is defined in.

    The current folder is importable, and so is the folder of a file named by path, as if it had been run as a script.
    """
    module_name, colon, attribute = target.rpartition(":")
    if not colon or not module_name or not attribute or attribute[0] in "/\\":  # no name after C:\\file.py
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
        raise DetectorFailed(f"{where!r}: importing {module_name} raised {sentence(error)}") from error
    except MisdetectError:
        raise
    except (Exception, SystemExit) as error:
        raise DetectorFailed(f"{where!r}: importing {module_name} raised {sentence(error)}") from error
    found = getattr(module, attribute, None)
    if not callable(found):
        kind = "has no" if found is None else "has, but cannot call,"
        raise BadSpec(f"{where!r}: {module_name} {kind} {attribute!r}.")
    return found, _source_hash(module)


def _import_file(path: Path, where: str) -> ModuleType:
    path = Path(os.path.realpath(path))
    if not path.is_file():
        raise BadSpec(f"{where!r}: there is no file {path.name!r} in {str(path.parent)!r}.")
    try:
        read_regular(path, _LARGEST)
    except OSError as error:
        raise BadSpec(f"{where!r}: {path} cannot be read: {error.strerror}.") from None
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


def sentence(error: BaseException) -> str:
    """What was raised, as the end of a sentence."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text.rstrip('.')}." if text else f"{type(error).__name__}."

"""Slow imports put off until what they import is called.

torchvision and transformers import torch's compiler, to mark functions for it, and scipy's optimisers, for one that
only training needs: well over a second, for nothing that detecting uses. ``imports_later`` lets them import stand-ins
that fetch the real thing when called.
"""

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_FUNCTIONS = {
    "torch._dynamo": (),
    "torch._dynamo.utils": ("is_compile_supported",),
    "scipy.optimize": ("linear_sum_assignment",),
}
_DECORATORS = {"torch._dynamo": ("disable", "allow_in_graph", "assume_constant_result")}


@contextmanager
def imports_later() -> Iterator[None]:
    """While this lasts, whoever imports one of these modules gets a stand-in, unless the real one is there already. Who
    wants more of it than is listed gets the real one."""
    names = [name for name in _FUNCTIONS if name not in sys.modules]
    stand_ins = {name: _stand_in(name) for name in names}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name, module in stand_ins.items():
            _withdraw(name, module)


def _stand_in(name: str) -> ModuleType:
    module = ModuleType(name)
    # parts of a package can be imported without it; what is a module, and no package, has none
    module.__path__ = [f"{folder}/{name.rpartition('.')[2]}" for folder in _folders(name)]

    def more(attribute: str) -> Any:
        if attribute.startswith("__"):  # somebody only looks at every module there is
            raise AttributeError(attribute)
        _withdraw(name, module)
        return getattr(importlib.import_module(name), attribute)

    module.__getattr__ = more  # type: ignore[method-assign]
    for function in _FUNCTIONS[name]:
        setattr(module, function, partial(_call, name, function))
    for decorator in _DECORATORS.get(name, ()):
        setattr(module, decorator, partial(_decorate, name, decorator))
    return module


def _folders(name: str) -> list[str]:
    """Where the package around module ``name`` lies."""
    spec = find_spec(name.partition(".")[0])
    return list(spec.submodule_search_locations or ()) if spec is not None and name.count(".") == 1 else []


def _withdraw(name: str, stand_in: ModuleType) -> None:
    if sys.modules.get(name) is stand_in:
        del sys.modules[name]


def _call(module: str, function: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(importlib.import_module(module), function)(*args, **kwargs)


def _decorate(module: str, decorator: str, function: Callable[..., Any] | None = None, *args: Any, **more: Any) -> Any:
    """A decorator, applied when what it decorates is called."""
    if function is None:
        return lambda decorated: _decorate(module, decorator, decorated, *args, **more)

    @wraps(function)
    def decorated(*given: Any, **named: Any) -> Any:
        return _call(module, decorator, function, *args, **more)(*given, **named)

    return decorated

"""A device that is not there: every tensor is on the CPU, and this mode remembers which of them a GPU would hold.

A module's parameters and buffers are *there*. So is what is made with a ``device=`` or brought by ``.to(device)``, and
what is computed from such tensors; all else lies on the CPU. What a GPU refuses, a call with tensors of both places or
``.numpy()`` of one that is there, is collected in ``refused``. Only calls from Python are seen, and no string counts as
a device: nobody here should name one.
"""

import traceback
from collections.abc import Iterator
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_TO_ARRAY = {"numpy", "__array__"}
_MOVES = {"to", "type_as", "copy_", "__set__", "_has_compatible_shallow_copy_type"}  # the last two: `Module.to`


class PretendedDevice(TorchFunctionMode):
    """Inside the block, ``refused`` gets a line for each call that would fail if ``module`` were on a GPU."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.refused: list[str] = []
        for tensor in chain(module.parameters(), module.buffers()):
            _put(tensor, True)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", str(func))
        given = list(_tensors((args, kwargs)))
        if _refuses(name, args, given):
            self.refused.append(f"{name} at {_caller()}")
        found = func(*args, **kwargs)
        if name == "__iter__":
            found = list(found)
        if name == "__set__" and isinstance(args[1], Tensor):  # of `.data`
            _put(args[0], _is_there(args[1]))
        there = _lands_there(name, args, kwargs, given)
        if isinstance(found, Tensor) and _is_there(found) != there and any(found is one for one in given):
            found = found.view_as(found)  # `.to` and `.cpu` of a tensor that is there already give it back itself
        for tensor in _tensors(found):
            if not any(tensor is one for one in given):
                _put(tensor, there)
        return iter(found) if name == "__iter__" else found


def _refuses(name: str, args: Any, given: list[Tensor]) -> bool:
    if name in _TO_ARRAY:
        return _is_there(args[0])
    if name in _MOVES:
        return False
    if name == "__getitem__":  # indices may be on the CPU
        return not _is_there(args[0]) and any(map(_is_there, given))
    if name == "__setitem__":
        given = [one for one in (args[0], args[2]) if isinstance(one, Tensor)]
    # single numbers are taken from the CPU
    return any(map(_is_there, given)) and any(one.ndim and not _is_there(one) for one in given)


def _lands_there(name: str, args: Any, kwargs: Any, given: list[Tensor]) -> bool:
    if name == "cpu":
        return False
    if any(isinstance(one, torch.device) for one in chain(args, kwargs.values())):
        return True
    if name in ("to", "type_as") and len(given) > 1:
        return _is_there(given[1])
    return any(map(_is_there, given))


def _is_there(tensor: Any) -> bool:
    return getattr(tensor, "is_there", False)


def _put(tensor: Any, there: bool) -> None:
    tensor.is_there = there


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tensors(one)


def _caller() -> str:
    """The line that made the call, and the one of this project that led to it."""
    frames = [f for f in traceback.extract_stack() if "/torch/" not in f.filename and f.filename != __file__]
    ours = [frame for frame in frames if "src/misdetect/" in frame.filename]
    places = [f"{f.filename.rpartition('site-packages/')[2]}:{f.lineno}" for f in (frames[-1], *ours[-1:])]
    return " from ".join(dict.fromkeys(places))

"""Half precision that ends before the losses: named modules answer in float32 whatever they compute in."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def widened(module: nn.Module, names: Sequence[str]) -> Iterator[None]:
    """Inside the block the modules of ``names`` answer in float32."""
    with ExitStack() as stack:
        for name in names:
            hook = module.get_submodule(name).register_forward_hook(lambda _module, _inputs, output: _wide(output))
            stack.callback(hook.remove)
        yield


def _wide(output: Any) -> Any:
    """``output`` with float32 wherever it holds bfloat16 tensors, in whatever container they come."""
    if isinstance(output, Tensor):
        return output.float() if output.dtype == torch.bfloat16 else output
    if isinstance(output, Mapping):
        return {name: _wide(value) for name, value in output.items()}
    if isinstance(output, tuple):
        return type(output)(*map(_wide, output)) if hasattr(output, "_fields") else tuple(map(_wide, output))
    return [_wide(value) for value in output] if isinstance(output, list) else output

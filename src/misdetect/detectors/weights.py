"""Reading and writing weights without ever running what a file contains.

Safetensors, or a torch file read with ``weights_only=True``; anything that would need unpickling is refused. A state
dict that does not fit is refused before a single tensor is copied, with the keys that do not fit.
"""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from misdetect.detectors.files import first_line
from misdetect.detectors.ultralytics import how_to_export, is_ultralytics
from misdetect.kept.files import LARGEST, open_regular, write_atomically
from misdetect.nouns.picture import digest
from misdetect.said.errors import BadWeights

_WRAPPERS = ("model", "state_dict", "model_state_dict", "ema", "module")


def read_weights(path: Path) -> dict[str, Tensor]:
    """The state dict in ``path`` (``.safetensors``, or a torch checkpoint of tensors only)."""
    if path.suffix == ".safetensors":
        return {name.removeprefix("module."): tensor for name, tensor in read_safetensors(path).items()}
    _check_size(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what matters is an error below
            content = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        if _first_byte(path) not in (b"P", b"\x80"):  # a zip archive, or a pickle
            raise BadWeights(f"{path} is not a torch checkpoint.") from error
        if is_ultralytics(path):
            raise BadWeights(f"{path}: {how_to_export(path)}") from None
        raise BadWeights(
            f"{path} is a pickle that holds more than tensors and could run code, so it is refused; where you trust "
            "it, convert it once: torch.save(torch.load(old, weights_only=False)['model'].state_dict(), new)."
        ) from None
    except Exception as error:  # a broken file can break torch's unpickler in any way
        raise BadWeights(f"{path} is not a readable torch checkpoint: {first_line(error)}") from None
    for wrapper in _WRAPPERS:  # training checkpoints wrap the state dict
        if isinstance(content, Mapping) and isinstance(content.get(wrapper), Mapping):
            content = content[wrapper]
    if not isinstance(content, Mapping) or not all(isinstance(v, Tensor) for v in content.values()) or not content:
        raise BadWeights(f"{path} does not hold a state dict (names to tensors).")
    return {str(name).removeprefix("module."): tensor for name, tensor in content.items()}


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors in a ``.safetensors`` file, by name."""
    _check_size(path)
    try:
        tensors: dict[str, Tensor] = load_file(path)
        return tensors
    except (SafetensorError, OSError, MemoryError) as error:
        raise BadWeights(f"{path} is not a readable safetensors file: {error}.") from None


def _check_size(path: Path) -> None:
    if not path.is_file():
        raise BadWeights(f"{path}: there is no such file.")
    if path.stat().st_size > LARGEST:
        raise BadWeights(f"{path} has {path.stat().st_size} bytes, and at most {LARGEST} are read.")


def _first_byte(path: Path) -> bytes:
    with open_regular(path) as file:
        return file.read(1)


def fit_weights(module: nn.Module, weights: Mapping[str, Tensor], where: object) -> None:
    """Copy ``weights`` into ``module``; a ``BadWeights`` names what is missing, unexpected or of another shape."""
    own = module.state_dict()
    optional = {name for name in own if name.endswith("num_batches_tracked")}
    missing = [name for name in own if name not in weights and name not in optional]
    unexpected = [name for name in weights if name not in own]
    shapes = [
        f"{name} is {list(weights[name].shape)}, the model has {list(own[name].shape)}"
        for name in own
        if name in weights and weights[name].shape != own[name].shape
    ]
    refuse_misfit(f"{where} does not fit the model", missing, unexpected, shapes)
    module.load_state_dict(dict(weights), strict=False)


def refuse_misfit(what: str, missing: Sequence[str], unexpected: Sequence[str], shapes: Sequence[str]) -> None:
    """A ``BadWeights`` that begins with ``what`` and names the first of each, where there are any."""
    complaints = [
        f"{len(found)} {kind}: {', '.join(found[:3])}{', …' if len(found) > 3 else ''}"
        for kind, found in (("missing", missing), ("unexpected", unexpected), ("of another shape", shapes))
        if found
    ]
    if complaints:
        hint = " (another number of classes?)" if shapes and not missing and not unexpected else ""
        raise BadWeights(f"{what}{hint}; {'; '.join(complaints)}.")


def write_weights(module: nn.Module, path: Path) -> None:
    """Write ``module``'s state dict to ``path`` as safetensors, whole or not at all."""
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in module.state_dict().items()}
    write_atomically(path, save(tensors))


def weights_digest(module: nn.Module) -> str:
    """A hash of every parameter and buffer, the same wherever the same weights are loaded."""
    parts: list[object] = []
    for name, tensor in sorted(module.state_dict().items()):
        value = tensor.detach().cpu()
        parts += [name, value.float().numpy() if value.dtype == torch.bfloat16 else value.numpy()]
    return digest(*parts)

"""A checkpoint: tensors by name and notes, in one safetensors file that is replaced as a whole."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from misdetect.kept.files import write_atomically
from misdetect.said.errors import BadWeights

Notes = dict[str, str]


def write_checkpoint(path: Path, tensors: Mapping[str, Tensor], notes: Notes | None = None) -> None:
    """Replace ``path``; after a crash there is the old checkpoint or the new one, nothing between."""
    held: set[int] = set()
    written = {}
    for name, value in tensors.items():
        tensor = value.detach().cpu().contiguous()
        memory = tensor.untyped_storage().data_ptr()
        written[name] = tensor.clone() if memory in held else tensor  # the format has no way to say "the same as"
        held.add(memory)
    write_atomically(path, save(written, notes))  # not by save_file, which leaves files of its own when it is killed


def read_notes(path: Path) -> Notes:
    """What was noted beside the tensors of ``path``."""
    try:
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise BadWeights(f"{path} is not a readable checkpoint ({error}); delete it to start again.") from None


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of ``path``."""
    found: dict[str, Tensor] = load_file(path)
    return found


def under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Those whose names begin with ``prefix``, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}

"""What is read of a model's folder in the layout of ``save_pretrained``: its configuration and its safetensors.

Weights are never unpickled, no code that comes with a model or is named by it is run, and a local folder never leads to
the hub: files are read here, and transformers is handed their contents.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from misdetect.data.untrusted import parse, read_bytes
from misdetect.detectors.files import first_line
from misdetect.detectors.hf.trace import FAMILIES, Family
from misdetect.detectors.torchvision import ops as torchvision_ops
from misdetect.detectors.weights import read_safetensors, refuse_misfit
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec, BadWeights, MissingExtra

_DOWNLOADED = ["*config.json", "model*.safetensors", "model.safetensors.index.json"]
_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
_SHARD = re.compile(r"[\w-][\w.-]*\.safetensors")
_CONFIG_LIMIT = 16 << 20
_ATTENTION = [
    f"{a}{kind}_implementation{b}" for kind in ("attn", "experts") for a in ("", "_") for b in ("", "_internal")
]
"""Entries of a configuration that may name kernels on the hub: ``owner/kernels``, or ``flash_attention_2``, which is
looked for there where it is not installed."""
_OWN_ATTENTION = ("eager", "sdpa")
_REFUSED = ("quantization_config", "fusion_config", "kernel_config")
"""Entries for which transformers would load other packages or kernels. What ``auto_map`` names is never loaded: the
classes are transformers' own."""


def find_folder(spec: Spec) -> Path:
    """The local folder that ``spec`` names, or the hub's files of that id in the local cache."""
    target = spec.target
    path = Path(os.path.expanduser(target))
    if target and path.is_dir():
        return path
    if path.is_file():
        raise BadSpec(f"{spec.text!r}: {target} is a file; give the folder that holds config.json and the weights.")
    if not _ID.fullmatch(target):
        raise BadSpec(f"{spec.text!r}: there is no folder {target!r}, and it is not an id such as 'owner/model'.")
    transformers_package()
    from huggingface_hub import errors, snapshot_download

    try:
        return Path(snapshot_download(target, allow_patterns=_DOWNLOADED))
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError):
        raise BadSpec(f"{spec.text!r}: there is no folder {target!r}, and no such public model on the hub.") from None
    except (errors.HFValidationError, errors.HfHubHTTPError) as error:
        raise BadSpec(f"{spec.text!r}: the hub refused {target!r}: {first_line(error)}") from None
    except Exception as error:  # no network shows in many ways: no name, no route, no certificate, offline by setting
        raise BadSpec(
            f"{spec.text!r}: there is no folder {target!r} and the hub cannot be reached ({type(error).__name__}); "
            f"where there is a network run 'hf download {target} --local-dir FOLDER', copy it here and give hf:FOLDER."
        ) from None


def read_configuration(folder: Path) -> tuple[Family, dict[str, Any]]:
    """The family of the model in ``folder``, and its ``config.json``, which may name no code and no other model."""
    path = folder / "config.json"
    if not path.is_file():
        raise BadSpec(f"{folder} has no config.json; give a folder written by save_pretrained.")
    config = parse(read_bytes(path, what="a model's configuration", largest=_CONFIG_LIMIT), path)
    for name, value in _entries(config):
        if name in _ATTENTION and value not in (None, *_OWN_ATTENTION):
            raise BadWeights(f"{path}: {name} names code to be fetched ({value!r:.60}), which is refused; remove it.")
        if name in _REFUSED and value:
            raise BadWeights(f"{path}: {name} is refused: such models are not plain weights. Give one without it.")
    kind = config.get("model_type") if isinstance(config, dict) else None
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise BadSpec(f"{path}: model_type is {kind!r:.60}; supported are {', '.join(FAMILIES)}.")
    return FAMILIES[kind], config


def _entries(config: Any) -> Iterator[tuple[str, Any]]:
    """Every entry of a configuration, also of those within it."""
    left = [config]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            yield from value.items()
            left += value.values()
        elif isinstance(value, list):
            left += value


@contextmanager
def _offline() -> Iterator[None]:
    """The hub is not asked, whatever a configuration names: a backbone, a kernel, a newer version."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def read_module(folder: Path, family: Family, config: dict[str, Any]) -> nn.Module:
    """The module with its weights. Files are read here and only their contents handed on, so that transformers finds no
    adapter, no pickle and no other file that a folder may hold."""
    weights = _read_weights(folder, family)
    transformers = transformers_package()
    with _quiet(transformers), _offline():
        try:
            kind = model_class(family.architecture)
            module, found = kind.from_pretrained(
                None,
                config=kind.config_class.from_dict(config),
                state_dict=weights,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # so that the complaint can name them
                dtype=torch.float32,
            )
        except ImportError as error:
            raise MissingExtra(f"{folder} needs a package that is not installed: {first_line(error)}") from error
        except Exception as error:  # a foreign configuration can be wrong in any way
            raise BadWeights(f"{folder} cannot be loaded as {family.architecture}: {first_line(error)}") from error
    _refuse_misfit(folder, found)
    return cast(nn.Module, module)


def _read_weights(folder: Path, family: Family) -> dict[str, Tensor]:
    """The tensors in the safetensors of ``folder``: one file, or several that an index lists."""
    names, index = ["model.safetensors"], folder / "model.safetensors.index.json"
    if not (folder / names[0]).is_file() and index.is_file():
        listed = parse(read_bytes(index, what="a list of weights", largest=_CONFIG_LIMIT), index)
        named = listed.get("weight_map") if isinstance(listed, dict) else None
        names = sorted(set(map(str, named.values()))) if isinstance(named, dict) else []
        if not names or not all(_SHARD.fullmatch(name) for name in names):
            raise BadWeights(f"{index}: 'weight_map' should name .safetensors files beside it. Got {names!r:.60}.")
    elif not (folder / names[0]).is_file():
        pickled = next((p.name for p in sorted(folder.glob("*.bin")) + sorted(folder.glob("*.pt*"))), None)
        if pickled:
            raise BadWeights(
                f"{folder / pickled} is a pickle, which could run code, so it is refused; where you trust it, convert "
                f"it once: {family.architecture}.from_pretrained(old, use_safetensors=False).save_pretrained(new)."
            )
        raise BadWeights(f"{folder} has no model.safetensors.")
    return {key: tensor for name in names for key, tensor in read_safetensors(folder / name).items()}


def _refuse_misfit(folder: Path, found: dict[str, Any]) -> None:
    missing = [str(name) for name in found.get("missing_keys", ()) if not str(name).endswith("num_batches_tracked")]
    shapes = [
        f"{name} is {list(stored)}, the model has {list(own)}"
        for name, stored, own in sorted(found.get("mismatched_keys", ()), key=str)
    ]
    refuse_misfit(f"The weights in {folder} do not fit its config.json", sorted(missing), (), sorted(shapes))


def transformers_package() -> Any:
    """The ``transformers`` package, imported in a way that survives a broken torchvision."""
    with suppress(MissingExtra):  # transformers does without torchvision, but not with one that fails to import
        torchvision_ops.load()
    try:
        import transformers
    except ModuleNotFoundError as error:
        raise MissingExtra.named("hf:", "hf") from error
    return transformers


def model_class(name: str) -> Any:
    """A model class of transformers, which imports each when it is first asked for."""
    return getattr(transformers_package(), name)


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """No warnings and progress bars of transformers: what matters of them becomes an error here."""
    logging = transformers.utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()

"""``torchscript:FILE,trust=yes,decoder=NAME,…`` — a detector as a TorchScript archive, run by torch.

An archive is a program: ``torch.jit.load`` compiles its code and runs what it says is to be done on loading, and the
operators that it may call write files (``aten::save``) and read them (``aten::from_file``). So nothing is loaded unless
the spec says ``trust=yes``. Without it, an archive is only looked at, as a zip file.
"""

import json
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from misdetect.detectors.exported import ExportedDetector, load_exported
from misdetect.detectors.files import file_hash, file_of, kind_of_file, last_line
from misdetect.detectors.look import Look, look_at
from misdetect.detectors.network import Exported, told
from misdetect.detectors.onnx.metadata import Metadata, as_texts
from misdetect.detectors.outputs import Array
from misdetect.detectors.ultralytics import export_first, is_ultralytics
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec, BadWeights

_LIMIT = 4 << 20
_ABOUT = "extra/config.txt"
"""What an exporter says of its file, beside the code: JSON, as Ultralytics writes it."""
_KEYS = {"boxes": "boxes", "scores": "scores", "labels": "labels", "pred_boxes": "boxes", "pred_logits": "logits"}
_WHY = "torchvision's modules take RGB in 0..1 and do the rest themselves"
_TORCHVISION = {"colour": ("rgb", _WHY), "scale": ("1/255", _WHY), "size": ("image", _WHY)}
_FOUND, _QUERIES = ("boxes", "scores", "labels"), ("logits", "boxes")


class TorchScriptNetwork:
    """A module of one tensor, or of a list of images as torchvision's are; see ``exported.Network``.

    It returns a tensor, a tuple of tensors, or dicts of boxes, scores and labels (torchvision) or of ``pred_boxes`` and
    ``pred_logits`` (DETR).
    """

    runtime = "TorchScript"
    classes: int | None = None

    def __init__(self, module: Any, spec: Spec) -> None:
        self._module = module
        _, image, *others = module.forward.schema.arguments
        needed = [other.name for other in others if not other.has_default_value()]
        takes, returns = str(image.type), str(module.forward.schema.returns[0].type)
        if needed or takes not in ("Tensor", "List[Tensor]"):
            raise BadSpec(f"{spec.text!r}: only modules of one image can be run. Got {module.forward.schema}.")
        self.listed, self.keyed = takes != "Tensor", "Dict" in returns
        queries = spec.options.get("decoder") in ("detr", "rtdetr")
        self.outputs = tuple(f"output{i}" for i in range(returns.count("Tensor")))
        if self.keyed:
            self.outputs = _QUERIES if queries else _FOUND
        elif "List" in returns or not self.outputs:
            raise BadSpec(f"{spec.text!r}: expected tensors or dicts of them as outputs. Got {returns}.")
        ragged = self.listed or (self.keyed and not queries)
        self.shape = [1 if ragged else None, 3, None, None]
        self.inputs = (told(image.name, "float32", self.shape),)
        self.dtype = next((_float(p.dtype) for p in module.parameters() if p.is_floating_point()), "float32")

    def run(self, tensor: Array) -> list[Array]:
        """The module's outputs for a batch."""
        import torch

        batch = torch.from_numpy(tensor)
        # unoptimised: torch would compile after the second call, and the last bits of the third be others
        with torch.inference_mode(), torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
            tensors = list(_tensors(self._module(list(batch) if self.listed else batch)))
        found = {key or f"output{i}": tensor for i, (key, tensor) in enumerate(tensors)}
        missing = [name for name in self.outputs if name not in found]
        if missing:
            raise ValueError(f"it returns {', '.join(found) or 'nothing'}, not {missing[0]}")
        return [found[name].float().numpy() for name in self.outputs]


def load_torchscript(spec: Spec) -> ExportedDetector:
    """The detector that ``spec`` describes; see docs/formats.md for its options."""
    return load_exported(spec, _exported(spec))


def look_into(spec: Spec) -> Look:
    """What can be found out about the archive that ``spec`` names; see ``look``."""
    return look_at(_exported(spec), spec)


def _exported(spec: Spec) -> Exported:
    path = file_of(spec)
    about = _look(path, spec)
    if not spec.take("trust", False):
        raise BadSpec(
            f"{spec.text!r}: a TorchScript file is a program that can write files when it is loaded, so it is refused; "
            "where you trust it, add trust=yes."
        )
    network = TorchScriptNetwork(_load(path), spec)
    found = network.outputs == _FOUND
    return Exported(
        path,
        network,
        [file_hash(path)],
        Metadata.of(about, spec.text),
        stated={"decoder": "nms"} if found else {},
        usual=_TORCHVISION if found else {},
        first_label=1 if found else None,  # torchvision's label 0 is the background
        tries=(2, 1),
    )


def _look(path: Path, spec: Spec) -> dict[str, str]:
    """What the archive says of itself; an error where it is none. Nothing of it is unpickled or run."""
    if not zipfile.is_zipfile(path):
        raise BadWeights(f"{path} is not a TorchScript archive: {kind_of_file(path)}.")
    if is_ultralytics(path):
        raise export_first(spec)
    with zipfile.ZipFile(path) as archive:
        members = {name.partition("/")[2]: name for name in archive.namelist()}
        if "constants.pkl" not in members:
            found = "a torch checkpoint of weights alone" if "data.pkl" in members else "another zip file"
            raise BadWeights(f"{path} is not a TorchScript archive but {found}.")
        if _ABOUT not in members or archive.getinfo(members[_ABOUT]).file_size > _LIMIT:
            return {}
        try:
            return as_texts(json.loads(archive.read(members[_ABOUT])))
        except (ValueError, RecursionError, zipfile.BadZipFile):
            return {}


def _load(path: Path) -> Any:
    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return torch.jit.load(str(path), map_location="cpu").eval()  # type: ignore[no-untyped-call]
    except Exception as error:  # torch raises RuntimeErrors of many lines
        raise BadWeights(f"{path} cannot be loaded as TorchScript: {last_line(error)}") from error


def _tensors(result: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """The tensors in a module's result, each with the key of the dict that it is in, or an empty one."""
    if isinstance(result, dict):
        for own, value in result.items():
            yield from _tensors(value, str(own))
    elif isinstance(result, tuple | list):
        for value in result:
            yield from _tensors(value)
    else:
        yield _KEYS.get(key, key), result


def _float(dtype: Any) -> str:
    name = str(dtype).removeprefix("torch.")
    return name if name in ("float32", "float16") else "float32"

"""The graphs beside the zoo's YOLOX weights, for installations without torch: ``python tools/export_zoo.py``.

A graph (``weights/yolox.onnx``) holds no weights of its own: it says at which byte of ``yolox.safetensors`` each tensor
is, which ONNX Runtime reads as well as torch does. So there is one file of weights and one checksum, and training it
again changes both. Run this again where the network, or the order of tensors in the file, has changed.
"""

import io
import json
import struct
import sys
import warnings
from pathlib import Path

import onnx
import torch
from torch import Tensor, nn

from misdetect.detectors import load_detector
from misdetect.detectors.yolox.net import YOLOX
from misdetect.detectors.zoo.shipped import FOLDER, ZOO
from misdetect.kept.files import write_atomically


class Official(nn.Module):
    """``module`` with the outputs of the authors' export: offsets and log sizes, objectness and classes in 0..1."""

    def __init__(self, module: YOLOX) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        raw = self.module(x)
        return torch.cat([raw.offsets, raw.objectness[..., None].sigmoid(), raw.classes.sigmoid()], dim=-1)


def places(path: Path) -> dict[str, tuple[str, int, int]]:
    """The type, the first byte and the length of each tensor in a ``.safetensors`` file."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        found[name] = entry["dtype"], 8 + length + first, last - first
    return found


def graph(name: str, folder: Path = FOLDER) -> bytes:
    """The ONNX file of ``zoo:NAME``, which finds its tensors in the file of its weights beside it."""
    detector = load_detector(f"zoo:{name}")
    module = Official(detector.module.to(memory_format=torch.contiguous_format)).eval()  # type: ignore[call-overload]
    size, stream = detector.convention.width, io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            (torch.zeros(1, 3, size, size),),
            stream,
            dynamo=False,
            opset_version=17,
            input_names=["images"],
            output_names=["output"],
            dynamic_axes={"images": {0: "batch"}, "output": {0: "batch"}},
            training=torch.onnx.TrainingMode.PRESERVE,  # or batch normalisation would be folded into new weights
            do_constant_folding=False,
        )
    model = onnx.load_from_string(stream.getvalue())
    where, casts = places(folder / f"{name}.safetensors"), []
    for tensor in model.graph.initializer:
        kind, offset, length = where[tensor.name.removeprefix("module.")]
        if kind == "F16":  # kept as halves, computed with as floats: turned once, when the graph is opened
            half = f"{tensor.name}.half"
            casts.append(onnx.helper.make_node("Cast", [half], [tensor.name], to=onnx.TensorProto.FLOAT))
            tensor.name, tensor.data_type = half, onnx.TensorProto.FLOAT16
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.ClearField("raw_data")
        for key, value in (("location", f"{name}.safetensors"), ("offset", offset), ("length", length)):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, str(value)
    nodes = [*casts, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    for node in model.graph.node:
        node.doc_string = ""
    entry = model.metadata_props.add()
    entry.key, entry.value = "names", json.dumps(dict(enumerate(detector.names)))
    return model.SerializeToString()


def main() -> int:
    """Write the graph of every YOLOX of the zoo."""
    for name, entry in ZOO.items():
        if entry.family == "yolox":
            content = graph(name)
            write_atomically(FOLDER / f"{name}.onnx", content)
            print(f"{name}.onnx: {len(content)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())

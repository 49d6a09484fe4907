"""``openvino:FILE.xml,decoder=NAME,…`` — a detector in OpenVINO's format (the graph, and its weights in ``FILE.bin``
beside it), run by OpenVINO on the CPU. No extensions are loaded: the files are untrusted."""

from pathlib import Path
from typing import Any

import openvino

from misdetect.data.untrusted import parse_yaml, read_bytes
from misdetect.detectors.exported import ExportedDetector, load_exported
from misdetect.detectors.files import file_hash, kind_of_file, last_line
from misdetect.detectors.look import Look, look_at
from misdetect.detectors.network import Exported, told
from misdetect.detectors.onnx.metadata import Metadata, as_texts
from misdetect.detectors.outputs import Array
from misdetect.detectors.wiring import positive
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec, BadWeights

_DTYPES = {"f32": "float32", "f16": "float16", "u8": "uint8"}
_HEAD = 512
LIMITS = {"NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
"""One image after the other, in the same floats on every CPU: some would compute in bfloat16."""


class OpenVinoNetwork:
    """A compiled model of one image input; see ``exported.Network``."""

    runtime = "OpenVINO"
    classes: int | None = None

    def __init__(self, compiled: Any, spec: str) -> None:
        self._request = compiled.create_infer_request()
        first, *others = compiled.inputs
        if others:
            raise BadSpec(f"{spec!r}: the graph also wants {_name(others[0])!r}; only graphs of one image can be run.")
        shape, kind = first.partial_shape, first.element_type.to_string()
        if shape.rank.is_dynamic or len(shape) != 4 or kind not in _DTYPES:
            raise BadSpec(
                f"{spec!r}: expected an input of rank 4 such as [1, 3, H, W] of {', '.join(_DTYPES)}. "
                f"Got {_name(first)} {shape} of {kind}."
            )
        self.shape = [None if axis.is_dynamic else axis.get_length() for axis in shape]
        self.dtype = _DTYPES[kind]
        self.inputs = (told(_name(first), self.dtype, self.shape),)
        self.outputs = tuple(_name(output) for output in compiled.outputs)

    def run(self, tensor: Array) -> list[Array]:
        """The graph's outputs for a batch, in memory into which the next ones are written."""
        self._request.infer([tensor], share_inputs=True)
        return [output.data for output in self._request.output_tensors]


def load_openvino(spec: Spec) -> ExportedDetector:
    """The detector that ``spec`` describes; see docs/formats.md for its options."""
    return load_exported(spec, _exported(spec))


def look_into(spec: Spec) -> Look:
    """What can be found out about the graph that ``spec`` names; see ``look``."""
    return look_at(_exported(spec), spec)


def _exported(spec: Spec) -> Exported:
    path = Path(spec.target)
    if path.is_dir():  # Ultralytics exports a folder
        inside = sorted(path.glob("*.xml"))
        if len(inside) != 1:
            raise BadSpec(f"{spec.text!r}: there are {len(inside)} graphs in this folder; name one of them.")
        path = inside[0]
    weights = path.with_suffix(".bin")
    if not path.is_file():
        raise BadSpec(f"{spec.text!r}: there is no file {spec.target!r}.")
    with path.open("rb") as file:
        if b"<net" not in file.read(_HEAD):  # OpenVINO would try all other formats that it knows
            raise BadWeights(f"{path} is not a graph of OpenVINO: {kind_of_file(path)}.")
    if not weights.is_file():
        raise BadSpec(f"{spec.text!r}: the weights are missing: there is no file {weights.name!r} beside it.")
    network = OpenVinoNetwork(_compile(path, weights, positive(spec, "threads", 1)), spec.text)
    about = path.with_name("metadata.yaml")  # as Ultralytics writes it
    texts = as_texts(parse_yaml(read_bytes(about, what="metadata"), about)) if about.is_file() else {}
    return Exported(path, network, [file_hash(path), file_hash(weights)], Metadata.of(texts, spec.text))


def _compile(path: Path, weights: Path, threads: int) -> Any:
    core = openvino.Core()
    limits = LIMITS | {"INFERENCE_NUM_THREADS": threads}
    try:
        return core.compile_model(core.read_model(path, weights), "CPU", limits)
    except Exception as error:  # OpenVINO raises bare RuntimeErrors, whose last line says why
        raise BadWeights(f"{path} cannot be loaded by OpenVINO: {last_line(error)}") from error


def _name(port: Any) -> str:
    return str(port.any_name if port.names else port.node.friendly_name)

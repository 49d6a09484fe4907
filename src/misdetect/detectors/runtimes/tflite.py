"""``tflite:FILE,decoder=NAME,…`` — a detector in a TensorFlow Lite file, run by LiteRT on the CPU.

Quantised inputs and outputs are floats for everybody else: the file says their scale and zero point. In a graph that
ends with ``TFLite_Detection_PostProcess`` the outputs are told apart by that operator, since their names and order
differ between exporters. What a file says of itself beside its graph is read in ``tflite_metadata``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from ai_edge_litert.interpreter import Interpreter
from ai_edge_litert.schema_py_generated import Model
from flatbuffers import flexbuffers

from misdetect.detectors.exported import ExportedDetector, load_exported
from misdetect.detectors.files import file_hash, file_of, first_line, kind_of_file
from misdetect.detectors.look import Look, look_at
from misdetect.detectors.network import Exported, told
from misdetect.detectors.outputs import Array
from misdetect.detectors.quiet import silent
from misdetect.detectors.runtimes.tflite_metadata import convention_inside, metadata_beside
from misdetect.detectors.wiring import positive
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec, BadWeights

_POST_PROCESS = b"TFLite_Detection_PostProcess"
_ROLES = ("detection_boxes", "detection_classes", "detection_scores", "num_detections")
"""What that operator returns, in its order: boxes y0, x0, y1, x1 as shares of the image; labels from 0, without the
background; scores; how many of them count."""
_CV_TYPES = {"uint8": cv2.CV_8U, "int8": cv2.CV_8S}
_ENDS = {"uint8": (0, 255), "int8": (-128, 127)}
_MARK = b"TFL3"


class Suppression(NamedTuple):
    """A graph's ``TFLite_Detection_PostProcess``: the tensors that it writes, and how many classes it tells apart."""

    tensors: tuple[int, ...]
    classes: int | None


class TfliteNetwork:
    """An interpreter of one image input; see ``exported.Network``. ``stores`` is the type of the file's own input, and
    ``affine`` what floats that stands for, where it is quantised."""

    runtime = "LiteRT"

    def __init__(self, interpreter: Any, suppression: Suppression | None, spec: str) -> None:
        self._interpreter = interpreter
        first, *others = interpreter.get_input_details()
        if others:
            raise BadSpec(f"{spec!r}: the graph also wants {others[0]['name']!r}; only graphs of one image can be run.")
        signature = [int(size) for size in first["shape_signature"]]
        kind = np.dtype(first["dtype"]).name
        if len(signature) != 4 or kind not in ("float32", "uint8", "int8"):
            raise BadSpec(
                f"{spec!r}: expected an input of rank 4 such as [1, H, W, 3] of float32, uint8 or int8. "
                f"Got {first['name']} {signature} of {kind}."
            )
        self._image, self.stores = first["index"], kind
        self.affine, self._shape = Affine.of(first, spec), tuple(int(size) for size in first["shape"])
        self.shape = [size if size > 0 else None for size in signature]
        self.dtype = "float32" if self.affine or kind == "float32" else kind
        if self.dtype == "int8":
            raise BadSpec(f"{spec!r}: the input {first['name']} is int8, but the file states no scale for it.")
        self.inputs = (told(str(first["name"]), kind, self.shape),)
        outputs = interpreter.get_output_details()
        names = {detail["index"]: str(detail["name"]) for detail in outputs} | _signature(interpreter)
        if suppression is not None and set(suppression.tensors) == names.keys():
            names |= dict(zip(suppression.tensors, _ROLES, strict=True))
        self.classes = suppression.classes if suppression else None
        self._outputs = [(detail["index"], Affine.of(detail, spec)) for detail in outputs]
        self.outputs = tuple(names[detail["index"]] for detail in outputs)

    def run(self, tensor: Array) -> list[Array]:
        """The graph's outputs for a batch, quantised ones as the floats that they stand for."""
        if tensor.shape != self._shape:
            self._interpreter.resize_tensor_input(self._image, tensor.shape)
            self._interpreter.allocate_tensors()
            self._shape = tensor.shape
        if self.affine is not None:
            tensor = self.affine.quantise(tensor, self.stores)
        self._interpreter.set_tensor(self._image, tensor)
        self._interpreter.invoke()
        values = ((self._interpreter.get_tensor(index), affine) for index, affine in self._outputs)
        return [value if affine is None else affine.floats(value) for value, affine in values]


class Affine(NamedTuple):
    """How a quantised tensor stands for floats: ``value = (stored - zero) * scale``."""

    scale: float
    zero: int

    @classmethod
    def of(cls, detail: dict[str, Any], spec: str) -> "Affine | None":
        """That of a tensor by its ``detail``; ``None`` where it is not quantised."""
        found = detail["quantization_parameters"]
        if np.dtype(detail["dtype"]).kind not in "iu" or not len(found["scales"]):
            return None
        if len(found["scales"]) > 1:
            raise BadSpec(f"{spec!r}: the tensor {detail['name']} has a scale per channel; only one can be read.")
        return cls(float(found["scales"][0]), int(found["zero_points"][0]))

    def quantise(self, values: Array, kind: str) -> Array:
        """``values`` as they are stored in a tensor of ``kind``; those out of its range at the end of it."""
        flat = values.reshape(1, -1)
        stored = cv2.addWeighted(
            flat, 1 / self.scale, flat, 0, self.zero, dtype=_CV_TYPES[kind]
        )  # one pass, saturating
        result: Array = stored.reshape(values.shape)
        return result

    def floats(self, stored: Array) -> Array:
        """What ``stored`` stands for, float32."""
        result: Array = np.subtract(stored, np.float32(self.zero), dtype=np.float32)
        result *= np.float32(self.scale)
        return result


def load_tflite(spec: Spec) -> ExportedDetector:
    """The detector that ``spec`` describes; see docs/formats.md for its options."""
    return load_exported(spec, _exported(spec))


def look_into(spec: Spec) -> Look:
    """What can be found out about the file that ``spec`` names; see ``look``."""
    return look_at(_exported(spec), spec)


def _exported(spec: Spec) -> Exported:
    path = file_of(spec)
    with path.open("rb") as file:
        if file.read(8)[4:] != _MARK:
            raise BadWeights(f"{path} is not a TensorFlow Lite file: {kind_of_file(path)}.")
    interpreter = _open(path, positive(spec, "threads", 1))
    model = _read(path)
    suppression = _suppression(model)
    network = TfliteNetwork(interpreter, suppression, spec.text)
    detects = _ROLES[0] in network.outputs
    stated = {"decoder": "nms", "boxes": "yxyx", "units": "shares"} if detects else {}
    if "preset" not in spec.options:
        stated |= _convention(spec, network, model, suppression is not None)
    return Exported(
        path,
        network,
        [file_hash(path)],
        metadata_beside(path, spec.text),
        stated=stated,
        usual=_usual(network, stated, detects),
        first_label=0 if detects else None,
    )


def _convention(spec: Spec, network: TfliteNetwork, model: Any, suppresses: bool) -> dict[str, str]:
    """What the file states of its input; a spec that says how values are made says all of it.

    A graph with the operator of suppression comes from the Object Detection API, whose networks see RGB images,
    stretched; where such a graph wants bytes, they are the pixels, whatever floats they stand for.
    """
    stated: dict[str, str] = {}
    if _ROLES[0] in network.outputs and network.stores == "uint8":
        scale, zero = network.affine or (1.0, 0)
        stated = {"colour": "rgb", "scale": repr(scale), "mean": repr(scale * zero)}
    if network.dtype == "float32":
        stated |= convention_inside(model)
    if {"scale", "mean", "std"} & spec.options.keys():
        stated = {name: value for name, value in stated.items() if name == "colour"}
    return stated | ({"resize": "stretch"} if suppresses and stated else {})


_RANGES = {
    (0, 1): {"scale": "1/255"},
    (-1, 1): {"scale": "1/127.5", "mean": "1"},
    (0, 255): {"scale": "1"},
    (-2, 2.6): {"scale": "1/255", "mean": "0.485,0.456,0.406", "std": "0.229,0.224,0.225"},
}
"""The usual ranges of values, and what makes them of pixels."""


def _usual(network: TfliteNetwork, stated: Mapping[str, str], detects: bool) -> dict[str, tuple[str, str]]:
    """What is usual where the file does not state it: what a quantised input can hold are its values; networks of the
    Object Detection API see RGB in -1..1, stretched."""
    values, why = {}, ""
    if network.affine is not None and network.stores in ("uint8", "int8"):
        low, high = (network.affine.floats(np.array(each)) for each in _ENDS[network.stores])
        near = [ends for ends in _RANGES if max(abs(low - ends[0]), abs(high - ends[1])) < 0.12 * (ends[1] - ends[0])]
        values = _RANGES[near[0]] if near else {}
        why = f"the input holds values from {low:.3g} to {high:.3g}"
    if not detects:
        return {}
    own = "networks of the Object Detection API are trained so"
    options = {name: (value, why) for name, value in values.items()}
    options = options or {name: (value, own) for name, value in _RANGES[-1, 1].items()}
    options |= {"resize": ("stretch", own), "colour": ("rgb", own)}
    return {name: each for name, each in options.items() if name not in stated}


def _open(path: Path, threads: int) -> Any:
    try:
        with silent():  # LiteRT tells the world that it runs on the CPU
            interpreter = Interpreter(str(path), num_threads=threads)
            interpreter.allocate_tensors()
    except Exception as error:  # LiteRT raises ValueErrors and RuntimeErrors alike
        raise BadWeights(f"{path} cannot be loaded as a TensorFlow Lite file: {first_line(error)}") from error
    return interpreter


def _signature(interpreter: Any) -> dict[int, str]:
    """The names of the outputs in the file's signature, by tensor, where it has one."""
    if len(interpreter.get_signature_list()) != 1:
        return {}
    named = interpreter.get_signature_runner().get_output_details()
    return {detail["index"]: str(name) for name, detail in named.items()}


def _suppression(model: Any) -> Suppression | None:
    """The ``TFLite_Detection_PostProcess`` of a ``model`` (the schema's); ``None`` where it has none."""
    graph = model.Subgraphs(0)
    for operator in (graph.Operators(i) for i in range(graph.OperatorsLength())):
        if model.OperatorCodes(operator.OpcodeIndex()).CustomCode() == _POST_PROCESS:
            options = flexbuffers.Loads(bytes(operator.CustomOptionsAsNumpy()))
            classes = options.get("num_classes")
            return Suppression(tuple(int(i) for i in operator.OutputsAsNumpy()), classes)
    return None


def _read(path: Path) -> Any:
    """The schema's ``Model`` of a file that LiteRT has already checked."""
    return Model.GetRootAs(path.read_bytes(), 0)

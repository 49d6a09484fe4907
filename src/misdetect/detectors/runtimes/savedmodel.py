"""``savedmodel:FOLDER,names=…`` — a detector as a SavedModel, run by TensorFlow on the CPU.

The signature of the TensorFlow Object Detection API (``detection_boxes``, ``detection_classes``, ``detection_scores``,
``num_detections``) is known; other graphs are read by a decoder. A SavedModel is a program: before TensorFlow loads it,
its operators are looked at, and a graph that reads or writes files, prints or calls Python is refused unless the spec
says ``trust=yes``.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from misdetect.detectors.exported import ExportedDetector, load_exported
from misdetect.detectors.files import file_hash, first_line
from misdetect.detectors.look import Look, look_at
from misdetect.detectors.network import Exported, told
from misdetect.detectors.outputs import Array
from misdetect.detectors.quiet import silent
from misdetect.detectors.wiring import positive
from misdetect.kept.files import read_regular
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec, BadWeights

_SIGNATURE = "serving_default"
_GRAPH = "saved_model.pb"
_LARGEST = 2 << 30
"""Bytes of the largest graph that its format allows."""
_DETECTIONS = {"decoder": "nms", "boxes": "yxyx", "units": "shares", "colour": "rgb", "scale": "1", "resize": "stretch"}
"""What the signature of the Object Detection API means: RGB pixels in; boxes y0, x0, y1, x1 as shares of the image."""
_OUTSIDE = re.compile(
    "File|PyFunc|Print|Dataset|Reader|Save|Restore|Summary|Debug|Rpc|Remote|Send|Recv|Checkpoint|LoadAndRemap|Vocab|"
    "Proto|ImmutableConst|Collective|Dump|TPU"
)
"""Operators that reach beyond the graph, by what their names contain."""


class SavedModelNetwork:
    """A signature of one image input; see ``exported.Network``."""

    runtime = "TensorFlow"
    classes: int | None = None

    def __init__(self, model: Any, function: Any, spec: str) -> None:
        self._model, self._function = model, function  # the function does not keep its model's variables alive
        (self._name, first), *others = function.structured_input_signature[1].items()
        if others:
            raise BadSpec(f"{spec!r}: the graph also wants {others[0][0]!r}; only graphs of one image can be run.")
        sizes = first.shape.as_list() if first.shape.rank is not None else []
        self.dtype = first.dtype.name
        if len(sizes) != 4 or self.dtype not in ("uint8", "float32"):
            raise BadSpec(
                f"{spec!r}: expected an input of rank 4 such as [1, H, W, 3] of uint8 or float32. "
                f"Got {self._name} {sizes} of {self.dtype}."
            )
        self.shape = sizes
        self.inputs = (told(self._name, self.dtype, sizes),)
        self.outputs = tuple(sorted(function.structured_outputs))

    def run(self, tensor: Array) -> list[Array]:
        """The signature's outputs for a batch."""
        import tensorflow

        found = self._function(**{self._name: tensorflow.constant(tensor)})
        return [found[name].numpy() for name in self.outputs]


def load_savedmodel(spec: Spec) -> ExportedDetector:
    """The detector that ``spec`` describes; see docs/formats.md for its options."""
    return load_exported(spec, _exported(spec))


def look_into(spec: Spec) -> Look:
    """What can be found out about the graph that ``spec`` names; see ``look``."""
    return look_at(_exported(spec), spec)


def _exported(spec: Spec) -> Exported:
    folder = Path(spec.target)
    if not (folder / _GRAPH).is_file():
        raise BadSpec(f"{spec.text!r}: there is no SavedModel here: {str(folder / _GRAPH)!r} is missing.")
    _start(positive(spec, "threads", 1), spec)
    if not spec.take("trust", False):
        _refuse_outside(folder / _GRAPH, spec)
    model = _load(folder)
    if _SIGNATURE not in model.signatures:
        known = ", ".join(model.signatures) or "none"
        raise BadSpec(f"{spec.text!r}: the SavedModel has no signature {_SIGNATURE!r} (its signatures: {known}).")
    network = SavedModelNetwork(model, model.signatures[_SIGNATURE], spec.text)
    detects = "detection_boxes" in network.outputs
    stated = _DETECTIONS if detects else {}
    if detects and None in network.shape[1:3]:
        stated = stated | {"size": "image"}
    hashes = [part for file in _files(folder) for part in (file.relative_to(folder).as_posix(), file_hash(file))]
    return Exported(folder, network, hashes, stated=stated, first_label=1)


def _files(folder: Path) -> list[Path]:
    """Everything that decides what the model answers, in a fixed order."""
    beside = [file for part in ("variables", "assets") for file in sorted((folder / part).rglob("*"))]
    return [folder / _GRAPH, *(file for file in beside if file.is_file())]


def _start(threads: int, spec: Spec) -> None:
    """Import TensorFlow, without its log lines, to compute with so many threads."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with silent():
        import tensorflow
    tensorflow.get_logger().setLevel("ERROR")
    threading = tensorflow.config.threading
    try:
        threading.set_intra_op_parallelism_threads(threads)
        threading.set_inter_op_parallelism_threads(1)
    except RuntimeError:  # it has begun to compute in this process
        own = threading.get_intra_op_parallelism_threads()
        if "threads" in spec.options and own != threads:
            raise BadSpec(
                f"{spec.text!r}: threads={threads}, but TensorFlow already runs in this process, with {own or 'all'}."
            ) from None


def _load(folder: Path) -> Any:
    import tensorflow

    try:
        with silent():
            return tensorflow.saved_model.load(str(folder))
    except Exception as error:  # TensorFlow raises whatever the part of it that failed raises
        raise BadWeights(f"{folder} cannot be loaded by TensorFlow: {first_line(error)}") from error


def _refuse_outside(path: Path, spec: Spec) -> None:
    """Refuse a graph with an operator that reaches beyond it; its own saver is never called, and may be there."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    try:
        model = SavedModel.FromString(read_regular(path, _LARGEST))
    except (DecodeError, OSError) as error:
        raise BadWeights(f"{path} is not a SavedModel's graph: {first_line(error)}") from None
    if not model.meta_graphs:
        raise BadWeights(f"{path} is not a SavedModel's graph: there is none in it.")
    for graph in model.meta_graphs:
        for node in _nodes(graph):
            if _OUTSIDE.search(node.op):
                raise BadSpec(
                    f"{spec.text!r}: the graph has the operator {node.op} ({node.name}), which reaches beyond it, so "
                    "it is refused; where you trust it, add trust=yes."
                )


def _nodes(graph: Any) -> Iterator[Any]:
    """All nodes of a graph and its functions, but for the functions that only its saver calls."""
    saver = {graph.saver_def.save_tensor_name.partition(":")[0], graph.saver_def.restore_op_name}
    functions = {function.signature.name: function.node_def for function in graph.graph_def.library.function}
    savers = {name for node in graph.graph_def.node if node.name in saver for name in _called(node)}
    rest = [node for node in graph.graph_def.node if node.name not in saver]
    rest += [node for name, nodes in functions.items() if name not in savers for node in nodes]
    savers -= {name for node in rest for name in _called(node)}
    yield from (node for node in graph.graph_def.node if node.name not in saver or not _called(node))
    yield from (node for name, nodes in functions.items() if name not in savers for node in nodes)


def _called(node: Any) -> set[str]:
    """The names of the functions that ``node`` calls."""
    direct = {value.func.name for value in node.attr.values() if value.func.name}
    return direct | {function.name for value in node.attr.values() for function in value.list.func}

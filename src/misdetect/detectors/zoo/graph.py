"""``zoo:yolox`` and its like without torch: the same weights, run by ONNX Runtime.

``weights/NAME.onnx`` is a graph without weights; its tensors lie in ``NAME.safetensors`` beside it, the file that torch
reads too (``tools/export_zoo.py`` writes the graphs). It answers as the torch detector does, and nobody looks inside.
"""

from typing import Any

from misdetect.detectors.onnx.detector import OnnxDetector, load_with
from misdetect.detectors.wiring import positive
from misdetect.detectors.zoo.shipped import BATCH, FOLDER, ZOO, checked_weights
from misdetect.nouns.spec import Spec
from misdetect.said.errors import MissingExtra

_LIKE_TORCH = {"decoder": "yolox", "nms": "0.6", "max": "100"}
_OF_TORCH = {"weights", "device", "half"}
"""Options that only torch can heed."""
_STRIDES = {"bikes": {"strides": "4,8,16"}}
"""Where they are not YOLOX's usual ones, by the data that a detector is made for."""


class GraphDetector(OnnxDetector):
    """A detector of the zoo that is run without torch."""

    def white_box(self) -> Any:
        """Torch would look inside; without it, the error that says so."""
        raise MissingExtra.named(f"the inside of {self.spec}", "torch")


def load_graph(spec: Spec, score: float) -> GraphDetector:
    """The detector of ``zoo:NAME[,batch=N]`` with that ``score`` threshold; an error that names the extra where only
    torch can load it."""
    name = spec.target
    path = FOLDER / f"{name}.onnx"
    if not path.is_file() or spec.options.keys() & _OF_TORCH:
        raise MissingExtra.named("zoo:", "torch")
    batch = BATCH if spec.take("batch", "") == "auto" else positive(spec, "batch", BATCH)
    spec.finish()
    checked_weights(name)
    options = {**_LIKE_TORCH, **_STRIDES.get(ZOO[name].data, {}), "score": str(score), "batch": str(batch)}
    return load_with(GraphDetector, Spec(spec.text, "onnx", str(path), options))

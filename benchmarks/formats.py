"""What a detector in a file costs beyond its runtime: ratios of one run, for each spec.

    python benchmarks/formats.py [tflite:FILE,… openvino:FILE.xml,… --images FOLDER] [--repeats 5]
    python benchmarks/formats.py --onnx FILE.onnx,decoder=yolox,names=coco [--images FOLDER]

``--onnx`` takes a network that was trained, and converts it to OpenVINO and TorchScript. Without it and without specs,
a network of a small detector's size (320 x 320, 2000 candidates, 80 classes) is exported to ONNX, OpenVINO and
TorchScript, and where TensorFlow is installed one of the same layers to TensorFlow Lite, float and int8, and
SavedModel. ``runtime`` calls the runtime itself on ready arrays; ``adapter`` is the detector's ``infer`` on the
same arrays, ``decode`` what follows it, ``prepare`` what comes before. Each image is measured in all four ways in turn,
in seconds of the processor rather than of the clock, which other processes slow. Prints one JSON document.
"""

import json
import os
import tempfile
import warnings
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import Any

import cv2
import numpy as np
from _measuring import Parser

from misdetect.detectors import load_detector
from misdetect.detectors.exported import ExportedDetector

SIZE, CANDIDATES, CLASSES, RARE = 320, 2000, 80, 6.5
"""``RARE`` is taken from the logits: as many candidates pass the threshold as a real detector has."""
WIDTHS = (3, 32, 64, 128, 256)
STAGES = ("prepare", "runtime", "adapter", "decode")


def kernels(widen: int) -> list[np.ndarray]:
    """The kernels of the network's layers, as torch has them, each ``widen`` times as wide; the last makes candidates
    of what is left."""
    random = np.random.default_rng(0)
    widths = [WIDTHS[0], *(width * widen for width in WIDTHS[1:])]
    sizes = [(after, before, 3, 3) for before, after in pairwise(widths)]
    sizes += [((4 + CLASSES) * CANDIDATES // (SIZE // 16) ** 2, widths[-1], 1, 1)]
    return [random.normal(0, (2 / np.prod(size[1:])) ** 0.5, size).astype(np.float32) for size in sizes]


def torch_formats(folder: Path, widen: int) -> list[str]:
    """The network in ONNX, OpenVINO and TorchScript."""
    import openvino
    import torch

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ParameterList(torch.from_numpy(kernel) for kernel in kernels(widen))

        def forward(self, x: Any) -> Any:
            for layer in list(self.layers)[:-1]:
                x = torch.relu(torch.nn.functional.conv2d(x, layer, stride=2, padding=1))
            x = torch.nn.functional.conv2d(x, self.layers[-1]).reshape(1, 4 + CLASSES, -1)
            return torch.cat([SIZE * torch.sigmoid(x[:, :4]), torch.sigmoid(x[:, 4:] - RARE)], 1)

    images = torch.zeros(1, 3, SIZE, SIZE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(Network(), images, str(folder / "m.onnx"), dynamo=False)
        torch.jit.trace(Network().eval(), images).save(str(folder / "m.torchscript"))
    openvino.save_model(openvino.Core().read_model(folder / "m.onnx"), folder / "m.xml", compress_to_fp16=False)
    return [
        f"onnx:{folder}/m.onnx",
        f"openvino:{folder}/m.xml",
        f"torchscript:{folder}/m.torchscript,trust=yes,batch=1",
    ]


def converted(spec: str, folder: Path) -> list[str]:
    """A network in an ONNX file by its spec, in ONNX, OpenVINO and TorchScript."""
    import openvino
    import torch

    from misdetect.detectors.torchvision import ops

    ops.load()  # onnx2torch imports torchvision
    import onnx2torch

    path, _, options = spec.removeprefix("onnx:").partition(",")
    convention = load_detector(f"onnx:{path},{options}").preprocess  # type: ignore[attr-defined]
    width, height = convention.width, convention.height
    openvino.save_model(openvino.Core().read_model(path), folder / "real.xml", compress_to_fp16=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = onnx2torch.convert(path).eval()
        torch.jit.trace(module, torch.zeros(1, 3, height, width)).save(str(folder / "real.torchscript"))
    return [
        f"onnx:{path},{options}",
        f"openvino:{folder}/real.xml,{options}",
        f"torchscript:{folder}/real.torchscript,trust=yes,batch=1,size={width}x{height},{options}",
    ]


def tensorflow_formats(folder: Path, widen: int) -> list[str]:
    """The network in TensorFlow Lite, float and int8, and as a SavedModel."""
    import tensorflow as tf

    layers = [kernel.transpose(2, 3, 1, 0) for kernel in kernels(widen)]

    class Network(tf.Module):
        def __init__(self, unit: float) -> None:
            super().__init__()
            self.unit = unit

        @tf.function
        def __call__(self, images: Any) -> Any:
            x = images
            for layer in layers[:-1]:
                x = tf.nn.relu(tf.nn.conv2d(x, layer, 2, "SAME"))
            x = tf.transpose(tf.reshape(tf.nn.conv2d(x, layers[-1], 1, "SAME"), (1, -1, 4 + CLASSES)), (0, 2, 1))
            return {"output0": tf.concat([self.unit * tf.sigmoid(x[:, :4]), tf.sigmoid(x[:, 4:] - RARE)], 1)}

    noise = np.random.default_rng(1).random((8, 1, SIZE, SIZE, 3), np.float32)
    # boxes in pixels would leave scores, which share a tensor's steps with them, none: so exporters write shares
    for name, unit in (("float", SIZE), ("int8", 1)):
        module = Network(unit)
        function = module.__call__.get_concrete_function(tf.TensorSpec((1, SIZE, SIZE, 3), tf.float32, "images"))
        if name == "float":
            tf.saved_model.save(module, str(folder / "saved"), signatures=function)
        converter = tf.lite.TFLiteConverter.from_concrete_functions([function], module)
        if name == "int8":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = lambda: ([image] for image in noise)
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
            converter.inference_input_type = converter.inference_output_type = tf.int8
        (folder / f"{name}.tflite").write_bytes(converter.convert())
    return [f"tflite:{folder}/float.tflite", f"tflite:{folder}/int8.tflite", f"savedmodel:{folder}/saved"]


def rooms(count: int = 12) -> list:
    """Images where no folder of them is named."""
    from misdetect.data import load_data

    data = load_data("rooms:val")
    return [cv2.resize(np.asarray(data[i].render()), (SIZE, SIZE)) for i in range(count)]


def bare(spec: str) -> Any:
    """A function of a ready array that does nothing but call the runtime, as its own documentation does."""
    path, scheme = spec.partition(":")[2].partition(",")[0], spec.partition(":")[0]
    if scheme == "onnx":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        return lambda array: session.run(None, {name: array})
    if scheme == "openvino":
        import openvino

        from misdetect.detectors.runtimes.openvino import LIMITS

        model = openvino.Core().compile_model(path, "CPU", LIMITS | {"INFERENCE_NUM_THREADS": 1})
        return lambda array: model(array)
    if scheme == "tflite":
        from ai_edge_litert.interpreter import Interpreter

        interpreter = Interpreter(path, num_threads=1)
        interpreter.allocate_tensors()
        (image,), outputs = interpreter.get_input_details(), interpreter.get_output_details()

        def invoke(array: Any) -> Any:
            interpreter.set_tensor(image["index"], array)
            interpreter.invoke()
            return [interpreter.get_tensor(output["index"]) for output in outputs]

        invoke.dtype = image["dtype"]  # type: ignore[attr-defined]
        return invoke
    if scheme == "torchscript":
        import torch

        module = torch.jit.load(path).eval()

        def call(array: Any) -> Any:
            with torch.inference_mode():
                return module(torch.from_numpy(array))

        return call
    import tensorflow

    loaded = tensorflow.saved_model.load(path)
    function = loaded.signatures["serving_default"]
    (name,) = function.structured_input_signature[1]
    return lambda array: (loaded, function(**{name: tensorflow.constant(array)}))


def measure(detector: ExportedDetector, runtime: Any, images: list) -> dict[str, float]:
    """Seconds spent in each stage over all images, one at a time."""
    spent = dict.fromkeys((*STAGES, "detections"), 0.0)
    for i, image in enumerate(images):
        start = process_time()
        array, placements = detector.prepare([image])
        spent["prepare"] += process_time() - start
        ready, outputs = array.astype(getattr(runtime, "dtype", array.dtype)), []
        for stage in ("runtime", "adapter") if i % 2 else ("adapter", "runtime"):
            start = process_time()
            if stage == "runtime":
                runtime(ready)
            else:
                outputs = detector.infer(array)
            spent[stage] += process_time() - start
        start = process_time()
        (found,) = detector.decode(outputs, [image], placements)
        spent["decode"] += process_time() - start
        spent["detections"] += len(found)
    return spent


def compare(spec: str, images: list, repeats: int) -> dict[str, Any]:
    """The ratios of one detector."""
    detector = load_detector(spec)
    assert isinstance(detector, ExportedDetector), f"{spec} is no detector in a file"
    runtime = bare(spec)
    measure(detector, runtime, images)  # warm-up
    runs = [measure(detector, runtime, images) for _ in range(repeats)]
    best = {stage: min(run[stage] for run in runs) for stage in STAGES}
    whole = best["prepare"] + best["adapter"] + best["decode"]
    return {
        "infer_to_runtime": round(float(np.median([run["runtime"] / run["adapter"] for run in runs])), 3),
        "decode_share": round(best["decode"] / whole, 3),
        "detections_per_image": runs[0]["detections"] / len(images),
        "prepare_share": round(best["prepare"] / whole, 3),
        "timing": {f"{stage}_ms": round(best[stage] / len(images) * 1000, 3) for stage in STAGES},
    }


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("specs", nargs="*")
    parser.add_argument("--images", type=Path)
    parser.add_argument("--repeats", type=int, default=5, short=1)
    parser.add_argument("--limit", type=int, short=2, help="of the images")
    parser.add_argument("--onnx")
    parser.add_argument("--widen", type=int, default=1, help="layers so many times as wide: as slow as real networks")
    arguments = parser.parse_args()
    images = (
        [cv2.imread(str(file))[..., ::-1].copy() for file in sorted(arguments.images.iterdir())]
        if arguments.images
        else rooms()
    )[: arguments.limit]
    with tempfile.TemporaryDirectory() as folder:
        specs = arguments.specs + (converted(arguments.onnx, Path(folder)) if arguments.onnx else [])
        if not specs:
            made = torch_formats(Path(folder), arguments.widen)
            made += tensorflow_formats(Path(folder), arguments.widen) if find_spec("tensorflow") else []
            specs = [f"{spec},decoder=yolov8,names=coco,size={SIZE}" for spec in made]
        found = {spec.replace(folder, ""): compare(spec, images, arguments.repeats) for spec in specs}
    print(json.dumps({"detectors": found, "images": len(images), "load": os.getloadavg()}, indent=2, sort_keys=True))


if __name__ == "__main__":
    main()

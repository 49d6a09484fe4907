"""One tiny network, and every format that its detections must survive: written by the exporters themselves.

The weights are numbers of a seed; torch and TensorFlow compute the same with them. What needs TensorFlow takes seconds
to make, so some ``.tflite`` files are kept in ``models/``; ``python tests/detectors/exported_models.py`` makes them
again (``test_formats_tensorflow.py`` checks that they are what it would make).
"""

import io
import json
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np

WIDTH, HEIGHT, CLASSES = 96, 64, 3
NAMES = ("chair", "lamp", "rug")
KEPT = Path(__file__).parent / "models"
STEP = 16
ROWS, COLUMNS = HEIGHT // STEP, WIDTH // STEP
ULTRALYTICS = {"author": "Ultralytics", "task": "detect", "stride": 32, "imgsz": [HEIGHT, WIDTH]}
ULTRALYTICS |= {"names": dict(enumerate(NAMES))}
"""What Ultralytics writes into its files."""
WIRED = f"resize=letterbox,colour=rgb,scale=1/255,pad=114,size={WIDTH}x{HEIGHT}"
"""How pixels reach the network, in every format."""


def weights() -> dict[str, np.ndarray]:
    """The kernels, as torch has them (out, in, height, width), and the centres ``[cells, 2]`` of the grid's cells."""
    random = np.random.default_rng(21)
    y, x = np.mgrid[:ROWS, :COLUMNS]
    return {
        "first": random.normal(0, 0.25, (8, 3, 4, 4)).astype(np.float32),
        "second": random.normal(0, 0.35, (4 + CLASSES, 8, 4, 4)).astype(np.float32),
        "centres": ((np.stack([x.ravel(), y.ravel()], 1) + 0.5) / [COLUMNS, ROWS]).astype(np.float32),
    }


def by_hand(photo: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Boxes ``[cells, 4]`` cx, cy, w, h as shares of the input, and scores ``[cells, C]``, of a photo that the network
    sees as ``[64, 96, 3]`` in 0..1: strides as large as kernels make a convolution one product of patches."""

    def convolved(x: np.ndarray, kernel: np.ndarray) -> np.ndarray:
        rows, columns, channels = x.shape[0] // 4, x.shape[1] // 4, x.shape[2]
        return np.einsum("ayxbc,ncyx->abn", x.reshape(rows, 4, columns, 4, channels).transpose(0, 1, 3, 2, 4), kernel)

    own = weights()
    x = convolved(np.maximum(convolved(photo.astype(np.float64) - 0.5, own["first"]), 0), own["second"])
    x = x.reshape(ROWS * COLUMNS, 4 + CLASSES)
    sigmoid = 1 / (1 + np.exp(-x))
    boxes = np.concatenate([own["centres"] + 0.08 * np.tanh(x[:, :2]), 0.1 + 0.3 * sigmoid[:, 2:4]], 1)
    return boxes, sigmoid[:, 4:]


# --- torch -----------------------------------------------------------------------------------------------------------


def torch_network(kind: str):
    """The network for images ``[B, 3, 64, 96]`` in 0..1. ``raw`` returns YOLOv8's ``[B, 4 + C, N]``, ``shares``
    the same with boxes as shares of the input, ``queries`` DETR's logits ``[B, N, C]`` and boxes ``[B, N, 4]``."""
    import torch

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name, value in weights().items():
                self.register_buffer(name, torch.from_numpy(value))

        def forward(self, x):
            x = torch.relu(torch.nn.functional.conv2d(x - 0.5, self.first, stride=4))
            x = torch.nn.functional.conv2d(x, self.second, stride=4).flatten(2)
            centres = self.centres.T + 0.08 * torch.tanh(x[:, :2])
            boxes = torch.cat([centres, 0.1 + 0.3 * torch.sigmoid(x[:, 2:4])], 1)
            return boxes, x[:, 4:]

    class Raw(Network):
        def forward(self, x):
            boxes, logits = super().forward(x)
            size = torch.tensor([WIDTH, HEIGHT, WIDTH, HEIGHT], dtype=torch.float32)
            return torch.cat([boxes * size[None, :, None], torch.sigmoid(logits)], 1)

    class Shares(Network):
        def forward(self, x):
            boxes, logits = super().forward(x)
            return torch.cat([boxes, torch.sigmoid(logits)], 1)

    class Queries(Network):
        def forward(self, x):
            boxes, logits = super().forward(x)
            return logits.transpose(1, 2), boxes.transpose(1, 2)

    return {"raw": Raw, "shares": Shares, "queries": Queries}[kind]().eval()


def torchvision_like():
    """A scripted module as torchvision's detectors are: a list of images in, losses and a list of dicts out."""
    import torch

    class Found(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.raw = torch.jit.trace(torch_network("raw"), torch.zeros(1, 3, HEIGHT, WIDTH))

        def forward(self, images: list[torch.Tensor]) -> tuple[dict[str, torch.Tensor], list[dict[str, torch.Tensor]]]:
            found: list[dict[str, torch.Tensor]] = []
            losses: dict[str, torch.Tensor] = {}
            for image in images:
                rows = self.raw(image[None])[0].T
                scores, labels = rows[:, 4:].max(1)
                half = rows[:, 2:4] / 2
                boxes = torch.cat([rows[:, :2] - half, rows[:, :2] + half], 1)
                found.append({"boxes": boxes, "labels": labels + 1, "scores": scores})
            return losses, found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.script(Found())


def write_brightest(path: Path, units: str) -> None:
    """A scripted module for one image of any size: a box from the corner to the brightest pixel, in ``units``."""
    import torch

    class Brightest(torch.nn.Module):
        def __init__(self, shares: bool):
            super().__init__()
            self.shares = shares

        def forward(self, images: list[torch.Tensor]) -> list[dict[str, torch.Tensor]]:
            light = images[0].sum(0)
            height, width = light.shape[0], light.shape[1]
            place = int(light.argmax())
            box = torch.tensor([[0.0, 0.0, float(place % width + 1), float(place // width + 1)]])
            if self.shares:
                box = box / torch.tensor([float(width), float(height), float(width), float(height)])
            return [{"boxes": box, "labels": torch.ones(1, dtype=torch.int64), "scores": light.max()[None] / 3}]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(Brightest(units == "shares")).save(str(path))


def brightest(photo: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What that module finds: boxes, scores and labels."""
    light = photo.sum(2)
    y, x = np.unravel_index(light.argmax(), light.shape)
    return np.array([[0, 0, x + 1, y + 1]]), np.array([light.max() / 765]), np.zeros(1, int)


def write_onnx(path: Path, kind: str = "raw") -> None:
    import torch

    outputs = ["logits", "boxes"] if kind == "queries" else ["output0"]
    axes = {name: {0: "batch"} for name in ("images", *outputs)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            torch_network(kind),
            torch.zeros(2, 3, HEIGHT, WIDTH),
            str(path),
            input_names=["images"],
            output_names=outputs,
            dynamic_axes=axes,
            dynamo=False,
        )


def write_openvino(path: Path, source: Path) -> None:
    """The ONNX file ``source`` in OpenVINO's format; ``path`` ends with .xml."""
    import openvino

    openvino.save_model(openvino.Core().read_model(source), path, compress_to_fp16=False)  # convert_model phones home


def write_openvino_int8(path: Path, source: Path) -> None:
    """The ONNX file ``source`` quantised as OpenVINO stores it: what enters a convolution passes ``FakeQuantize``, and
    the CPU computes with bytes. Ranges are wide enough for photos in 0..1."""
    import openvino
    from openvino import opset13

    model = openvino.Core().read_model(source)
    for layer in [node for node in model.get_ops() if node.get_type_name() == "Convolution"]:
        reach = 0.5 if layer.input_value(1).get_shape()[1] == 3 else 6.0
        for port, (limit, levels) in enumerate(((reach, 256), (float(abs(weights_of(layer)).max()), 255))):
            low, high = (np.float32(end) for end in (-limit, limit))
            rounded = opset13.fake_quantize(layer.input_value(port), low, high, low, high, levels)
            layer.input(port).replace_source_output(rounded.output(0))
    model.validate_nodes_and_infer_types()
    openvino.save_model(model, path, compress_to_fp16=False)


def weights_of(layer) -> np.ndarray:
    """The kernel of a convolution in an OpenVINO graph."""
    return layer.input_value(1).get_node().data


def write_torchscript(path: Path, kind: str = "raw", about: str = "") -> None:
    import torch

    extra = {"config.txt": about} if about else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torchvision_like()
        if kind != "found":
            traced = torch.jit.trace(torch_network(kind), torch.zeros(2, 3, HEIGHT, WIDTH))
        torch.jit.save(traced, str(path), _extra_files=extra)


# --- TensorFlow ------------------------------------------------------------------------------------------------------


def tensorflow_module(kind: str, batch: int | None = 1):
    """The same network as a ``tf.Module`` of images ``[B, 64, 96, 3]`` in 0..1, with more kinds: ``suppressed`` ends
    with TFLite_Detection_PostProcess, ``detections`` has the signature of the Object Detection API (uint8 pixels)."""
    import tensorflow as tf

    class Network(tf.Module):
        def __init__(self):
            super().__init__()
            for name, value in weights().items():
                setattr(self, name, tf.Variable(np.moveaxis(value, (0, 1), (3, 2)) if value.ndim == 4 else value))

        def heads(self, x):
            x = tf.nn.relu(tf.nn.conv2d(x - 0.5, self.first, 4, "VALID"))
            x = tf.nn.conv2d(x, self.second, 4, "VALID")
            x = tf.reshape(x, (-1, ROWS * COLUMNS, 4 + CLASSES))
            boxes = tf.concat([self.centres + 0.08 * tf.tanh(x[..., :2]), 0.1 + 0.3 * tf.sigmoid(x[..., 2:4])], -1)
            return boxes, x[..., 4:]

        @tf.function
        def raw(self, images):
            boxes, logits = self.heads(images)
            pixels = boxes * tf.constant([WIDTH, HEIGHT] * 2, tf.float32)
            return {"output0": tf.transpose(tf.concat([pixels, tf.sigmoid(logits)], -1), (0, 2, 1))}

        @tf.function
        def shares(self, images):
            boxes, logits = self.heads(images)
            return {"output0": tf.transpose(tf.concat([boxes, tf.sigmoid(logits)], -1), (0, 2, 1))}

        @tf.function
        def queries(self, images):
            boxes, logits = self.heads(images)
            return {"logits": logits, "boxes": boxes}

        @tf.function
        def suppressed(self, images):
            boxes, logits = self.heads(images)
            x, y, w, h = (boxes[..., i] for i in range(4))
            encoded = tf.stack([10 * y, 10 * x, 5 * tf.math.log(h), 5 * tf.math.log(w)], -1)
            scores = tf.concat([tf.zeros_like(logits[..., :1]), tf.sigmoid(logits)], -1)
            anchors = tf.constant(np.tile(np.float32([0, 0, 1, 1]), (ROWS * COLUMNS, 1)))
            found = post_process(encoded, scores, anchors)
            return dict(zip(("b", "c", "s", "n"), found, strict=True))  # names that say nothing

        @tf.function
        def detections(self, images):
            pixels = tf.image.resize(tf.cast(images, tf.float32), (HEIGHT, WIDTH)) / 255.0
            boxes, logits = self.heads(pixels)
            x, y, w, h = (boxes[0, :, i] for i in range(4))
            corners = tf.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], -1)
            scores = tf.reduce_max(tf.sigmoid(logits[0]), -1)
            kept = tf.image.non_max_suppression(corners, scores, 100, 0.6)
            return {
                "detection_boxes": tf.gather(corners, kept)[None],
                "detection_scores": tf.gather(scores, kept)[None],
                "detection_classes": tf.cast(tf.gather(tf.argmax(logits[0], -1), kept) + 1, tf.float32)[None],
                "num_detections": tf.cast(tf.shape(kept), tf.float32),
            }

    attributes = {"max_detections": 24, "max_classes_per_detection": 1, "num_classes": CLASSES}
    numbers = {"nms_score_threshold": 0.01, "nms_iou_threshold": 0.6}
    numbers |= {"y_scale": 10, "x_scale": 10, "h_scale": 5, "w_scale": 5}
    text = [f'attr {{ key: "{name}" value {{ i: {value} }} }}' for name, value in attributes.items()]
    text += [f'attr {{ key: "{name}" value {{ f: {float(value)} }} }}' for name, value in numbers.items()]
    text += ['attr { key: "use_regular_nms" value { b: false } }']

    @tf.function(experimental_implements=" ".join(['name: "TFLite_Detection_PostProcess"', *text]))
    def post_process(boxes, scores, anchors):
        count = attributes["max_detections"]
        return tf.zeros((1, count, 4)), tf.zeros((1, count)), tf.zeros((1, count)), tf.zeros((1,))

    module = Network()
    spec = tf.TensorSpec((batch, HEIGHT, WIDTH, 3), tf.float32, "images")
    if kind == "detections":
        spec = tf.TensorSpec((1, None, None, 3), tf.uint8, "input_tensor")
    return module, getattr(module, kind).get_concrete_function(spec)


def write_savedmodel(folder: Path, kind: str = "detections", batch: int | None = 1) -> None:
    import tensorflow as tf

    module, function = tensorflow_module(kind, batch)
    tf.saved_model.save(module, str(folder), signatures=function)


def tflite(kind: str, quantised: str = "", photos=(), batch: int | None = 1) -> bytes:
    """A TensorFlow Lite file; quantised throughout by ``photos`` ``[64, 96, 3]`` in 0..1, with inputs and outputs of
    the type ``quantised``."""
    import tensorflow as tf

    module, function = tensorflow_module(kind, batch)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], module)
    converter.allow_custom_ops = kind == "suppressed"
    if quantised:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: ([photo[None]] for photo in photos)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = getattr(tf, quantised)
        converter.inference_output_type = tf.float32 if kind == "suppressed" else getattr(tf, quantised)
    return converter.convert()


def with_files(model: bytes, files: dict[str, str]) -> bytes:
    """``model`` with ``files`` in a zip archive at its end, as TensorFlow's metadata writer puts label files there."""
    archive = io.BytesIO()
    archive.write(model)
    with zipfile.ZipFile(archive, "a") as inside:
        for name, text in files.items():
            inside.writestr(zipfile.ZipInfo(name), text)
    return archive.getvalue()


def photos(count: int = 4) -> list[np.ndarray]:
    """Rooms, ``[H, W, 3]`` uint8."""
    from misdetect.data import load_data

    rooms = load_data("rooms:val")
    return [np.asarray(rooms[i].render()) for i in range(count)]


def shrunk(photo: np.ndarray) -> np.ndarray:
    """A photo as the network sees it, ``[64, 96, 3]`` float32 in 0..1."""
    from misdetect.detectors.preprocess import Preprocess

    convention = Preprocess(WIDTH, HEIGHT, "letterbox", "rgb", 1 / 255, layout="nhwc")
    return convention.apply(photo)[0]


def kept_models() -> dict[str, bytes]:
    """What is in ``models/``, made again."""
    seen = [shrunk(photo) for photo in photos(16)]
    labels = "\n".join(NAMES) + "\n"
    return {
        "raw.tflite": tflite("raw"),
        "queries_int8.tflite": tflite("queries", "int8", seen),
        "suppressed.tflite": with_files(tflite("suppressed"), {"labelmap.txt": labels}),
        "suppressed_uint8.tflite": with_files(tflite("suppressed", "uint8", seen), {"labelmap.txt": labels}),
        "shares_uint8.tflite": with_files(tflite("shares", "uint8", seen), {"metadata.json": json.dumps(ULTRALYTICS)}),
    }


def write_savedmodels(folder: Path) -> None:
    """SavedModels that detect, that end before it, and that do what no detector should."""
    import tensorflow as tf

    write_savedmodel(folder / "detections")
    write_savedmodel(folder / "raw", "raw", batch=None)
    pixels = tf.TensorSpec((1, None, None, 3), tf.uint8, "input_tensor")

    class Odd(tf.Module):
        @tf.function
        def writes(self, input_tensor):
            tf.io.write_file(str(folder / "written"), "x")
            return {"detection_boxes": tf.zeros((1, 0, 4)), "detection_scores": tf.zeros((1, 0))} | {
                "detection_classes": tf.zeros((1, 0)),
                "num_detections": tf.zeros(1),
            }

        @tf.function
        def saves(self, input_tensor):
            tf.raw_ops.SaveV2(
                prefix=str(folder / "written"), tensor_names=["x"], shape_and_slices=[""], tensors=[tf.zeros(1)]
            )
            return {"detection_boxes": tf.zeros((1, 0, 4))}

        @tf.function
        def classifies(self, input_tensor):
            return {"probabilities": tf.reduce_mean(tf.cast(input_tensor, tf.float32), (1, 2))}

    for name in ("writes", "saves", "classifies"):
        odd = Odd()
        tf.saved_model.save(odd, str(folder / name), signatures=getattr(odd, name).get_concrete_function(pixels))
    tf.saved_model.save(tf.Module(), str(folder / "nothing"))


def main(folder: Path = KEPT) -> None:
    """Make the kept models again; elsewhere, with SavedModels beside them."""
    folder.mkdir(exist_ok=True)
    for name, content in kept_models().items():
        (folder / name).write_bytes(content)
        print(name, len(content), "bytes")
    if folder != KEPT:
        write_savedmodels(folder)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

"""The folder of somebody who trained a YOLO yesterday: ``best.onnx`` as Ultralytics exports it, the same in INT8, and
``data.yaml`` with photos and labels; some of them stand for photos from outside, ``outside.yaml``. Commands in the
documentation run in it.

It is made of the photos and of the YOLOX-nano beside the project: the network is given the inputs and the outputs that
Ultralytics' files have, and what they say about themselves.
"""

import json
import shutil
from pathlib import Path

import numpy as np

FIXTURES = Path(__file__).parents[2] / "shared" / "fixtures"
SIDE = 416
_CELLS = 3549


def there() -> bool:
    """Whether what the folder is made of is on this machine."""
    return (FIXTURES / "models" / "yolox_nano.onnx").exists() and (FIXTURES / "coco66").is_dir()


def newcomer(folder: Path, photos: int = 66) -> None:
    """Fill ``folder``; with fewer ``photos`` commands take less time."""
    folder.mkdir(parents=True, exist_ok=True)
    truth = json.loads((FIXTURES / "coco66" / "instances.json").read_text())
    truth["images"] = truth["images"][:photos]
    names = [category["name"] for category in truth["categories"]]
    _photos(folder, truth, names)
    _network(folder / "best.onnx", names)
    _quantised(folder)


def _photos(folder: Path, truth: dict, names: list[str]) -> None:
    """The same annotations as YOLO's text files and as one COCO file."""
    images, labels = folder / "images", folder / "labels"
    images.mkdir()
    labels.mkdir()
    kept = {image["id"]: image for image in truth["images"]}
    truth["annotations"] = [each for each in truth["annotations"] if each["image_id"] in kept]
    number = {category["id"]: i for i, category in enumerate(truth["categories"])}
    lines: dict[int, list[str]] = {image: [] for image in kept}
    for each in truth["annotations"]:
        image = kept[each["image_id"]]
        x, y, width, height = each["bbox"]
        wide, high = image["width"], image["height"]
        shares = ((x + width / 2) / wide, (y + height / 2) / high, width / wide, height / high)
        if not each["iscrowd"]:
            lines[image["id"]].append(" ".join([str(number[each["category_id"]]), *(f"{s:.6f}" for s in shares)]))
    for image in truth["images"]:
        shutil.copy(FIXTURES / "coco66" / "images" / image["file_name"], images)
        text = "".join(f"{line}\n" for line in lines[image["id"]])
        (labels / image["file_name"]).with_suffix(".txt").write_text(text)
    (folder / "instances.json").write_text(json.dumps(truth))
    listed = "".join(f"  {i}: {name}\n" for i, name in enumerate(names))
    (folder / "data.yaml").write_text(f"path: .\ntrain: images\nval: images\nnames:\n{listed}")
    outside = [image["file_name"] for image in truth["images"][::3]]
    (folder / "outside.txt").write_text("".join(f"./images/{name}\n" for name in outside))
    (folder / "outside.yaml").write_text(f"path: .\ntrain: outside.txt\nval: outside.txt\nnames:\n{listed}")


def _network(path: Path, names: list[str]) -> None:
    """YOLOX-nano behind RGB in 0..1, and its boxes and scores as YOLOv8's ``[1, 4 + C, N]``."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    counts = [2, 2, 1, len(names)]
    model = onnx.load(FIXTURES / "models" / "yolox_nano.onnx")
    graph, steps = model.graph, (8, 16, 32)
    inside, raw = graph.input[0].name, graph.output[0].name
    grids = [np.stack(np.meshgrid(np.arange(SIDE // s), np.arange(SIDE // s)), -1).reshape(-1, 2) for s in steps]
    strides = np.concatenate([np.full((len(grid), 1), s) for grid, s in zip(grids, steps, strict=True)])
    constants = {
        "bgr": np.array([2, 1, 0]),
        "whole": np.array(255, np.float32),
        "grid": np.concatenate(grids).astype(np.float32)[None],
        "strides": strides.astype(np.float32)[None],
    }
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    before = [
        helper.make_node("Gather", ["images_rgb", "bgr"], ["swapped"], axis=1),
        helper.make_node("Mul", ["swapped", "whole"], [inside]),
    ]
    after = [
        helper.make_node("Split", [raw], ["xy", "wh", "object", "classes"], axis=2, split=counts),
        helper.make_node("Add", ["xy", "grid"], ["cells"]),
        helper.make_node("Mul", ["cells", "strides"], ["centres"]),
        helper.make_node("Exp", ["wh"], ["sizes"]),
        helper.make_node("Mul", ["sizes", "strides"], ["sides"]),
        helper.make_node("Mul", ["classes", "object"], ["scores"]),
        helper.make_node("Concat", ["centres", "sides", "scores"], ["rows"], axis=2),
        helper.make_node("Transpose", ["rows"], ["output0"], perm=[0, 2, 1]),
    ]
    nodes = [*before, *graph.node, *after]
    del graph.node[:], graph.input[:], graph.output[:]
    graph.node.extend(nodes)
    graph.input.append(helper.make_tensor_value_info("images_rgb", TensorProto.FLOAT, [1, 3, SIDE, SIDE]))
    graph.output.append(helper.make_tensor_value_info("output0", TensorProto.FLOAT, [1, 4 + len(names), _CELLS]))
    said = {"author": "Ultralytics", "task": "detect", "stride": "32", "imgsz": str([SIDE, SIDE])}
    helper.set_model_props(model, {**said, "names": str(dict(enumerate(names)))})
    onnx.checker.check_model(model)
    onnx.save(model, path)


def _quantised(folder: Path) -> None:
    """``best_int8.onnx``: the weights of the convolutions in 8 bits, most layers with one scale for all."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load(folder / "best.onnx")
    for tensor in model.graph.initializer:
        value = numpy_helper.to_array(tensor)
        if value.ndim == 4:
            over = (1, 2, 3) if value.shape[1] == 1 else None  # of depthwise kernels one scale for all leaves nothing
            step = np.maximum(np.abs(value).max(over, keepdims=True) / 127, 1e-12)
            tensor.CopyFrom(numpy_helper.from_array((np.round(value / step) * step).astype(value.dtype), tensor.name))
    onnx.save(model, folder / "best_int8.onnx")

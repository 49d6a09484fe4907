"""Detectors in files, whatever runs them: one network gives the same detections in every format, and every family of
detectors keeps the same laws. What needs TensorFlow is in ``test_formats_tensorflow.py``."""

import json
import shutil
import subprocess
import sys
import warnings
from itertools import permutations

import cv2
import exported_models as models
import numpy as np
import pytest

from misdetect.detections import Detections
from misdetect.detectors import load_detector
from misdetect.errors import MisdetectError

FORMATS = {
    "onnx": "onnx:{here}/raw.onnx,decoder=yolov8,{wired}",
    "openvino": "openvino:{here}/raw.xml,decoder=yolov8,{wired}",
    "torchscript": "torchscript:{here}/raw.torchscript,trust=yes,decoder=yolov8,{wired}",
    "torchscript-found": "torchscript:{here}/found.torchscript,trust=yes,nms=0.6,{wired}",
    "tflite": "tflite:{kept}/raw.tflite,decoder=yolov8,{wired}",
    "tflite-suppressed": "tflite:{kept}/suppressed.tflite,{wired}",
}
"""One network, each as a user would name it."""
QUERIES = {
    "onnx": "onnx:{here}/queries.onnx,decoder=rtdetr,nms=0.6,{wired}",
    "openvino": "openvino:{here}/queries.xml,decoder=rtdetr,nms=0.6,{wired}",
    "torchscript": "torchscript:{here}/queries.torchscript,trust=yes,decoder=rtdetr,outputs=logits,boxes,"
    "nms=0.6,{wired}",
    "tflite-int8": "tflite:{kept}/queries_int8.tflite,decoder=rtdetr,nms=0.6,{wired}",
}
"""The same network with its outputs apart: every pair of a query and a class counts."""
FAMILIES = {
    "zoo": "zoo:ssd",
    "yolox": "yolox:{here}/yolox.safetensors,names={here}/names.txt,size=64,depth=0.33,width=0.125,classes=3",
    "hf": "hf:{here}/hf",
    "torchvision": "torchvision:ssdlite320_mobilenet_v3_large,weights={here}/lite.safetensors,names={here}/names.txt",
    "python": "python:{here}/mine.py:Mine",
}
EVERY = {
    **{f"format-{name}": spec for name, spec in FORMATS.items()},
    "format-tflite-int8": QUERIES["tflite-int8"],
    **FAMILIES,
}
TENSORFLOW = {
    "format-savedmodel": "savedmodel:{tensorflow}/detections,names={here}/names.txt",
    "format-savedmodel-raw": "savedmodel:{tensorflow}/raw,decoder=yolov8,{wired}",
}
ALL = EVERY | TENSORFLOW
CASES = [*EVERY, *(pytest.param(name, marks=pytest.mark.heavy) for name in TENSORFLOW)]
GRID = 1e-3
MINE = """
import numpy as np

class Mine:
    names = ["bright", "dark"]
    fingerprint = "mine"

    def __init__(self, score="0.01"):
        self.score = float(score)

    def detect(self, images):
        found = []
        for image in images:
            height, width = image.shape[:2]
            scores = np.array([image.mean() / 255, 1 - image.mean() / 255])
            kept = [i for i in np.argsort(-scores) if scores[i] >= self.score]
            boxes = np.array([[0, 0, width / 2, height], [width / 4, 0, width, height]])[kept].reshape(-1, 4)
            found.append((boxes, scores[kept], np.array(kept, int)))
        return found
"""


def make_models(folder):
    """Every model that the tests here load, but for those kept in ``models/``."""
    import torch

    from misdetect.detectors.weights import write_weights
    from misdetect.detectors.yolox.net import YOLOX, Shape

    folder.mkdir()
    (folder / "names.txt").write_text("\n".join(models.NAMES))
    (folder / "mine.py").write_text(MINE)
    for kind in ("raw", "queries"):
        models.write_onnx(folder / f"{kind}.onnx", kind)
        models.write_openvino(folder / f"{kind}.xml", folder / f"{kind}.onnx")
        models.write_torchscript(folder / f"{kind}.torchscript", kind)
    models.write_torchscript(folder / "found.torchscript", "found")
    torch.manual_seed(0)
    module = YOLOX(3, Shape(0.33, 0.125))
    for layer in (*module.head.cls_preds, *module.head.obj_preds):
        torch.nn.init.normal_(layer.weight, 0, 3)
        torch.nn.init.zeros_(layer.bias)
    write_weights(module, folder / "yolox.safetensors")
    load_detector(f"torchvision:ssdlite320_mobilenet_v3_large,weights=random,names={folder}/names.txt").save(
        folder / "lite.safetensors"
    )
    from hf_models import build

    build("detr").save_pretrained(folder / "hf")
    (folder / "hf/preprocessor_config.json").write_text(json.dumps({"size": {"height": 64, "width": 96}}))


def make_tensorflow(folder):
    """What TensorFlow makes, in a process of its own: it would keep its threads, and its memory."""
    subprocess.run([sys.executable, models.__file__, str(folder)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def here(made_once):
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("openvino")
    return made_once("formats", make_models)


@pytest.fixture(scope="module")
def loaded(here, made_once):
    """``loaded(spec, options)``: the detector of a spec of the tables above, made once."""
    made = {}
    places = {"here": here, "kept": models.KEPT, "wired": f"names={here}/names.txt,{models.WIRED}"}

    def detector(spec, options="", fresh=False):
        if "{tensorflow}" in spec:
            pytest.importorskip("tensorflow")
            places["tensorflow"] = made_once("tensorflow", make_tensorflow)
        text = spec.format(**places) + options
        if fresh:
            return load_detector(text)
        if text not in made:
            made[text] = load_detector(text)
        return made[text]

    return detector


@pytest.fixture(scope="module")
def rooms():
    """Rooms of several sizes and shapes."""
    whole = models.photos(3)
    return [*whole, whole[0][:, :70], whole[1][40:90], cv2.resize(whole[2], (333, 77)), whole[0][:1, :1]]


def as_found(detector, images):
    """What ``detector`` says of ``images``; a ``python:`` detector's tuples as ``Detections``."""
    return [f if isinstance(f, Detections) else Detections(*f) for f in detector.detect(images)]


def by_hand(photo, multilabel, agnostic=False):
    """Boxes, scores and labels of the network as NumPy computes it, suppressed by the book, best first."""
    boxes, scores = models.by_hand(models.shrunk(photo))
    ratio = min(models.WIDTH / photo.shape[1], models.HEIGHT / photo.shape[0])
    width, height = (max(1, int(side * ratio + 0.5)) for side in photo.shape[1::-1])
    left, top = (models.WIDTH - width) // 2, (models.HEIGHT - height) // 2
    boxes = boxes * ([models.WIDTH, models.HEIGHT] * 2)
    corners = np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1)
    pairs = [(s, row, label) for row, each in enumerate(scores) for label, s in enumerate(each)]
    if not multilabel:
        pairs = [(each.max(), row, int(each.argmax())) for row, each in enumerate(scores)]
    kept = []
    for score, row, label in sorted(pairs, reverse=True):
        if score >= 0.01 and not any(
            (agnostic or k[2] == label) and overlap(corners[k[1]], corners[row]) > 0.6 for k in kept
        ):
            kept.append((score, row, label))
    back = [
        (corners[row] - [left, top] * 2) / ([width / photo.shape[1], height / photo.shape[0]] * 2) for _, row, _ in kept
    ]
    inside = np.clip(back, 0, [photo.shape[1], photo.shape[0]] * 2)
    return inside[:100], np.array([k[0] for k in kept])[:100], np.array([k[2] for k in kept])[:100]


def overlap(a, b):
    sides = np.maximum(0, np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return sides.prod() / (sum(areas) - sides.prod())


def assert_same(found, expected, scores_within=1e-4, boxes_within=2e-2):
    """The same detections, in any order among equal scores."""
    boxes, scores, labels = expected
    assert len(found) == len(scores) > 0
    np.testing.assert_allclose(found.scores, scores, atol=scores_within)
    left = set(range(len(found)))
    for box, score, label in zip(boxes, scores, labels, strict=True):
        far = {i: np.abs(found.boxes[i] - box).max() for i in left if found.labels[i] == label}
        far = {i: distance for i, distance in far.items() if abs(found.scores[i] - score) <= scores_within}
        closest = min(far, key=far.get, default=None)
        assert closest is not None, (box, score, label)
        assert far[closest] <= boxes_within
        left.remove(closest)


@pytest.mark.parametrize("name", FORMATS)
def test_one_network_says_the_same_in_every_format(name, loaded, rooms):
    for photo, found in zip(rooms, loaded(FORMATS[name]).detect(rooms), strict=True):
        assert_same(found, by_hand(photo, multilabel=False))


@pytest.mark.parametrize("name", ["onnx", "openvino", "torchscript"])
def test_outputs_apart_say_the_same(name, loaded, rooms):
    for photo, found in zip(rooms, loaded(QUERIES[name]).detect(rooms), strict=True):
        assert_same(found, by_hand(photo, multilabel=True))


def test_eight_bits_are_close_to_what_they_stand_for(loaded, rooms):
    """Every pair of a query and a class, none suppressed: its score and box are those of the floats, but for a step."""
    every = QUERIES["tflite-int8"].replace("nms=0.6", "nms=1")
    for photo, found in zip(rooms[:3], loaded(every, ",score=0,max=72").detect(rooms[:3]), strict=True):
        _, scores = models.by_hand(models.shrunk(photo))
        assert len(found) == scores.size
        assert 10 < len(np.unique(found.scores)) <= 256
        np.testing.assert_allclose(found.scores, -np.sort(-scores.ravel()), atol=0.03)
        exact = loaded(QUERIES["onnx"].replace("nms=0.6", "nms=1"), ",score=0,max=72").detect([photo])[0]
        for box, label in zip(found.boxes, found.labels, strict=True):
            assert np.abs(exact.boxes[exact.labels == label] - box).max(axis=1).min() < 0.02 * max(photo.shape)


@pytest.mark.parametrize("name", CASES)
def test_what_is_found_is_well_formed(name, loaded, rooms):
    detector = loaded(ALL[name])
    assert len(detector.names) > 0
    assert all(isinstance(label, str) for label in detector.names)
    found = as_found(detector, rooms)
    assert len(found) == len(rooms)
    assert sum(map(len, found)) > 0
    for each, photo in zip(found, rooms, strict=True):
        height, width = photo.shape[:2]
        assert each.boxes.shape == (len(each), 4)
        assert each.boxes.dtype.kind == each.scores.dtype.kind == "f"
        assert each.labels.dtype.kind == "i"
        assert ((each.labels >= 0) & (each.labels < len(detector.names))).all()
        assert ((each.scores >= 0) & (each.scores <= 1)).all()
        assert (np.diff(each.scores) <= GRID).all()  # scores are ranked on a grid
        assert (each.boxes >= 0).all()
        assert (each.boxes <= [width, height, width, height]).all()
        assert (each.boxes[:, :2] <= each.boxes[:, 2:]).all()


@pytest.mark.parametrize("name", CASES)
def test_one_image_or_many(name, loaded, rooms):
    detector = loaded(ALL[name])
    assert list(detector.detect([])) == []
    together = as_found(detector, rooms)
    for photo, many in zip(rooms, together, strict=True):
        (alone,) = as_found(detector, [photo])
        assert len(alone) == len(many)
        np.testing.assert_allclose(alone.scores, many.scores, atol=1e-4)
        np.testing.assert_allclose(alone.boxes, many.boxes, atol=max(photo.shape) * 1e-3)


@pytest.mark.parametrize("name", CASES)
def test_a_threshold_takes_away_and_changes_nothing_else(name, loaded, rooms):
    """What a low threshold reports is left by one in its midst if it scores higher, and nothing by one above all."""
    every = as_found(loaded(ALL[name], ",score=0.02"), rooms[:3])
    middle = round(float(np.median(np.concatenate([each.scores for each in every]))), 3)
    for found, all_of_it in zip(as_found(loaded(ALL[name], f",score={middle}"), rooms[:3]), every, strict=True):
        assert (found.scores >= middle).all()
        # a cap is filled up by what a threshold lets through
        assert len(found) >= (all_of_it.scores > middle + 1e-3).sum()
        np.testing.assert_allclose(found.scores[: len(all_of_it)], all_of_it.scores[: len(found)], atol=1e-4)
    above = (1 + max(each.scores.max() for each in every)) / 2
    for nothing in as_found(loaded(ALL[name], f",score={above}"), rooms[:3]):
        assert nothing.boxes.shape == (0, 4)
        assert nothing.scores.shape == nothing.labels.shape == (0,)


@pytest.mark.parametrize("name", [case for case in CASES if case != "python"])
def test_a_fingerprint_is_of_the_file_and_the_settings(name, loaded):
    own = loaded(ALL[name]).fingerprint
    assert loaded(ALL[name], fresh=True).fingerprint == own
    assert loaded(ALL[name], ",score=0.5").fingerprint != own


OTHER_FILE = {name: spec for name, spec in FORMATS.items() if name != "torchscript-found"}


@pytest.mark.parametrize("name", OTHER_FILE)
def test_another_file_is_another_detector(name, loaded, here, tmp_path):
    """The same bytes elsewhere are the same detector; one more byte where no runtime looks makes another."""
    spec = OTHER_FILE[name]
    own = loaded(spec).fingerprint
    path = spec.partition(":")[2].partition(",")[0].format(here=here, kept=models.KEPT)
    copy = tmp_path / path.rpartition("/")[2]
    shutil.copy(path, copy)
    moved = spec.replace(path, str(copy)).replace(spec.partition(":")[2].partition(",")[0], str(copy))
    if name == "openvino":
        shutil.copy(here / "raw.bin", tmp_path / "raw.bin")
        assert loaded(moved).fingerprint == own
        copy.write_text(copy.read_text() + "\n")
    else:
        assert loaded(moved).fingerprint == own
        if name == "torchscript":
            models.write_torchscript(copy, about="{}")
        elif name == "onnx":
            import onnx

            changed = onnx.load(copy)
            changed.doc_string = "another"
            onnx.save(changed, copy)
        else:
            copy.write_bytes(copy.read_bytes() + b"\0")
    assert loaded(moved, fresh=True).fingerprint != own


# --- bad files -------------------------------------------------------------------------------------------------------

FILES = {"openvino": "raw.xml", "torchscript": "raw.torchscript", "tflite": "raw.tflite", "onnx": "raw.onnx"}
ENDINGS = {"openvino": ".xml", "torchscript": ".torchscript", "tflite": ".tflite", "onnx": ".onnx"}


def refused(spec):
    """The sentence with which a spec is refused."""
    with pytest.raises(MisdetectError) as caught:
        load_detector(spec)
    said = str(caught.value)
    assert caught.value.exit_code == 2, said
    assert "\n" not in said
    assert said.endswith(".")
    return said


def spec_of(scheme, path, here, names="names.txt"):
    trust = ",trust=yes" if scheme == "torchscript" else ""
    return f"{scheme}:{path},decoder=yolov8,names={here / names},{models.WIRED}{trust}"


@pytest.mark.parametrize("scheme", FILES)
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "there is no file"),
        (b"", "empty|cannot be loaded"),
        (b"a shopping list\n", "is text|cannot be loaded"),
        ("half", "cannot be loaded|cut off|not a graph"),
        ("photo", "first bytes|cannot be loaded"),
    ],
)
def test_files_that_are_no_model(scheme, content, says, here, tmp_path):
    path = tmp_path / f"model{ENDINGS[scheme]}"
    (tmp_path / "model.bin").write_bytes((here / "raw.bin").read_bytes())
    if content == "half":
        whole = (models.KEPT if scheme == "tflite" else here) / FILES[scheme]
        content = whole.read_bytes()[: whole.stat().st_size // 2]
    elif content == "photo":
        content = cv2.imencode(".png", np.zeros((9, 9, 3), np.uint8))[1].tobytes()
    if content is not None:
        path.write_bytes(content)
    said = refused(spec_of(scheme, path, here))
    assert str(path) in said
    assert any(part in said for part in says.split("|")), said


@pytest.mark.parametrize(("scheme", "other"), list(permutations(FILES, 2)))
def test_a_file_of_another_format(scheme, other, here, tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(((models.KEPT if other == "tflite" else here) / FILES[other]).read_bytes())
    assert str(path) in refused(spec_of(scheme, path, here))


@pytest.mark.parametrize("scheme", FILES)
def test_names_of_another_length(scheme, here, tmp_path):
    (tmp_path / "two.txt").write_text("chair\nlamp")
    path = (models.KEPT if scheme == "tflite" else here) / FILES[scheme]
    said = refused(spec_of(scheme, path, here, tmp_path / "two.txt"))
    assert "with 2 names" in said
    assert "7, 24]" in said


def test_names_of_another_length_than_a_graph_that_suppresses(here, tmp_path):
    (tmp_path / "two.txt").write_text("chair\nlamp")
    said = refused(f"tflite:{models.KEPT}/suppressed.tflite,names={tmp_path}/two.txt,{models.WIRED}")
    assert "the graph tells 3 classes apart, but" in said
    assert "names 2" in said


def test_a_model_of_another_task(here, tmp_path):
    """A classifier has an output [1, classes]; every runtime's message shows it."""
    import torch

    class Classifier(torch.nn.Module):
        def forward(self, x):
            return x.mean((2, 3))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.trace(Classifier(), torch.zeros(1, 3, 64, 96)).save(str(tmp_path / "c.torchscript"))
        torch.onnx.export(Classifier(), torch.zeros(1, 3, 64, 96), str(tmp_path / "c.onnx"), dynamo=False)
    models.write_openvino(tmp_path / "c.xml", tmp_path / "c.onnx")
    for file in ("torchscript:c.torchscript", "openvino:c.xml", "onnx:c.onnx"):
        scheme, _, name = file.partition(":")
        assert "[1, 3]" in refused(spec_of(scheme, tmp_path / name, here))


def test_operators_that_a_runtime_does_not_know(here, tmp_path):
    path = tmp_path / "model.tflite"
    path.write_bytes((models.KEPT / "suppressed.tflite").read_bytes().replace(b"PostProcess", b"PastProcess"))
    assert "TFLite_Detection_PastProcess" in refused(spec_of("tflite", path, here))
    shutil.copy(here / "raw.bin", tmp_path / "model.bin")
    (tmp_path / "model.xml").write_text((here / "raw.xml").read_text().replace('type="ReLU"', 'type="Rolu"'))
    assert "Rolu" in refused(spec_of("openvino", tmp_path / "model.xml", here))


def test_weights_that_are_missing_or_cut_off(here, tmp_path):
    path = tmp_path / "model.xml"
    shutil.copy(here / "raw.xml", path)
    assert "there is no file 'model.bin' beside it" in refused(spec_of("openvino", path, here))
    (tmp_path / "model.bin").write_bytes((here / "raw.bin").read_bytes()[:100])
    assert "weights" in refused(spec_of("openvino", path, here))


# --- what files say of themselves ------------------------------------------------------------------------------------


def test_names_inside_a_tflite_file(tmp_path):
    wired = models.WIRED
    assert load_detector(f"tflite:{models.KEPT}/suppressed.tflite,{wired}").names == models.NAMES
    plain = (models.KEPT / "raw.tflite").read_bytes()
    path = tmp_path / "m.tflite"
    path.write_bytes(models.with_files(plain, {"metadata.json": json.dumps({"names": dict(enumerate("abc"))})}))
    assert load_detector(f"tflite:{path},decoder=yolov8,{wired}").names == ("a", "b", "c")
    path.write_bytes(models.with_files(plain, {"a.txt": "x\ny\nz", "b.txt": "u\nv\nw"}))
    assert "carries no class names" in refused(f"tflite:{path},decoder=yolov8,{wired}")
    path.write_bytes(models.with_files(plain, {"labels.txt": "x\ny"}))
    assert "with 2 names" in refused(f"tflite:{path},decoder=yolov8,{wired}")


def test_a_placeholder_before_the_names_stands_for_no_class(here, tmp_path):
    """Label files of TensorFlow's first detectors begin with "???", one of a label map with id 1."""
    (tmp_path / "old.txt").write_text("???\nchair\nlamp\nrug")
    items = [f'item {{ id: {i + 1} name: "/m/{i}" display_name: "{name}" }}' for i, name in enumerate(models.NAMES)]
    (tmp_path / "map.pbtxt").write_text("\n".join(items))
    photo = models.photos(1)
    spec = f"tflite:{models.KEPT}/suppressed.tflite,{models.WIRED}"
    (own,) = load_detector(spec).detect(photo)
    for file in ("old.txt", "map.pbtxt"):
        detector = load_detector(f"{spec},names={tmp_path / file}")
        assert detector.names == ("unused 0", *models.NAMES)
        (found,) = detector.detect(photo)
        np.testing.assert_array_equal(found.labels, own.labels + 1)


def test_what_ultralytics_says_of_its_torchscript(tmp_path):
    about = {"names": dict(enumerate(models.NAMES)), "imgsz": [models.HEIGHT, models.WIDTH]}
    path = tmp_path / "m.torchscript"
    models.write_torchscript(path, about=json.dumps(about))
    detector = load_detector(f"torchscript:{path},trust=yes,decoder=yolov8")
    assert detector.names == models.NAMES
    assert (detector.preprocess.width, detector.preprocess.height) == (models.WIDTH, models.HEIGHT)


# --- what is not run -------------------------------------------------------------------------------------------------


def test_a_torchscript_that_writes_files_is_not_loaded_without_trust(here, tmp_path, monkeypatch):
    """``torch.save`` is an operator, and an archive may call it while it is loaded."""
    import torch
    from writing_module import Writer

    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(Writer()).save("model.torchscript")
    said = refused("torchscript:model.torchscript,decoder=yolov8,names=coco,size=64")
    assert "add trust=yes" in said
    assert not (tmp_path / "written").exists()
    with pytest.raises(MisdetectError):
        load_detector("torchscript:model.torchscript,trust=yes,decoder=yolov8,names=coco,size=64")
    assert (tmp_path / "written").exists()  # the danger is real


def test_a_run_of_a_stranger_does_not_load_torchscript():
    from misdetect.detectors.catalogue import reach

    assert reach("torchscript:FILE,trust=yes") == "is code and would be run"
    assert reach("savedmodel:FOLDER,trust=yes") == "is code and would be run"
    assert reach("savedmodel:FOLDER") is None


def test_checkpoints_of_ultralytics_are_recognised_without_unpickling(here, tmp_path):
    import torch
    from ultralytics_checkpoint import write_checkpoint

    path = tmp_path / "yolo11n.pt"
    write_checkpoint(path)
    export = f"yolo export model={path} format=onnx"
    for spec in (f"ultralytics:{path}", f"torchscript:{path},trust=yes", f"yolox:{path},names=coco"):
        said = refused(spec)
        assert export in said
        assert f"onnx:{tmp_path}/yolo11n.onnx,decoder=yolo11" in said
    torch.save({"weight": torch.zeros(1)}, path)
    assert "a torch checkpoint of weights alone" in refused(f"torchscript:{path},trust=yes")


def test_loading_says_nothing(here, loaded, capfd):
    """LiteRT and OpenVINO greet the world on stderr, where a user reads messages."""
    for name in ("tflite", "openvino", "torchscript"):
        loaded(FORMATS[name], fresh=True).detect(models.photos(1))
    assert capfd.readouterr() == ("", "")

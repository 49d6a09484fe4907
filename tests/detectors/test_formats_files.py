"""Files that cannot be used, or must not be, and what files say of themselves: a sentence each, whatever the format."""

import json
import shutil
import warnings
from itertools import permutations

import cv2
import exported_models as models
import flatbuffers
import numpy as np
import pytest
from format_tables import make_models, refused

from misdetect.detectors import load_detector
from misdetect.said.errors import MisdetectError


@pytest.fixture(scope="module")
def here(made_once):
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("openvino")
    return made_once("formats", make_models)


# --- bad files -------------------------------------------------------------------------------------------------------

FILES = {"openvino": "raw.xml", "torchscript": "raw.torchscript", "tflite": "raw.tflite", "onnx": "raw.onnx"}
ENDINGS = {"openvino": ".xml", "torchscript": ".torchscript", "tflite": ".tflite", "onnx": ".onnx"}


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


def test_a_model_of_segmentation(here, tmp_path):
    """Maps of the image, alone or beside boxes whose masks they make, are no detections that a decoder reads."""
    import torch

    class Maps(torch.nn.Module):
        def forward(self, x):
            return x.softmax(1)

    class Masks(torch.nn.Module):
        def forward(self, x):
            return x.reshape(1, 4 + 3 + 32, -1)[:, :, :24], torch.nn.functional.interpolate(x, (16, 24))

    for name, module, shape in (("maps", Maps(), (64, 96)), ("masks", Masks(), (104, 96))):
        images = torch.zeros(1, 3, *shape)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.jit.trace(module, images).save(str(tmp_path / f"{name}.torchscript"))
            torch.onnx.export(module, images, str(tmp_path / f"{name}.onnx"), dynamo=False)
        models.write_openvino(tmp_path / f"{name}.xml", tmp_path / f"{name}.onnx")
        wired = models.WIRED.replace("96x64", f"{shape[1]}x{shape[0]}")
        for file in (f"torchscript:{tmp_path}/{name}.torchscript,trust=yes", f"openvino:{tmp_path}/{name}.xml"):
            said = refused(f"{file},decoder=yolov8,names={here}/names.txt,{wired}")
            assert ("[1, 3, 64, 96]" if name == "maps" else "[1, 39, 24]") in said
            assert "segmentation" in refused(f"{file},names={here}/names.txt,{wired}") or name == "masks"
    (tmp_path / "metadata.yaml").write_text("task: segment\nnames: {0: chair, 1: lamp, 2: rug}\n")
    assert "for the task 'segment'" in refused(f"openvino:{tmp_path}/masks.xml,decoder=yolov8,{wired}")
    about = json.dumps(models.ULTRALYTICS | {"task": "segment"})
    models.write_torchscript(tmp_path / "s.torchscript", about=about)
    assert "for the task 'segment'" in refused(f"torchscript:{tmp_path}/s.torchscript,trust=yes,decoder=yolov8")
    (tmp_path / "s.tflite").write_bytes(
        models.with_files((models.KEPT / "raw.tflite").read_bytes(), {"metadata.json": about})
    )
    assert "for the task 'segment'" in refused(f"tflite:{tmp_path}/s.tflite,decoder=yolov8")


def test_operators_that_a_runtime_does_not_know(here, tmp_path):
    path = tmp_path / "model.tflite"
    path.write_bytes((models.KEPT / "suppressed.tflite").read_bytes().replace(b"PostProcess", b"PastProcess"))
    assert "TFLite_Detection_PastProcess" in refused(spec_of("tflite", path, here))
    shutil.copy(here / "raw.bin", tmp_path / "model.bin")
    (tmp_path / "model.xml").write_text((here / "raw.xml").read_text().replace('type="ReLU"', 'type="Rolu"'))
    assert "Rolu" in refused(spec_of("openvino", tmp_path / "model.xml", here))


def test_the_folder_of_an_openvino_graph_stands_for_the_only_graph_in_it(here, tmp_path):
    for name in ("raw.xml", "raw.bin"):
        shutil.copy(here / name, tmp_path / name)
    options = f"decoder=yolov8,names={here}/names.txt"
    own, other = load_detector(f"{tmp_path},{options}"), load_detector(f"openvino:{tmp_path}/raw.xml,{options}")
    assert (own.spec, own.fingerprint) == (f"openvino:{tmp_path},{options}", other.fingerprint)
    shutil.copy(here / "raw.xml", tmp_path / "copy.xml")
    assert "there are 2 graphs in this folder; name one of them" in refused(f"openvino:{tmp_path},decoder=yolov8")


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


def convention(mean, std, colour=1):
    """``TFLITE_METADATA`` of an input with ``NormalizationOptions``, as metadata_schema.fbs lays it out."""
    builder = flatbuffers.Builder(0)

    def floats(values):
        builder.StartVector(4, len(values), 4)
        for value in reversed(values):
            builder.PrependFloat32(value)
        return builder.EndVector()

    def tables(*offsets):
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return builder.EndVector()

    def table(fields, offsets, kind=None):
        builder.StartObject(fields)
        if kind is not None:
            builder.PrependUint8Slot(0, kind, 0)
        for field, offset in offsets.items():
            builder.PrependUOffsetTRelativeSlot(field, offset, 0)
        return builder.EndObject()

    normalization = table(2, {0: floats(mean), 1: floats(std)})
    units = tables(table(2, {1: table(2, {}, 1)}, 3), table(2, {1: normalization}, 1))  # another kind of unit first
    content = table(3, {1: table(2, {}, colour)}, 2)
    image = table(7, {0: builder.CreateString("image"), 3: content, 4: units})
    graph = table(10, {2: tables(image)})
    builder.Finish(table(8, {0: builder.CreateString("a detector"), 3: tables(graph)}), b"M001")
    return bytes(builder.Output())


def with_metadata(model, metadata):
    """``model`` with ``metadata`` inside, and its label file behind it."""
    from ai_edge_litert import schema_py_generated as schema

    content = schema.ModelT.InitFromObj(schema.Model.GetRootAs(model, 0))
    content.buffers.append(schema.BufferT(data=list(metadata)))
    content.metadata = [schema.MetadataT(name="TFLITE_METADATA", buffer=len(content.buffers) - 1)]
    builder = flatbuffers.Builder(0)
    builder.Finish(content.Pack(builder), b"TFL3")
    return models.with_files(bytes(builder.Output()), {"labelmap.txt": "\n".join(models.NAMES)})


@pytest.mark.parametrize(("mean", "std"), [([127.5], [63.75]), ([100.0, 110.0, 120.0], [50.0, 60.0, 70.0])])
def test_how_values_are_made_is_read_from_the_metadata_of_a_tflite_file(mean, std, tmp_path):
    """With suppression inside and NormalizationOptions nothing is left to be said."""
    path = tmp_path / "m.tflite"
    path.write_bytes(with_metadata((models.KEPT / "suppressed.tflite").read_bytes(), convention(mean, std)))
    detector = load_detector(str(path))
    stated = f"scale=1,mean={','.join(map(str, mean))},std={','.join(map(str, std))}"
    plain = load_detector(f"tflite:{models.KEPT}/suppressed.tflite,resize=stretch,colour=rgb,{stated}")
    assert detector.settings == plain.settings
    assert detector.guess is None
    for own, said in zip(detector.detect(models.photos(2)), plain.detect(models.photos(2)), strict=True):
        assert own == said
    assert load_detector(f"{path},scale=1/255,mean=0,std=1").settings["preprocess"]["mean"] == [0, 0, 0]
    assert load_detector(f"{path},preset=ultralytics").settings["preprocess"]["scale"] == 1 / 255


@pytest.mark.parametrize("kept", [0, 3, 40, 100, -1])
def test_metadata_of_a_tflite_file_that_cannot_be_read_is_not_there(kept, tmp_path):
    whole = convention([127.5], [127.5])
    broken = whole[:kept] if kept >= 0 else b"\xff" * len(whole)
    path = tmp_path / "m.tflite"
    path.write_bytes(with_metadata((models.KEPT / "suppressed.tflite").read_bytes(), broken))
    assumed = load_detector(str(path)).assumed
    assert assumed.startswith("assumed scale=1/127.5, mean=1, resize=stretch and colour=rgb, as is usual; nothing ")
    assert assumed.endswith(f"The whole spec: tflite:{path},scale=1/127.5,mean=1,resize=stretch,colour=rgb")


def test_a_colour_space_that_is_not_stated_is_not_taken_for_rgb(tmp_path):
    path = tmp_path / "m.tflite"
    grey = convention([0.0], [255.0], colour=0)
    path.write_bytes(with_metadata((models.KEPT / "suppressed.tflite").read_bytes(), grey))
    detector = load_detector(str(path))
    assert detector.assumed.startswith("assumed colour=rgb, as is usual")
    assert detector.settings["preprocess"]["std"] == [255.0] * 3


def test_a_spec_that_says_how_values_are_made_needs_no_preset(here):
    spec = f"{models.KEPT}/raw.tflite,names={here}/names.txt,{models.WIRED}"
    assert load_detector(spec).settings["decoder"] == "yolov8"


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


def test_a_checkpoint_by_its_name_alone(here, tmp_path):
    import torch
    from ultralytics_checkpoint import write_checkpoint

    path = tmp_path / "yolo11n.pt"
    write_checkpoint(path)
    assert f"yolo export model={path} format=onnx" in refused(str(path))
    torch.save({"weight": torch.zeros(1)}, path)
    said = refused(str(path))
    assert "is not a checkpoint of Ultralytics (it is a torch checkpoint of weights)" in said
    assert f"'yolox:{path},names=coco'" in said
    shutil.copy(here / "raw.torchscript", path)
    assert "where you trust it, add trust=yes" in refused(str(path))
    options = f"size={models.WIDTH}x{models.HEIGHT},names={here}/names.txt"
    assert load_detector(f"{path},trust=yes,{options}").spec.startswith(f"torchscript:{path},trust=yes,")
    path.write_text("a shopping list")
    assert "it is text" in refused(str(path))


def test_a_tflite_file_by_its_name_alone_is_read_as_is_usual(here):
    assert "carries no class names" in refused(f"{models.KEPT}/raw.tflite")
    raw = load_detector(f"{models.KEPT}/raw.tflite,names={here}/names.txt")
    assert raw.assumed.startswith("assumed preset=ultralytics, as is usual; nothing annotated was there to try it on.")
    assert raw.spec == f"tflite:{models.KEPT}/raw.tflite,names={here}/names.txt,decoder=yolov8"
    assert load_detector(raw.spec).fingerprint == raw.fingerprint
    detector = load_detector(f"{models.KEPT}/suppressed.tflite")
    assert (detector.names, detector.settings["preprocess"]["mean"]) == (models.NAMES, [1, 1, 1])

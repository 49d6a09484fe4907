"""What needs TensorFlow: SavedModels, and that the kept ``.tflite`` files are what the exporter makes.

The laws that SavedModels share with all other families are in ``test_formats.py``.
"""

import json
import shutil
import subprocess
import sys

import exported_models as models
import numpy as np
import pytest
from format_tables import assert_same, by_hand, make_tensorflow, refused

from misdetect.detectors import load_detector
from misdetect.detectors.names import COCO91

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def made(made_once):
    pytest.importorskip("tensorflow")
    return made_once("tensorflow", make_tensorflow)


@pytest.fixture
def names(tmp_path):
    (tmp_path / "names.txt").write_text("\n".join(models.NAMES))
    return tmp_path / "names.txt"


@pytest.fixture(scope="module")
def tiles():
    """Parts of rooms that are as large as the network's input, which nobody has to resize."""
    return [photo[8 : 8 + models.HEIGHT, 16 : 16 + models.WIDTH] for photo in models.photos(3)]


@pytest.mark.parametrize("name", sorted(file.name for file in models.KEPT.glob("*.tflite")))
def test_the_kept_files_are_what_is_made_today(name, made, names):
    options = {"raw": ",decoder=yolov8", "queries_int8": ",decoder=rtdetr"}.get(name.partition(".")[0], "")
    wired = "" if "uint8" in name else f"{options},names={names},{models.WIRED}"
    kept, today = (load_detector(f"tflite:{folder / name}{wired}") for folder in (models.KEPT, made))
    for one, other in zip(kept.detect(models.photos(3)), today.detect(models.photos(3)), strict=True):
        assert_same(one, (other.boxes, other.scores, other.labels), 1e-3, 0.5)


def test_a_savedmodel_says_what_the_network_says(made, names, tiles):
    detects = load_detector(f"savedmodel:{made}/detections,names={names}")
    raw = load_detector(f"savedmodel:{made}/raw,decoder=yolov8,names={names},{models.WIRED}")
    for tile, one, other in zip(tiles, detects.detect(tiles), raw.detect(tiles), strict=True):
        assert_same(one, by_hand(tile, multilabel=False, agnostic=True))
        assert_same(other, by_hand(tile, multilabel=False))


def test_images_reach_a_graph_that_resizes_as_they_are(made, names):
    """Boxes are shares of the image: twice the image, twice the boxes."""
    detector = load_detector(f"savedmodel:{made}/detections,names={names}")
    assert detector.settings["preprocess"]["width"] is None
    flat = np.full((models.HEIGHT, models.WIDTH, 3), 90, np.uint8)
    (small,), (large,) = detector.detect([flat]), detector.detect([flat.repeat(2, 0).repeat(2, 1)])
    assert_same(large, (small.boxes * 2, small.scores, small.labels))


def test_labels_are_ids_that_start_at_one(made, names, tiles, tmp_path):
    items = [f"item {{\n  id: {i * 2 + 1}\n  name: '{name}'\n}}" for i, name in enumerate(("chair", "rug"))]
    (tmp_path / "map.pbtxt").write_text("\n".join(items))
    by_line = load_detector(f"savedmodel:{made}/detections,names={names}")
    by_map = load_detector(f"savedmodel:{made}/detections,names={tmp_path}/map.pbtxt")
    by_coco = load_detector(f"savedmodel:{made}/detections,names=coco91")
    assert by_map.names == ("unused 0", "chair", "unused 2", "rug")
    assert by_coco.names == COCO91
    for one, other, third in zip(*(d.detect(tiles) for d in (by_line, by_map, by_coco)), strict=True):
        np.testing.assert_array_equal(one.labels + 1, other.labels)
        np.testing.assert_array_equal(one.labels + 1, third.labels)


@pytest.mark.parametrize("kind", ["writes", "saves"])
def test_a_graph_that_writes_is_refused_before_it_is_loaded(kind, made, names):
    said = refused(f"savedmodel:{made}/{kind},names={names}")
    assert {"writes": "WriteFile", "saves": "SaveV2"}[kind] in said
    assert "add trust=yes" in said
    assert not (made / "written").exists()


def test_trust_runs_what_a_graph_says(made, names, tiles):
    """The danger is real."""
    try:
        assert len(load_detector(f"savedmodel:{made}/writes,trust=yes,names={names}").detect(tiles)[0]) == 0
        assert (made / "written").read_text() == "x"
    finally:
        (made / "written").unlink(missing_ok=True)


def test_a_saver_that_a_signature_calls_is_no_saver(made, names, tmp_path):
    """Every SavedModel has functions that save and restore it; one that something else calls is refused."""
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    shutil.copytree(made / "detections", tmp_path / "model")
    path = tmp_path / "model/saved_model.pb"
    model = SavedModel.FromString(path.read_bytes())
    (graph,) = model.meta_graphs
    saver = next(f.signature.name for f in graph.graph_def.library.function if "traced_save" in f.signature.name)
    caller = next(f for f in graph.graph_def.library.function if "signature_wrapper" in f.signature.name)
    node = caller.node_def.add(name="sly", op="StatefulPartitionedCall")
    node.attr["f"].func.name = saver
    path.write_bytes(model.SerializeToString())
    assert "reaches beyond it" in refused(f"savedmodel:{tmp_path}/model,names={names}")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "there is none in it"),
        (b"hello, world", "is not a SavedModel's graph"),
        ("half", "is not a SavedModel's graph"),
    ],
)
def test_folders_whose_graph_cannot_be_read(content, says, made, names, tmp_path):
    shutil.copytree(made / "detections", tmp_path / "model")
    path = tmp_path / "model/saved_model.pb"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2] if content == "half" else content)
    assert says in refused(f"savedmodel:{tmp_path}/model,names={names}")


def test_folders_that_lack_something(made, names, tmp_path):
    assert "there is no SavedModel here" in refused(f"savedmodel:{tmp_path}/absent,names={names}")
    assert "there is no SavedModel here" in refused(f"savedmodel:{models.KEPT}/raw.tflite,names={names}")
    assert "no signature 'serving_default'" in refused(f"savedmodel:{made}/nothing,names={names}")
    assert "decoder=" in refused(f"savedmodel:{made}/classifies,names={names}")
    said = refused(f"savedmodel:{made}/classifies,decoder=yolov8,names={names},preset=ultralytics,size=64")
    assert "scale=1" in said
    shutil.copytree(made / "detections", tmp_path / "model")
    shutil.rmtree(tmp_path / "model/variables")
    assert "cannot be loaded by TensorFlow" in refused(f"savedmodel:{tmp_path}/model,names={names}")


def test_an_operator_that_tensorflow_does_not_know(made, names, tmp_path):
    shutil.copytree(made / "detections", tmp_path / "model")
    path = tmp_path / "model/saved_model.pb"
    path.write_bytes(path.read_bytes().replace(b"NonMaxSuppressionV3", b"NonMaxSuppressionZ3"))
    assert "NonMaxSuppressionZ3" in refused(f"savedmodel:{tmp_path}/model,names={names}")


def test_another_file_in_the_folder_is_another_detector(made, names, tmp_path):
    shutil.copytree(made / "detections", tmp_path / "model")
    spec = f"savedmodel:{tmp_path}/model,names={names}"
    own = load_detector(f"savedmodel:{made}/detections,names={names}").fingerprint
    assert load_detector(spec).fingerprint == own
    (tmp_path / "model/assets").mkdir(exist_ok=True)
    (tmp_path / "model/assets/labels.txt").write_text("x")
    assert load_detector(spec).fingerprint != own


def test_a_command_says_what_it_says_and_tensorflow_nothing(made, names, tmp_path):
    found = subprocess.run(
        [sys.executable, "-m", "misdetect", "detect", "--detector", f"savedmodel:{made}/detections,names={names}",
         "--data", "rooms:val,count=2", "--out", str(tmp_path / "found.json"), "--json", "--quiet"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert found.stderr == ""
    assert json.loads(found.stdout)["detections"] > 0

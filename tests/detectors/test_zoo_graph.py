"""The zoo without torch: ONNX Runtime reads the very weights that torch reads, and the detections are the same."""

import shutil

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("torch")

import export_zoo  # noqa: E402

from misdetect.data import load_data  # noqa: E402
from misdetect.detectors import load_detector  # noqa: E402
from misdetect.detectors.family import TORCH  # noqa: E402
from misdetect.detectors.zoo import graph, shipped  # noqa: E402
from misdetect.detectors.zoo.shipped import FOLDER, ZOO, checksum, manifest  # noqa: E402
from misdetect.nouns.protocols import as_white_box, level  # noqa: E402
from misdetect.said.errors import BadSpec, BadWeights, MissingExtra  # noqa: E402
from misdetect.said.extras import command  # noqa: E402

GRAPHS = [name for name, entry in ZOO.items() if entry.family == "yolox"]


@pytest.fixture
def without_torch(monkeypatch):
    """As in a base install: nothing of the torch extra is found."""
    real = shipped.find_spec
    monkeypatch.setattr(shipped, "find_spec", lambda name: None if name in TORCH else real(name))


def places_in(path):
    """Where the graph says each of its tensors is: file, first byte, length."""
    model = onnx.load(path, load_external_data=False)
    outside = [{each.key: each.value for each in tensor.external_data} for tensor in model.graph.initializer]
    return [(each["location"], int(each["offset"]), int(each["length"])) for each in outside]


@pytest.mark.parametrize("name", GRAPHS)
def test_detections_are_those_of_torch(name, request):
    photos = [sample.image for sample in load_data(f"{ZOO[name].data}:val,count=24")]
    expected = load_detector(f"zoo:{name}").detect(photos)
    request.getfixturevalue("without_torch")
    found = load_detector(f"zoo:{name}")
    assert type(found) is graph.GraphDetector
    assert found.names == tuple(manifest()[name]["names"])
    assert sum(map(len, expected)) > 100
    for ours, theirs in zip(found.detect(photos), expected, strict=True):
        np.testing.assert_array_equal(ours.labels, theirs.labels)
        np.testing.assert_allclose(ours.boxes, theirs.boxes, rtol=0, atol=1e-3)
        np.testing.assert_allclose(ours.scores, theirs.scores, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_holds_no_weights_and_finds_each_of_them(name):
    path = FOLDER / f"{name}.onnx"
    assert path.stat().st_size < 250_000
    weights = FOLDER / f"{name}.safetensors"
    stored = {(weights.name, *place[1:]) for place in export_zoo.places(weights).values()}
    found = places_in(path)
    assert len(set(found)) == len(found) > 200
    assert set(found) <= stored
    assert sum(length for *_, length in stored - set(found)) < 1000, "but for counters of batches"


@pytest.mark.usefixtures("without_torch")
def test_it_is_a_detector_and_says_how_to_look_inside():
    found = load_detector("zoo:yolox,score=0.3,batch=4")
    assert (level(found), found.spec, found.batch_size) == ("Detector", "zoo:yolox,score=0.3,batch=4", 4)
    assert min(found.detect([load_data("rooms:val,count=1")[0].image])[0].scores) >= 0.3
    same, why = as_white_box(found)
    assert same is found
    assert why == f"the inside of zoo:yolox,score=0.3,batch=4 needs the 'torch' extra: {command('torch')}."
    assert load_detector("zoo:yolox,batch=auto").batch_size == shipped.BATCH


@pytest.mark.usefixtures("without_torch")
@pytest.mark.parametrize("spec", ["zoo:ssd", "zoo:mcml-bikes", "zoo:yolox,weights=own.pt", "zoo:yolox,half=yes"])
def test_what_only_torch_can_do_names_the_extra(spec):
    with pytest.raises(MissingExtra, match="zoo: needs the 'torch' extra"):
        load_detector(spec)


@pytest.mark.usefixtures("without_torch")
@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("zoo:yolocks", "there is no 'yolocks' in the zoo"),
        ("zoo:yolox,nms=0.5", "unknown option 'nms'"),
        ("zoo:yolox,strides=8", "unknown option 'strides'"),
        ("zoo:yolox,score=2", "score=2 should be between 0 and 1"),
        ("zoo:yolox,batch=0", "batch=0 should be at least 1"),
        ("zoo:yolox,weights=", "weights= should name a file"),
    ],
)
def test_options_are_those_of_the_zoo(spec, says):
    with pytest.raises(BadSpec, match=says):
        load_detector(spec)


@pytest.mark.usefixtures("without_torch")
def test_other_weights_in_the_file_are_refused_and_trained_ones_are_run(tmp_path, monkeypatch):
    """The graph has no weights of its own: what is installed in their place is what is run."""
    for name in ("yolox.onnx", "yolox.safetensors", "manifest.json"):
        shutil.copy(FOLDER / name, tmp_path)
    photo = load_data("rooms:val,count=1")[0].image
    shipped_one = load_detector("zoo:yolox")
    shutil.copy(FOLDER / "yolox-robust.safetensors", tmp_path / "yolox.safetensors")
    monkeypatch.setattr(graph, "FOLDER", tmp_path)
    monkeypatch.setattr(graph, "checked_weights", lambda name: shipped.checked_weights(name, tmp_path))
    with pytest.raises(BadWeights, match="is not the file that was shipped"):
        load_detector("zoo:yolox")
    text = (tmp_path / "manifest.json").read_text()
    (tmp_path / "manifest.json").write_text(
        text.replace(manifest()["yolox"]["sha256"], checksum(tmp_path / "yolox.safetensors"))
    )
    shipped.manifest.cache_clear()
    trained = load_detector("zoo:yolox")
    robust = load_detector(f"onnx:{FOLDER / 'yolox-robust.onnx'},decoder=yolox,score=0.01,nms=0.6,max=100")
    assert trained.fingerprint != shipped_one.fingerprint
    np.testing.assert_allclose(trained.detect([photo])[0].boxes, robust.detect([photo])[0].boxes, rtol=0, atol=1e-3)

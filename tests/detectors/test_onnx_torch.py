"""White box from ONNX: parity with ONNX Runtime, with this project's own YOLOX, and with finite differences."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pretended_device import PretendedDevice

import misdetect as md
from misdetect.detectors.preprocess import PRESETS, Preprocess
from misdetect.detectors.preprocess_torch import to_canvas
from misdetect.detectors.yolox.detector import YoloxDetector
from misdetect.detectors.yolox.net import VARIANTS, YOLOX
from misdetect.nouns.boxes import iou
from misdetect.nouns.detections import Truth
from misdetect.nouns.protocols import as_white_box, level
from misdetect.nouns.spec import Spec
from misdetect.said.errors import LevelTooLow, MissingExtra
from misdetect.said.extras import command

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from test_yolox import coco_ap, noise  # noqa: E402
from test_yolox_net import NANO, nano_weights  # noqa: E402

from misdetect.detectors.onnx.detector import load_onnx  # noqa: E402
from misdetect.detectors.onnx.white_box import load_differentiable  # noqa: E402

torch.set_num_threads(1)
COCO66 = Path(__file__).parents[2] / "../shared/fixtures/coco66"


def both(spec):
    return load_onnx(Spec.parse(spec)), load_onnx(Spec.parse(f"{spec},level=differentiable"))


@pytest.fixture(scope="module")
def nano():
    if not NANO.exists():
        pytest.skip("the shared fixture yolox_nano.onnx is not here")
    return both(f"onnx:{NANO},decoder=yolox,names=coco")


@given(
    st.integers(8, 90),
    st.integers(8, 90),
    st.sampled_from(sorted(PRESETS)),
    st.sampled_from([(64, 64), (96, 64), (48, 80)]),
    st.integers(0, 99),
)
def test_the_torch_letterbox_is_the_projects_letterbox(height, width, preset, size, seed):
    convention = Preprocess(*size, **PRESETS[preset])
    image = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    expected, where = convention.apply(image)
    got, place = to_canvas(torch.from_numpy(image.transpose(2, 0, 1)[None].copy()).float() / 255, convention)
    assert place == where
    grey = np.array(convention.std)[:, None, None] / convention.scale
    assert (np.abs(got[0].numpy() - expected) * grey).max() < 1, "grey levels"


def test_nano_is_a_white_box(nano):
    assert level(nano[0]) == "Detector"
    assert level(nano[1]) == "Differentiable"
    assert nano[1].fingerprint != nano[0].fingerprint


@pytest.mark.heavy
def test_nano_has_the_accuracy_of_its_onnx_file(nano):
    if not COCO66.exists():
        pytest.skip("the shared fixture coco66 is not here")
    cv2 = pytest.importorskip("cv2")
    data = json.loads((COCO66 / "instances.json").read_text())
    ids = [c["id"] for c in sorted(data["categories"], key=lambda c: c["id"])]
    results = [[], []]
    for record in data["images"]:
        image = np.ascontiguousarray(cv2.imread(str(COCO66 / "images" / record["file_name"]))[..., ::-1])
        for detector, found in zip(nano, results, strict=True):
            found += detector.detect([image])[0].to_coco(record["id"], ids)
    source, converted = (coco_ap(data, found) for found in results)
    assert source[0] == pytest.approx(0.311, abs=0.003)
    np.testing.assert_allclose(converted[:6], source[:6], atol=0.004)  # rounding in OpenCV's resizing is all there is


@pytest.mark.heavy
def test_gradients_through_the_file_are_those_of_the_network_it_was_made_from(nano):
    """The same weights in this project's YOLOX: another network code, another logit, the same losses and slopes."""
    module = YOLOX(80, VARIANTS["nano"]).eval()
    module.load_state_dict(nano_weights())
    own = YoloxDetector(module, nano[1].names, size=416)
    image = noise(3, 320, 416).astype(np.float32)
    truth = Truth([[40.0, 60, 200, 250], [220, 100, 400, 300]], [0, 16])
    for loss in ("cls", "loc", "all"):
        (value,), (slope,) = nano[1].gradient([image], [truth], loss)
        (own_value,), (own_slope,) = own.gradient([image], [truth], loss)
        assert value == pytest.approx(own_value, rel=1e-3)
        np.testing.assert_allclose(slope, own_slope, atol=5e-3 * np.abs(own_slope).max())
        assert np.abs(slope).max() > 0


CLASSES, CELLS = 3, 16


def graph(path, family, *, extra=None):
    """A tiny detector of 32 × 32 pixels and 16 candidates as ``family`` exports it; weights drawn at random."""
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    random = np.random.default_rng(1)
    channels = {"yolov5": 5 + CLASSES, "yolov8": 4 + CLASSES, "detr": 5 + CLASSES, "rtdetr": 4 + CLASSES}[family]
    weight = random.normal(0, 0.5, (channels, 3, 8, 8)).astype(np.float32)
    weight -= weight.mean(axis=(1, 2, 3), keepdims=True)
    constants = {"weight": weight, "shape": np.array([1, channels, CELLS])}
    nodes = [
        helper.make_node("Conv", ["images", "weight"], ["cells"], kernel_shape=[8, 8], strides=[8, 8]),
        helper.make_node("Reshape", ["cells", "shape"], ["flat"]),
    ]
    if extra:
        nodes.append(helper.make_node(extra, ["flat"], ["strange"]))
    flat = "strange" if extra else "flat"
    if family.endswith("detr"):
        nodes += [
            helper.make_node("Transpose", [flat], ["rows"], perm=[0, 2, 1]),
            helper.make_node("Slice", ["rows", "0", "4", "2"], ["place"]),
            helper.make_node("Slice", ["rows", "4", "99", "2"], ["logits"]),
            helper.make_node("Sigmoid", ["place"], ["boxes"]),
        ]
        constants |= {str(number): np.array([number]) for number in (0, 2, 4, 99)}
        outputs = {"logits": [1, CELLS, channels - 4], "boxes": [1, CELLS, 4]}
    else:
        constants["scale"] = np.array([32.0] * 4 + [1] * (channels - 4), np.float32)[None, :, None]
        last = "output" if family == "yolov8" else "columns"
        nodes += [helper.make_node("Sigmoid", [flat], ["share"]), helper.make_node("Mul", ["share", "scale"], [last])]
        if family == "yolov5":
            nodes.append(helper.make_node("Transpose", ["columns"], ["output"], perm=[0, 2, 1]))
        outputs = {"output": [1, channels, CELLS] if family == "yolov8" else [1, CELLS, channels]}
    info = helper.make_tensor_value_info
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "tiny",
            [info("images", onnx.TensorProto.FLOAT, [1, 3, 32, 32])],
            [info(name, onnx.TensorProto.FLOAT, shape) for name, shape in outputs.items()],
            [numpy_helper.from_array(value, name) for name, value in constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", 13)],
        ir_version=8,
    )
    onnx.save(model, path)
    names = path.with_suffix(".txt")
    names.write_text("a\nb\nc")
    return f"onnx:{path},decoder={family},names={names},nms=0.5,score=0.4,max=9,size=32"


FAMILIES = ("yolov5", "yolov8", "detr", "rtdetr")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_decoder_gives_the_detections_of_the_onnx_path(tmp_path, family):
    source, white = both(graph(tmp_path / "tiny.onnx", family))
    images = [noise(seed, 32, 32) for seed in range(6)]
    counts = []
    for image, theirs, mine, seen in zip(
        images, source.detect(images), white.detect(images), white.trace(images), strict=True
    ):
        np.testing.assert_allclose(mine.boxes, theirs.boxes, atol=1e-3)
        np.testing.assert_allclose(mine.scores, theirs.scores, atol=1e-5)
        assert mine.labels.tolist() == theirs.labels.tolist()
        chosen = seen.select()
        np.testing.assert_allclose(chosen.boxes, mine.boxes, atol=1e-3)
        assert chosen.labels.tolist() == mine.labels.tolist()
        above = seen.scores >= 0.4
        expected = above.sum() if family == "rtdetr" else above.any(axis=1).sum()
        assert len(seen.kept) + len(seen.dropped) == expected
        assert image.shape == (32, 32, 3)
        counts.append(len(mine))
    assert sum(counts) > 6, "a detector that says something"


@pytest.mark.parametrize("family", [*FAMILIES, "yolox"])
def test_nothing_is_computed_from_tensors_of_two_devices(tmp_path, family):
    if family == "yolox" and not NANO.exists():
        pytest.skip("the shared fixture yolox_nano.onnx is not here")
    spec = f"onnx:{NANO},decoder=yolox,names=coco" if family == "yolox" else graph(tmp_path / "tiny.onnx", family)
    spec += ",units=shares" * family.startswith("yolov")  # pixels are not scaled
    source, images = load_onnx(Spec.parse(spec)), [noise(5, 40, 32)]
    with PretendedDevice(torch.nn.Identity()) as device:  # the graph is brought there when it is loaded
        white = load_differentiable(source)
        white.detect(images)
        white.trace(images)
        white.gradient([images[0].astype(np.float32)], [Truth([[2.0, 3, 18, 20]], [0])], "all")
    assert device.refused == []
    assert all(tensor.is_there for tensor in white.module.state_dict(keep_vars=True).values())


@pytest.mark.parametrize("loss", ["cls", "loc", "all"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_decoder_has_the_gradient_of_its_loss(tmp_path, family, loss):
    _, white = both(graph(tmp_path / "tiny.onnx", family))
    white.module.double()
    random = np.random.default_rng(3)
    image = torch.from_numpy(noise(5, 40, 32).transpose(2, 0, 1)).double() / 255
    truth = Truth([[2.0, 3, 18, 20], [12, 14, 30, 31]], [0, 2])

    def value(x):
        classification, localisation = white._image_losses([x], [truth])
        return {"cls": classification, "loc": localisation, "all": classification + localisation}[loss].sum()

    leaf = image.clone().requires_grad_()
    (slope,) = torch.autograd.grad(value(leaf), leaf)
    assert slope.abs().max() > 0
    for _ in range(3):
        direction, step = torch.from_numpy(random.normal(size=image.shape)), 1e-6
        rise = (value(image + step * direction) - value(image - step * direction)).item() / (2 * step)
        assert (slope * direction).sum().item() == pytest.approx(rise, rel=1e-4)


@pytest.mark.heavy
def test_climbing_the_loss_makes_a_real_detector_miss_and_noise_does_not(nano):
    """Ten steps of at most 8 grey levels up ``cls``, on photos, against random signs of the same size."""
    if not COCO66.exists():
        pytest.skip("the shared fixture coco66 is not here")
    cv2 = pytest.importorskip("cv2")
    white, random = nano[1], np.random.default_rng(0)
    found = {"attack": 0, "noise": 0, "before": 0}
    for path in sorted((COCO66 / "images").iterdir())[:4]:
        image = np.ascontiguousarray(cv2.imread(str(path))[..., ::-1])
        sure = white.detect([image])[0].above(0.5)
        truth = Truth(sure.boxes, sure.labels)
        attacked = image.astype(np.float32)
        for _ in range(10):
            _, (slope,) = white.gradient([attacked], [truth], "cls")
            attacked = np.clip(attacked + 2 * np.sign(slope), image - 8.0, image + 8.0).clip(0, 255).astype(np.float32)
        shaken = np.clip(image + 8 * random.choice([-1, 1], image.shape), 0, 255)
        for name, pixels in (("attack", attacked), ("noise", shaken), ("before", image)):
            after = white.detect([pixels.round().astype(np.uint8)])[0].above(0.3)
            same = (iou(sure.boxes, after.boxes) >= 0.5) & (sure.labels[:, None] == after.labels[None])
            found[name] += int(same.any(axis=1).sum())
    assert found["before"] >= 8
    assert found["attack"] <= 0.2 * found["before"]
    assert found["noise"] >= 0.8 * found["before"]


def test_a_graph_that_cannot_be_converted_says_so(tmp_path):
    source = load_onnx(Spec.parse(graph(tmp_path / "tiny.onnx", "yolov8", extra="ThresholdedRelu")))
    with pytest.raises(LevelTooLow, match=r"tiny\.onnx.*onnx2torch cannot convert.*still runs as a Detector"):
        load_differentiable(source)


def test_a_converted_graph_that_differs_is_refused(tmp_path, monkeypatch):
    """Planted: a converter that gets one weight wrong."""
    import onnx2torch

    real = onnx2torch.convert

    def wrong(model):
        module = real(model)
        with torch.no_grad():
            next(module.parameters())[0, 0, 0, 0] += 0.01
        return module

    monkeypatch.setattr(onnx2torch, "convert", wrong)
    source = load_onnx(Spec.parse(graph(tmp_path / "tiny.onnx", "yolov8")))
    with pytest.raises(LevelTooLow, match="differs from ONNX Runtime's by"):
        load_differentiable(source)


def test_an_absent_converter_is_named(tmp_path, monkeypatch):
    source = load_onnx(Spec.parse(graph(tmp_path / "tiny.onnx", "yolov8")))
    monkeypatch.setitem(sys.modules, "onnx2torch", None)
    with pytest.raises(MissingExtra, match="needs the 'onnx-torch' extra: pip install"):
        load_differentiable(source)


def test_a_decoder_that_hides_candidates_is_refused(nano):
    class Hidden:
        """What is left of an ``nms`` detector here: its decoder is none of those that show every candidate."""

        spec, settings, decoder, names = "onnx:x.onnx,decoder=nms", {"decoder": "nms"}, object(), ("thing",)

    with pytest.raises(LevelTooLow, match="decoder=nms shows only what is left of them"):
        load_differentiable(Hidden())


def annotated(count):
    """Pairs of image and truth, with objects that the tiny detectors hardly ever find."""
    boxes = [[2.0, 3, 12, 14], [10, 8, 30, 29]]
    return [(noise(seed, 32, 32), Truth(boxes, [seed % CLASSES, (seed + 1) % CLASSES])) for seed in range(count)]


def explained(spec, data, **settings):
    """Document and rows of an explain run that starts from nothing."""
    run = md.explain(spec, data, cache=False, **settings)
    return run.document, run.rows().to_pylist()


def test_a_file_is_opened_where_a_study_has_to_look_inside(tmp_path):
    spec = graph(tmp_path / "tiny.onnx", "yolov8")
    document, rows = explained(spec, annotated(6))
    told, same = explained(f"{spec},level=differentiable", annotated(6))
    assert document["missed"] > 6
    assert (document["settings"]["inside"], document["notes"]) == (True, [])
    assert (rows, document["mechanisms"]) == (same, told["mechanisms"])
    closed, _ = explained(f"{spec},level=detector", annotated(6))
    assert closed["settings"]["inside"] is False
    assert closed["missed"] == document["missed"], "both engines report the same"
    assert closed["mechanisms"]["unknown"] > 0
    assert "level=detector keeps the file closed" in closed["notes"][1]
    assert len(explained(spec, annotated(2), inside=False)[0]["notes"]) == 1, "as told"


@pytest.mark.heavy
def test_what_does_not_look_inside_runs_in_onnx_runtime_without_torch(tmp_path):
    spec = graph(tmp_path / "tiny.onnx", "yolov8")
    (tmp_path / "tiny.txt").write_text("ball\nbook\ncat")
    code = (
        "import sys, misdetect as md; "
        f"run = md.detect({spec!r}, 'rooms:val,count=3', cache=False); "
        "assert run.document['done'] == 3; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("reason", ["operator", "extra", "decoder"])
def test_a_file_that_cannot_be_opened_is_explained_from_outside_and_says_why(tmp_path, monkeypatch, reason):
    spec = graph(tmp_path / "tiny.onnx", "yolov8", extra="ThresholdedRelu" if reason == "operator" else None)
    if reason == "extra":
        monkeypatch.setitem(sys.modules, "onnx2torch", None)
    if reason == "decoder":
        own = tmp_path / "own.py"
        own.write_text(
            "def decode(outputs, size):\n"
            "    rows = outputs[0][0].T\n"
            "    return rows[:, [0, 1, 0, 1]] + [0, 0, 4, 4], rows[:, 4:]\n"
        )
        spec = spec.replace("decoder=yolov8", f"decoder=python:{own}:decode,preset=ultralytics")
    document, rows = explained(spec, annotated(4))
    assert document["settings"]["inside"] is False
    said = {
        "operator": "onnx2torch cannot convert",
        "extra": command("onnx-torch"),
        "decoder": "needs a decoder that shows every candidate",
    }
    assert said[reason] in document["notes"][1]
    assert rows == explained(f"{spec},level=detector", annotated(4))[1]
    with pytest.raises(LevelTooLow, match=r"attack needs a detector that gives gradients.*--surrogate"):
        md.attack(spec, annotated(4), out=tmp_path / "attack")


def test_a_case_is_asked_again_of_the_opened_file(tmp_path):
    spec = graph(tmp_path / "tiny.onnx", "yolov8")
    run = md.explain(spec, annotated(3), out=tmp_path / "run", cache=False)
    again = run.replay("1")
    assert again["reproduced"], again["differs"]


def test_a_real_file_with_a_decoder_of_ones_own_stays_closed_and_says_why():
    file = NANO.with_name("fastestdet.onnx")
    if not file.exists():
        pytest.skip("the shared fixture fastestdet.onnx is not here")
    decoder = Path(__file__).parents[2] / "examples/fastestdet.py"
    spec = f"onnx:{file},decoder=python:{decoder}:decode,resize=stretch,colour=bgr,scale=1/255,names=coco"
    detector = load_onnx(Spec.parse(spec))
    same, why = as_white_box(detector)
    assert same is detector
    assert "needs a decoder that shows every candidate" in why


@pytest.mark.heavy
def test_every_miss_of_a_real_file_gets_a_mechanism_and_its_attack_needs_no_option(nano, tmp_path):
    if not COCO66.exists():
        pytest.skip("the shared fixture coco66 is not here")
    photos, spec = f"coco:{COCO66 / 'instances.json'}", nano[0].spec
    document, _ = explained(spec, photos, limit=12)
    closed, _ = explained(f"{spec},level=detector", photos, limit=12)
    assert "unknown" not in document["mechanisms"]
    assert sum(document["mechanisms"].values()) == document["missed"] > 20
    assert closed["mechanisms"]["unknown"] > 0.2 * closed["missed"]
    attacked = md.attack(spec, photos, limit=2, steps=5, ladder=0, cache=False, workers=2).document
    assert attacked["attacks"]["cls"]["AP50"] < attacked["clean"]["AP50"]

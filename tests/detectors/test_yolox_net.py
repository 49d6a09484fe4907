"""The network against what is known of YOLOX: the authors' parameter counts, and a real checkpoint run by ONNX Runtime.

The ONNX file's convolutions (batch normalisation folded in) are loaded into this project's network under the official
names, written out here; if a layer, a name, a stride or an order were wrong, the outputs would differ.
"""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from misdetect.detectors.yolox.detector import shape_of
from misdetect.detectors.yolox.net import VARIANTS, YOLOX, Raw, Shape, cells_of
from misdetect.said.errors import BadWeights

torch.set_num_threads(1)
NANO = Path(__file__).parents[2] / "../shared/fixtures/models/yolox_nano.onnx"


def _dw(name):
    return [f"{name}.dconv", f"{name}.pconv"]


def _csp(name, repeats):
    middle = [part for i in range(repeats) for part in (f"{name}.m.{i}.conv1", *_dw(f"{name}.m.{i}.conv2"))]
    return [f"{name}.conv1", f"{name}.conv2", *middle, f"{name}.conv3"]


def official_order():
    """Official names of nano's convolutions, in the order in which the authors' code runs them."""
    dark = "backbone.backbone.dark"
    names = ["backbone.backbone.stem.conv"]
    names += _dw(f"{dark}2.0") + _csp(f"{dark}2.1", 1)
    names += _dw(f"{dark}3.0") + _csp(f"{dark}3.1", 3)
    names += _dw(f"{dark}4.0") + _csp(f"{dark}4.1", 3)
    names += [*_dw(f"{dark}5.0"), f"{dark}5.1.conv1", f"{dark}5.1.conv2", *_csp(f"{dark}5.2", 1)]
    names += ["backbone.lateral_conv0", *_csp("backbone.C3_p4", 1), "backbone.reduce_conv1"]
    names += _csp("backbone.C3_p3", 1) + _dw("backbone.bu_conv2") + _csp("backbone.C3_n3", 1)
    names += _dw("backbone.bu_conv1") + _csp("backbone.C3_n4", 1)
    for level in range(3):
        names += [f"head.stems.{level}"]
        names += _dw(f"head.cls_convs.{level}.0") + _dw(f"head.cls_convs.{level}.1") + [f"head.cls_preds.{level}"]
        names += _dw(f"head.reg_convs.{level}.0") + _dw(f"head.reg_convs.{level}.1")
        names += [f"head.reg_preds.{level}", f"head.obj_preds.{level}"]
    return names


def nano_weights():
    """An official-looking checkpoint of YOLOX-nano made from the ONNX file; batch normalisation only adds the bias."""
    if not NANO.exists():
        pytest.skip("the shared fixture yolox_nano.onnx is not here")
    onnx = pytest.importorskip("onnx")
    graph = onnx.load(NANO).graph
    tensors = {t.name: torch.from_numpy(onnx.numpy_helper.to_array(t).copy()) for t in graph.initializer}
    weights = {}
    convolutions = [node for node in graph.node if node.op_type == "Conv"]
    for node, name in zip(convolutions, official_order(), strict=True):
        weight, bias = (tensors[i] for i in node.input[1:])
        if "_preds" in name:
            weights |= {f"{name}.weight": weight, f"{name}.bias": bias}
            assert node.input[1] == f"{name}.weight", "the ONNX file kept the official names of these layers"
            continue
        one = torch.ones_like(bias)
        weights |= {f"{name}.conv.weight": weight, f"{name}.bn.weight": one, f"{name}.bn.bias": bias}
        weights |= {f"{name}.bn.running_mean": 0 * one, f"{name}.bn.running_var": one - 1e-3}
        weights[f"{name}.bn.num_batches_tracked"] = torch.tensor(1)
    return weights


def test_real_weights_give_the_outputs_of_onnx_runtime():
    weights = nano_weights()
    runtime = pytest.importorskip("onnxruntime")
    network = YOLOX(80, VARIANTS["nano"]).eval()
    network.load_state_dict(weights, strict=True)
    image = np.random.default_rng(0).uniform(0, 255, (1, 3, 416, 416)).astype(np.float32)
    expected = runtime.InferenceSession(str(NANO), providers=["CPUExecutionProvider"]).run(None, {"images": image})[0]
    with torch.no_grad():
        raw = network(torch.from_numpy(image))
    got = torch.cat([raw.offsets, raw.objectness.sigmoid()[..., None], raw.classes.sigmoid()], dim=-1).numpy()
    np.testing.assert_allclose(got, expected, atol=1e-3)
    assert np.ptp(expected[..., 4]) > 0.01, "an image on which the network says something"


@pytest.mark.parametrize(
    ("variant", "millions"), [("nano", 0.91), ("tiny", 5.06), ("s", 9.0), ("m", 25.3), ("l", 54.2), ("x", 99.1)]
)
def test_parameters_are_as_many_as_the_authors_report(variant, millions):
    with torch.device("meta"):
        network = YOLOX(80, VARIANTS[variant])
    count = sum(p.numel() for p in network.parameters()) / 1e6
    assert count == pytest.approx(millions, abs=0.05 if millions > 8 else 0.005)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", [*VARIANTS.values(), Shape(0.1, 0.125), Shape(0.33, 0.1875, stem_stride=1)])
def test_a_checkpoint_tells_its_own_shape(shape):
    with torch.device("meta"):
        weights = YOLOX(7, shape).state_dict()
    found, classes = shape_of(weights, "here")
    assert classes == 7
    with torch.device("meta"):
        again = YOLOX(classes, found).state_dict()
    assert {k: v.shape for k, v in again.items()} == {k: v.shape for k, v in weights.items()}


def test_another_family_is_refused_by_name():
    with pytest.raises(BadWeights, match=re.escape("x.pth is not a YOLOX checkpoint")):
        shape_of({"backbone.body.conv1.weight": torch.zeros(64, 3, 7, 7)}, "x.pth")


@pytest.mark.parametrize("stem_stride", [1, 2])
@pytest.mark.parametrize("size", [(64, 96), (32, 32)])
def test_cells_are_those_of_the_predictions_and_tile_the_input(stem_stride, size):
    shape = Shape(0.33, 0.125, stem_stride=stem_stride)
    network = YOLOX(3, shape).eval()
    x = torch.rand(2, 3, *size) * 255
    raw, cells = network(x), network.cells(x)
    assert raw.offsets.shape == (2, len(cells.strides), 4)
    assert raw.classes.shape == (2, len(cells.strides), 3)
    boxes = cells.boxes
    for level, stride in enumerate(shape.strides):
        mine = boxes[cells.levels == level]
        assert ((mine[:, 2:] - mine[:, :2]) == stride).all()
        assert len({tuple(row) for row in mine.tolist()}) == size[0] * size[1] // stride**2
        assert (mine[:, 2].max(), mine[:, 3].max()) == (size[1], size[0])


def test_decoding_inverts_encoding():
    cells = cells_of(64, 64, (8, 16, 32), torch.device("cpu"))
    generator = torch.Generator().manual_seed(0)
    low = torch.rand(len(cells.strides), 2, generator=generator) * 40
    wanted = torch.cat([low, low + 1 + torch.rand(len(cells.strides), 2, generator=generator) * 20], dim=1)
    stride = cells.strides[:, None]
    centre, size = (wanted[:, :2] + wanted[:, 2:]) / 2, wanted[:, 2:] - wanted[:, :2]
    offsets = torch.cat([centre / stride - cells.corners, (size / stride).log()], dim=1)
    got = Raw(offsets[None], torch.zeros(1, 1), torch.zeros(1, 1, 1)).boxes(cells)[0]
    torch.testing.assert_close(got, wanted)
    huge = Raw(torch.full((1, len(stride), 4), 1e4), torch.zeros(1, 1), torch.zeros(1, 1, 1)).boxes(cells)
    assert huge.isfinite().all()

"""YOLOX behind the four levels: the law of selection, gradients against finite differences, loading, real weights."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_yolox_net import nano_weights

from misdetect.detectors.preprocess_torch import canvas_of
from misdetect.detectors.yolox.detector import YoloxDetector, load_yolox
from misdetect.detectors.yolox.net import YOLOX, Shape
from misdetect.nouns.boxes import iou
from misdetect.nouns.candidates import Reason
from misdetect.nouns.detections import Truth
from misdetect.nouns.protocols import level
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadArray, BadSpec, BadWeights

torch.set_num_threads(1)
COCO66 = Path(__file__).parents[2] / "../shared/fixtures/coco66"
NAMES = ("mug", "lamp", "chair")


def noise(seed, height=64, width=64):
    """An image with structure at several scales, so that cells differ."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (8, 8, 3)).repeat(height // 8, axis=0).repeat(width // 8, axis=1)
    return np.clip(coarse + random.normal(0, 20, (height, width, 3)), 0, 255).astype(np.uint8)


def random_net(seed, classes=3, shape=None):
    """A network without training whose scores spread over [0, 1] and whose boxes overlap."""
    torch.manual_seed(seed)
    module = YOLOX(classes, shape or Shape(0.33, 0.125))
    module.train()
    images = torch.stack([torch.from_numpy(noise(s).transpose(2, 0, 1)).float() for s in range(8)])
    with torch.no_grad():
        for _ in range(25):  # batch normalisation must know the statistics, or an eval pass saturates
            module(images)
        for kind, spread in (("cls_preds", 12.0), ("obj_preds", 12.0), ("reg_preds", 4.0)):
            for layer in getattr(module.head, kind):
                layer.weight.mul_(spread)
                layer.bias.zero_()
        for layer in module.head.reg_preds:
            layer.bias[2:] = 1.0
    return module.eval()


NET = random_net(0)


def detector_of(module=NET, **options):
    return YoloxDetector(module, NAMES[: module.classes], size=64, **options)


def greedy(boxes, scores, labels, threshold, cap):
    """Suppression by the book: {index: its suppressor or None}, and the indices kept, best first."""
    overlap = iou(boxes, boxes)
    kept, suppressor = [], {}
    for i in sorted(range(len(scores)), key=lambda i: (-scores[i], i)):
        by = next((k for k in kept if labels[k] == labels[i] and overlap[k, i] > threshold), None)
        if by is None:
            kept.append(i)
        else:
            suppressor[i] = by
    return kept[:cap], kept[cap:], suppressor


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 1000),
    st.sampled_from([0.0, 0.05, 0.3, 0.6]),
    st.sampled_from([0.1, 0.45, 0.65, 1.0]),
    st.sampled_from([3, 20, 300]),
    st.sampled_from([(64, 64), (48, 80), (96, 40)]),
)
def test_detect_is_a_selection_of_trace_with_a_reason_for_every_loss(seed, score, nms, cap, size):
    detector = detector_of(score=score, nms=nms, cap=cap)
    image = noise(seed, *size)
    (found,), (seen,) = detector.detect([image]), detector.trace([image])
    chosen = seen.select()
    np.testing.assert_allclose(chosen.boxes, found.boxes, atol=1e-3)
    np.testing.assert_allclose(chosen.scores, found.scores, atol=1e-5)
    np.testing.assert_array_equal(chosen.labels, found.labels)
    assert len(seen) == 64 + 16 + 4

    # Every cell above the threshold, by its best class, is kept or dropped, once.
    best = seen.scores.max(axis=1)
    above = np.flatnonzero(best >= score)
    everyone = np.concatenate([seen.kept.candidate, seen.dropped.candidate])
    assert sorted(everyone) == above.tolist()
    labels = seen.scores.argmax(axis=1)
    np.testing.assert_array_equal(labels[seen.kept.candidate], seen.kept.label)

    # And for the reason that the book gives. Boxes are suppressed unclipped; a cell's own decoding tells those.
    # Ranks and overlaps are taken on the grid.
    boxes = np.round(unclipped(detector, image)[above].astype(np.float64) * 64) / 64
    ranks = np.array([round(float(value), 4) for value in best[above]])
    kept, over, suppressor = greedy(boxes, ranks, labels[above], nms, cap)
    assert above[kept].tolist() == seen.kept.candidate.tolist()
    dropped = dict(
        zip(seen.dropped.candidate.tolist(), zip(seen.dropped.reason, seen.dropped.by, strict=True), strict=True)
    )
    for i in over:
        assert dropped[above[i]] == (Reason.CAP, -1)
    for i, by in suppressor.items():
        expected = (Reason.SUPPRESSED, kept.index(by)) if by in kept else (Reason.CAP, -1)
        assert dropped[above[i]] == expected


def unclipped(detector, image):
    """The decoded boxes of every cell in pixels of the network's input, as they are suppressed."""
    with torch.no_grad():
        x, _ = canvas_of([torch.from_numpy(image.transpose(2, 0, 1)).float() / 255], detector.convention)
        return detector.module(x).boxes(detector.module.cells(x))[0].numpy()


def test_the_law_was_tried_on_all_reasons():
    seen = detector_of(score=0.05, nms=0.45, cap=5).trace([noise(1)])[0]
    assert {Reason.SUPPRESSED, Reason.CAP} == {Reason(int(r)) for r in seen.dropped.reason}
    assert 0.05 < np.median(seen.scores.max(axis=1)) < 0.95, "scores spread"


def test_candidates_say_what_their_parts_are():
    image = noise(3, 40, 96)
    seen = detector_of().trace([image])[0]
    np.testing.assert_allclose(seen.scores, seen.objectness[:, None] * seen.class_scores, atol=1e-6)
    np.testing.assert_allclose(seen.background, 1 - (seen.objectness[:, None] * seen.class_scores).max(1), atol=1e-6)
    assert seen.identity.tolist() == list(range(84))
    # The image is shrunk by 64/96 to 64 × 26 pixels: a cell of 8 network pixels is 12 original ones wide.
    first = seen.proposals[seen.pyramid == 0][0]
    np.testing.assert_allclose(first, [0, 0, 12, 8 * 40 / 26], atol=1e-4)
    assert (seen.refined >= 0).all()
    assert (seen.refined[:, 0::2].max(), seen.refined[:, 1::2].max()) == (96, 40)


def test_a_result_depends_neither_on_companions_nor_on_their_number():
    one = detector_of(batch_size=3, score=0.05)
    images = [noise(i) for i in range(5)]
    truths = [truth_of(i) for i in range(5)]
    alone, together = [one.detect([image])[0] for image in images], one.detect(images[::-1])[::-1]
    for one_image, companions in zip(alone, together, strict=True):  # kernels may differ by the batch in the last bits
        np.testing.assert_array_equal(one_image.labels, companions.labels)
        np.testing.assert_allclose(one_image.scores, companions.scores, atol=1e-6)
        np.testing.assert_allclose(one_image.boxes, companions.boxes, atol=1e-3)
    value, slope = one.gradient([i.astype(np.float32) for i in images], truths, "all")
    for i, image in enumerate(images):
        (single,), (gradient,) = one.gradient([image.astype(np.float32)], [truths[i]], "all")
        assert single == pytest.approx(value[i], rel=1e-5)
        np.testing.assert_allclose(gradient, slope[i], atol=1e-4 * np.abs(slope[i]).max())


def truth_of(seed, objects=3):
    random = np.random.default_rng(seed)
    low = random.uniform(0, 40, (objects, 2))
    boxes = np.concatenate([low, low + random.uniform(8, 24, (objects, 2))], axis=1)
    return Truth(boxes, random.integers(0, 3, objects))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("loss", ["cls", "loc", pytest.param("all", marks=pytest.mark.heavy)])
@pytest.mark.parametrize("size", [pytest.param((64, 64), marks=pytest.mark.heavy), (48, 80)])
def test_gradients_are_those_of_finite_differences(loss, size):
    module = random_net(5).double()
    detector = detector_of(module)
    image, truth = torch.from_numpy(noise(7, *size).transpose(2, 0, 1)).double() / 255, truth_of(2)

    def value(x):
        classification, localisation = detector._image_losses([x], [truth])
        return {"cls": classification, "loc": localisation, "all": classification + localisation}[loss].sum()

    leaf = image.clone().requires_grad_()
    (slope,) = torch.autograd.grad(value(leaf), leaf)
    random = torch.Generator().manual_seed(1)
    step = 1e-6
    for _ in range(2):
        direction = torch.randn(image.shape, generator=random, dtype=torch.float64)
        with torch.no_grad():
            rise = (value(image + step * direction) - value(image - step * direction)) / (2 * step)
        assert (slope * direction).sum().item() == pytest.approx(rise.item(), rel=1e-4)

    # What `gradient` returns is the same, per unit of the 0..255 range.
    (got_value,), (got,) = detector_of(random_net(5)).gradient([noise(7, *size).astype(np.float32)], [truth], loss)
    assert got_value == pytest.approx(value(image).item(), rel=1e-4)
    np.testing.assert_allclose(got, (slope / 255).permute(1, 2, 0), atol=2e-4 * float(slope.abs().max() / 255))


def test_losses_belong_to_the_image_and_ignore_crowds():
    detector, image = detector_of(), noise(4).astype(np.float32)
    truth = truth_of(4)
    crowded = Truth(
        np.concatenate([truth.boxes, [[0, 0, 64, 64], [5, 5, 5, 9]]]),
        np.append(truth.labels, [1, 1]),
        crowd=[False] * 3 + [True, False],
    )
    plain = detector.gradient([image], [truth], "all")[0]
    assert plain == detector.gradient([image], [crowded], "all")[0]
    total = [detector.gradient([image], [truth], loss)[0][0] for loss in ("cls", "loc", "all")]
    assert total[0] + total[1] == pytest.approx(total[2])
    empty = detector.gradient([image], [Truth.empty()], "loc")
    assert empty[0] == 0
    assert not empty[1][0].any()


def test_the_module_is_left_as_it_was_found():
    module = random_net(3)
    module.backbone.train()
    module.head.eval()
    grad = torch.randn_like(module.head.stems[0].conv.weight)
    module.head.stems[0].conv.weight.grad = grad.clone()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    modes = [part.training for part in module.modules()]
    detector = detector_of(module)
    detector.detect([noise(0)])
    detector.trace([noise(0)])
    detector.gradient([noise(0).astype(np.float32)], [truth_of(0)], "all")
    assert [part.training for part in module.modules()] == modes
    assert torch.equal(module.head.stems[0].conv.weight.grad, grad)
    assert sum(p.grad is not None for p in module.parameters()) == 1
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert not any(part._forward_hooks or part._backward_hooks for part in module.modules())


def test_it_reaches_every_level():
    assert level(detector_of()) == "Trainable"


def shapes_and_colours(count, seed=0, size=64):
    """Images of one to three plain rectangles, whose colour is their class, on a noisy ground."""
    random = np.random.default_rng(seed)
    images, truths = [], []
    for _ in range(count):
        image = random.normal(110, 12, (size, size, 3))
        boxes, labels = [], []
        while len(boxes) < 3:
            w, h = random.integers(12, 30, 2)
            x, y = random.integers(0, size - w), random.integers(0, size - h)
            box = [x, y, x + w, y + h]
            if boxes and iou([box], boxes).max() > 0.05:
                continue
            label = int(random.integers(0, 3))
            image[y : y + h, x : x + w] = 40
            image[y : y + h, x : x + w, label] = 230
            boxes.append(box)
            labels.append(label)
        images.append(np.clip(image, 0, 255).astype(np.uint8))
        truths.append(Truth(boxes, labels))
    return images, truths


@pytest.mark.heavy
def test_training_overfits_eight_images():
    """Losses, assignment, decoding and selection together can learn: AP50 above .9 on what was shown."""
    torch.manual_seed(0)
    detector = detector_of(YOLOX(3, Shape(0.33, 0.125)), batch_size=8, l1=True)
    images, truths = shapes_and_colours(8)
    pixels = [image.astype(np.float32) for image in images]
    steps = 300
    optimiser = torch.optim.AdamW(detector.parameters(), lr=3e-3)
    calm = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    history = []
    for _ in range(steps):
        losses = detector.losses(pixels, truths)
        total = sum(losses.values())
        optimiser.zero_grad()
        total.backward()
        optimiser.step()
        calm.step()
        history.append(total.item())
    assert set(losses) == {"classification", "objectness", "localisation", "l1"}
    assert np.mean(history[-5:]) < 0.3 * np.mean(history[:5])
    assert average_precision(detector.detect(images), truths) > 0.9


def average_precision(detections, truths):
    """AP50 over classes by pycocotools."""
    results = [r for i, d in enumerate(detections) for r in d.to_coco(i, range(1, 4))]
    annotations = [
        {"image_id": i, "category_id": int(label) + 1, "bbox": [x0, y0, x1 - x0, y1 - y0]}
        for i, t in enumerate(truths)
        for (x0, y0, x1, y1), label in zip(t.boxes.tolist(), t.labels, strict=True)
    ]
    for number, a in enumerate(annotations):
        a |= {"id": number + 1, "area": a["bbox"][2] * a["bbox"][3], "iscrowd": 0}
    data = {
        "images": [{"id": i} for i in range(len(truths))],
        "annotations": annotations,
        "categories": [{"id": i} for i in range(1, 4)],
    }
    return coco_ap(data, results)[1]


def coco_ap(data, results):
    coco_module, evaluation = pytest.importorskip("pycocotools.coco"), pytest.importorskip("pycocotools.cocoeval")
    truth = coco_module.COCO()
    truth.dataset = data
    truth.createIndex()
    run = evaluation.COCOeval(truth, truth.loadRes(results), "bbox")
    run.evaluate()
    run.accumulate()
    run.summarize()
    return run.stats


@pytest.fixture(scope="module")
def nano(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "yolox_nano.pth"
    torch.save({"start_epoch": 300, "model": nano_weights()}, path)
    return path


@pytest.mark.heavy
def test_an_official_checkpoint_reaches_its_accuracy(nano):
    """The accuracy measured with the ONNX file and OpenCV's letterbox: AP .311, AP50 .489."""
    if not COCO66.exists():
        pytest.skip("the shared fixture coco66 is not here")
    cv2 = pytest.importorskip("cv2")
    detector = load_yolox(Spec.parse(f"yolox:{nano},nms=0.6"))
    assert (detector.settings["variant"], detector.settings["size"], len(detector.names)) == ("nano", 416, 80)
    data = json.loads((COCO66 / "instances.json").read_text())
    ids = [c["id"] for c in sorted(data["categories"], key=lambda c: c["id"])]
    results = []
    for record in data["images"]:
        image = cv2.imread(str(COCO66 / "images" / record["file_name"]))[..., ::-1]
        results += detector.detect([np.ascontiguousarray(image)])[0].to_coco(record["id"], ids)
    stats = coco_ap(data, results)
    assert stats[0] == pytest.approx(0.311, abs=0.004)
    assert stats[1] == pytest.approx(0.489, abs=0.006)


def test_weights_survive_saving_and_loading(tmp_path):
    trained, path = detector_of(random_net(8)), tmp_path / "small.safetensors"
    trained.save(path)
    names = tmp_path / "names.txt"
    names.write_text("\n".join(NAMES))
    again = load_yolox(Spec.parse(f"yolox:{path},names={names},size=64,score=0.05,depth=0.33,width=0.125,classes=3"))
    assert again.settings["variant"] == "custom"
    assert again.names == NAMES
    one, other = detector_of(random_net(8), score=0.05).detect([noise(2)])[0], again.detect([noise(2)])[0]
    np.testing.assert_allclose(one.boxes, other.boxes, atol=1e-3)
    np.testing.assert_allclose(one.scores, other.scores, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ("", BadSpec, "3 classes, so their names are needed"),
        (",names=coco", BadSpec, "names=coco has 80 names, the checkpoint has 3 classes"),
        (",variant=s", BadWeights, "depth 0.333, width 0.125 and depthwise no, not the one"),
        (",width=0.25", BadWeights, "depth 0.333, width 0.125"),
        (",variant=q", BadSpec, "variant=q is not one of nano"),
        (",classes=5", BadWeights, "has 3 classes, not the 5"),
        (",names=NAMES,size=100", BadSpec, "size=100 should be a multiple of 32"),
        (",names=NAMES,score=2", BadSpec, "score=2 should be between 0 and 1"),
        (",names=NAMES,max=0", BadSpec, "max= should be at least 1"),
        (",names=NAMES,colour=rgb", BadSpec, "unknown option 'colour'"),
    ],
)
def test_what_does_not_fit_is_said(tmp_path, options, error, message):
    path, names = tmp_path / "small.safetensors", tmp_path / "names.txt"
    detector_of().save(path)
    names.write_text("\n".join(NAMES))
    with pytest.raises(error, match=message):
        load_yolox(Spec.parse(f"yolox:{path}{options.replace('NAMES', str(names))}"))


def test_names_must_be_as_many_as_classes():
    with pytest.raises(BadArray, match="Expected 3 names"):
        YoloxDetector(NET, ["one"], size=64)

"""``trace`` of every torchvision family selects exactly what ``detect`` returns, and its reasons are true causes."""

import numpy as np
import pytest
import torch
from torchvision_toys import FAMILIES, NAMES, Pyramid, anchors, faster_rcnn, pictures, toy

from misdetect.detectors.torchvision.load import wrap
from misdetect.nouns.boxes import iou
from misdetect.nouns.candidates import Candidates, Reason
from misdetect.nouns.detections import Detections
from misdetect.said.errors import BadSpec, LevelTooLow

ONE_STAGE = ("ssd", "retinanet", "fcos")


def check_same(detected: Detections, selected: Detections) -> None:
    assert len(detected) == len(selected)
    assert np.abs(detected.boxes - selected.boxes).max(initial=0) < 1e-3
    assert np.abs(detected.scores - selected.scores).max(initial=0) < 1e-5
    assert np.array_equal(detected.labels, selected.labels)


def above(traced: Candidates, score: float) -> set[tuple[int, int]]:
    return set(zip(*(column.tolist() for column in np.nonzero(traced.scores > score)), strict=True))


def pairs(traced: Candidates, reason: Reason | None = None) -> list[tuple[int, int]]:
    """Kept pairs, or those dropped for ``reason``."""
    if reason is None:
        return list(zip(traced.kept.candidate.tolist(), traced.kept.label.tolist(), strict=True))
    dropped, these = traced.dropped, traced.dropped.reason == reason
    return list(zip(dropped.candidate[these].tolist(), dropped.label[these].tolist(), strict=True))


@pytest.mark.sampled(9)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(4))
def test_the_kept_candidates_are_exactly_the_detections(family: str, seed: int) -> None:
    detector = wrap(toy(family, seed=seed), NAMES)
    images = [*pictures(2, seed=seed), *pictures(1, 60, 130, seed=seed)]
    for detected, traced in zip(detector.detect(images), detector.trace(images), strict=True):
        assert len(detected) > 3
        check_same(detected, traced.select())


@pytest.mark.parametrize("family", FAMILIES)
def test_detect_is_what_the_module_itself_returns(family: str) -> None:
    module = toy(family)
    image = pictures(1)[0]
    found = wrap(module, NAMES).detect([image])[0]
    with torch.no_grad():
        own = module.eval()([torch.from_numpy(image.transpose(2, 0, 1)).float() / 255])[0]
    first_label = 0 if family in ("retinanet", "fcos") else 1
    assert np.allclose(found.boxes, own["boxes"].numpy(), atol=1e-4)
    assert np.allclose(found.scores, own["scores"].numpy(), atol=1e-6)
    assert np.array_equal(found.labels + first_label, own["labels"].numpy())
    if family == "mask-rcnn":
        assert found.masks is not None
        assert np.array_equal(found.masks.to_array(), own["masks"][:, 0].numpy() >= 0.5)
        assert found.masks.to_array().any()


@pytest.mark.parametrize("family", FAMILIES)
def test_every_pair_above_the_threshold_is_kept_or_dropped_once(family: str) -> None:
    detector = wrap(toy(family), NAMES)
    for traced in detector.trace(pictures(3)):
        listed = pairs(traced) + [pair for reason in Reason for pair in pairs(traced, reason)]
        assert len(listed) == len(set(listed))
        assert set(listed) == above(traced, detector.settings["score"])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_suppressor_is_kept_scores_higher_and_overlaps(family: str) -> None:
    detector = wrap(toy(family), NAMES)
    suppressed = 0
    for traced in detector.trace(pictures(3)):
        kept_boxes, dropped_boxes = traced.boxes_of(traced.kept), traced.boxes_of(traced.dropped)
        for row in np.flatnonzero(traced.dropped.reason == Reason.SUPPRESSED):
            by = traced.dropped.by[row]
            candidate, label = traced.dropped.candidate[row], traced.dropped.label[row]
            assert traced.kept.label[by] == label
            assert traced.scores[traced.kept.candidate[by], label] >= traced.scores[candidate, label]
            assert iou(dropped_boxes[row : row + 1], kept_boxes[by : by + 1])[0, 0] > detector.settings["nms"] - 1e-5
            suppressed += 1
        assert (traced.dropped.by[traced.dropped.reason != Reason.SUPPRESSED] == -1).all()
    assert suppressed > 3


@pytest.mark.parametrize("family", FAMILIES)
def test_taking_a_reason_away_lets_its_pairs_through(family: str) -> None:
    """The reasons are causes: without the cap nothing falls to it, and likewise for suppression and top-k."""
    module, image = toy(family), pictures(1)[0]
    plain = wrap(module, NAMES).trace([image])[0]
    assert pairs(plain, Reason.CAP)
    assert pairs(plain, Reason.SUPPRESSED)

    uncapped = wrap(module, NAMES, max=10_000).trace([image])[0]
    assert not pairs(uncapped, Reason.CAP)
    assert pairs(uncapped)[: len(plain.kept)] == pairs(plain)
    freed = set(pairs(uncapped)) | set(pairs(uncapped, Reason.SUPPRESSED))
    assert freed == set(pairs(plain)) | set(pairs(plain, Reason.SUPPRESSED)) | set(pairs(plain, Reason.CAP))
    assert set(pairs(plain, Reason.SUPPRESSED)) <= set(pairs(uncapped, Reason.SUPPRESSED))

    unsuppressed = wrap(module, NAMES, max=10_000, nms=1.0).trace([image])[0]
    assert not pairs(unsuppressed, Reason.SUPPRESSED)
    assert set(pairs(unsuppressed)) == freed
    if family in ONE_STAGE:
        assert pairs(plain, Reason.TOP_K)
        everything = wrap(module, NAMES, max=10_000, nms=1.0, topk=10_000).trace([image])[0]
        assert set(pairs(everything)) == above(plain, plain.settings["score"])
        check_same(wrap(module, NAMES, max=10_000, nms=1.0, topk=10_000).detect([image])[0], everything.select())


def test_top_k_is_per_class_for_ssd_and_per_level_for_retinanet() -> None:
    for family, key in (("ssd", lambda t, c, la: la), ("retinanet", lambda t, c, la: t.pyramid[c])):
        detector = wrap(toy(family), NAMES, topk=20)
        traced = detector.trace(pictures(1))[0]
        cut = pairs(traced, Reason.TOP_K)
        inside = sorted(above(traced, detector.settings["score"]) - set(cut))
        for group in {key(traced, *pair) for pair in cut}:
            rivals = [traced.scores[pair] for pair in inside if key(traced, *pair) == group]
            assert len(rivals) == 20
            assert min(rivals) >= max(traced.scores[pair] for pair in cut if key(traced, *pair) == group)


@pytest.mark.parametrize("family", ["faster-rcnn", "mask-rcnn"])
def test_the_first_stage_hands_its_kept_anchors_to_the_second(family: str) -> None:
    detector = wrap(toy(family), NAMES)
    for traced in detector.trace(pictures(2)):
        first = traced.first
        assert first is not None
        assert len(first) == 1440  # 3 anchors on 20 × 16 + 10 × 8 cells, whatever was kept
        assert np.array_equal(traced.identity, first.kept.candidate)
        assert np.abs(traced.proposals - first.boxes_of(first.kept)).max() < 1e-3
        listed = [first.kept.candidate, first.dropped.candidate]
        assert np.array_equal(np.sort(np.concatenate(listed)), np.arange(len(first)))  # the RPN's threshold is 0
        for reason in (Reason.TOP_K, Reason.SUPPRESSED, Reason.CAP):
            assert (first.dropped.reason == reason).any()
        rows = np.flatnonzero(first.dropped.reason == Reason.SUPPRESSED)
        by = first.kept.candidate[first.dropped.by[rows]]
        victims = first.dropped.candidate[rows]
        assert first.pyramid is not None
        assert np.array_equal(first.pyramid[victims], first.pyramid[by])
        overlaps = [iou(first.refined[[v]], first.refined[[b]])[0, 0] for v, b in zip(victims, by, strict=True)]
        assert min(overlaps) > detector.settings["rpn_nms"] - 1e-5


def test_proposals_are_those_the_module_computes_itself() -> None:
    module = toy("faster-rcnn").eval()
    image = pictures(1)[0]
    captured = {}
    hook = module.rpn.register_forward_hook(lambda _, __, output: captured.update(boxes=output[0][0]))
    detector = wrap(module, NAMES)
    detector.detect([image])
    hook.remove()
    traced = detector.trace([image])[0]
    scale = np.array([100 / 80, 80 / 64] * 2)  # 100 × 80 photo, network 80 × 64
    assert np.abs(traced.proposals - captured["boxes"].numpy() * scale).max() < 1e-3


def test_a_tiny_box_is_dropped_as_too_small() -> None:
    """A first stage whose minimal size is large drops small proposals, and says so."""
    module = toy("faster-rcnn")
    module.rpn.min_size = 14.0
    detector = wrap(module, NAMES)
    image = pictures(1)[0]
    traced = detector.trace([image])[0]
    check_same(detector.detect([image])[0], traced.select())
    assert traced.first is not None
    small = traced.first.dropped.candidate[traced.first.dropped.reason == Reason.TOO_SMALL]
    assert len(small)
    sides = traced.first.refined[:, 2:] - traced.first.refined[:, :2]
    assert (sides[small].min(axis=1) < 14 * 1.25 + 1e-3).all()
    assert (sides[traced.first.kept.candidate].min(axis=1) >= 14 * 1.25 - 1e-3).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_and_background_share_one_scale(family: str) -> None:
    traced = wrap(toy(family), NAMES).trace(pictures(1))[0]
    assert traced.scores.dtype == np.float32
    if family in ("retinanet", "fcos"):
        assert np.allclose(traced.background, 1 - traced.scores.max(axis=1))
    else:
        assert np.allclose(traced.background + traced.scores.sum(axis=1), 1, atol=1e-5)
    if family == "fcos":
        assert traced.objectness is not None
        assert traced.class_scores is not None
        assert np.allclose(traced.scores**2, traced.class_scores * traced.objectness[:, None], atol=1e-6)
    if traced.class_boxes is not None:
        best = traced.scores.argmax(axis=1)
        assert np.array_equal(traced.refined, traced.class_boxes[np.arange(len(best)), best])


def test_anchors_are_in_original_pixels() -> None:
    """FCOS points lie on a regular grid over the photo: stride 4 of a network image 1.25 times smaller."""
    traced = wrap(toy("fcos"), NAMES).trace(pictures(1))[0]
    centres = (traced.proposals[:, :2] + traced.proposals[:, 2:]) / 2
    fine = centres[traced.pyramid == 0].reshape(16, 24, 2)[:, :20]  # 64 × 80 padded to 64 × 96
    assert np.allclose(fine[..., 0], np.arange(20) * 5, atol=1e-3)
    assert np.allclose(fine[..., 1], np.arange(16)[:, None] * 5, atol=1e-3)
    assert np.allclose(traced.proposals[:, 2] - traced.proposals[:, 0], np.where(traced.pyramid == 0, 5, 10), atol=1e-3)


@pytest.mark.parametrize("family", ["retinanet", "fcos"])
def test_a_background_column_of_a_sigmoid_model_never_surfaces(family: str) -> None:
    module = toy(family, columns=len(NAMES) + 1)
    module.detections_per_img = 60
    images = pictures(2)
    with torch.no_grad():
        own = module.eval()([torch.from_numpy(images[0].transpose(2, 0, 1)).float() / 255])[0]["labels"]
    assert (own == 0).any()  # the random column does fire, so that there is something to hide
    assert (own > 0).any()
    for names in (NAMES, ("__background__", *NAMES)):
        detector = wrap(module, names)
        assert detector.names == NAMES
        for detected, traced in zip(detector.detect(images), detector.trace(images), strict=True):
            assert traced.scores.shape[1] == len(NAMES)
            check_same(detected, traced.select())
        assert np.array_equal(detector.detect(images)[0].labels, own[own > 0].numpy() - 1)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("batch_size", [1, 3])
def test_companions_do_not_change_an_image(family: str, batch_size: int) -> None:
    detector = wrap(toy(family), NAMES, batch_size=batch_size)
    a, b, c, d, e = pictures(5)
    other_size = pictures(1, 60, 130)[0]
    alone = detector.trace([a])[0]
    for batch in ([a, b, c], [d, a, e], [b, other_size, a], [a, a, a, a]):
        place = next(i for i, image in enumerate(batch) if image is a)
        together = detector.trace(batch)[place]
        np.testing.assert_allclose(together.scores, alone.scores, atol=1e-5)
        np.testing.assert_allclose(together.refined, alone.refined, atol=1e-3)
        here, there = detector.detect(batch)[place], detector.detect([a])[0]
        assert np.array_equal(here.labels, there.labels)
        np.testing.assert_allclose(here.boxes, there.boxes, atol=1e-3)


def test_an_rcnn_does_not_remember_the_first_image_it_saw() -> None:
    """torchvision keeps the pooling scales of the first image: after a very flat one it pools at the wrong place."""
    flat, photo = pictures(1, 20, 200)[0], pictures(1)[0]
    fresh = wrap(toy("faster-rcnn"), NAMES).detect([photo])[0]
    module = toy("faster-rcnn")
    detector = wrap(module, NAMES)
    detector.detect([flat])
    assert detector.detect([photo])[0] == fresh
    assert module.roi_heads.box_roi_pool.scales is None
    with torch.no_grad():
        _, own = [module.eval()([torch.from_numpy(i.transpose(2, 0, 1)).float() / 255])[0] for i in (flat, photo)]
    assert not np.array_equal(own["scores"].numpy(), fresh.scores)  # left to itself, the module does remember


def test_no_proposals_give_no_candidates() -> None:
    module = toy("faster-rcnn")
    detector = wrap(module, NAMES, rpn_score=1.0)
    traced = detector.trace(pictures(1))[0]
    assert len(traced) == 0
    assert len(traced.select()) == 0
    assert len(detector.detect(pictures(1))[0]) == 0


def test_overrides_hold_during_a_call_only() -> None:
    module = toy("faster-rcnn")
    detector = wrap(module, NAMES, score=0.3, max=2, rpn_max=11)
    traced = detector.trace(pictures(1))[0]
    assert len(traced) == 11
    assert len(traced.kept) == 2
    assert traced.settings["score"] == 0.3
    assert (module.roi_heads.score_thresh, module.roi_heads.detections_per_img) == (0.2, 10)
    assert module.rpn.post_nms_top_n() == 2000  # training mode: the module's own dict is back
    assert detector.fingerprint != wrap(module, NAMES).fingerprint


def test_a_module_that_selects_in_its_own_way_is_not_traced() -> None:
    from torchvision.models.detection import RetinaNet

    class Own(RetinaNet):
        def postprocess_detections(self, *args):  # type: ignore[no-untyped-def]
            return [{k: v[:1] for k, v in found.items()} for found in super().postprocess_detections(*args)]

    torch.manual_seed(0)
    generator = anchors((12,), (28,))
    module = Own(Pyramid(16), 3, min_size=64, max_size=96, anchor_generator=generator, score_thresh=0.0)
    detector = wrap(module, NAMES)
    assert len(detector.detect(pictures(1))[0]) == 1
    with pytest.raises(LevelTooLow, match=r"overrides RetinaNet\.postprocess_detections"):
        detector.trace(pictures(1))


def test_wrap_refuses_what_it_cannot_mean() -> None:
    with pytest.raises(BadSpec, match=r"Expected a torchvision detection model .* Got Linear"):
        wrap(torch.nn.Linear(2, 2), NAMES)
    with pytest.raises(BadSpec, match=r"expected 3 .* names for the module's 4 columns\. Got 2"):
        wrap(faster_rcnn(4), NAMES[:2])
    with pytest.raises(BadSpec, match=r"expected 3 or 2 names for the module's 3 columns\. Got 7"):
        wrap(toy("retinanet"), "abcdefg")
    with pytest.raises(BadSpec, match=r"unknown setting 'rpn_nms'"):
        wrap(toy("ssd"), NAMES, rpn_nms=0.5)
    with pytest.raises(BadSpec, match=r"score to be in \[0, 1\]"):
        wrap(toy("ssd"), NAMES, score=3)

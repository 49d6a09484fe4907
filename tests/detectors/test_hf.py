"""Detection and tracing of the DETR family: against transformers' own post-processing, and the laws of ``trace``."""

import copy

import numpy as np
import pytest
import torch
from hf_models import CLASSES, KINDS, TWO_STAGE, build, images
from hypothesis import given
from hypothesis import strategies as st

from misdetect.detectors.hf.detector import wrap
from misdetect.detectors.hf.folder import transformers_package
from misdetect.detectors.hf.trace import choose
from misdetect.nouns.candidates import Reason
from misdetect.nouns.protocols import level
from misdetect.said.errors import BadSpec, DetectorFailed

torch.set_num_threads(1)


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def module(kind):
    return build(kind)


def detector_of(module, **settings):
    return wrap(module, **{"size": "native", "score": 0.1, **settings})


def raw(module, image):
    pixels = torch.from_numpy(image).permute(2, 0, 1)[None].float() / 255
    prepared = detector_of(module).prepare(pixels)
    with torch.no_grad():
        return module(pixel_values=prepared)


@pytest.mark.sampled(1)
def test_selecting_the_kept_candidates_is_the_detectors_output(module):
    for settings in ({}, {"max_detections": 7}, {"top_k": 9}, {"score": 0.4}):
        detector = detector_of(module, **settings)
        for candidates, detections in zip(detector.trace(images(3)), detector.detect(images(3)), strict=True):
            chosen = candidates.select()
            assert len(detections) > 0
            np.testing.assert_allclose(chosen.boxes, detections.boxes, atol=1e-3)
            np.testing.assert_allclose(chosen.scores, detections.scores, atol=1e-5)
            assert np.array_equal(chosen.labels, detections.labels)


@pytest.mark.sampled(3)
def test_detect_agrees_with_the_post_processing_of_transformers(kind, module):
    names = {
        "detr": "DetrImageProcessor",
        "conditional": "ConditionalDetrImageProcessor",
        "dab": "ConditionalDetrImageProcessor",
        "deformable": "DeformableDetrImageProcessor",
        "rt": "RTDetrImageProcessor",
        "d": "RTDetrImageProcessor",
    }
    processor = getattr(transformers_package(), names[kind.split("-")[0]])()
    for image in images(2, seed=3):
        reference = processor.post_process_object_detection(
            raw(module, image), threshold=0.1, target_sizes=[image.shape[:2]]
        )[0]
        order = np.argsort(-reference["scores"].numpy(), kind="stable")
        (found,) = detector_of(module).detect([image])
        np.testing.assert_allclose(found.scores, reference["scores"].numpy()[order], atol=1e-5)
        assert np.array_equal(found.labels, reference["labels"].numpy()[order])
        np.testing.assert_allclose(found.boxes, reference["boxes"].numpy()[order], atol=1e-3)


@pytest.mark.sampled(4)
def test_every_pair_above_the_threshold_is_kept_or_has_a_reason(module):
    for candidates in detector_of(module, max_detections=6, score=0.15).trace(images(2)):
        above = {(q, c) for q, c in np.argwhere(candidates.scores > 0.15).tolist()}
        kept = list(zip(candidates.kept.candidate.tolist(), candidates.kept.label.tolist(), strict=True))
        dropped = list(zip(candidates.dropped.candidate.tolist(), candidates.dropped.label.tolist(), strict=True))
        assert sorted(kept + dropped) == sorted(above)
        assert len(kept) == 6
        assert set(candidates.dropped.reason.tolist()) <= {Reason.TOP_K, Reason.CAP}
        assert Reason.CAP in candidates.dropped.reason


def test_background_is_what_the_classes_leave(kind, module):
    (candidates,) = detector_of(module).trace(images(1))
    if kind == "detr":
        np.testing.assert_allclose(candidates.scores.sum(axis=1) + candidates.background, 1, atol=1e-5)
    else:
        np.testing.assert_allclose(candidates.background, 1 - candidates.scores.max(axis=1), atol=1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["detr", "conditional", "deformable", "deformable-refine"])
def test_the_first_guess_is_what_a_decoder_of_one_layer_answers(kind):
    module = build(kind)
    shallow = copy.deepcopy(module)
    shallow.model.decoder.layers = shallow.model.decoder.layers[:1]
    (whole,), (one,) = detector_of(module).trace(images(1)), detector_of(shallow).trace(images(1))
    np.testing.assert_allclose(whole.proposals, one.refined, atol=1e-3)
    assert np.abs(whole.proposals - whole.refined).max() > 0.1
    assert np.array_equal(whole.identity, np.arange(16))


def test_dab_proposes_its_learned_anchors_in_every_image():
    module = build("dab")
    centre, size = module.model.query_refpoint_embeddings.weight.detach().sigmoid().split(2, dim=1)
    anchors = torch.cat([centre - size / 2, centre + size / 2], 1).numpy() * [128, 96, 128, 96]
    for candidates in detector_of(module).trace(images(2)):
        np.testing.assert_allclose(candidates.proposals, anchors, atol=1e-3)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", TWO_STAGE)
def test_queries_of_a_two_stage_detector_are_places(kind):
    a, b = detector_of(build(kind)).trace(images(2))
    tokens = 12 * 16 + 6 * 8 + 3 * 4
    for candidates in (a, b):
        first = candidates.first
        assert len(first) == tokens
        # the encoder's boxes at those tokens are the boxes the decoder starts from
        np.testing.assert_allclose(first.refined[candidates.identity], candidates.proposals, atol=1e-2)
        assert sorted([*first.kept.candidate, *first.dropped.candidate]) == list(range(tokens))
        assert first.scores[first.kept.candidate, 0].min() >= first.scores[first.dropped.candidate, 0].max()
        # a token of the finest level is an 8 pixel cell, whatever the image
        np.testing.assert_allclose(first.proposals[17, :2] + first.proposals[17, 2:], [24, 24], atol=1e-2)
    np.testing.assert_allclose(a.first.proposals, b.first.proposals, atol=1e-3)
    assert not np.array_equal(a.identity, b.identity)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["detr", "deformable-two-stage", "rt-detr"])
def test_companions_do_not_change_a_result(kind):
    a, b, c = images(3)
    d = images(1, height=64, width=160, seed=5)[0]
    detector = detector_of(build(kind), batch_size=2)
    together = detector.trace([a, d, b, c])
    for image, candidates in zip([a, d, b, c], together, strict=True):
        (alone,) = detector.trace([image])
        np.testing.assert_allclose(alone.scores, candidates.scores, atol=1e-6)
        np.testing.assert_allclose(alone.refined, candidates.refined, atol=1e-4)
        assert np.array_equal(alone.identity, candidates.identity)


@pytest.mark.sampled(2)
def test_the_module_is_left_as_it_was_found(module):
    from hf_models import truth

    module = copy.deepcopy(module)
    module.train()
    module.model.backbone.eval()
    first = next(p for p in module.parameters() if p.requires_grad)
    first.grad = torch.ones_like(first)

    def state():
        parts = list(module.modules())
        return (
            [part.training for part in parts],
            [sorted(part.__dict__) for part in parts],
            [(len(p._forward_hooks), len(p._forward_pre_hooks), len(p._backward_hooks)) for p in parts],
            [(p.requires_grad, None if p.grad is None else float(p.grad.sum())) for p in module.parameters()],
            [float(value.double().sum()) for value in module.state_dict().values()],
            module.config.to_json_string(),
        )

    before = state()
    detector = detector_of(module)
    detector.detect(images(1))
    detector.trace(images(1))
    detector.gradient([images(1)[0].astype(np.float32)], [truth()], "all")
    assert state() == before


def test_hooks_are_removed_when_the_forward_pass_fails():
    module = build("detr")

    def fail(*arguments):
        raise RuntimeError("on purpose")

    handle = module.model.encoder.register_forward_hook(fail)
    with pytest.raises(RuntimeError, match="on purpose"):
        detector_of(module).trace(images(1))
    handle.remove()
    assert all(not part._forward_hooks for part in module.modules())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kind", "processor"),
    [
        ("detr", "DetrImageProcessor"),
        ("deformable", "DeformableDetrImageProcessor"),
        ("rt-detr", "RTDetrImageProcessor"),
    ],
)
@pytest.mark.parametrize("shape", [(96, 128), (112, 64)])
def test_default_preprocessing_is_that_of_transformers(kind, processor, shape):
    (image,) = images(1, *shape)
    reference = getattr(transformers_package(), processor)()(images=[image], return_tensors="pt")["pixel_values"]
    prepare = wrap(build(kind)).prepare
    ours = prepare(torch.from_numpy(image).permute(2, 0, 1)[None].float() / 255)
    assert ours.shape == reference.shape
    # theirs is rounded to whole grey levels after each of two passes, ours is not
    assert (ours - reference).abs().max() < 1.01 / 255 / (0.224 if kind != "rt-detr" else 1)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["softmax", "sigmoid"]), st.integers(1, 20), st.integers(1, 20))
def test_choose_agrees_with_a_naive_version(seed, activation, top_k, most):
    rng = np.random.default_rng(seed)
    scores = rng.permutation(5 * 4).reshape(5, 4) / 20  # no ties
    kept, dropped = choose(scores, activation, 0.2, top_k, most)
    pairs = [(scores[q, c], q, c) for q in range(5) for c in range(4) if scores[q, c] > 0.2]
    if activation == "softmax":
        pairs = [pair for pair in pairs if pair[0] == scores[pair[1]].max()]
    ranked = sorted(pairs, reverse=True)[:top_k]
    assert [(q, c) for _, q, c in ranked[:most]] == list(zip(kept.candidate, kept.label, strict=True))
    capped = dropped.reason == Reason.CAP
    assert {(q, c) for _, q, c in ranked[most:]} == set(
        zip(dropped.candidate[capped], dropped.label[capped], strict=True)
    )
    assert len(kept) + len(dropped) == (scores > 0.2).sum()


def test_it_is_trainable_and_its_fingerprint_follows_weights_and_settings():
    module = build("deformable")
    detector = detector_of(module)
    assert level(detector) == "Trainable"
    assert detector.fingerprint == detector_of(copy.deepcopy(module)).fingerprint
    assert detector.fingerprint != detector_of(module, score=0.2).fingerprint
    assert detector.fingerprint != detector_of(build("deformable", seed=1)).fingerprint


def test_names_come_from_the_configuration_and_must_be_as_many_as_the_classes():
    module = build("detr")
    module.config.id2label = dict(enumerate(["N/A", "cat", "N/A", "dog", "elk"]))
    assert wrap(module).names == ("N/A", "cat", "N/A", "dog", "elk")
    with pytest.raises(BadSpec, match=f"4 names were given, the model has {CLASSES} classes"):
        wrap(module, names=["a", "b", "c", "d"])
    module.class_labels_classifier = torch.nn.Linear(32, 9)
    with pytest.raises(DetectorFailed, match="gives 9 class logits where 6 were expected for 5 names"):
        detector_of(module).detect(images(1))


@pytest.mark.parametrize("other", [torch.nn.Linear(2, 2), None])
def test_other_modules_are_refused_by_name(other):
    module = build("detr").model if other is None else other
    with pytest.raises(BadSpec, match=f"Got {type(module).__name__}"):
        wrap(module)

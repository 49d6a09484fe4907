"""Our PGD against that of IBM's Adversarial Robustness Toolbox: same torchvision detector, ε, α, steps and start."""

import numpy as np
import pytest
from attack_toys import naive_found

import misdetect as md
from misdetect.nouns.detections import Truth
from misdetect.studies.attack.rows import pixels_of

IMAGES, EPS, ALPHA, STEPS = 6, 8, 2, 10


@pytest.mark.heavy
def test_our_pgd_loses_at_least_as_many_objects_as_that_of_art(tmp_path):
    evasion = pytest.importorskip("art.attacks.evasion", reason="adversarial-robustness-toolbox is not installed")
    from art.estimators.object_detection import PyTorchObjectDetector

    spec, detector = f"rooms:val,count={IMAGES}", md.load_detector("zoo:ssd")
    run = md.attack(
        detector,
        spec,
        losses="all",
        eps=EPS,
        alpha=ALPHA,
        steps=STEPS,
        random_start=False,
        ladder=0,
        out=tmp_path / "r",
    )
    data = md.load_data(spec)
    place = np.array([list(detector.names).index(name) for name in data.names])
    truths = [Truth(s.truth.boxes, place[s.truth.labels]) for s in data]
    kept = run.query("SELECT image, png FROM rows WHERE condition = 'all' AND png IS NOT NULL ORDER BY case_index")
    ours = [pixels_of(row["png"]) for row in kept.to_pylist()]
    estimator = PyTorchObjectDetector(
        model=detector.module,
        input_shape=(3, 128, 128),
        clip_values=(0, 1),
        channels_first=True,
        attack_losses=("bbox_regression", "classification"),
        device_type="cpu",
    )
    attack = evasion.ProjectedGradientDescent(
        estimator, norm=np.inf, eps=EPS / 255, eps_step=ALPHA / 255, max_iter=STEPS, batch_size=IMAGES, verbose=False
    )
    x = np.stack([s.image.transpose(2, 0, 1) for s in data]).astype(np.float32) / 255
    y = [
        {"boxes": t.boxes.astype(np.float32), "labels": t.labels + 1, "scores": np.ones(len(t), np.float32)}
        for t in truths
    ]
    found = np.rint(255 * attack.generate(x=x, y=y)).transpose(0, 2, 3, 1)
    theirs = [np.clip(each, 0, 255).astype(np.uint8) for each in found]
    clean = [s.image for s in data]
    assert max(np.abs(a.astype(int) - c).max() for a, c in zip(theirs, clean, strict=True)) <= EPS
    before, own, other = (_found(detector, images, truths) for images in (clean, ours, theirs))
    lost_by_us, lost_by_them = (int((before & ~after).sum()) for after in (own, other))
    assert before.sum() > 20
    assert lost_by_us > 0.6 * before.sum()
    assert lost_by_us >= lost_by_them - 0.05 * before.sum()


def _found(detector, images, truths):
    answers = detector.detect(images)
    return np.array([f for a, t in zip(answers, truths, strict=True) for f in naive_found(a, t)])

"""The small Deformable DETR: its size, its determinism, and that it learns."""

import numpy as np
import pytest
import torch
from hf_models import images

from misdetect.detectors.hf.detector import wrap
from misdetect.detectors.hf.small import small_deformable_detr
from misdetect.nouns.detections import Truth

torch.set_num_threads(1)


@pytest.mark.heavy
def test_it_is_small_trainable_and_the_same_for_the_same_seed():
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    a, b = small_deformable_detr(["x", "y"], seed=4), small_deformable_detr(["x", "y"], seed=4)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert sum(p.numel() for p in a.parameters()) <= 1_500_000
    assert all(p.requires_grad for p in a.parameters())
    for name, value in a.state_dict().items():
        assert torch.equal(value, b.state_dict()[name]), name
    assert wrap(a).names == ("x", "y")


@pytest.mark.heavy
def test_it_starts_without_detections_and_learns_four_pictures_by_heart():
    detector = wrap(small_deformable_detr(["dark", "light"], queries=12, decoder_layers=2), size="native", score=0.2)
    rng = np.random.default_rng(0)
    pictures, truths = [], []
    for i, picture in enumerate(images(4, 64, 64)):
        x, y = rng.integers(4, 30, 2)
        picture = (picture * 0.2 + 100).astype(np.float32)
        picture[y : y + 28, x : x + 28] = 10 if i % 2 else 245
        pictures.append(picture)
        truths.append(Truth([[x, y, x + 28, y + 28]], [1 - i % 2]))
    pixels = [picture.astype(np.uint8) for picture in pictures]
    assert not any(len(found) for found in detector.detect(pixels))
    optimiser = torch.optim.AdamW(detector.parameters(), 2e-3)
    for _ in range(120):
        loss = torch.stack(list(detector.losses(pictures, truths).values())).sum()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(detector.parameters(), 1.0)
        optimiser.step()
    best = [found[:1] for found in detector.detect(pixels)]
    assert [found.labels.tolist() for found in best] == [truth.labels.tolist() for truth in truths]
    assert max(np.abs(f.boxes - t.boxes).max() for f, t in zip(best, truths, strict=True)) < 14

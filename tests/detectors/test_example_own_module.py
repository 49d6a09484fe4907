"""The example that users copy: it loads through its spec and finds what is planted."""

from pathlib import Path

import numpy as np
import pytest

from misdetect.detectors import load_detector
from misdetect.nouns.protocols import level

EXAMPLE = Path(__file__).parents[2] / "examples/own_module.py"


def test_the_example_finds_planted_things():
    pytest.importorskip("torch")
    detector = load_detector(f"python:{EXAMPLE}:load,score=0.6")
    assert level(detector) == "Detector"
    image = np.full((60, 80, 3), 90, np.uint8)
    image[10:30, 15:45] = (230, 10, 10)
    image[35:55, 50:75] = (10, 10, 240)
    found, nothing = detector.detect([image, np.full((40, 40, 3), 90, np.uint8)])
    assert [detector.names[label] for label in found.labels] == ["red thing", "blue thing"]
    np.testing.assert_allclose(found.boxes, [[15, 10, 45, 30], [50, 35, 75, 55]], atol=2)
    assert len(nothing) == 0

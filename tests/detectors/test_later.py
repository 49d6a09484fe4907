"""Slow imports that detecting does not need are not made, and are as they should be once somebody does."""

import subprocess
import sys

import pytest

pytest.importorskip("transformers")

SCRIPT = """
import sys
import torch
import misdetect as md
from misdetect.detectors.later import imports_later

slow = ("torch._dynamo", "torch._dynamo.utils", "scipy.optimize")
detector = md.load_detector("zoo:deformable-detr")
assert detector.detect([md.load_data("rooms:val")[0].image])[0].boxes.shape[1] == 4
assert not [name for name in slow if name in sys.modules], "loading or detecting imported it"

with imports_later():  # who decorates a function, or imports a function by name, does not import the module
    from scipy.optimize import linear_sum_assignment
    @torch.compiler.disable
    def plain(x): return x + 1
    @torch.compiler.disable(recursive=False)
    def with_options(x): return x + 2
assert not [name for name in slow if name in sys.modules]
assert linear_sum_assignment([[2.0, 1.0], [1.0, 2.0]])[1].tolist() == [1, 0]
assert (plain(1), with_options(1), plain.__name__) == (2, 3, "plain")
assert "torch._dynamo" in sys.modules and "scipy.optimize" in sys.modules
assert torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2)).tolist() == [2.0, 2.0]

for name in [name for name in sys.modules if name.startswith("scipy")]:
    del sys.modules[name]
with imports_later():
    from scipy.optimize import minimize  # not one of those: the real module
assert minimize(lambda x: (x - 3) ** 2, 0.0).x.round(3).tolist() == [3.0]
print("fine")
"""


def test_loading_and_detecting_import_neither_compiler_nor_optimisers():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.strip() == "fine", done.stderr[-2000:]

"""Rows do not depend on batches, workers and interruptions, even if the detector's last digits do.

Each study is run with a detector whose answers carry noise that depends on the batch, stronger than any kernel's; its
rows must agree in every bit. What the grid cannot do, a number at the midpoint of two points, is in tests/test_grid.py.
"""

import numpy as np
import pytest
from noisy import NoisyBlots, NoisyTiles, Stops
from scan_toys import scan_of

import misdetect as md
from misdetect.data import load_data
from misdetect.data.opened import Opened
from misdetect.engine import run_study
from misdetect.engine.backend import Asking
from misdetect.pools.pool import load_pool
from misdetect.studies.detect.study import DetectStudy
from misdetect.studies.explain.settings import ExplainSettings
from misdetect.studies.explain.study import ExplainStudy
from misdetect.studies.fuzz.settings import FuzzSettings
from misdetect.studies.fuzz.study import FuzzStudy
from misdetect.studies.scan.pairs import candidates, choose_pairs

SMALL, LARGE = "rooms:val,size=64,count=8", "rooms:val,count=24"


def detect(folder):
    return DetectStudy(Opened(SMALL), NoisyTiles.names), NoisyTiles


def explain(folder):
    return ExplainStudy(Opened(SMALL), NoisyTiles.names, ExplainSettings(inside=True)), NoisyTiles


def explain_outside(folder):
    return ExplainStudy(Opened(SMALL), NoisyTiles.names, ExplainSettings(inside=False)), NoisyTiles


def scan(folder):
    data = load_data(SMALL)
    return scan_of(SMALL, choose_pairs(data, 2, candidates(data, 0)), step=9, seed=3), NoisyTiles


def scan_adaptive(folder):
    data = load_data(SMALL)
    return scan_of(SMALL, choose_pairs(data, 2, candidates(data, 0)), step=9, seed=3, adaptive=True), NoisyTiles


def fuzz(folder):
    if not (folder / "pool").exists():
        md.pool(load_data(LARGE), keep=1.0, border=0, min_side=10, out=folder / "pool")
    how = FuzzSettings(strategy="adaptive", queries=90, reach=2, seed=3)
    return FuzzStudy(Opened(LARGE), load_pool(folder / "pool"), NoisyBlots.names, how), NoisyBlots


STUDIES = [detect, explain, explain_outside, scan, scan_adaptive, fuzz]


@pytest.mark.heavy
@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.__name__)
def test_rows_depend_neither_on_batches_nor_on_interruptions(study, tmp_path):
    def rows(name, detector=None, batch_size=None):
        made, kind = study(tmp_path)
        asking = Asking(batch_size, cached=False)
        return run_study(made, detector or kind(), tmp_path / name, asking=asking, flush_seconds=0).run.table()

    one = rows("one", batch_size=1)
    assert one.num_rows
    for size in (3, 8):
        assert rows(f"batches of {size}", batch_size=size).equals(one)
    with pytest.raises(KeyboardInterrupt):
        rows("resumed", Stops(study(tmp_path)[1](), 5), batch_size=2)
    assert rows("resumed", batch_size=4).equals(one)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "study", [explain, scan, pytest.param(fuzz, marks=pytest.mark.heavy)], ids=lambda study: study.__name__
)
def test_rows_do_not_depend_on_workers(study, tmp_path):
    def rows(name, **options):
        made, kind = study(tmp_path)
        asking = Asking(cached=False)
        return run_study(made, kind(), tmp_path / name, asking=asking, make_detector=kind, **options).run.table()

    assert rows("two", workers=2).equals(rows("one"))


def test_the_noise_is_there():
    """Without the grid the law above fails: the same image has other numbers in other company, all over."""
    image, other = (load_data(SMALL)[i].image for i in range(2))
    for method in ("detect", "trace"):
        ask = getattr(NoisyTiles(), method)
        alone, together = ask([image])[0], ask([other, image])[1]
        assert np.mean(alone.scores != together.scores) > 0.9
        assert np.abs(alone.scores - together.scores).max() > 1e-6, "stronger than a kernel's"
    alone, together = NoisyTiles().detect([image])[0], NoisyTiles().detect([other, image])[1]
    assert np.abs(alone.boxes - together.boxes).max() > 1e-4

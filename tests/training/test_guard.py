"""The watchdog: what it stops, which weights it keeps, and that a kill changes neither."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from training_toys import Colourist, same, squares, weights  # noqa: E402

from misdetect.engine.store import Run  # noqa: E402
from misdetect.said.errors import BadSpec  # noqa: E402
from misdetect.studies.documents import document_of  # noqa: E402
from misdetect.training.curve import pairs  # noqa: E402
from misdetect.training.guard import Judgement, Watchdog  # noqa: E402
from misdetect.training.loop import Training  # noqa: E402
from misdetect.training.recipe import Recipe  # noqa: E402

BEFORE = {"AP": 0.5, "AP50": 0.8, "robust": 0.1}
RECIPE = Recipe(steps=12, batch=4, warmup=2, precision="float32", seed=3, log_every=2, check_every=2, average=0.9)


def rows(*scores: tuple[float, float, float] | None, losses: list[float] | None = None) -> list[dict]:
    """A row per 10 steps; ``scores`` are AP, AP50 and robust, ``None`` where nothing was checked."""
    found = []
    for i, each in enumerate(scores):
        told = {} if each is None else dict(zip(BEFORE, each, strict=True))
        loss = 1.0 if losses is None else losses[i]
        found.append({"step": 10 * (i + 1), "losses": pairs({"a": loss / 2, "b": loss / 2}), "scores": pairs(told)})
    return found


def test_the_best_is_the_first_with_the_highest_objective() -> None:
    guard = Watchdog(objective="robust", before=BEFORE)
    assert guard(rows(None)) == Judgement(0)
    assert guard(rows((0.5, 0.8, 0.1), (0.5, 0.8, 0.05))) == Judgement(0)  # no better than before
    assert guard(rows((0.5, 0.8, 0.2), (0.5, 0.8, 0.3), (0.5, 0.8, 0.3), (0.6, 0.9, 0.1))) == Judgement(20)


def test_a_floor_under_clean_ap_ends_it_and_what_lies_below_is_never_the_best() -> None:
    guard = Watchdog(objective="robust", before=BEFORE, floor=0.4)
    found = guard(rows((0.45, 0.8, 0.2), (0.39, 0.8, 0.9)))
    assert found.best == 10
    assert found.stop == "clean AP at step 20 is 0.390, under the floor of 0.4"
    with pytest.raises(BadSpec, match=r"0\.500 before any training, under the floor of 0\.6"):
        Watchdog(objective="robust", before=BEFORE, floor=0.6)


def test_a_collapse_to_background_ends_it() -> None:
    guard = Watchdog(objective="robust", before=BEFORE)
    assert guard(rows((0.1, 0.041, 0.2))).stop is None
    found = guard(rows((0.4, 0.7, 0.2), (0.01, 0.04, 0.5)))
    assert found.best == 10
    assert found.stop == "it collapsed to background: AP50 at step 20 is 0.040, of 0.800 before"


@pytest.mark.parametrize("last", [10.1, float("inf"), float("nan")])
def test_an_exploding_loss_ends_it(last: float) -> None:
    guard = Watchdog(objective="robust", before=BEFORE)
    assert guard(rows(None, None, losses=[1.0, 9.9])).stop is None
    assert "the loss exploded, from 1 to" in str(guard(rows(None, None, losses=[1.0, last])).stop)


def test_patience_counts_checks_since_the_best() -> None:
    guard = Watchdog(objective="robust", before=BEFORE, patience=2)
    worse = (0.5, 0.8, 0.15)
    assert guard(rows((0.5, 0.8, 0.2), worse, None, worse)).stop is None
    found = guard(rows((0.5, 0.8, 0.2), worse, None, worse, worse))
    assert (found.best, found.stop) == (10, "robust was no better for 3 checks")


class Told:
    """A check that says what it is told to, by how many batches the detector has seen."""

    name = "told"

    def __init__(self, by_step: dict[int, tuple[float, float, float]]) -> None:
        self.by_step, self.settings = by_step, {"told": sorted(by_step.items())}

    def __call__(self, detector):
        return dict(zip(BEFORE, self.by_step[int(detector.seen)], strict=True))


GOOD = (0.5, 0.8, 0.3)
TOLD = {2: (0.5, 0.8, 0.2), 4: GOOD, 6: (0.5, 0.8, 0.25), 8: (0.2, 0.4, 0.9), 10: GOOD, 12: GOOD}


def _guarded(folder: Path, detector: Colourist, **more) -> Training:
    return Training(detector, squares(), RECIPE, folder, check=Told(TOLD), guard=_guard(**more))


def _guard(**more) -> Watchdog:
    return Watchdog(objective="robust", before=BEFORE, **more)


def test_a_guarded_training_ends_with_the_best_weights(tmp_path: Path) -> None:
    """Those of step 4 where the floor forbids step 8: the average of a training that ended there."""
    detector, plain = Colourist(), Colourist()
    training = _guarded(tmp_path / "guarded", detector, floor=0.4)
    run = training.run()
    assert training.judgement.best == 4
    assert run.about["stopped"] == "clean AP at step 8 is 0.200, under the floor of 0.4"
    assert run.about["best"] == 4
    stopped = Training(plain, squares(), RECIPE, tmp_path / "plain")
    stopped.run(until=4)
    assert same(weights(detector), weights(plain))
    found = document_of(Run.open(tmp_path / "guarded"))
    assert found["finished"]
    assert [point["step"] for point in found["curve"]] == [2, 4, 6, 8]


def test_without_a_floor_the_highest_wins_and_the_last_step_is_checked(tmp_path: Path) -> None:
    detector = Colourist()
    training = _guarded(tmp_path / "run", detector)
    run = training.run()
    assert (training.step, training.judgement) == (12, Judgement(8))
    assert "stopped" not in run.about
    assert len(document_of(run)["curve"][-1]["scores"]) == 3


def test_nothing_better_leaves_the_detector_as_it_was(tmp_path: Path) -> None:
    detector, untouched = Colourist(), Colourist()
    guard = Watchdog(objective="robust", before={**BEFORE, "robust": 0.95})
    training = Training(detector, squares(), RECIPE, tmp_path / "run", check=Told(TOLD), guard=guard)
    training.run()
    assert training.judgement.best == 0
    assert same(weights(detector), weights(untouched))


@pytest.mark.heavy
def test_a_killed_training_is_judged_as_one_that_was_not(tmp_path: Path) -> None:
    whole, resumed = Colourist(), Colourist()
    _guarded(tmp_path / "whole", whole, floor=0.4).run(save_every=100)
    for until in (1, 5, 7):
        _guarded(tmp_path / "parts", Colourist(), floor=0.4).run(until=until, save_every=3)
    again = _guarded(tmp_path / "parts", resumed, floor=0.4)
    again.run()
    assert same(weights(whole), weights(resumed))
    one, other = (document_of(Run.open(tmp_path / name)) for name in ("whole", "parts"))
    assert one["curve"] == other["curve"]
    once_more = Colourist()  # a stopped training stays stopped
    _guarded(tmp_path / "parts", once_more, floor=0.4).run()
    assert same(weights(once_more), weights(whole))


class Poisoned(Colourist):
    """Its loss is no number from step 7 on."""

    def losses(self, images, truths):
        found = super().losses(images, truths)
        return {name: value * (np.nan if int(self.seen) > 6 else 1) for name, value in found.items()}


def test_a_loss_that_is_no_number_rolls_back(tmp_path: Path) -> None:
    detector, plain = Poisoned(), Colourist()
    training = _guarded(tmp_path / "run", detector)
    run = training.run()
    assert training.judgement.stop is not None
    assert training.judgement.stop.startswith("training diverged at step 6: the loss is nan")
    assert training.judgement.best == 4
    assert run.finished
    Training(plain, squares(), RECIPE, tmp_path / "plain").run(until=4)
    assert same(weights(detector), weights(plain))


def test_another_guard_is_another_training(tmp_path: Path) -> None:
    from misdetect.said.errors import RunMismatch

    _guarded(tmp_path / "run", Colourist()).run(until=2)
    with pytest.raises(RunMismatch, match="floor"):
        _guarded(tmp_path / "run", Colourist(), floor=0.3)

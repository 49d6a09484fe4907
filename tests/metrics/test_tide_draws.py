"""Costs of TIDE under resamples of the images: those of the images copied as often as they are drawn."""

import numpy as np
import pytest

import misdetect as md
from misdetect.metrics.bootstrap import resamples
from misdetect.metrics.columns import DetectionColumns, ImageRow, TruthColumns
from misdetect.metrics.tide import TideSettings, assign, costs
from misdetect.metrics.tide_draws import DETECTIONS, costs_of_draws
from misdetect.studies.score.costs import tide_intervals

NAMES = ("cat", "chair", "cup", "nothing of it")


def world(seed, images=7):
    """Objects (image, label, box, crowd) and detections of every type of error; one image has nothing but a false
    detection. Scores are tied between images only: within one, how copies of it take turns would decide."""
    rng = np.random.default_rng(seed)
    truths, found = [], []
    for image in range(images):
        scores = iter((rng.permutation(30) + 1) / 32)
        for k in range(int(rng.integers(1, 5)) if image else 0):
            box = np.array([30.0 * k, 10, 30 * k + 20, 30])
            label = int(rng.integers(0, 3))
            truths.append((image, label, box, bool(rng.random() < 0.1)))
            for _ in range(int(rng.integers(0, 4))):
                shift = float(rng.choice([0, 1, 8, 14]))
                other = int(rng.integers(0, 4)) if rng.random() < 0.4 else label
                found.append((image, other, box + shift, float(next(scores))))
        found.append((image, int(rng.integers(0, 4)), np.array([200.0, 200, 220, 220]), float(next(scores))))
    return truths, found, images


def columns(truths, found, images):
    image, label, boxes, crowd = zip(*truths, strict=True)
    count = len(truths)
    truth = TruthColumns(
        images=tuple(ImageRow(str(i), i, 300, 300) for i in range(images)),
        names=NAMES,
        image=np.array(image),
        label=np.array(label),
        boxes=np.array(boxes),
        areas=np.full(count, 400.0),
        crowd=np.array(crowd),
        ids=np.arange(count),
    )
    where, labels, places, scores = zip(*found, strict=True)
    return truth, DetectionColumns.of(where, labels, places, scores)


def copied(truths, found, draw):
    """Every image as often as ``draw`` says, as images of their own."""
    numbers = [image for image, times in enumerate(draw) for _ in range(int(times))]
    return (
        [(new, *rest) for new, old in enumerate(numbers) for image, *rest in truths if image == old],
        [(new, *rest) for new, old in enumerate(numbers) for image, *rest in found if image == old],
        len(numbers),
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("classes", ["all", "with-truth"])
@pytest.mark.parametrize("ties", ["errors-first", "file"])
def test_a_resample_costs_what_its_images_cost(classes, ties):
    settings = TideSettings(classes=classes, ties=ties)
    most = 0.0
    for seed in range(4):
        made = world(seed)
        truth, found = columns(*made)
        draws = np.concatenate([np.ones((1, made[2])), resamples(made[2], 25, seed)])
        told = costs_of_draws(assign(truth, found, settings), truth, found, draws, settings)
        for row, draw in enumerate(draws):
            again, more = columns(*copied(made[0], made[1], draw))
            wanted = costs(assign(again, more, settings), again, more, settings).delta
            assert {name: told[name][row] for name in told} == pytest.approx({name: wanted[name] for name in told})
        most = max(most, *(float(each.max()) for each in told.values()))
    assert most > 1, "something costs something"


def test_of_nothing_there_is_no_cost():
    truth, found = columns(*world(0))
    settings = TideSettings()
    told = costs_of_draws(assign(truth, found, settings), truth, found, [[7, 0, 0, 0, 0, 0, 0]], settings)
    assert all(np.isnan(each).all() for each in told.values()), "nothing is annotated in the first image"


def test_the_intervals_of_a_run(tmp_path):
    data = "rooms:val,size=96,count=12"
    run = md.score(md.detect(f"glassbox:shift/rate=0.5,data={data}", data), data, out=tmp_path / "run")
    found = tide_intervals(run.directory, confidence=0.8, seed=4)
    assert set(found) == set(DETECTIONS)
    low, high = found["Loc"]
    assert 0 < low <= run.document["tide"]["Loc"] <= high
    assert found["Dupe"] == [0, 0]
    assert found != tide_intervals(run.directory, confidence=0.8, seed=5)
    wide = tide_intervals(run.directory, confidence=0.99, seed=4)["Loc"]
    assert wide[0] < low < high < wide[1]

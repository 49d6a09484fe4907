"""TIDE's types of the glass box's misses are the planted ones, wherever an answer is claimed."""

import numpy as np
import pytest
from glassbox_toys import coco66, toys

from misdetect.detectors.glassbox.detector import GlassBox
from misdetect.detectors.glassbox.faults import Cap, Misrank, NoProposal, OtherClass, Shift, Sink, TopK
from misdetect.metrics import tide
from misdetect.metrics.columns import DetectionColumns, truth_columns

EXPECTED = {
    NoProposal(): "Miss",
    Sink(): "Miss",
    TopK(k=2): "Miss",
    Cap(cap=2): "Miss",
    Shift(): "Loc",
    Misrank(): "Loc",
    OtherClass(): "Cls",
    Shift(shift=0.9): None,
}
"""Type by fault; a box moved by .9 of its side is a Loc error only where the border stopped it."""


def tide_types(dataset, detector) -> dict[int, str]:
    """TIDE's type of every object, by its id."""
    truth = truth_columns(dataset)
    number = {row.image_id: n for n, row in enumerate(truth.images)}
    image, found = [], []
    for sample in dataset:
        found.append(detector.detect_pictures([sample])[0])
        image += [number[sample.image_id]] * len(found[-1])
    columns = DetectionColumns.of(
        image,
        np.concatenate([f.labels for f in found]),
        np.concatenate([f.boxes for f in found]),
        np.concatenate([f.scores for f in found]),
    )
    kinds = tide.assign(truth, columns).truth_type
    return {int(i): tide.TRUTH_TYPES[k] for i, k in zip(truth.ids, kinds, strict=True)}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("which", ["toys", "coco66"])
@pytest.mark.parametrize("fault", EXPECTED, ids=repr)
def test_tide_says_what_was_planted(which, fault):
    dataset = toys(60, 8) if which == "toys" else coco66()
    detector = GlassBox(dataset, [fault])
    found = tide_types(dataset, detector)
    claimed = [p for sample in dataset for p in detector.truth_of_fault(sample) if p.tide is not None]
    assert len(claimed) > 20
    assert [(p.object, found[p.object]) for p in claimed] == [(p.object, p.tide) for p in claimed]
    if EXPECTED[fault] is not None:
        assert {p.tide for p in claimed} == {EXPECTED[fault]}


def test_perfect_predictions_have_no_error():
    dataset = toys()
    assert set(tide_types(dataset, GlassBox(dataset)).values()) == {"found", "ignored"}

"""The evidence in the rows of every family is what the trace holds, and bears out the verdict beside it."""

import numpy as np
import pytest
from mechanism_oracles import NETWORKS, network, objects, overlap

from misdetect.data.dataset import Sample
from misdetect.nouns.detections import Truth
from misdetect.studies.explain.rows import Seen, image_rows
from misdetect.studies.explain.settings import ExplainSettings

BOX = ("x0", "y0", "x1", "y1")


def box(row, prefix=""):
    return [row[prefix + name] for name in BOX]


@pytest.mark.parametrize("family", NETWORKS)
def test_evidence_bears_out_the_verdict(family):
    detector, image, classes = network(family)
    (inside,) = detector.trace([image])
    places, labels = objects(inside, classes, image, 40, 5)
    height, width = image.shape[:2]
    sample = Sample("one", None, Truth(places, labels), width, height)
    found = inside.select()
    names = [f"class {i}" for i in range(classes)]
    cls = float(max(0.3, np.quantile(inside.scores, 0.75)))
    how = ExplainSettings(cls=cls)
    rows = image_rows(Seen(sample, labels, names, names, found, np.ones(len(found), bool), inside, how), image)
    lost = [row for row in rows if row["kind"] == "object" and not row["found"]]
    assert len(lost) > 5
    row_of = {int(identity): k for k, identity in enumerate(inside.identity)}
    for row in lost:
        k, label = row_of[row["candidate"]], names.index(row["label"])
        assert row["own_score"] == pytest.approx(float(inside.scores[k, label]))
        np.testing.assert_allclose(box(row, "proposal_"), inside.proposals[k], rtol=1e-6)
        np.testing.assert_allclose(box(row, "refined_"), inside.refined[k], rtol=1e-6)
        fit = overlap(box(row), box(row, "refined_"))
        assert row["refined_iou"] == pytest.approx(fit, abs=1e-5)
        assert row["best_refined_iou"] >= fit - 1e-5
        localised = row["mechanism"] in ("discarded", "interclass", "background")
        assert localised == (row["localised"] > 0) == (row["best_refined_iou"] >= 0.5)
        assert not localised or fit >= 0.5
        top = dict(zip(row["top_labels"], row["top_scores"], strict=True))
        assert max(top.values()) == pytest.approx(float(inside.scores[k].max()))
        if row["mechanism"] == "discarded":
            assert row["own_score"] >= cls
        if row["mechanism"] == "interclass":
            assert row["rival_score"] >= cls > row["own_score"]
        if row["mechanism"] == "background":
            assert max(top.values()) < cls
        if row["reason"] == "suppressed":
            assert row["suppressor_label"] == row["label"]
            assert row["suppressor_score"] >= row["own_score"] - 1e-6
            assert row["suppressor_iou"] == pytest.approx(overlap(box(row), box(row, "suppressor_")), abs=1e-5)
            assert row["suppressor_iou"] < 0.5, "else it would have found the object"
    reported = [row for row in rows if row["kind"] == "detection"]
    assert len(reported) == np.count_nonzero(found.scores >= cls)
    for row in reported:
        k, label = row_of[row["candidate"]], names.index(row["label"])
        assert row["score"] == pytest.approx(float(inside.scores[k, label]))
        assert row["moved"] == pytest.approx(1 - overlap(box(row, "proposal_"), box(row)), abs=1e-5)
    for row in rows:
        if row["kind"] == "region":
            covered = [overlap(box(row), b) for b, s in zip(found.boxes, found.scores, strict=True) if s >= cls]
            assert max(covered, default=0) < 0.5

"""How AP differs between runs of score: a planted fault found again in one class, and a naive bootstrap beside it."""

import json

import numpy as np
import pytest

import misdetect as md
from misdetect.metrics.bootstrap import resamples
from misdetect.metrics.paired import REPEATS

DATA = "rooms:val,size=96,count=16"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """``right`` finds everything, ``sink`` no chair, ``few`` saw fewer images, ``capped`` counts one box."""
    folder = tmp_path_factory.mktemp("scores")
    right, sink = (md.detect(f"glassbox:{fault},data={DATA}", DATA) for fault in ("none", "sink/class=chair"))
    return {
        "right": md.score(right, DATA, out=folder / "right"),
        "sink": md.score(sink, DATA, out=folder / "sink"),
        "few": md.score(sink, DATA, limit=8, out=folder / "few"),
        "capped": md.score(right, DATA, max_detections=1, out=folder / "capped"),
    }


def test_the_class_that_was_lost_falls_for_certain_and_no_other(runs):
    document = md.compare(runs["right"], runs["sink"]).document
    assert document["paired"]
    (found,) = document["differences"]
    assert (found["first"], found["second"], found["same_images"]) == ("right", "sink", True)
    for key in ("AP", "AP50", "AP75"):
        first, second = (runs[name].document["ap"][key] for name in ("right", "sink"))
        assert (found[key]["first"], found[key]["second"]) == pytest.approx((first, second)), "as COCO counts"
        assert found[key]["difference"] == pytest.approx(second - first)
        assert found[key]["certain"]
        assert found[key]["interval"][0] <= second - first <= found[key]["interval"][1] < 0
    by_class = runs["sink"].document["by_class"]
    assert found["by_class"]["chair"]["AP"]["certain"]
    for label, entry in found["by_class"].items():
        assert entry["AP"]["second"] == pytest.approx(by_class[label]["AP"])
        if label != "chair":
            assert entry["AP"]["interval"] == pytest.approx([0, 0])
            assert not entry["AP"]["certain"]


def test_the_interval_is_that_of_images_scored_again_one_by_one(runs, tmp_path):
    """Some draws with COCO's own numbers: only the chairs' images that are drawn decide."""
    (found,) = md.compare(runs["right"], runs["sink"], confidence=0.9, seed=5).document["differences"]
    rows = runs["sink"].rows().to_pandas()
    chairs = np.zeros(16)
    for image, label, kind in zip(rows.case_index, rows.label, rows.kind, strict=True):
        chairs[image] += label == "chair" and kind == "object"
    classes = {
        label: np.bincount(rows.case_index[(rows.label == label) & (rows.kind == "object")], minlength=16)
        for label in found["by_class"]
    }
    draws = resamples(16, REPEATS, 5)
    # a class is lost or found whole here, so that a resample loses one of those that it has
    lost = [-float(draw @ chairs > 0) / sum(draw @ own > 0 for own in classes.values()) for draw in draws]
    assert found["AP50"]["interval"] == pytest.approx(np.quantile(lost, [0.05, 0.95]).tolist())


@pytest.mark.heavy
def test_the_other_way_round_it_rises(runs):
    (there,) = md.compare(runs["right"], runs["sink"]).document["differences"]
    (back,) = md.compare(runs["sink"], runs["right"]).document["differences"]
    assert back["AP"]["difference"] == -there["AP"]["difference"]
    assert back["AP"]["interval"] == pytest.approx([-end for end in reversed(there["AP"]["interval"])])


@pytest.mark.heavy
def test_fewer_images_are_compared_with_the_same_ones(runs, tmp_path):
    """As if the other run had seen no more either; in another order of images too."""
    document = md.compare(runs["right"], runs["few"], seed=2).document
    (found,) = document["differences"]
    assert (found["images"], found["left_out"]) == (8, [8, 0])
    assert document["notes"] == [
        "right and few are compared over the images that both have; 8 are only in right, 0 only in few."
    ]
    right = md.score(md.detect(f"glassbox:none,data={DATA}", DATA), DATA, limit=8, out=tmp_path / "right")
    (same,) = md.compare(right, runs["few"], seed=2).document["differences"]
    assert same["left_out"] == [0, 0]
    assert {key: found[key] for key in ("AP", "AP50", "by_class")} == {
        key: same[key] for key in ("AP", "AP50", "by_class")
    }
    turned = md.load_data(DATA)[7:1:-1]
    sink = md.score(md.detect(f"glassbox:sink/class=chair,data={DATA}", turned), turned, out=tmp_path / "turned")
    (found,) = md.compare(runs["few"], sink).document["differences"]
    assert (found["images"], found["left_out"]) == (6, [2, 0])
    assert found["AP"]["interval"] == [0, 0], "the same detector on the same images"


def test_other_objects_or_rules_are_not_compared(runs, tmp_path):
    spec = "rooms:val,size=96,count=16,seed=9"
    other = md.score(md.detect(f"glassbox:none,data={spec}", spec), spec, out=tmp_path / "other")
    for run, why in ((other, "did not score the same objects"), (runs["capped"], "differ in max_detections")):
        document = md.compare(runs["right"], run).document
        assert not document["paired"]
        assert document["differences"] == []
        assert document["why_not_paired"] == [f"right and {run.path.name} {why}"]


def test_a_person_sees_what_fell(run, runs, tmp_path):
    code, said, _ = run("compare", runs["right"].path, runs["sink"].path)
    assert code == 0
    assert "AP of chair" in said
    assert "AP of cup" not in said
    assert "*" in next(line for line in said.splitlines() if line.startswith("AP50 ") and "-" in line)
    for name in ("right", "sink"):
        (tmp_path / f"{name}.json").write_text(json.dumps(runs[name].document))
    document = md.compare(tmp_path / "right.json", tmp_path / "sink.json").document
    assert not document["paired"], "a document has no rows"
    assert "differences" not in document


def test_parts_that_are_not_there_are_no_objects(tmp_path):
    """A detector that finds every part that is there, and nothing else, is perfect; the missing ones are not missed."""
    data = md.load_data("bikes:val,count=6")
    absent = sum(int((~sample.truth.present).sum()) for sample in data)
    assert absent

    class Sees:
        names = data.names

        def detect(self, images):
            known = {sample.image.tobytes(): sample.truth for sample in data}
            found = []
            for image in images:
                truth = known[image.tobytes()]
                truth = truth[truth.present]
                found.append(md.Detections(truth.boxes, [0.9] * len(truth), truth.labels))
            return found

    scored = md.score(md.detect(Sees(), data, out=tmp_path / "run"), data).document
    assert scored["ap"]["AP"] == 1
    assert scored["counts"]["objects"] == sum(int(sample.truth.present.sum()) for sample in data)

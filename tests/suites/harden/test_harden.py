"""``md.harden`` from end to end, on a few photos and for a few steps: the folder, the document, resuming, refusals."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import misdetect as md  # noqa: E402
from misdetect.nouns.detections import Detections  # noqa: E402
from misdetect.said.errors import BadData, BadSpec, LevelTooLow, RunMismatch  # noqa: E402
from misdetect.suites.harden.lessons import Lessons  # noqa: E402
from misdetect.suites.harden.watch import Pictures  # noqa: E402
from misdetect.training.measure import measure_on  # noqa: E402

PHOTOS = "rooms:train,count=16"
SMALL = {
    "steps": 4, "batch": 2, "checks": 2, "images": 4, "attacked": 1, "attack_steps": 1, "queries": 8, "watched": 2,
}  # fmt: skip
KEYS = {
    "before", "after", "change", "configurations", "rounds", "guard", "frontier", "repair", "fixed", "still", "broken",
    "skipped", "settings", "sentences", "detector", "data", "splits", "weights", "hardened", "out", "report",
}  # fmt: skip


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("campaign") / "fuzz"
    run = md.fuzz("zoo:ssd", PHOTOS, strategy="guided", queries=60, relocate=False, shrink=False, out=out)
    assert run.document["failing_insertions"]
    return out


@pytest.fixture(scope="module")
def hardened(campaign: Path, tmp_path_factory: pytest.TempPathFactory):
    out = tmp_path_factory.mktemp("hardened") / "out"
    return md.harden("zoo:ssd", PHOTOS, with_=f"failures:{campaign}", seeds=2, out=out, **SMALL)


@pytest.fixture(scope="module")
def robust(tmp_path_factory: pytest.TempPathFactory):
    out = tmp_path_factory.mktemp("robust") / "out"
    return md.harden("zoo:ssd", PHOTOS, with_="adversarial:mtd", out=out, **SMALL)


def test_the_document_and_what_lies_beside_it(hardened) -> None:
    found = hardened.document
    assert found.keys() == KEYS
    assert json.loads((hardened.path / "harden.json").read_text()) == found
    assert set(found["configurations"]) == {"same", "failing", "unfiltered"}
    for entry in found["configurations"].values():
        assert [trial["seed"] for trial in entry["seeds"]] == [0, 1]
        assert set(entry["test"]) == {"AP", "AP50", "edited_AP50"}
        values = [trial["test"]["AP"] for trial in entry["seeds"]]
        assert entry["test"]["AP"]["mean"] == pytest.approx(np.mean(values))
        low, high = entry["test"]["AP"]["interval"]
        assert low <= np.mean(values) <= high
    for side in ("before", "after"):
        assert {"AP", "AP50", "robust_AP50", "fuzz_failure_rate", "intervals"} <= found[side].keys()
    assert found["settings"]["with"].startswith("failures:")
    assert found["report"] in str(hardened.report)
    assert "Repaired or not" in hardened.report.read_text()
    assert {"frontier.png", "training.png"} <= {path.name for path in (hardened.path / "images").iterdir()}


def test_its_numbers_are_those_of_its_runs(hardened) -> None:
    for side in ("before", "after"):
        told = hardened.document[side]
        photos = md.open(hardened.path / side / "photos").document["photos"]
        attacked = md.open(hardened.path / side / "attack").document["attacks"]["mtd"]
        fuzzed = md.open(hardened.path / side / "fuzz").document
        assert (told["AP"], told["AP50"]) == (photos["AP"], photos["AP50"])
        assert told["intervals"]["AP50"] == photos["intervals"]["AP50"]
        assert told["robust_AP50"] == attacked["AP50"]
        assert told["fuzz_failure_rate"] == fuzzed["failure_rate"]
    change = hardened.document["change"]["AP50"]["value"]
    assert change == pytest.approx(hardened.document["after"]["AP50"] - hardened.document["before"]["AP50"])


def test_every_checkpoint_is_on_the_frontier_and_the_kept_one_is_the_best_there(hardened) -> None:
    found = hardened.document
    first, *points = found["frontier"]
    assert first["configuration"] == "before"
    assert len(points) == 3 * 2 * 2  # configurations, seeds, checks
    own = [first, *(point for point in points if point["configuration"] == "failing")]
    best = max(own, key=lambda point: point["edited_AP50"])
    assert found["guard"]["held_out"]["edited_AP50"] == best["edited_AP50"]
    if found["guard"]["best_step"]:
        chosen = [p for p in own if (p["seed"], p["step"]) == (found["guard"]["seed"], found["guard"]["best_step"])]
        assert chosen[0]["edited_AP50"] == best["edited_AP50"]


def test_the_weights_load_by_the_same_spec(hardened) -> None:
    again = md.load_detector(hardened.document["hardened"])
    plain = md.load_detector("zoo:ssd")
    assert hardened.document["hardened"] == f"zoo:ssd,weights={hardened.weights}"
    assert (again.fingerprint == plain.fingerprint) == (hardened.document["guard"]["best_step"] == 0)


def test_sums_leave_out_what_was_trained_on(hardened) -> None:
    found = hardened.document
    assert set(found["repair"]) == {"photos", "attack", "insertions", "campaign"}
    for fate in ("fixed", "still", "broken"):
        counts = {name: told[fate]["count"] for name, told in found["repair"].items() if name != "campaign"}
        assert found[fate]["by_condition"] == counts
        assert found[fate]["count"] == sum(counts.values()) == sum(found[fate]["by_type"].values())


@pytest.mark.heavy
def test_the_same_call_again_changes_nothing_and_another_recipe_is_refused(hardened, campaign) -> None:
    how = {"with_": f"failures:{campaign}", "seeds": 2, "out": hardened.path, **SMALL}
    again = md.harden("zoo:ssd", PHOTOS, **how)
    assert again.document == hardened.document
    with pytest.raises(RunMismatch, match=r"begun with another steps \(4, not 6\); choose another --out"):
        md.harden("zoo:ssd", PHOTOS, **how | {"steps": 6})
    with pytest.raises(RunMismatch, match="begun with another detector"):
        md.harden("zoo:retinanet", PHOTOS, **how)
    with pytest.raises(RunMismatch, match="holds something else"):
        md.harden("zoo:ssd", PHOTOS, **how | {"out": hardened.path.parent})


def test_synthetic_images_are_annotated_as_their_photos_and_the_inserted_object_as_asked(campaign: Path) -> None:
    run = md.open(campaign)
    lessons = Lessons.of(run.directory, run.data, run.data)
    asked = run.query("SELECT count(*) AS n FROM rows WHERE phase = 'insertion' AND failed IS NOT NULL")["n"][0].as_py()
    plain, open_, taught = (lessons.images("any", inserted) for inserted in ("unlabelled", "ignored", "labelled"))
    assert len(plain) == len(open_) == len(taught) == asked
    assert len(lessons.images("all", "unlabelled")) == run.document["failing_insertions"]
    row = run.query('SELECT x, y, width, height, label FROM rows WHERE "case" = $1', [plain[3].id]).to_pylist()[0]
    box = [row["x"], row["y"], row["x"] + row["width"], row["y"] + row["height"]]
    for data, crowd in ((open_, True), (taught, False)):
        truth = data[3].truth
        assert len(truth) == len(plain[3].truth) + 1
        assert truth.boxes[-1].tolist() == box
        assert run.data.names[truth.labels[-1]] == row["label"]
        assert bool(truth.crowd[-1]) == crowd
        assert not truth.crowd[:-1].any()
    photo = run.query("SELECT image FROM rows WHERE phase = 'insertion' LIMIT 1")["image"][0].as_py()
    some = Lessons(run.directory, run.data, frozenset({photo}))  # photos that are set aside teach nothing
    assert 0 < len(some.images("any", "unlabelled")) < asked


def test_what_is_detected_on_an_inserted_object_is_not_wrong(campaign: Path) -> None:
    """A detector that finds exactly what is annotated, and the inserted object: with that one ignored it is perfect."""
    run = md.open(campaign)
    lessons = Lessons.of(run.directory, run.data, run.data)
    names = run.data.names
    taught = Pictures(lessons.images("any", "labelled"), names)
    answers = iter([Detections(t.boxes, np.linspace(0.9, 0.5, len(t))[::-1], t.labels) for t in taught.truths] * 2)

    class Knows:
        def __init__(self) -> None:
            self.names = names

        def detect(self, images):
            return [next(answers) for _ in images]

    open_, plain = (Pictures(lessons.images("any", how), names) for how in ("ignored", "unlabelled"))
    assert measure_on(Knows(), open_.images, open_.truths)["AP50"] == 1
    assert measure_on(Knows(), plain.images, plain.truths)["AP50"] < 1  # scored highest, and wrong


class Enough(BaseException):
    pass


@pytest.mark.heavy
@pytest.mark.parametrize("at", [3, 15, 32])
def test_an_interrupted_hardening_goes_on_to_the_same_end(robust, tmp_path: Path, at: int) -> None:
    """Wherever it was stopped: in a study, in a training."""
    heard = iter(range(10**9))

    def stop(*_: object) -> None:
        if next(heard) == at:
            raise Enough

    how = {"with_": "adversarial:mtd", "out": tmp_path / "out", **SMALL}
    with pytest.raises(Enough):
        md.harden("zoo:ssd", PHOTOS, progress=stop, **how)
    found = md.harden("zoo:ssd", PHOTOS, **how).document
    assert without_paths(found) == without_paths(robust.document)


def without_paths(value: object) -> object:
    if isinstance(value, dict):
        left_out = ("out", "report", "weights", "hardened")
        return {key: without_paths(inner) for key, inner in value.items() if key not in left_out}
    return [without_paths(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.heavy
def test_adversarial_training_is_watched_under_attack(robust) -> None:
    found = robust.document
    assert list(found["configurations"]) == ["adversarial"]
    assert found["rounds"] == []
    assert "robust_AP50" in found["frontier"][0]
    assert set(found["repair"]) == {"photos", "attack", "insertions"}
    run = md.open(robust.path / "round-1" / "adversarial-0")
    assert run.document["settings"]["change"] == {
        "name": "adversarial", "how": "mtd", "eps": 8, "alpha": 4.0, "steps": 2, "clean": 0.5, "half": True,
    }  # fmt: skip


@pytest.mark.heavy
@pytest.mark.parametrize("more", [{"free": 2}, {"backbone": "adversarial", "backbone_steps": 2}])
def test_free_training_and_a_backbone_that_was_trained_under_attack(tmp_path: Path, more: dict) -> None:
    found = md.harden("zoo:ssd", PHOTOS, with_="adversarial", out=tmp_path / "out", **SMALL | more).document
    run = md.open(tmp_path / "out" / "round-1" / "adversarial-0").document
    assert run["steps"] == 4
    assert run["settings"]["change"]["name"] == ("free" if "free" in more else "adversarial")
    assert (tmp_path / "out" / "backbone" / "run.json").exists() == ("backbone" in more)
    assert found["guard"]["held_out_before"]["AP50"] > 0.5  # of its own weights, whatever it began with


@pytest.mark.heavy
def test_rounds_end_where_held_out_photos_yield_no_fewer_failures(campaign: Path, tmp_path: Path) -> None:
    """The loop: what each round learns from grows, and the round that is kept is the last that brought something."""
    how = SMALL | {"seeds": 1, "rounds": 3, "learning_rate": 1e-5}
    found = md.harden("zoo:ssd", PHOTOS, with_=f"failures:{campaign}", out=tmp_path / "out", **how).document
    rates = [each["failure_rate"] for each in found["rounds"]]
    images = [each["failing_images"] for each in found["rounds"][1:]]
    assert images == sorted(images)
    kept = found["guard"]["round"]
    assert all(after < before for before, after in pairwise(rates[1 : kept + 1]))
    assert kept == len(rates) - 1 or (kept == len(rates) - 2 and rates[-1] >= rates[kept])
    names = {path.name for path in (tmp_path / "out" / "round-1").iterdir()}
    assert {"same-0", "failing-0", "unfiltered-0", "held-out"} <= names
    if len(rates) > 2:
        later = {path.name for path in (tmp_path / "out" / "round-2").iterdir()}
        assert {"failing-0", "fuzz", "held-out"} <= later
        assert "same-0" not in later
    kept_weights = md.load_detector(f"zoo:ssd,weights={tmp_path / 'out' / f'round-{kept}' / 'weights.safetensors'}")
    assert md.load_detector(found["hardened"]).fingerprint == kept_weights.fingerprint


@pytest.mark.heavy
def test_a_floor_that_cannot_be_held_keeps_the_weights(tmp_path: Path) -> None:
    """A learning rate that ruins it: stopped, rolled back to what it was, and said."""
    how = SMALL | {"min_clean_ap": 0.4, "learning_rate": 1.0}
    found = md.harden("zoo:ssd", PHOTOS, with_="adversarial", out=tmp_path / "out", **how)
    guard = found.document["guard"]
    assert (guard["best_step"], guard["rolled_back"]) == (0, True)
    assert found.document["sentences"][0].startswith("No weights were better than those it began with")
    same, plain = md.load_detector(found.document["hardened"]), md.load_detector("zoo:ssd")
    assert same.fingerprint == plain.fingerprint
    assert found.document["fixed"]["count"] == found.document["broken"]["count"] == 0


def test_what_cannot_be_hardened_is_refused_and_leaves_nothing(campaign: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with_ = f"failures:{campaign}"
    with pytest.raises(BadData, match=r"not among those that are trained on \(rooms:val,count=50\)"):
        md.harden("zoo:ssd", "rooms:val,count=50", with_=with_, out=out)
    with pytest.raises(BadSpec, match="other classes"):
        md.harden("zoo:yolox-bikes", "bikes:train,count=50", with_=with_, out=out)
    with pytest.raises(BadData):
        md.harden("zoo:ssd", PHOTOS, with_=f"failures:{tmp_path / 'nowhere'}", out=out)
    with pytest.raises(BadSpec, match="failures:RUN or adversarial"):
        md.harden("zoo:ssd", PHOTOS, with_="adversarial:fgsm", out=out)
    with pytest.raises(BadSpec, match="rounds are of failures"):
        md.harden("zoo:ssd", PHOTOS, with_="adversarial", rounds=2, out=out)

    class Box:
        names = ("chair",)

        def detect(self, images):
            return []

    with pytest.raises(
        LevelTooLow, match=r"harden needs a detector that can be retrained \(Trainable\); Box returns boxes only"
    ):
        md.harden(Box(), PHOTOS, with_=with_, out=out)
    assert not out.exists()


def test_a_campaign_without_failures_is_refused(tmp_path: Path) -> None:
    run = md.fuzz(
        "zoo:ssd", PHOTOS, strategy="guided", queries=14, backgrounds=4, patches=1, iou=0.1, out=tmp_path / "f"
    )
    if run.document["failing_insertions"]:
        pytest.skip("this detector fails even here")
    with pytest.raises(BadData, match="has no failures to learn from; fuzz with more --queries"):
        md.harden("zoo:ssd", PHOTOS, with_=f"failures:{tmp_path / 'f'}", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()

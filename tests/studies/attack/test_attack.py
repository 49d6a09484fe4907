"""Attack runs against detectors that can be written down: counts by a second look at the saved images, the ladder on
planted faults, transfer, interruption, and what is refused."""

import json
from pathlib import Path
from types import SimpleNamespace

import attack_toys
import numpy as np
import pytest
from attack_toys import NAMES, Black, Detached, Quantised, Tiles, data, naive_found
from PIL import Image

import misdetect as md
from misdetect.data.export import export_coco
from misdetect.data.memory import from_pairs
from misdetect.detectors.zoo.shipped import ZOO, manifest
from misdetect.nouns.detections import Truth
from misdetect.said.errors import BadData, BadSpec, LevelTooLow, NothingToTest
from misdetect.studies.attack.ladder import MASKED, STRONG, UNCHECKED, WEAK
from misdetect.studies.attack.plan import main_attacks, rungs
from misdetect.studies.attack.rows import pixels_of
from misdetect.studies.attack.settings import AttackSettings
from misdetect.studies.attack.transfer import rival

TOYS = f"python:{Path(attack_toys.__file__)}"
QUICK = {"eps": 20, "steps": 10, "score": 0.5, "transfer": "none"}
"""Strong enough to push the toys' objects, found with about 0.88, below 0.5."""


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    return md.attack(Tiles(), data(8), out=tmp_path_factory.mktemp("attack") / "run", ladder=6, **QUICK)


@pytest.mark.heavy
def test_success_is_what_a_second_look_at_the_saved_images_says(attacked):
    """The detector is asked again about each PNG, and objects are counted pair by pair."""
    images = {sample.id: sample for sample in attacked.data}
    rows = attacked.query("SELECT image, condition, png FROM rows WHERE png IS NOT NULL").to_pylist()
    assert {row["condition"] for row in rows} == {"noise", "fgsm", "cls", "loc"}
    lost, right = {}, 0
    for row in rows:
        sample = images[row["image"]]
        before = naive_found(Tiles().one(sample.image), sample.truth, 0.5)
        after = naive_found(Tiles().one(pixels_of(row["png"])), sample.truth, 0.5)
        right += sum(before) if row["condition"] == "cls" else 0
        gone = sum(b and not a for b, a in zip(before, after, strict=True))
        lost[row["condition"]] = lost.get(row["condition"], 0) + gone
    document = attacked.document
    assert document["right"] == right == 24
    assert {name: entry["lost"] for name, entry in document["attacks"].items() if name != "mtd"} == lost
    assert lost["cls"] == 24
    assert lost["noise"] == 0
    for entry in document["attacks"].values():
        low, high = entry["intervals"]["success"]
        assert low <= entry["success"] == entry["lost"] / 24 <= high


def test_what_is_attacked_is_what_is_hit(attacked):
    """The loss of the class moves scores and leaves boxes, that of the box the reverse."""
    scores = attacked.query(
        "SELECT condition, avg(score_before) AS before, avg(score) AS after FROM rows WHERE kind = 'object' "
        "AND condition IN ('cls', 'loc') GROUP BY condition"
    ).to_pylist()
    means = {row["condition"]: row for row in scores}
    assert means["cls"]["after"] < 0.5 < means["cls"]["before"]
    assert attacked.document["attacks"]["loc"]["AP"] < attacked.document["clean"]["AP"]


def test_eps_is_never_exceeded_in_the_exported_images(attacked, tmp_path):
    clean = {sample.id: sample for sample in attacked.data}
    for which in ("cls", "loc", "noise", "mtd"):
        said = md.export(attacked, tmp_path / which, which=which)
        assert (said["images"], said["which"]) == (8, which)
        exported = md.load_data(f"coco:{tmp_path / which / 'instances.json'}")
        assert exported.names == NAMES
        largest = 0
        for sample in exported:
            assert sample.file_name.endswith(".png")
            original = clean[Path(sample.file_name).stem]
            saved = np.asarray(Image.open(tmp_path / which / "images" / sample.file_name)).astype(int)
            largest = max(largest, np.abs(saved - original.image.astype(int)).max())
            assert np.array_equal(sample.truth.boxes, original.truth.boxes)
            assert np.array_equal(sample.truth.labels, original.truth.labels)
        assert largest == 20
    with pytest.raises(BadSpec, match="no attack 'nonsense'"):
        md.export(attacked, tmp_path / "no", which="nonsense")


def test_mtd_takes_the_image_with_the_larger_total_loss(attacked):
    kept = attacked.query(
        "SELECT image, condition, png, total FROM rows WHERE kind = 'image' AND condition IN ('cls', 'loc')"
    ).to_pylist()
    truth = {sample.id: sample.truth for sample in attacked.data}
    totals = {}
    for row in kept:
        totals[row["image"], row["condition"]] = Tiles().slope(pixels_of(row["png"]), truth[row["image"]], "all")[0]
        assert row["total"] == pytest.approx(totals[row["image"], row["condition"]], rel=1e-5)
    wanted = ["loc" if totals[image, "loc"] > totals[image, "cls"] else "cls" for image in truth]
    chosen = attacked.document["attacks"]["mtd"]["chosen"]
    assert chosen == {name: wanted.count(name) for name in sorted(set(wanted))}
    lost = {
        (row["image"], row["condition"]): row["n"]
        for row in attacked.query(
            "SELECT image, condition, count(*) FILTER (\"right\" AND NOT found) AS n FROM rows WHERE kind = 'object' "
            "GROUP BY ALL"
        ).to_pylist()
    }
    mine = sum(lost[image, which] for image, which in zip(truth, wanted, strict=True))
    assert attacked.document["attacks"]["mtd"]["lost"] == mine


def test_a_sound_detector_breaks_no_rung(attacked):
    ladder = attacked.document["ladder"]
    assert ladder["verdict"] == STRONG
    assert [rung["name"] for rung in ladder["rungs"]] == [
        "noise",
        "fgsm",
        "2 steps",
        "cls",
        "20 steps",
        "3 starts",
        "eps 64",
    ]
    assert all(rung["holds"] for rung in ladder["rungs"])
    assert ladder["rungs"][-1]["success"] == 1
    assert ladder["flat"] == 0
    assert "robust" not in json.dumps(attacked.document).lower()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("detector", [Quantised(), Detached()], ids=["quantised input", "detached branch"])
@pytest.mark.parametrize("random_start", [False, True])
def test_masked_gradients_are_called_out(detector, random_start, tmp_path):
    """Planted: neither loses anything to its own gradients. A tool that reported that would call it strong."""
    run = md.attack(detector, data(8), out=tmp_path / "run", ladder=8, **QUICK | {"random_start": random_start})
    assert run.document["attacks"]["cls"]["success"] < 0.2
    verdict = run.document["verdict"]
    assert verdict["attack"] == MASKED
    assert verdict["rung"] in run.document["ladder"]["broken"]
    assert verdict["says"][0].startswith(f"Gradients masked, at the step {verdict['rung']!r}")
    assert "robust" not in json.dumps(run.document).lower()


@pytest.mark.heavy
def test_a_borrowed_gradient_that_does_better_gives_the_mask_away(tmp_path):
    """ε = 64 alone would also do it: only the transfer is looked at here."""
    how = QUICK | {"transfer": f"{TOYS}:Tiles"}
    run = md.attack(Detached(), data(8), out=tmp_path / "run", ladder=8, **how)
    transfer = run.document["ladder"]["rungs"][-1]
    assert (transfer["name"], transfer["means"], transfer["than"]) == ("transfer", MASKED, "cls")
    assert transfer["success"] == 1
    sound = md.attack(Tiles(), data(8), out=tmp_path / "sound", ladder=8, **how)
    assert sound.document["ladder"]["rungs"][-1]["holds"]


@pytest.mark.heavy
def test_too_few_steps_are_called_out(tmp_path):
    run = md.attack(
        Tiles(), data(8), out=tmp_path / "run", ladder=8, **QUICK | {"steps": 8, "alpha": 1.25, "random_start": False}
    )
    assert run.document["verdict"]["attack"] == WEAK
    assert "16 steps" in run.document["ladder"]["broken"]
    assert "FGSM" not in run.document["verdict"]["says"][0]


def test_without_a_ladder_nothing_is_said_of_strength(tmp_path):
    run = md.attack(Tiles(), data(2), out=tmp_path / "run", ladder=0, **QUICK)
    assert run.document["ladder"] is None
    assert run.document["verdict"]["attack"] == UNCHECKED
    assert "lower bounds" in run.sentences[0]


@pytest.mark.heavy
def test_restarts_lose_at_least_as_much(attacked, tmp_path):
    more = md.attack(Tiles(), data(8), out=tmp_path / "run", ladder=0, **QUICK | {"restarts": 3})
    for loss in ("cls", "loc"):
        assert more.document["attacks"][loss]["lost"] >= attacked.document["attacks"][loss]["lost"]


def test_a_black_box_is_refused_with_what_to_do_and_attacked_by_transfer(tmp_path):
    with pytest.raises(LevelTooLow, match=r"needs a detector that gives gradients.*--surrogate SPEC"):
        md.attack(Black(), data(2), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    run = md.attack(Black(), data(6), out=tmp_path / "run", ladder=3, surrogate=f"{TOYS}:Tiles", **QUICK)
    document = run.document
    assert document["transfer"]
    assert document["attacks"]["cls"]["success"] == 1
    assert document["clsaval"] == document["mechanisms"] == {}
    assert document["dcm"]["clean"]["mode"] == "reported"
    assert "transfer" in document["verdict"]["says"][0]
    assert any("A transfer attack" in sentence for sentence in run.sentences)
    assert "cannot be seen from outside" in " ".join(run.sentences)
    same = md.attack(Tiles(), data(6), out=tmp_path / "white", ladder=3, **QUICK).document
    assert same["attacks"]["cls"]["lost"] == document["attacks"]["cls"]["lost"]


@pytest.mark.heavy
def test_interrupted_it_goes_on_with_the_same_rows(attacked, tmp_path):
    """Stopped by a budget in the middle of images' steps."""
    out = tmp_path / "run"
    for queries in (60, 200):
        part = md.attack(Tiles(), data(8), out=out, ladder=6, queries=queries, **QUICK)
        assert not part.document["finished"]
    done = len(part.directory.done())
    assert 0 < done < part.document["cases"]
    whole = md.attack(Tiles(), data(8), out=out, ladder=6, queries=10**6, **QUICK)
    assert whole.document["finished"]
    assert whole.rows().equals(attacked.rows())


@pytest.mark.heavy
def test_workers_attack_the_same(tmp_path):
    """Both detectors of a transfer attack are made anew in every worker."""
    export_coco(data(3), tmp_path / "data")
    spec = f"coco:{tmp_path / 'data' / 'instances.json'}"
    how = QUICK | {"ladder": 2, "surrogate": f"{TOYS}:Tiles"}
    runs = [md.attack(f"{TOYS}:Black", spec, out=tmp_path / f"w{n}", workers=n, **how) for n in (1, 2)]
    assert runs[0].rows().equals(runs[1].rows())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("where", ["inside", "outside", "outside:6", "patch:10x12"])
def test_nothing_changes_where_it_may_not(where, tmp_path):
    run = md.attack(Tiles(), data(3), out=tmp_path / "run", ladder=0, where=where, distances=(), **QUICK)
    for row in run.query("SELECT image, png, pixels FROM rows WHERE condition = 'cls' AND png IS NOT NULL").to_pylist():
        sample = next(s for s in run.data if s.id == row["image"])
        changed = (pixels_of(row["png"]) != sample.image).any(axis=2)
        on = np.zeros(changed.shape, bool)
        for x0, y0, x1, y1 in sample.truth.boxes.astype(int):
            on[y0:y1, x0:x1] = True
        if where == "inside":
            assert changed.any()
            assert not changed[~on].any()
        elif where.startswith("outside"):
            assert not changed[on].any()
        else:
            rows, columns = np.nonzero(changed)
            assert np.ptp(rows) < 12
            assert np.ptp(columns) < 10
        assert changed.sum() <= row["pixels"]
    local = run.document["attacks"]["cls"]["success"]
    assert (local == 1) if where == "inside" else (local < 1)


def test_success_against_distance(tmp_path):
    """Tiles are told by themselves alone: from outside nothing can be lost, at any distance."""
    run = md.attack(Tiles(), data(4), out=tmp_path / "run", ladder=0, where="outside", distances=(0, 4, 40), **QUICK)
    entries = run.document["distance"]
    assert [entry["distance"] for entry in entries][:2] == [0, 0]
    assert all(entry["success"] == 0 for entry in entries)
    assert entries[-1]["distance"] == 4  # nothing is 40 px away from every object
    assert entries[-1]["pixels"] < entries[0]["pixels"]


def test_the_ledger_has_every_object_under_every_attack(attacked):
    rows = attacked.ledger().to_pylist()
    assert {row["condition"] for row in rows} == {"clean", "attack"}
    assert {json.loads(row["evidence"])["attack"] for row in rows if row["control"]} == {"noise"}
    harmed = [r for r in rows if r["condition"] == "attack" and json.loads(r["evidence"])["attack"] == "cls"]
    assert sum(row["harm"] == "harmful" for row in harmed) == attacked.document["attacks"]["cls"]["lost"]
    assert all(row["outcome"] in ("missed", "renamed") for row in harmed if row["harm"] == "harmful")


def test_replay_asks_about_the_saved_image(attacked):
    case = next(c for c in attacked.rows()["case"].to_pylist() if c.endswith("/cls"))
    assert attacked.replay(case, Tiles())["reproduced"]

    class Cured(Tiles):
        def see(self, image):
            return 128 + 2.5 * (np.asarray(image, dtype=np.float64) - 118)

    other = attacked.replay(case, Cured())
    assert not other["reproduced"]
    assert other["found_now"] > other["found_before"]
    with pytest.raises(BadData, match="has not kept"):
        attacked.replay(next(c for c in attacked.rows()["case"].to_pylist() if c.endswith("/3-starts")), Tiles())


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"eps": -1}, "eps should be from 0 to 255"),
        ({"eps": 256}, "eps should be from 0 to 255"),
        ({"alpha": 0}, "alpha should be more than 0"),
        ({"losses": ("cls", "obj")}, "losses should be some of cls, loc, all, cwat and mtd. Got obj"),
        ({"where": "elsewhere"}, "where should be"),
        ({"steps": 0}, "steps should be at least 1"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_asked(wrong, says, tmp_path):
    with pytest.raises(BadSpec, match=says):
        md.attack(Tiles(), data(1), out=tmp_path / "run", **wrong)
    assert not (tmp_path / "run").exists()


def test_nothing_to_attack_is_refused_and_leaves_nothing(tmp_path):
    bare = from_pairs([(data(1)[0].image, Truth.empty())], NAMES)
    with pytest.raises(BadData, match="no annotations"):
        md.attack(Tiles(), bare, out=tmp_path / "run")
    with pytest.raises(NothingToTest, match=r"no object of memory: is found before the attack .*lower --score"):
        md.attack(Tiles(), data(2, right=110), out=tmp_path / "run")
    with pytest.raises(BadSpec):
        md.attack(Tiles(), data(1), out=tmp_path / "run", transfer="nonsense:x")
    assert not (tmp_path / "run").exists()


@pytest.mark.heavy
def test_no_change_changes_nothing(tmp_path):
    """With ε = 0 the run is its own reference: every ablation is the vanilla one, on a detector of the zoo."""
    run = md.attack("zoo:ssd", "rooms:val", limit=3, out=tmp_path / "run", eps=0, steps=1, alpha=1, ladder=0)
    document = run.document
    for loss in ("cls", "loc"):
        assert document["attacks"][loss]["success"] == 0
        parts = document["clsaval"][loss]
        for name in ("r_idx", "r_all"):
            assert parts[name]["AP"] == parts["vanilla"]["AP"] == document["clean"]["AP"]
        assert document["mechanisms"][loss] == document["mechanisms"]["clean"]
        assert document["dcm"][loss] == document["dcm"]["clean"]


def member(name):
    """What the choice of a rival looks at of a detector of the zoo, which need not be loaded for that."""
    return SimpleNamespace(spec=f"zoo:{name},batch=1", names=manifest()[name]["names"])


@pytest.mark.parametrize(("name", "expected"), [("yolox", "ssd"), ("yolox-robust", "ssd"), ("ssd-robust", "yolox")])
def test_the_ladder_borrows_from_another_family_before_it_was_hardened(name, expected):
    detector = member(name)
    assert rival(detector, AttackSettings(), detector.names) == f"zoo:{expected}"


@pytest.mark.parametrize("name", ["faster-rcnn-bikes", "yolox"])
def test_what_only_says_that_something_is_there_is_no_rival(name):
    """The zoo has a classifier of parts that shares all classes with the detector of bikes, and has no boxes."""
    detector = member(name)
    found = rival(detector, AttackSettings(), detector.names)
    assert found is None or ZOO[found.removeprefix("zoo:")].family not in ("mcml", ZOO[name].family)


@pytest.mark.parametrize("steps", [1, 2, 3, 20])
def test_every_rung_has_a_name_of_its_own(steps):
    """One step was once both "2 steps" of the shorter and of the longer attack, and the ladder fell over."""
    how = AttackSettings(steps=steps)
    names = [attack.name for attack in (*main_attacks(how), *rungs(how))]
    assert len(names) == len(set(names))

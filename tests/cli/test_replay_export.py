"""``misdetect replay`` and ``misdetect export``: a case happens again, or not; failing images are data like others."""

import json
import shutil

import cv2
import numpy as np
import pytest
from fuzz_runs import BLOTS, GUIDED, MORE_TOYS, ROOMS, command, document, rows

import misdetect as md
from misdetect.data import load_data
from misdetect.engine.store import Run

REPLAYED = {
    "run", "study", "case", "background", "inserted", "box", "opacity", "reproduced", "changes", "picture",
}  # fmt: skip
EXPORTED = {"run", "out", "to", "which", "inserted", "hidden", "images", "annotations", "hidden_annotations"}
CHANGE = {"type", "label", "became", "box", "score", "after", "flickers", "counts"}


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """A run with failures, relocations and shrunk cases; its rows, and a file with other detectors."""
    folder = tmp_path_factory.mktemp("campaign")
    (folder / "fuzz_subjects.py").write_text(MORE_TOYS)
    document(*GUIDED, "--queries", 160, "--out", folder / "run", "--pictures", 0)
    return folder / "run", rows(folder / "run"), f"python:{folder / 'fuzz_subjects.py'}"


def firm(row):
    return [change for change in row["changes"] or () if change["counts"] and not change["flickers"]]


def worst(row):
    """The worst first: attributable, cleared by its patches, harmful, most score lost."""
    return min(
        (
            not change["attributable"], not change["cleared"], change["harm"] != "harmful",
            -abs(change["score"] - change["after"]), row["case_index"],
        )
        for change in firm(row)
    )  # fmt: skip


@pytest.mark.heavy
def test_cases_of_every_phase_happen_again(campaign):
    out, found, _ = campaign
    for phase in ("insertion", "relocation", "shrinking"):
        row = next(row for row in found if row["phase"] == phase and row["found"] is not None and firm(row))
        replayed = document("replay", out, row["case"], "--detector", BLOTS, "--json")
        assert set(replayed) == REPLAYED
        assert replayed["reproduced"], phase
        assert replayed["case"] == row["case"]
        assert replayed["box"] == [row["x"], row["y"], row["x"] + row["width"], row["y"] + row["height"]]
        assert (replayed["background"], replayed["inserted"]) == (row["image"], row["label"])
        assert all(set(change) == CHANGE for change in replayed["changes"])
        for name in CHANGE - {"box"}:
            assert [change[name] for change in replayed["changes"]] == [change[name] for change in row["changes"]]
        by_number = document("replay", out, row["case_index"], "--trust", "--json")
        assert by_number == replayed == md.open(out).replay(row["case"], BLOTS)


def test_a_case_without_a_failure_happens_again_too(campaign):
    out, found, _ = campaign
    row = next(row for row in found if row["phase"] == "insertion" and not row["changes"])
    code, shown, _ = command("replay", out, row["case"], "--trust")
    assert code == 0
    assert f"{row['case']}: the same happens again" in shown


def test_a_search_that_got_nowhere_is_the_case_that_it_came_from(campaign):
    out, found, _ = campaign
    row = next(row for row in found if row["origin"] is not None and row["found"] is None)
    assert document("replay", out, row["case"], "--trust", "--json")["case"] == found[row["origin"]]["case"]


def test_the_image_differs_from_the_background_only_in_the_box(campaign):
    out, found, _ = campaign
    row = next(row for row in found if row["phase"] == "insertion" and firm(row))
    replayed = document("replay", out, row["case"], "--trust", "--json")
    edited = cv2.imread(replayed["picture"])[:, :, ::-1]
    background = load_data(ROOMS)[row["number"]].image
    ys, xs = np.nonzero((edited != background).any(axis=2))
    assert row["x"] <= xs.min() <= xs.max() < row["x"] + row["width"]
    assert row["y"] <= ys.min() <= ys.max() < row["y"] + row["height"]


@pytest.mark.heavy
def test_another_detector_is_compared_with_itself(campaign):
    """One that sees the same in every image has no failure: exit code 1 where there was one, 0 where there was none."""
    out, found, toys = campaign
    insertions = [row for row in found if row["phase"] == "insertion"]
    failing, sound = next(filter(firm, insertions)), next(row for row in insertions if not row["changes"])
    code, said, err = command("replay", out, failing["case"], "--detector", f"{toys}:Calm", "--json")
    assert code == 1, err
    assert json.loads(said)["reproduced"] is False
    assert json.loads(said)["changes"] == []
    code, shown, _ = command("replay", out, failing["case"], "--detector", f"{toys}:Calm")
    assert code == 1
    assert "something else happens now" in shown
    assert document("replay", out, sound["case"], "--detector", f"{toys}:Calm", "--json")["reproduced"]


def test_what_cannot_be_replayed_is_said_in_a_sentence(campaign, tmp_path):
    out, found, toys = campaign
    case = next(row["case"] for row in found if row["phase"] == "insertion")

    def refused(*arguments):
        code, said, err = command(*arguments)
        assert (code, said, err.count("\n")) == (2, "", 1), err
        return err

    assert "has no case 'insertion/99999'" in refused("replay", out, "insertion/99999", "--trust")
    assert "has no case" in refused("replay", out, "9" * 60, "--trust")
    clean = next(row["case"] for row in found if row["phase"] == "clean")
    assert "background without any edit" in refused("replay", out, clean, "--trust")
    assert "background without any edit" in refused("replay", out, "0", "--trust")
    assert "other classes" in refused("replay", out, case, "--detector", f"{toys}:Stranger")
    assert "no run.json" in refused("replay", tmp_path, case)
    assert "no run.json" in refused("export", tmp_path, "--out", tmp_path / "x")
    md.detect(BLOTS, ROOMS, limit=2, out=tmp_path / "detected")
    assert "is a run of 'detect'" in refused("export", tmp_path / "detected", "--out", tmp_path / "x")
    for name, place in (("data", "data"), ("pool", "settings")):
        changed = tmp_path / f"other {name}"
        shutil.copytree(out, changed)
        stale = Run.open(changed)
        stale.about["identity"][place]["fingerprint" if name == "data" else "pool_fingerprint"] = "another"
        stale.note(told="so")
        assert f"the {name} {ROOMS} has changed since" in refused("replay", changed, case, "--trust")
        assert f"the {name} {ROOMS} has changed since" in refused("export", changed, "--out", tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.heavy
@pytest.mark.parametrize("which", ["attributable", "all"])
def test_failing_images_are_a_data_set_with_the_labels_of_their_backgrounds(campaign, tmp_path, which):
    out, found, _ = campaign
    failing = [row for row in found if row["phase"] == "insertion" and firm(row)]
    wanted = sorted((row for row in failing if row["attributable"] or which == "all"), key=worst)
    assert 0 < sum(row["attributable"] for row in failing) < len(failing)
    rooms = load_data(ROOMS)
    truths = [rooms[row["number"]].truth for row in wanted]
    for inserted in ("unlabelled", "labelled"):
        folder = tmp_path / inserted
        said = document("export", out, "--out", folder, "--which", which, "--inserted", inserted, "--json")
        python = md.export(md.open(out), tmp_path / f"python-{inserted}", which=which, inserted=inserted)
        assert said == {**python, "out": str(folder)}
        more = inserted == "labelled"
        assert set(said) == EXPORTED
        assert (said["hidden"], said["hidden_annotations"]) == ("drop", 0)
        assert said["images"] == len(wanted)
        assert said["annotations"] == sum(map(len, truths)) + more * len(wanted)
        data = load_data(f"coco:{folder / 'instances.json'},images={folder / 'images'}")
        assert len(data) == len(wanted)
        assert data.names == rooms.names
        for sample, row, truth in zip(data, wanted, truths, strict=True):
            assert len(sample.truth) == len(truth) + more
            assert np.array_equal(sample.truth.boxes[: len(truth)], truth.boxes)
            assert np.array_equal(sample.truth.labels[: len(truth)], truth.labels)
            if more:
                box = [row["x"], row["y"], row["x"] + row["width"], row["y"] + row["height"]]
                assert sample.truth.boxes[-1].tolist() == box
                assert data.names[int(sample.truth.labels[-1])] == row["label"]
    picture = document("replay", out, wanted[0]["case"], "--trust", "--json")["picture"]
    assert np.array_equal(cv2.imread(picture)[:, :, ::-1], data[0].image)


def test_exported_records_say_which_case_failed_how_and_where_what_was_expected(campaign, tmp_path):
    out, found, _ = campaign
    document("export", out, "--out", tmp_path / "all", "--which", "all", "--json")
    images = json.loads((tmp_path / "all" / "instances.json").read_text())["images"]
    rows_of = {row["case"]: row for row in found}
    assert len(images) > 3
    for image in images:
        row = rows_of[image["case"]]
        assert image["background"] == row["image"]
        assert image["inserted"] == {
            "label": row["label"],
            "bbox": [row["x"], row["y"], row["width"], row["height"]],
        }
        for told, change in zip(image["failures"], firm(row), strict=True):
            x0, y0, x1, y1 = (change[side] for side in ("x0", "y0", "x1", "y1"))
            assert told["bbox"] == pytest.approx([x0, y0, x1 - x0, y1 - y0])
            for name in ("type", "label", "became", "object", "harm", "score", "after", "attributable"):
                assert told[name] == change[name]


@pytest.fixture(scope="module")
def covering(tmp_path_factory):
    """A campaign that pastes over objects that its detector does not see: some are hidden nearly whole."""
    folder = tmp_path_factory.mktemp("covering")
    blind = """
from fuzz_toys import BlotDetector

class Blind(BlotDetector):
    '''Sees one thing in a corner, so that nothing else is in the way of what is inserted; it comes and goes.'''
    fingerprint = None
    def detect(self, images):
        return [self._first(found, image.mean()) for found, image in zip(super().detect(images), images)]
    def _first(self, found, mean):
        one = found[:1]
        scores = one.scores * 0 + (0.1, 0.9)[int(mean * 997) % 2]
        return type(one)(one.boxes * 0 + [0, 0, 50, 60], scores, one.labels * 0 + 2)
"""
    (folder / "fuzz_blind.py").write_text(blind)
    some = ["--queries", 200, "--strategy", "random", "--reach", 1, "--pictures", 0]
    detector = ["--detector", f"python:{folder / 'fuzz_blind.py'}:Blind"]
    document("fuzz", *detector, "--data", ROOMS, "--no-cache", "--json", *some, "--out", folder / "run")
    return folder / "run", rows(folder / "run")


def test_what_the_paste_hides_is_dropped_marked_or_kept(covering, tmp_path):
    out, found = covering
    rooms, hidden = load_data(ROOMS), {}
    pool = list(md.pool(ROOMS))
    for row in found:
        if row["phase"] != "insertion" or not firm(row):
            continue
        shape = cv2.resize(
            pool[row["cutout"]].mask.astype(np.uint8), (row["width"], row["height"]), interpolation=cv2.INTER_NEAREST
        )
        truth = rooms[row["number"]].truth
        under = np.zeros((rooms[row["number"]].height, rooms[row["number"]].width), bool)
        under[row["y"] : row["y"] + row["height"], row["x"] : row["x"] + row["width"]] = shape > 0
        shares = [under[mask].sum() / mask.sum() for mask in truth.masks]
        hidden[row["case"]] = [int(number) for number, share in zip(truth.ids, shares, strict=True) if share > 0.9]
    count = sum(map(len, hidden.values()))
    assert count > 0
    written = {}
    for what in ("drop", "mark", "keep"):
        said = document("export", out, "--out", tmp_path / what, "--which", "all", "--hidden", what, "--json")
        assert (said["hidden"], said["hidden_annotations"]) == (what, count)
        coco = written[what] = json.loads((tmp_path / what / "instances.json").read_text())
        assert {image["case"]: image["hidden"] for image in coco["images"]} == hidden
        assert len(coco["annotations"]) == said["annotations"]
        assert sum(record["iscrowd"] for record in coco["annotations"]) == (count if what == "mark" else 0)
    kept = len(written["keep"]["annotations"])
    assert [len(written[what]["annotations"]) for what in ("drop", "mark")] == [kept - count, kept]
    code, shown, _ = command("export", out, "--out", tmp_path / "told", "--which", "all", "--hidden", "mark")
    assert code == 0
    assert f"{count} annotations that inserted objects hide (more than 90 %) are marked as crowds" in shown


@pytest.mark.heavy
def test_nothing_to_export_and_no_place_for_it(campaign, tmp_path):
    out, _, toys = campaign
    calm = [*GUIDED[:2], f"{toys}:Calm", *GUIDED[3:]]
    document(*calm, "--queries", 30, "--out", tmp_path / "calm")
    code, _, err = command("export", tmp_path / "calm", "--out", tmp_path / "nothing")
    assert code == 2
    assert "nothing to export" in err
    assert not (tmp_path / "nothing").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "note").write_text("precious")
    code, _, err = command("export", out, "--out", tmp_path / "mine")
    assert code == 2
    assert "not empty" in err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["note"]


@pytest.mark.heavy
def test_a_run_with_a_stored_pool_is_replayed_with_it(tmp_path):
    """Also where the data would make another one."""
    document("pool", "--data", ROOMS, "--keep", 1, "--out", tmp_path / "pool", "--json")
    arguments = [*GUIDED, "--queries", 60, "--pool", tmp_path / "pool", "--out", tmp_path / "run", "--pictures", 0]
    failing = document(*arguments)["distinct"][0]["case"]
    assert document("replay", tmp_path / "run", failing, "--trust", "--json")["reproduced"]

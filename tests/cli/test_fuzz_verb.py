"""``misdetect fuzz`` as a command: its document agrees with its rows, budgets hold, bad input leaves nothing behind."""

import json
from pathlib import Path

import cv2
import pytest
from fuzz_runs import BLOTS, GUIDED, MORE_TOYS, ROOMS, TOYS, command, document, instead, rows

import misdetect as md
from misdetect.pools.pool import Pool, load_pool, write_pool

FIXTURES = Path(__file__).parents[3] / "shared" / "fixtures"
SITTING = {"engine", "out", "pictures", "stopped", "timing"}
"""What the verb adds to the document of the run."""


@pytest.fixture(scope="module")
def guided(tmp_path_factory):
    """A campaign of all phases, with its document as it was printed."""
    out = tmp_path_factory.mktemp("guided") / "run"
    code, said, err = command(*GUIDED, "--queries", 160, "--out", out)
    assert code == 0, err
    return out, said


@pytest.fixture
def toys(tmp_path_factory):
    file = tmp_path_factory.mktemp("toys") / "fuzz_subjects.py"
    file.write_text(MORE_TOYS)
    return f"python:{file}"


def unlike(said: str, *keys: str):
    """A document without what may differ between two runs."""
    return {key: value for key, value in json.loads(said).items() if key not in {"timing", "out", "pictures", *keys}}


def test_the_verb_and_python_say_the_same(guided, tmp_path):
    """One call, and how its document is shown: what was found does not depend on who asked."""
    out, said = guided
    found = json.loads(said)
    run = md.fuzz(
        BLOTS, ROOMS, strategy="guided", reach=2, queries=160, cache=False, retry_failed=False, out=tmp_path / "run"
    )
    assert {key: value for key, value in found.items() if key not in SITTING} == run.document
    assert set(found) > SITTING
    assert rows(tmp_path / "run") == rows(out)
    assert md.open(out).document == run.document
    assert found["engine"]["queries"] == found["cost"]["queries"] <= found["queries"] <= 160


def test_people_see_the_same_numbers_what_harms_first(guided):
    out, said = guided
    found = json.loads(said)
    code, shown, _ = command(*GUIDED[:-1], "--queries", 160, "--out", out)
    assert code == 0
    assert shown.startswith(f"{found['harm']['harmful']} distinct failures that inserted objects cause do harm")
    assert f"{found['attributable']} ({found['attributable_per_1000']:.1f} per 1,000 queries" in shown
    assert ", ".join(f"{count} {name}" for name, count in found["harm"].items() if count) in shown
    assert f"{found['raw_failures']} ({100 * found['raw_failure_rate']:.1f} %)" in shown
    assert f"{found['control_failures']} of {found['control_asked']}" in shown
    assert f"{100 * found['coverage']['objects']:.0f} % of {found['coverage']['detected_objects']}" in shown
    assert found["distinct"][0]["case"] in shown
    assert f"The paper's tables: {out / 'tables.md'}" in shown
    code, again, _ = command("show", out)
    assert (code, again.splitlines()[1]) == (0, shown.splitlines()[0])


def test_every_failing_case_is_drawn_once_and_framed(guided):
    *pictures, tables = json.loads(guided[1])["pictures"]
    assert tables == str(guided[0] / "tables.md")
    assert len(set(pictures)) == len(pictures) > 3
    for path in pictures:
        image = cv2.imread(path)[:, :, ::-1]
        yellow = (image == (255, 225, 0)).all(axis=2)
        halves = yellow[:, : image.shape[1] // 2], yellow[:, image.shape[1] // 2 :]
        assert all(half.sum() > 50 for half in halves), "what changed is framed on both"


@pytest.mark.heavy
def test_the_same_command_gives_the_same_bytes(guided, tmp_path):
    _, said, _ = command(*GUIDED, "--queries", 160, "--out", tmp_path / "again")
    assert unlike(said) == unlike(guided[1])
    assert rows(tmp_path / "again") == rows(guided[0])
    for path in json.loads(guided[1])["pictures"]:
        again = tmp_path / "again" / Path(path).relative_to(guided[0])
        assert again.read_bytes() == Path(path).read_bytes()


@pytest.mark.heavy
def test_two_workers_give_the_same_rows(guided, tmp_path):
    _, said, _ = command(*GUIDED, "--queries", 160, "--workers", 2, "--out", tmp_path / "two")
    assert unlike(said, "engine", "cost") == unlike(guided[1], "engine", "cost")
    assert rows(tmp_path / "two") == rows(guided[0])


@pytest.mark.heavy
@pytest.mark.parametrize("strategy", ["guided", "adaptive"])
def test_a_larger_budget_goes_on_and_a_smaller_one_asks_nothing(tmp_path, strategy):
    out = tmp_path / "run"
    some = [*instead(GUIDED, "--strategy", strategy), "--backgrounds", 6, "--out", out]
    first = document(*some, "--queries", 50)
    before = rows(out)
    assert first["queries"] <= 50
    second = document(*some, "--queries", 110)
    assert 50 < second["queries"] <= 110
    assert second["engine"]["queries"] == second["cost"]["queries"] - first["cost"]["queries"]
    assert second["cost"]["queries"] <= 110
    assert rows(out)[: len(before)] == before
    for queries in (110, 50):
        again = document(*some, "--queries", queries)
        assert again["engine"]["queries"] == 0
        assert unlike(json.dumps(again), "engine", "stopped") == unlike(json.dumps(second), "engine", "stopped")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run.budget"]


def unplanned(out):
    """Rows without the budget that they were planned with."""
    return [{**row, "budget": None} for row in rows(out)]


@pytest.mark.heavy
def test_without_a_budget_a_limited_campaign_goes_on_to_its_end(tmp_path):
    some = [*GUIDED, "--per-object", 1, "--no-relocate", "--no-shrink", "--backgrounds", 6]
    document(*some, "--queries", 30, "--out", tmp_path / "run")
    rest = document(*some, "--out", tmp_path / "run")
    whole = document(*some, "--out", tmp_path / "whole")
    assert rest["queries"] > 30
    assert unplanned(tmp_path / "run") == unplanned(tmp_path / "whole")
    keys = ("insertions", "failing_insertions", "attributable", "harm")
    assert {key: rest[key] for key in keys} == {key: whole[key] for key in keys}


def test_other_settings_are_refused_and_change_nothing(guided):
    out, _ = guided
    listing = sorted(path.name for path in out.iterdir())
    code, _, err = command(*GUIDED[:-1], "--queries", 999, "--iou", 0.6, "--out", out)
    assert code == 2
    assert "settings.iou was 0.5, now 0.6" in err
    assert sorted(path.name for path in out.iterdir()) == listing, "nothing was taken down"


@pytest.mark.heavy
def test_dollars_limit_what_is_asked(tmp_path, toys):
    some = [*GUIDED, "--price", 0.01, "--out", tmp_path / "run"]
    first = document(*some, "--usd", 0.4)
    assert 0.3 < first["cost"]["usd"] <= 0.4
    assert first["cost"]["usd"] == pytest.approx(0.01 * first["cost"]["queries"])
    second = document(*some, "--usd", 0.7)
    assert first["cost"]["usd"] < second["cost"]["usd"] <= 0.7
    code, _, err = command(*GUIDED[:-1], "--usd", 1, "--out", tmp_path / "free")
    assert code == 2
    assert "--price" in err
    for own, asked, most in (("usd=0.9", ["--usd", 0.3], 0.3), ("usd=0.3,queries=60", ["--usd", 0.9], 0.3)):
        paid = [*GUIDED[:2], f"{toys}:Paid,{own}", *GUIDED[3:], *asked, "--out", tmp_path / own]
        assert 0.2 < document(*paid)["cost"]["usd"] <= most, "the spec's price and both limits hold"


@pytest.mark.heavy
def test_no_time_at_all_asks_nothing_and_can_go_on(tmp_path):
    some = [*GUIDED, "--queries", 30, "--out", tmp_path / "run"]
    empty = document(*some, "--minutes", 0)
    assert empty["stopped"] == "budget"
    assert (empty["queries"], empty["insertions"], empty["attributable"]) == (0, 0, 0)
    assert empty["failure_rate"] is None
    assert empty["intervals"]["failure_rate"] is None
    assert (empty["finished"], empty["cost"]) == (False, {"queries": 0, "usd": 0.0})
    assert "asked now" in command(*GUIDED[:-1], "--queries", 30, "--minutes", 0, "--out", tmp_path / "run")[1]
    assert document(*some)["insertions"] > 0


@pytest.mark.heavy
def test_the_noise_of_a_detector_is_said(tmp_path):
    restless = [*GUIDED[:2], f"python:{TOYS}:Restless", *GUIDED[3:]]
    code, said, err = command(*restless, "--queries", 40, "--out", tmp_path / "run")
    assert code == 0
    assert json.loads(said)["noise"]["differing"] == 4
    assert "note: the detector is not deterministic: 4 of 4" in err


@pytest.mark.heavy
def test_a_planted_fault_is_found_from_the_command_line(tmp_path):
    box = f"glassbox:vanish-near/distance=16,data={ROOMS}"
    some = ["fuzz", "--data", ROOMS, "--queries", 60, "--no-cache", "--pictures", 2, "--json"]
    found = document(*some, "--detector", box, "--out", tmp_path / "run")
    assert found["attributable"] == found["attributable_by_type"]["missed"] > 10
    assert found["control_failures"] == 0
    assert found["harm"]["harmful"] == found["attributable"]
    assert len([path for path in found["pictures"] if path.endswith(".png")]) == 2
    sound = document(*some, "--detector", f"glassbox:none,data={ROOMS}", "--out", tmp_path / "sound")
    assert (sound["raw_failures"], sound["unique_failures"]) == (0, 0)
    assert [Path(path).name for path in sound["pictures"]] == ["tables.md"]


BAD = {
    "adaptive without a budget": (["--strategy", "adaptive"], "give --queries, --usd or --minutes"),
    "dollars without a price": (["--usd", 5], "give --price"),
    "no images": (["--data", "coco:nothing.json"], "has no images"),
    "no such pool": (["--pool", "absent"], "neither the folder of a stored pool nor a data spec"),
    "not a pool": (["--pool", "."], "pool.json"),
    "an empty pool": (["--pool", "empty"], "lists no objects"),
    "a pool of other classes": (["--pool", "cats"], "no label in common"),
    "a destination in words": (["--destination", "left"], "centroid or centre or two whole numbers"),
    "half a destination": (["--destination", "10"], "centroid or centre or two whole numbers"),
    "no detections": (["--score", 1], "no detections of score 1"),
    "no overlap": (["--iou", 0], "iou should be above 0"),
    "flicker of everything": (["--flicker", 2], "flicker should be from 0 to 1"),
    "no such reach": (["--reach", 4], "reach should be from 0 to 3"),
    "no such strategy": (["--strategy", "lucky"], "--strategy"),
    "too few queries": (["--queries", 2], "queries should be at least 7"),
    "impossibly natural": (["--min-naturalness", 2], "min_naturalness should be from 0 to 1"),
    "no such embedding": (["--embedding", "python:absent_module:f"], "absent_module"),
    "stored predictions": (["--detector", "predictions:r.json"], "needs a detector"),
    "out is not a run": (["--out", "precious"], "is not a run directory"),
    "out is a file": (["--out", "precious/mine"], "precious/mine"),
}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A folder with pools that are of no use, and something precious."""
    folder = tmp_path_factory.mktemp("places")
    pool = load_pool(ROOMS)
    write_pool(Pool([c for c in pool if c.label == "cat"], spec="cats"), folder / "cats")
    write_pool(pool, folder / "empty")
    listed = json.loads((folder / "empty" / "pool.json").read_text())
    (folder / "empty" / "pool.json").write_text(json.dumps({**listed, "objects": []}))
    (folder / "precious").mkdir()
    (folder / "precious" / "mine").write_text("precious")
    (folder / "r.json").write_text("[]")
    (folder / "nothing.json").write_text('{"images": [], "annotations": [], "categories": []}')
    return folder


@pytest.mark.parametrize(("arguments", "sentence"), BAD.values(), ids=BAD)
def test_bad_input_is_one_sentence_and_leaves_nothing_behind(places, monkeypatch, arguments, sentence):
    monkeypatch.chdir(places)
    before = sorted(places.rglob("*"))
    code, said, err = command(*instead([*GUIDED[:-1], "--out", "run"], *arguments))
    assert (code, said) == (2, ""), err
    assert err.startswith("misdetect: ")
    assert err.count("\n") == 1
    assert sentence in err
    assert sorted(places.rglob("*")) == before


def test_a_detector_that_knows_none_of_the_pools_classes_is_refused(tmp_path, toys):
    code, _, err = command(
        "fuzz", "--detector", f"{toys}:Stranger", "--data", ROOMS, "--queries", 20, "--out", tmp_path / "run"
    )
    assert code == 2
    assert "no label in common" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.heavy
@pytest.mark.skipif(not FIXTURES.exists(), reason="the real detectors and photos of ../shared/fixtures are not here")
def test_a_real_detector_fails_and_its_failures_happen_again(tmp_path):
    detector = f"onnx:{FIXTURES}/models/yolox_nano.onnx,decoder=yolox,names=coco"
    data = f"coco:{FIXTURES}/coco66/instances.json"
    out = tmp_path / "run"
    found = document(
        "fuzz", "--detector", detector, "--data", data, "--queries", 60, "--no-relocate", "--no-shrink", "--no-cache",
        "--seed", 1, "--pictures", 1, "--out", out, "--json",
    )  # fmt: skip
    assert found["raw_failures"] > 0
    assert found["naturalness"]["inserted"] > 90
    failing = next(row for row in rows(out) if row["failed"])
    assert document("replay", out, failing["case"], "--json")["reproduced"]
    assert found["backgrounds"] == 6
    assert sum(found["harm"].values()) == found["attributable"]


@pytest.mark.heavy
def test_a_campaign_with_nothing_but_time_does_not_use_it_up_on_backgrounds(tmp_path):
    adaptive = ["fuzz", "--detector", BLOTS, "--data", "rooms:val,count=150", "--no-cache", "--json", "--pictures", 0]
    found = document(*adaptive, "--minutes", 0.01, "--out", tmp_path / "run")
    assert found["settings"]["backgrounds"] == 100
    again = document(*adaptive, "--queries", 130, "--out", tmp_path / "run")  # the same campaign goes on
    assert again["settings"] == found["settings"]
    assert again["backgrounds"] == 100
    assert again["insertions"] > 0


def test_a_segmenter_cuts_the_objects_out_and_its_pool_stays_beside_the_run(guided, toys, tmp_path):
    """With the data's own masks as its answers, it makes the campaign that the data makes."""
    knowing = f"{toys}:Knowing"
    arguments = [*GUIDED, "--queries", 160, "--out", tmp_path / "run", "--segmenter"]
    code, said, err = command(*arguments, knowing)
    assert code == 0, err
    assert load_pool(tmp_path / "run.pool").settings["segmenter"] == knowing
    assert unlike(said, "settings") == unlike(guided[1], "settings")
    pool = json.loads(said)["settings"]["pool"]
    assert Path(pool) == tmp_path / "run.pool"
    failing = json.loads(said)["distinct"][0]["case"]
    assert command("replay", tmp_path / "run", failing, "--detector", BLOTS)[0] == 0
    code, again, err = command(*arguments, knowing)  # goes on with the pool that is there
    assert (code, json.loads(again)["engine"]["queries"]) == (0, 0)
    for segmenter, more, why in [
        (f"{knowing},skip=1", (), "another segmenter"),
        (knowing, ("--pool", tmp_path / "run.pool"), "needs no --segmenter"),
    ]:
        code, said, _ = command(*arguments, segmenter, *more)
        assert code == 2
        assert why in json.loads(said)["error"]["message"]
    code, said, _ = command(*[*arguments[:-2], tmp_path / "other", "--segmenter"], toys + ":Calm")
    assert (code, list(tmp_path.glob("other*"))) == (2, [])
    assert "returns boxes only" in json.loads(said)["error"]["message"]

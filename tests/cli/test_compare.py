"""``misdetect compare`` as a command: its document, its figures, what it refuses, and runs of other studies."""

import json
import shutil
import sys
from pathlib import Path

import cv2
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))  # runs written down by hand
from explain_runs import fates, write

KEYS = {
    "study",
    "runs",
    "settings",
    "differing_settings",
    "paired",
    "why_not_paired",
    "mechanisms",
    "differences",
    "shared_misses",
    "missed_by",
    "by_class",
    "resampling",
    "notes",
    "out",
    "pictures",
}


@pytest.fixture
def three(tmp_path):
    """Three detectors on the same 30 images."""
    for seed, name in enumerate(("a", "b", "c")):
        write(tmp_path / name, fates(30, seed), detector=f"zoo:{name}")
    return [tmp_path / name for name in ("a", "b", "c")]


def test_the_document_and_the_figures(run, three, tmp_path):
    out = tmp_path / "out"
    code, said, err = run("compare", *three, "--out", out, "--json")
    assert code == 0, err
    document = json.loads(said)
    assert set(document) == KEYS
    assert [r["name"] for r in document["runs"]] == ["a", "b", "c"]
    assert document["paired"]
    objects = sum(map(len, fates(30, 0)))
    for i, entry in enumerate(document["runs"]):
        missed = sum(why is not None for image in fates(30, i) for why in image)
        assert (entry["objects"], entry["missed"], entry["images"]) == (objects, missed, 30)
        shares = [each[i] for each in document["mechanisms"].values()]
        assert sum(each["count"] for each in shares) == missed
        assert all(each["interval"][0] <= each["share"] <= each["interval"][1] for each in shares)
        assert all(each["rate_interval"][0] <= each["rate"] <= each["rate_interval"][1] for each in shares)
    assert [(d["first"], d["second"]) for d in document["differences"]] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert sum(document["missed_by"]) == objects
    differing = {each["setting"]: each["values"] for each in document["differing_settings"]}
    assert differing["detector.spec"] == ["zoo:a", "zoo:b", "zoo:c"]
    assert document["settings"]["settings.thresholds.loc"] == 0.5
    assert json.loads((out / "compare.json").read_text()) == document
    assert sorted(path.name for path in out.iterdir()) == ["compare.html", "compare.json", "compare.png"]
    assert cv2.imread(str(out / "compare.png")).shape[1] > 600
    page = (out / "compare.html").read_text()
    assert "<script src=" not in page, "nothing is loaded from elsewhere"
    assert run("compare", *three, "--out", out, "--json")[1] == said, "the same runs, the same bytes"


def test_a_person_sees_what_differs_first(run, three, tmp_path):
    write(tmp_path / "strict", fates(30, 1), detector="zoo:a", miss="exclusive")
    code, said, _ = run("compare", three[0], tmp_path / "strict")
    assert code == 0
    lines = said.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("settings.miss"))
    assert lines[first].split() == ["settings.miss", "any", "exclusive"]
    assert not any("background" in line for line in lines[:first])
    assert "Not paired: a and strict judge by different rules: miss." in said
    code, said, _ = run("compare", *three)
    assert "Paired: the same objects" in said
    assert "McNemar" in said


def test_the_same_name_for_another_detector_is_noticed(run, tmp_path):
    for name in ("x/run", "y/run"):
        path = write(tmp_path / name, fates(5, 0), detector="zoo:a")
    kept = json.loads((path / "run.json").read_text())
    kept["identity"]["detector"]["fingerprint"] = "trained again"
    (path / "run.json").write_text(json.dumps(kept))
    said = run("compare", tmp_path / "x/run", path)[1]
    assert "x/run" in said, "names are as long as it takes to tell them apart"
    assert "trained again" in said


def test_what_cannot_be_compared_is_refused_in_a_sentence(run, three, tmp_path):
    half = tmp_path / "half"
    write(half, fates(10, 0), limit=30, data="rooms:val")
    scan = tmp_path / "scan"
    shutil.copytree(three[0], scan)
    text = (scan / "run.json").read_text()
    (scan / "run.json").write_text(text.replace('"study": "explain"', '"study": "fuzz"'))
    torn = tmp_path / "torn"
    shutil.copytree(three[0], torn)
    next((torn / "parts").iterdir()).write_bytes(b"torn")
    (tmp_path / "folder").mkdir()
    (tmp_path / "odd.json").write_text("{}")
    both = tmp_path / "both"
    shutil.copytree(scan, both)
    a = three[0]
    for given, says in (
        ([a], "needs two runs"),
        ([a, tmp_path / "nowhere"], "nowhere is not a run directory"),
        ([a, tmp_path / "folder"], "folder is not a run directory"),
        ([a, a], "given twice"),
        ([a, half], "10 of 30 cases are done; go on with: misdetect explain --detector zoo:one"),
        ([a, scan], "only runs of one study can be compared"),
        ([scan, both], "no numbers for runs of fuzz"),
        ([a, torn], "cannot be read"),
        ([a, tmp_path / "odd.json"], "not a document of `misdetect score --json`"),
        ([a, three[1], "--out", three[2]], "this is a run directory"),
    ):
        code, out, err = run("compare", *given)
        assert (code, out) == (2, ""), given
        assert says in err
        assert err.count("\n") == 1
        assert "Traceback" not in err
    assert not (tmp_path / "nowhere").exists()


def test_scores_side_by_side(run, world, tmp_path):
    documents = []
    for name, results in (("all", world.expected), ("half", world.expected[:3])):
        (tmp_path / f"{name}-results.json").write_text(json.dumps(results))
        said = run("score", "--truth", world.data, "--predictions", tmp_path / f"{name}-results.json", "--json")[1]
        (tmp_path / f"{name}.json").write_text(said)
        documents.append(json.loads(said))
    code, said, err = run("compare", tmp_path / "all.json", tmp_path / "half.json", "--json")
    assert code == 0, err
    document = json.loads(said)
    assert document["study"] == "score"
    for key in ("AP", "AP50", "AR100"):
        assert [entry["value"] for entry in document["numbers"][key]] == [d["ap"][key] for d in documents]
    assert [e["value"] for e in document["numbers"]["tide.Miss"]] == [d["tide"]["Miss"] for d in documents]
    assert document["differing_settings"][0]["setting"] == "settings.predictions"
    assert "AP50" in run("compare", tmp_path / "all.json", tmp_path / "half.json")[1]


def test_scans_and_detections_side_by_side(run, tmp_path):
    scans = []
    for name, fault in (("one", "vanish-near/distance=30"), ("two", "none")):
        data = "rooms:val,size=96,count=6"
        spec = f"glassbox:{fault},data={data}"
        common = ("--detector", spec, "--data", data, "--out", tmp_path / name, "--json")
        done = run("scan", "--pairs", 2, "--step", 32, "--pictures", 0, *common)
        assert done[0] == 0, done[2]
        scans.append(json.loads(done[1]))
        assert run("checkup", "--detector", spec, "--data", data, "--out", tmp_path / f"up-{name}")[0] == 0
    code, said, err = run("compare", tmp_path / "one", tmp_path / "two", "--json")
    assert code == 0, err
    document = json.loads(said)
    for tau in ("0.5", "0.95"):
        shown = [entry["value"] for entry in document["numbers"][f"affected.{tau}"]]
        assert shown == [scan["affected"][tau] for scan in scans]
    assert not document["paired"]
    code, _, err = run("compare", tmp_path / "up-one", tmp_path / "up-two")
    assert (code, "folder of a checkup" in err) == (2, True)
    code, said, _ = run("compare", tmp_path / "up-one" / "detect", tmp_path / "up-two" / "detect", "--json")
    numbers = json.loads(said)["numbers"]
    assert [entry["value"] for entry in numbers["images"]] == [6, 6]
    results = [len(json.loads((tmp_path / f"up-{name}" / "results.json").read_text())) for name in ("one", "two")]
    assert [entry["value"] for entry in numbers["detections"]] == results

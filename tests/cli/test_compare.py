"""``misdetect compare`` as a command: its document, its figures, what it refuses, and runs of other studies."""

import json
import shutil

import cv2
import pytest
from explain_runs import fates, write

import misdetect as md
from misdetect.engine.store import Run
from misdetect.studies.kinds import kind_of, names

KEYS = {
    "study",
    "runs",
    "settings",
    "differing_settings",
    "numbers",
    "paired",
    "why_not_paired",
    "mechanisms",
    "differences",
    "shared_misses",
    "missed_by",
    "by_class",
    "failures",
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
        assert document["numbers"]["miss_rate"][i]["value"] == entry["miss_rate"] == missed / objects
        assert (entry["detector"], entry["data"], entry["failed"]) == (f"zoo:{entry['name']}", "made", 0)
    assert [(d["first"], d["second"]) for d in document["differences"]] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert sum(document["missed_by"]) == objects
    differing = {each["setting"]: each["values"] for each in document["differing_settings"]}
    assert differing["detector.spec"] == ["zoo:a", "zoo:b", "zoo:c"]
    assert document["settings"]["settings.loc"] == 0.5
    assert json.loads((out / "compare.json").read_text()) == document
    assert sorted(path.name for path in out.iterdir()) == ["compare.html", "compare.json", "rates.png", "shares.png"]
    assert cv2.imread(str(out / "rates.png")).shape[1] > 600
    page = (out / "compare.html").read_text()
    assert "<script" not in page, "charts are drawn, not computed by the page"
    assert page.count("data:image/svg+xml") == 3
    assert len(page) < 500_000
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
    kept = Run.open(path)
    kept.about["identity"]["detector"]["fingerprint"] = "trained again"
    kept.note(told="so")
    said = run("compare", tmp_path / "x/run", path)[1]
    assert "x/run" in said, "names are as long as it takes to tell them apart"
    assert "trained again" in said


@pytest.mark.heavy
def test_the_confidence_and_the_seed_reach_every_interval(three):
    """Those of the comparison, whatever the runs were shown with."""
    wide, narrow, other = (
        md.compare(*three[:2], confidence=c, seed=s).document for c, s in ((0.99, 0), (0.5, 0), (0.99, 5))
    )
    assert wide["resampling"] == {"confidence": 0.99, "seed": 0}
    for ends in (
        lambda d: d["numbers"]["miss_rate"][0]["interval"],
        lambda d: d["runs"][0]["intervals"]["miss_rate"],
        lambda d: d["mechanisms"]["background"][1]["interval"],
        lambda d: d["differences"][0]["miss_rate"]["interval"],
    ):
        assert ends(wide)[0] < ends(narrow)[0] < ends(narrow)[1] < ends(wide)[1]
        assert ends(wide) != ends(other)
    assert wide["numbers"]["miss_rate"][0]["interval"] == pytest.approx(wide["runs"][0]["intervals"]["miss_rate"])


def test_in_python_it_is_an_object_that_says_what_it_found(three, tmp_path):
    found = md.compare(md.open(three[0]), three[1], str(three[2]))
    first, head, *rows = repr(found).splitlines()
    assert first == "3 runs of explain"
    assert head.split() == ["a", "b", "c"]
    rates = [entry["value"] for entry in found.document["numbers"]["miss_rate"]]
    assert [f"{rate:.3f}" for rate in rates] == rows[0].split()[1::4]
    assert len(rows) == len(found.document["numbers"])
    page = found._repr_html_()
    assert page.count("<tr>") == 1 + len(rows)
    assert f"<td>{rates[0]:.3f} (" in page
    drawn = found.figures(tmp_path / "drawn")
    assert [path.name for path in drawn] == ["shares.png", "rates.png", "compare.html"]
    assert all(path.is_file() for path in drawn)


def test_runs_that_missed_nothing_have_no_figure(tmp_path):
    runs = [write(tmp_path / name, [[None, None], [None]]) for name in ("a", "b")]
    assert md.compare(*runs).figures(tmp_path / "out") == []


def test_every_study_has_numbers_to_compare():
    assert all(callable(kind_of(study).numbers) for study in names())


def test_what_cannot_be_compared_is_refused_in_a_sentence(run, three, tmp_path):
    half = write(tmp_path / "half", fates(10, 0), cases=30)
    early = write(tmp_path / "early", fates(10, 0))
    Run.open(early).note(cases=None)
    other, strange = tmp_path / "other", tmp_path / "strange"
    for folder, study in ((other, "detect"), (strange, "guess")):
        shutil.copytree(three[0], folder)
        renamed = Run.open(folder)
        renamed.about["identity"]["study"] = study
        renamed.note(told="so")
    torn = tmp_path / "torn"
    shutil.copytree(three[0], torn)
    next((torn / "parts").iterdir()).write_bytes(b"torn")
    (tmp_path / "folder").mkdir()
    (tmp_path / "odd.json").write_text("{}")
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "explain.json").write_text(json.dumps(md.open(three[0]).document))
    a = three[0]
    for given, says in (
        ([], "needs two runs"),
        ([a], "needs two runs"),
        ([a, tmp_path / "nowhere"], "nowhere is not a run directory"),
        ([a, tmp_path / "folder"], "folder is not a run directory"),
        ([a, a], "given twice"),
        ([a, half], "10 of 30 cases are done; go on with: misdetect explain --detector zoo:one"),
        ([a, early], "10 cases are done; go on with"),
        ([a, other], "only runs of one study can be compared"),
        ([a, strange], "no study 'guess'"),
        ([a, torn], "is damaged: its bytes are not those that were written"),
        ([a, tmp_path / "odd.json"], "is not a document that a study printed with --json"),
        ([a, tmp_path / "list.json"], "is not a document that a study printed with --json"),
        ([a, tmp_path / "explain.json"], "compare takes finished run directories"),
        ([a, three[1], "--out", three[2]], "this is a run directory"),
        ([a, three[1], "--confidence", 90], "confidence should be from 0.01 to 0.999"),
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
    assert document["runs"][0]["images"] == 6
    for key in ("AP", "AP50", "AR100"):
        assert [entry["value"] for entry in document["numbers"][key]] == [d["ap"][key] for d in documents]
    assert [e["value"] for e in document["numbers"]["tide.Miss"]] == [d["tide"]["Miss"] for d in documents]
    assert document["differing_settings"][0]["setting"] == "settings.predictions"
    assert "AP50" in run("compare", tmp_path / "all.json", tmp_path / "half.json")[1]
    older = documents[1]
    for key in ("study", "finished", "detector", "data"):
        del older[key]
    (tmp_path / "half.json").write_text(json.dumps(older))
    again = json.loads(run("compare", tmp_path / "all.json", tmp_path / "half.json", "--json")[1])
    assert again["numbers"] == document["numbers"], "documents of older versions do not name their study"


@pytest.mark.heavy
def test_scans_and_detections_side_by_side(run, tmp_path):
    data, scans, counts = "rooms:val,size=96,count=6", [], []
    for name, fault in (("one", "vanish-near/distance=30"), ("two", "none")):
        spec = f"glassbox:{fault},data={data}"
        scans.append(md.scan(spec, data, pairs=2, step=32, out=tmp_path / name).document)
        found = md.detect(spec, data, out=tmp_path / f"up-{name}" / "detect")
        counts.append(found.document["detections"])
    code, said, err = run("compare", tmp_path / "one", tmp_path / "two", "--json")
    assert code == 0, err
    document = json.loads(said)
    for tau in ("0.5", "0.95"):
        shown = [entry["value"] for entry in document["numbers"][f"affected.{tau}"]]
        assert shown == [scan["affected"][tau] for scan in scans]
    assert document["paired"]
    code, said, _ = run("compare", tmp_path / "up-one" / "detect", tmp_path / "up-two" / "detect", "--json")
    numbers = json.loads(said)["numbers"]
    assert [entry["value"] for entry in numbers["images"]] == [6, 6]
    assert [entry["value"] for entry in numbers["detections"]] == counts


@pytest.mark.heavy
def test_a_finished_fuzz_run_counts_as_finished_and_no_data_is_opened(tmp_path, monkeypatch):
    data = "rooms:val,size=96,count=6"
    runs = [
        md.fuzz(f"glassbox:{fault},data={data}", data, queries=30, out=tmp_path / fault.partition("/")[0])
        for fault in ("vanish-near/distance=30", "none")
    ]
    assert all(run.document["finished"] for run in runs)
    monkeypatch.setattr("misdetect.data.opened.load_data", lambda *given: pytest.fail("the data was opened"))
    document = md.compare(*(run.path for run in runs)).document
    assert document["study"] == "fuzz"
    numbers = [kind_of("fuzz").numbers(run.document) for run in runs]
    assert len(numbers[0]) > 2
    for name, entries in document["numbers"].items():
        assert [entry["value"] for entry in entries] == [each[name].value for each in numbers]

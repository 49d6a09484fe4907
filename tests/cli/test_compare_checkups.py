"""Checkups opened again, and side by side: the documents of their runs, findings, gates, and folders that are none."""

import json
import re
import shutil

import pytest

import misdetect as md
from misdetect.report.checkups import write_checkup
from misdetect.suites.checkup.run import Checkup

ROOMS = "rooms:val,size=96,count=12"
KEYS = {
    "study", "runs", "settings", "differing_settings", "resampling", "fixed_findings", "new_findings",
    "common_findings", "studies", "skipped", "paired", "why_not_paired", "notes", "out", "pictures",
}  # fmt: skip
SOUND, FAULTY = f"glassbox:none,data={ROOMS}", f"glassbox:sink/rate=0.5,data={ROOMS}"
STUDIES = ["doctor", "detect", "score", "explain", "confusion", "scan", "fuzz"]


@pytest.fixture(scope="module")
def folders(made_once):
    """Checkups of a sound and of a faulty detector, the second of fewer images."""
    return made_once("checkups", make_checkups)


def make_checkups(folder):
    for name, spec, limit in (("sound", SOUND, None), ("faulty", FAULTY, 8)):
        (folder / name).mkdir(parents=True)
        images = limit or 12  # planned here, and not by how fast this computer is
        plan = {"images": images, "scan": 40, "fuzz": 50, "attack": 4}
        asked = {"minutes": 0.1, "limit": limit, "images": images}
        (folder / name / "plan.json").write_text(json.dumps({"for": asked, "plan": plan}))
        md.checkup(spec, ROOMS, minutes=0.1, pictures=0, limit=limit, out=folder / name)


@pytest.fixture(scope="module")
def compared(folders):
    return md.compare(folders / "sound", folders / "faulty")


@pytest.fixture
def copies(folders, tmp_path):
    """Both, elsewhere."""
    for name in ("sound", "faulty"):
        shutil.copytree(folders / name, tmp_path / name)
    return tmp_path


def change(folder, edit):
    """Edit the ``checkup.json`` of ``folder``, as if it had been written so."""
    document = json.loads((folder / "checkup.json").read_text())
    del document["format"], document["check"]
    edit(document)
    write_checkup(folder, document)


def test_it_is_the_comparison_of_each_study_and_of_the_findings(run, folders, tmp_path):
    both, out = [folders / "sound", folders / "faulty"], tmp_path / "out"
    code, said, err = run("compare", *both, "--out", out, "--json")
    assert code == 0, err
    document = json.loads(said)
    assert set(document) == KEYS
    assert json.loads((out / "compare.json").read_text()) == document
    assert [each["name"] for each in document["runs"]] == [SOUND, FAULTY], "called by their detectors"
    assert set(document["studies"]) == set(STUDIES)
    for study in ("score", "explain", "fuzz"):
        found = document["studies"][study]
        alone = md.compare(*(folder / study for folder in both)).document
        assert found["numbers"] == alone["numbers"]
        (told,), (wanted,) = found["differences"], alone["differences"]
        assert (told["first"], told["second"]) == (SOUND, FAULTY)
        assert {**told, "first": 0, "second": 0} == {**wanted, "first": 0, "second": 0}
    assert document["fixed_findings"] == document["common_findings"] == []
    opened = md.open(folders / "faulty").document["findings"]
    assert [each["second"] for each in document["new_findings"]] == opened
    assert any(each["kind"] == "background" for each in document["new_findings"]), "the fault that was planted"
    turned = md.compare(*reversed(both)).document
    assert [each["first"] for each in turned["fixed_findings"]] == opened
    same = [each for each in document["skipped"] if each["study"] == "verify"]
    assert all("no part of the data has a state" in each["why"] for each in same)
    assert len(same) == 2


@pytest.mark.heavy
def test_other_images_are_said_and_pairing_is_over_those_that_both_saw(compared):
    document = compared.document
    score = document["studies"]["score"]["differences"][0]
    assert (score["images"], score["left_out"]) == (8, [4, 0])
    for study in ("score", "explain", "confusion", "detect"):
        assert any(note.startswith(f"{study}: ") for note in document["notes"]), study
    assert all(why.startswith("scan: ") for why in document["why_not_paired"]), "of other images other pairs are drawn"


def test_a_person_reads_findings_and_studies(run, folders, tmp_path):
    code, said, err = run("compare", folders / "sound", folders / "faulty", "--out", tmp_path / "out")
    assert code == 0, err
    assert f"NEW in {FAULTY}: " in said
    assert "FIXED" not in said
    assert re.search(r"^miss_rate .*\*$", said, re.MULTILINE)
    assert "Not compared: verify" in said
    assert "Failures of" in said
    page = (tmp_path / "out" / "compare.html").read_text()
    assert "<script" not in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    for words in ("sank into the background", "miss_rate", "certain", "Settings that differ", "only in"):
        assert words in page


@pytest.mark.heavy
def test_names_from_elsewhere_only_become_text(copies, tmp_path):
    change(copies / "sound", lambda d: d["detector"].update(spec="<img src=x onerror=alert(1)>"))
    change(copies / "faulty", lambda d: d["findings"][0].update(sentence="<script>alert(1)</script>"))
    found = md.compare(copies / "sound", copies / "faulty")
    (path,) = found.figures(tmp_path / "out")
    assert "<img" not in path.read_text()
    assert "<script" not in path.read_text()
    assert "<img" not in found._repr_html_()


@pytest.mark.heavy
def test_gates_are_judged_study_by_study(run, folders, compared):
    both = [folders / "sound", folders / "faulty"]
    for gate, failed in (
        ("score.AP falls by 0.01", True),
        ("miss_rate rises", True),
        ("explain.miss_rate falls", False),
        ("new_findings > 0", True),
        ("fixed_findings > 0", False),
        ("harmful_per_1000 falls", False),
        ("explain.failures[0].new > 0", True),
    ):
        (verdict,) = compared.check(gate)
        assert verdict.failed is failed, verdict.says
    for gate, says in (
        ("verify.f_vv falls", "verify is not compared"),
        ("score.AQ falls", "score.AP"),
        ("nonsense falls", "cannot be judged"),
    ):
        with pytest.raises(md.MisdetectError, match=says):
            compared.check(gate)
    code, said, _ = run("compare", *both, "--fail-if", "miss_rate rises", "--json")
    assert (code, json.loads(said)["gates"][0]["key"]) == (1, "explain.miss_rate")
    code, _, err = run("compare", *both, "--fail-if", "score.AQ falls")
    assert code == 2
    assert "cannot be judged" in err


def test_two_studies_with_one_key_are_both_named(compared):
    studies = compared.document["studies"]
    document = {**compared.document, "studies": {**studies, "detect": studies["explain"]}}
    with pytest.raises(md.MisdetectError, match=r"detect\.miss_rate or explain\.miss_rate"):
        md.check(document, "miss_rate rises")


def test_a_checkup_is_opened_and_shown_again(run, folders):
    kept = json.loads((folders / "faulty" / "checkup.json").read_text())
    code, said, err = run("show", folders / "faulty", "--json")
    assert code == 0, err
    document = json.loads(said)
    assert document["findings"] == kept["findings"]
    assert "format" not in document
    assert "sank into the background" in run("show", folders / "faulty")[1]
    assert run("show", folders / "faulty", "--fail-if", "any")[0] == 1
    assert run("show", folders / "sound", "--fail-if", "any", "--fail-if", "score.AP < 0.9")[0] == 0
    opened = md.open(folders / "faulty")
    assert isinstance(opened, Checkup)
    assert opened.document == document
    assert list(opened.document["studies"]) == list(opened.runs) == STUDIES
    assert opened.runs["explain"].document["study"] == "explain"
    assert opened.report.is_file()
    assert opened.check("any")[0].failed
    assert repr(md.compare(opened, folders / "sound")).startswith("2 checkups; findings: ")


@pytest.mark.heavy
def test_one_that_was_moved_works_all_the_same(run, folders, copies):
    elsewhere = copies / "faulty"
    assert md.open(elsewhere).document["studies"]["score"]["out"] == str(elsewhere / "score")
    there, here = (md.compare(folders / "sound", folder).document for folder in (elsewhere, folders / "faulty"))
    for study, each in there["studies"].items():
        assert each["numbers"] == here["studies"][study]["numbers"]
        assert each.get("differences") == here["studies"][study].get("differences")
    assert run("show", elsewhere)[0] == 0


@pytest.mark.heavy
def test_two_of_one_detector_are_told_apart_by_their_places(folders, copies):
    document = md.compare(folders / "faulty", copies / "faulty").document
    names = [each["name"] for each in document["runs"]]
    assert len(set(names)) == 2
    assert all(name.startswith(FAULTY) for name in names)
    assert document["new_findings"] == document["fixed_findings"] == []
    assert document["common_findings"]
    (found,) = document["studies"]["explain"]["failures"]
    assert (found["fixed"], found["new"], found["unknown"]) == (0, 0, 0)
    assert found["common"]


@pytest.mark.heavy
def test_what_only_one_has_is_said(copies):
    lost = copies / "sound"
    shutil.rmtree(lost / "scan")
    change(lost, lambda d: (d["studies"].pop("explain"), d["skipped"].append({"study": "explain", "why": "no time."})))
    document = md.compare(lost, copies / "faulty").document
    assert {"scan", "explain"} & set(document["studies"]) == set()
    said = {each["study"]: each["why"] for each in document["skipped"]}
    assert said["explain"] == f"{SOUND} has no explain: no time."
    assert "its run is missing" in said["scan"]
    assert any(f"{SOUND} has no explain" in note for note in document["notes"]), (
        "its findings are neither fixed nor new"
    )
    assert all(each["study"] != "explain" for each in document["new_findings"])


def test_what_is_no_checkup_is_refused_in_a_sentence(run, folders, copies):
    sound, faulty = copies / "sound", copies / "faulty"
    broken = {name: shutil.copytree(faulty, copies / name) for name in ("half", "other", "torn", "odd", "sly", "old")}
    (broken["half"] / "checkup.json").unlink()
    text = (faulty / "checkup.json").read_text()
    (broken["other"] / "checkup.json").write_text(text.replace('"format": 2', '"format": 99'))
    (broken["old"] / "checkup.json").write_text(text.replace('"format": 2,', ""))
    (broken["torn"] / "checkup.json").write_text(text[: len(text) // 2])
    (broken["odd"] / "checkup.json").write_text(text.replace('"minutes": 0.1', '"minutes": 0.2'))
    change(broken["sly"], lambda d: d["studies"].update({"../sound/explain": {}}))
    (copies / "empty").mkdir()
    (copies / "list").mkdir()
    (copies / "list" / "checkup.json").write_text("[]")
    for name, says in (
        ("half", "is not finished; go on with: misdetect checkup"),
        ("other", "was not written by this version of misdetect"),
        ("old", "was not written by this version of misdetect"),
        ("list", "was not written by this version of misdetect"),
        ("torn", "is not valid JSON"),
        ("odd", "is damaged"),
        ("sly", "is damaged"),
        ("empty", "is not a run directory"),
        ("nowhere", "is not a run directory"),
    ):
        for command in (("show", copies / name), ("compare", sound, copies / name)):
            code, out, err = run(*command)
            assert (code, out) == (2, ""), command
            assert says in err or (command[0] == "compare" and name in ("empty", "nowhere")), err
            assert err.count("\n") == 1
            assert "Traceback" not in err
    for given, says in (
        ((sound, sound), "given twice"),
        ((sound,), "needs two runs"),
        ((sound, faulty / "explain"), "is not; compare it with another checkup"),
        ((sound, faulty, "--out", sound), "a checkup or a file"),
    ):
        code, _, err = run("compare", *given)
        assert code == 2
        assert says in err


@pytest.mark.heavy
def test_a_damaged_run_is_named_and_the_others_are_compared(copies):
    part = next((copies / "faulty" / "explain" / "parts").iterdir())
    part.write_bytes(part.read_bytes()[:100])
    document = md.compare(copies / "sound", copies / "faulty").document
    assert "explain" not in document["studies"]
    assert any(each["study"] == "explain" and "is damaged" in each["why"] for each in document["skipped"])
    assert "score" in document["studies"]

"""Runs as objects: they stand alone, say what was found, and go when they are not kept."""

import gc
import inspect
import json
import re
import shutil

import numpy as np
import pytest
from page_parts import Page

import misdetect as md
from misdetect.detectors.catalogue import reach
from misdetect.nouns.settings import settings_of
from misdetect.said.errors import BadData, BadSpec, RunMismatch
from misdetect.studies.kinds import kind_of, names

DATA = "rooms:val,count=12"


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("api")
    return md.explain(f"glassbox:sink/class=chair,data={DATA}", DATA, out=folder / "run")


def test_a_run_is_read_again_without_detector_and_data(kept, tmp_path):
    moved = tmp_path / "elsewhere"
    shutil.copytree(kept.path, moved)
    opened = md.open(moved)
    assert opened.document == kept.document
    (moved / "document.json").unlink()
    assert md.open(moved).document == kept.document, "and again from its rows"
    assert opened.rows().equals(kept.rows())
    assert opened.study == "explain"


def test_a_kept_document_that_does_not_fit_the_rows_is_not_believed(kept, tmp_path):
    moved = tmp_path / "other"
    shutil.copytree(kept.path, moved)
    document = json.loads((moved / "document.json").read_text())
    (moved / "document.json").write_text(json.dumps({**document, "done": 3, "missed": 999}))
    assert md.open(moved).document == kept.document
    (moved / "document.json").write_text("{")
    assert md.open(moved).document == kept.document


def test_it_says_what_was_found(kept):
    said = repr(kept)
    assert str(kept.document["missed"]) in said
    assert "explain of glassbox" in said
    page = kept._repr_html_()
    assert "<li>" in page
    assert "&lt;" not in page


def test_names_are_escaped_in_pages(tmp_path):
    image = np.zeros((32, 32, 3), dtype=np.uint8)
    evil = "<script>alert(1)</script>"
    detector = md.load_detector(lambda images: [([], [], []) for _ in images], names=[evil])
    run = md.explain(detector, [(image, {"boxes": [[2, 2, 20, 20]], "labels": [evil]})])
    page = Page(run.report(tmp_path / "page.html"))
    assert page.html.count("<script") == 4, "data, rows, pictures, and the page's own"
    assert evil not in page.html
    assert [row["label"] for row in page.rows] == [evil], "as data"
    assert "<script" not in run._repr_html_()


def test_figures_and_report_are_files(kept, tmp_path):
    figures = kept.figures(1)
    assert all(path.is_file() for path in figures)
    page = kept.report(tmp_path / "r.html", 1).read_text()
    lost = {row["image"] for row in kept.ledger().to_pylist() if row["outcome"] not in ("found", "ignored")}
    assert page.count("data:image/webp;base64,") == len(lost), "each photo once"
    assert set(re.findall(r"https?://[\w./]+", page)) == {"http://www.w3.org/2000/svg"}, "a name, not an address"


def test_a_run_without_a_folder_goes_with_the_object():
    run = md.detect(f"glassbox:none,data={DATA}", DATA, limit=2)
    path = run.path
    assert path.exists()
    del run
    gc.collect()
    assert not path.exists()


def test_functions_and_pairs_will_do():
    rng = np.random.default_rng(0)
    pairs = [(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8), {"boxes": [[5, 5, 25, 25]], "labels": ["lamp"]})] * 3

    def finds(images):
        return [{"boxes": [[5, 5, 25, 26]], "scores": [0.9], "labels": [0]} for _ in images]

    run = md.explain(md.load_detector(finds, names=["lamp"]), pairs)
    assert (run.document["objects"], run.document["missed"]) == (3, 0)
    blind = md.explain(md.load_detector(lambda images: [([], [], [])] * len(images), names=["lamp"]), pairs)
    assert blind.document["missed"] == 3
    assert "finds nothing on any of 3 images" in repr(blind)
    with pytest.raises(BadData, match="chosen in Python"):
        md.open(run.path).figures()


def test_signatures_are_those_of_the_settings():
    """Editors and ``help`` show what the settings class says."""
    for name in names():
        if name in ("score", "training", "retest"):  # predictions instead of a detector; made by others, no functions
            continue
        function = getattr(md, name)
        shown = list(inspect.signature(function).parameters)
        assert shown[:2] == ["detector", "data"]
        assert shown[2:] == [s.name for s in settings_of(kind_of(name).settings)]
        assert all(s.help in function.__doc__ for s in settings_of(kind_of(name).settings))


@pytest.mark.parametrize(
    ("wrong", "says"), [({"loc": 2}, "loc should be from 0 to 1"), ({"miss": "never"}, "miss should be any or")]
)
def test_wrong_settings_are_refused_before_anything_is_asked(wrong, says, tmp_path):
    with pytest.raises(BadSpec, match=says):
        md.explain("zoo:yolox", DATA, out=tmp_path / "run", **wrong)
    assert not (tmp_path / "run").exists()


def test_another_detector_into_the_same_folder_is_refused(kept):
    with pytest.raises(RunMismatch, match="detector"):
        md.explain(f"glassbox:none,data={DATA}", DATA, out=kept.path)


def test_how_rows_are_shown_may_change_without_asking_again(kept, tmp_path):
    shutil.copytree(kept.path, tmp_path / "run")
    spec = kept.document["detector"]
    again = md.explain(spec, DATA, out=tmp_path / "run", confidence=0.5)
    assert again.outcome.stats["queries"] == 0
    assert again.document["settings"]["confidence"] == 0.5
    wide, narrow = kept.document["intervals"]["miss_rate"], again.document["intervals"]["miss_rate"]
    assert narrow[1] - narrow[0] < wide[1] - wide[0]


def test_replay_says_whether_the_same_happens(kept):
    case = kept.rows()["case"][0].as_py()
    assert kept.replay(case)["reproduced"]
    other = kept.replay(case, f"glassbox:none,data={DATA}")
    assert other["reproduced"] is (not other["differs"])
    with pytest.raises(BadData, match="no case"):
        kept.replay("nonsense")
    with pytest.raises(BadSpec, match="other classes"):
        kept.replay(case, md.load_detector(lambda images: [], names=["x"]))


@pytest.mark.parametrize(
    "spec",
    [
        *("python:evil.py:f", "PYTHON:evil.py:f", " Python:evil.py:f", "onnx:a.onnx,decoder=python:evil.py:f"),
        *("http://evil.example/x,auth_env=SECRET", "HTTPS://evil.example", "http://a,format=python:evil:f", "max:"),
        *("rekognition:eu-west-1", "google-vision:", "azure-vision:https://a", "hf:stranger/model"),
        "torchvision:ssd300_vgg16,weights=hub",
    ],
)
def test_what_reaches_beyond_this_machine_needs_trust(spec):
    assert reach(spec) is not None


@pytest.mark.parametrize("spec", ["zoo:yolox", "glassbox:none,data=rooms:val", "onnx:a.onnx,decoder=yolox", "hf:."])
def test_what_reads_this_machines_files_alone_does_not(spec):
    assert reach(spec) is None


def test_code_named_by_a_run_is_not_run_without_trust(tmp_path):
    code = "class Mine:\n    names = ['chair']\n    def detect(self, images): return [([], [], [])] * len(images)\n"
    (tmp_path / "mine.py").write_text(code)
    spec = f"python:{tmp_path / 'mine.py'}:Mine"
    run = md.detect(spec, DATA, limit=1, out=tmp_path / "run")
    case = md.load_data(DATA)[0].id
    with pytest.raises(BadSpec, match="--trust"):
        md.open(tmp_path / "run").replay(case)
    assert md.open(tmp_path / "run").replay(case, trust=True)["reproduced"]
    assert run.replay(case, spec)["reproduced"]


@pytest.mark.parametrize("role", ["surrogate", "reference"])
def test_nor_is_another_detector_that_its_settings_name(tmp_path, monkeypatch, role):
    run = md.detect("glassbox:none,data=rooms:val", DATA, limit=1, out=tmp_path / "run")
    case = md.load_data(DATA)[0].id
    monkeypatch.setattr(type(run.directory), "settings", {role: "python:evil.py:f"})
    with pytest.raises(BadSpec, match=f"made with the {role} python:evil.py:f, which is code .*: give --trust"):
        md.open(tmp_path / "run").replay(case, "zoo:ssd")

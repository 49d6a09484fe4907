"""``misdetect export --to``: failures as COCO annotations, as folders, and the papers' tables, read back by others."""

import json
import re

import cv2
import numpy as np
import pytest
from attack_toys import Tiles
from attack_toys import data as tiles
from fuzz_runs import BLOTS
from fuzz_runs import ROOMS as BLOT_ROOMS
from pycocotools.coco import COCO
from test_contract import listing

import misdetect as md
from misdetect.data.export import export_labels
from misdetect.drawing.tables import Table, escaped
from misdetect.studies.failures import failures
from misdetect.studies.kinds import kinds

ROOMS, BIKES = "rooms:val,size=96,count=8", "bikes:val,count=4"


def glass(fault, data=ROOMS):
    return f"glassbox:{fault},data={data}"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each of some studies; explain's detector loses every chair, the others' what is near an object."""
    folder = tmp_path_factory.mktemp("exported")
    near = glass("vanish-near/distance=30")
    return {
        "explain": md.explain(glass("sink/class=chair"), ROOMS, out=folder / "explain"),
        "sound": md.explain(glass("none"), ROOMS, out=folder / "sound"),
        "fuzz": md.fuzz(near, ROOMS, queries=60, out=folder / "fuzz"),
        "scan": md.scan(near, ROOMS, pairs=2, step=32, out=folder / "scan"),
        "verify": md.verify(glass("hallucinate/rate=.5", BIKES), BIKES, out=folder / "verify"),
        "score": md.score(md.detect(glass("sink/class=chair"), ROOMS), ROOMS, out=folder / "score"),
    }


def chairs():
    """Of every image, the boxes of its chairs (x, y, width, height)."""
    data = md.load_data(ROOMS)
    number, found = data.names.index("chair"), {}
    for sample in data:
        boxes = sample.truth.boxes[sample.truth.labels == number]
        found[sample.id] = sorted([x0, y0, x1 - x0, y1 - y0] for x0, y0, x1, y1 in boxes.tolist())
    return {image: boxes for image, boxes in found.items() if boxes}


@pytest.mark.heavy
def test_failures_are_the_annotations_that_were_planted(run, runs, tmp_path, capsys):
    out = tmp_path / "coco"
    code, said, err = run("export", runs["explain"].path, "--to", "coco", "--out", out, "--json")
    assert code == 0, err
    document, expected = json.loads(said), chairs()
    assert set(document) == {"run", "out", "to", "failures", "images", "labels", "annotations"}
    count = sum(map(len, expected.values()))
    assert (document["failures"], document["labels"], document["images"]) == (count, count, len(expected))
    found = COCO(out / "labels.json")
    for image in found.dataset["images"]:
        sample = next(s for s in md.load_data(ROOMS) if image["file_name"].startswith(s.id))
        labels = found.loadAnns(found.getAnnIds(image["id"]))
        assert sorted(label["bbox"] for label in labels) == expected[sample.id]
        assert {label["category_id"] for label in labels} == set(found.getCatIds(["chair"]))
        assert {(label["outcome"], label["mechanism"]) for label in labels} == {("missed", "background")}
        assert np.array_equal(cv2.imread(str(out / "data" / image["file_name"]))[:, :, ::-1], sample.image)
    assert sorted(path.name for path in out.iterdir()) == ["data", "labels.json", "truth.json"], "as FiftyOne has it"
    again = md.load_data(f"coco:{out / 'truth.json'},images={out / 'data'}")
    assert sum(len(sample.truth) for sample in again) == document["annotations"] > count
    assert tuple(again.names) == tuple(md.load_data(ROOMS).names)
    capsys.readouterr()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("study", ["fuzz", "scan", "verify", "score"])
def test_every_study_has_failures_to_export_each_once(runs, study, tmp_path):
    found = failures(runs[study].directory)
    keys = [(f["image"], f["object"], f["outcome"], f["became"], f["label"], f["x0"], f["y0"]) for f in found]
    assert len(keys) == len(set(keys)) > 0
    where = "NOT control AND flicker IS NOT TRUE AND attributable IS NOT FALSE AND harm = 'harmful'"
    condition = {"fuzz": "insertion", "scan": "transplant"}.get(study, "clean")
    rows = md.ledger(runs[study], f"SELECT * FROM ledger WHERE {where} AND condition = '{condition}'").to_pylist()
    harmful = [row for row in rows if row["outcome"] not in ("found", "ignored")]
    assert sum(failure["times"] for failure in found) == len(harmful)
    assert {(f["image"], f["object"]) for f in found} == {(r["image"], r["object"]) for r in harmful}
    lost = [abs((f["score_before"] or 0) - (f["score"] or 0)) for f in found]
    assert lost == sorted(lost, reverse=True)
    said = md.export(runs[study], tmp_path / "out", to="coco", most=2)
    assert said["labels"] == min(2, len(found))


@pytest.mark.heavy
def test_what_mere_texture_does_too_is_not_exported(tmp_path):
    """This detector's scores hang on the whole image, so that most of what an object does to it a patch does too."""
    run = md.fuzz(BLOTS, BLOT_ROOMS, queries=120, seed=1, count_flicker=True, out=tmp_path / "run")
    every = (
        "SELECT image, object, outcome, became, label, x0 FROM ledger WHERE NOT control AND condition = 'insertion' "
    )
    every += "AND outcome NOT IN ('found', 'ignored') AND harm = 'harmful'"
    rows = {tuple(row.values()) for row in md.ledger(run, every).to_pylist()}
    found = {
        tuple(f[k] for k in ("image", "object", "outcome", "became", "label", "x0")) for f in failures(run.directory)
    }
    own = {tuple(row.values()) for row in md.ledger(run, f"{every} AND attributable AND NOT flicker").to_pylist()}
    assert found & rows == own < rows


def test_classes_that_the_data_lacks_are_further_categories(tmp_path):
    data = md.load_data(ROOMS)
    labels = [[{"bbox": [1, 2, 3, 4], "category": "<ghost>", "outcome": "extra"}], []]
    export_labels(data, tmp_path / "out", [3, 5], labels)
    found = COCO(tmp_path / "out" / "labels.json")
    (label,) = found.dataset["annotations"]
    assert found.loadCats([label["category_id"]])[0]["name"] == "<ghost>"
    assert label["category_id"] not in data.category_ids
    assert (label["area"], label["image_id"]) == (12, 1)


@pytest.mark.parametrize("study", ["fuzz", "scan"])
def test_a_folder_holds_what_was_asked_and_the_command_that_asks_again(run, runs, study, tmp_path):
    out = tmp_path / "failures"
    code, said, err = run("export", runs[study].path, "--to", "folders", "--most", "2", "--out", out, "--json")
    assert code == 0, err
    document = json.loads(said)
    assert listing(out) == sorted(
        [*document["folders"]]
        + [
            f"{name}/{file}"
            for name in document["folders"]
            for file in ("README.md", "after.png", "asked.png", "before.png", "failure.json")
        ]
    )
    for name in document["folders"]:
        about = json.loads((out / name / "failure.json").read_text())
        failure = about["failure"]
        assert (failure["outcome"], failure["harm"]) == ("missed", "harmful")
        assert about["detector"]["spec"] == glass("vanish-near/distance=30")
        photo = next(sample for sample in md.load_data(ROOMS) if sample.id == failure["image"]).image
        asked = cv2.imread(str(out / name / "asked.png"))[:, :, ::-1]
        assert asked.shape == photo.shape
        assert (asked != photo).any(), "an object was put into it"
        page = (out / name / "README.md").read_text()
        command = re.search(r"again +misdetect (.+)", page)[1].split()
        assert run(*command)[0] == 0, "the same happens again"
        if study == "fuzz":
            replayed = json.loads(run(*command, "--json")[1])
            assert np.array_equal(cv2.imread(replayed["picture"])[:, :, ::-1], asked)


def test_of_an_attack_the_first_loss_and_the_image_that_was_kept(tmp_path):
    run = md.attack(Tiles(), tiles(3), eps=20, steps=10, score=0.5, transfer="none", ladder=0, out=tmp_path / "run")
    found = failures(run.directory)
    assert {json.loads(failure["evidence"])["attack"] for failure in found} == {"cls"}
    assert len(found) == run.document["attacks"]["cls"]["lost"] > 0
    (name,) = md.export(run, tmp_path / "out", to="folders", most=1)["folders"]
    asked = cv2.imread(str(tmp_path / "out" / name / "asked.png"))[:, :, ::-1].astype(int)
    photo = next(sample for sample in run.data if sample.id == found[0]["image"]).image
    assert 0 < np.abs(asked - photo).max() <= 20
    md.export(run, tmp_path / "attack.tex", to="latex")
    text = (tmp_path / "attack.tex").read_text()
    assert f"clean & {run.document['clean']['AP']:.3f}" in text
    assert all(f"\n{name} & " in text for name in run.document["attacks"])


def test_a_clean_photo_has_one_picture(runs, tmp_path):
    said = md.export(runs["explain"], tmp_path / "out", to="folders")
    assert len(said["folders"]) == said["failures"]
    assert sorted(path.name for path in (tmp_path / "out" / said["folders"][0]).iterdir()) == [
        "README.md",
        "failure.json",
        "failure.png",
    ]
    assert all(re.fullmatch(r"\d{3}-missed-chair", name) for name in said["folders"])


def numbers(text):
    """The cells of all rows that begin with a detector, as numbers; intervals are left out."""
    rows = [line.removesuffix(r" \\").split(" & ") for line in text.splitlines() if line.startswith("glassbox")]
    return [[float(cell.split(" [")[0]) for cell in row[1:] if cell != "--"] for row in rows]


def test_tables_hold_the_numbers_of_the_documents(run, runs, tmp_path):
    out = tmp_path / "table.tex"
    code, said, err = run("export", runs["explain"].path, runs["sound"].path, "--to", "latex", "--out", out)
    assert (code, err) == (0, "")
    assert str(out) in said
    bad, sound = numbers(out.read_text())
    document = runs["explain"].document
    shares = [100 * count / document["missed"] for count in document["mechanisms"].values()]
    assert bad == pytest.approx([100 * document["miss_rate"], *shares], abs=0.051)
    assert sound == [0]
    md.export(runs["score"], tmp_path / "score.tex", to="latex")
    found = numbers((tmp_path / "score.tex").read_text())
    known = [value for value in runs["score"].document["ap"].values() if value is not None]
    assert found[0] == pytest.approx(known, abs=5.1e-4)
    assert found[1] == pytest.approx(list(runs["score"].document["tide"].values()), abs=5.1e-3)
    md.export(runs["scan"], tmp_path / "scan.tex", to="latex")
    assert numbers((tmp_path / "scan.tex").read_text())[0] == pytest.approx(
        list(runs["scan"].document["affected"].values()), abs=0.051
    )
    for study in ("verify", "fuzz"):
        md.export(runs[study], tmp_path / f"{study}.tex", to="latex")
        assert numbers((tmp_path / f"{study}.tex").read_text())


def test_a_run_is_one_page(run, runs, tmp_path):
    code, said, err = run("export", runs["scan"].path, "--to", "page", "--out", tmp_path / "page.html", "--json")
    assert code == 0, err
    assert json.loads(said)["to"] == "page"
    page = (tmp_path / "page.html").read_text()
    assert "What a foreign object does to the rest" in page
    assert len(page) < 2_000_000
    assert not re.search(r'(src|href)="(?!data:|#)', page), "it loads nothing"


def test_tables_are_balanced_and_names_are_escaped():
    table = Table("50 % of $x_1$", ["a & b", "{c}"], [["\\input{/etc/passwd}", "<x>^~|#\x1b"]])
    text = table.latex()
    assert text.count(r"\begin{") == text.count(r"\end{") == 2
    assert r"\input" not in text
    assert r"\textbackslash{}input\{/etc/passwd\} & \textless{}x\textgreater{}\textasciicircum{}" in text
    assert r"\caption{50 \% of \$x\_1\$}" in text
    assert "\x1b" not in text
    for letter in "&%$#_{}":
        assert escaped(letter) == f"\\{letter}"
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert all(len(re.findall(r"(?<!\\)&", row)) == 1 for row in rows)


def test_what_cannot_be_exported_is_said_and_nothing_is_written(run, runs, tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    (full / "file").write_text("mine")
    a, sound = runs["explain"].path, runs["sound"].path
    before = listing(tmp_path)
    for given, says in (
        (["--out", tmp_path / "x"], "needs a run directory"),
        ([sound, "--to", "coco", "--out", tmp_path / "x"], "has no failure"),
        ([sound, "--to", "folders", "--out", tmp_path / "x"], "has no failure"),
        ([a, "--to", "coco", "--out", full], "is not empty"),
        ([a, "--to", "images", "--out", tmp_path / "x"], "this needs one of attack or fuzz"),
        ([a, "--to", "pdf", "--out", tmp_path / "x"], "--to"),
        ([a, "--to", "coco", "--most", "0", "--out", tmp_path / "x"], "--most"),
        ([a, sound, "--to", "coco", "--out", tmp_path / "x"], "only tables"),
        ([a, runs["scan"].path, "--to", "latex", "--out", tmp_path / "x.tex"], "of one study"),
        ([a, "--to", "latex", "--out", tmp_path / "absent" / "x.tex"], "there is no folder"),
    ):
        code, out, err = run("export", *given)
        assert (code, out, err.count("\n")) == (2, "", 1), (given, err)
        assert says in err
    assert listing(tmp_path) == before
    filled = {kind.name for kind in kinds() if kind.has("tables")}
    assert filled < {
        "scan",
        "verify",
        "explain",
        "fuzz",
        "attack",
        "score",
        "confusion",
    }

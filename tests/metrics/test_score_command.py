"""``misdetect score`` from the outside: files in, one document out."""

import json

import pytest
from score_oracles import COCOAPI100, cocoapi100, random_coco


@pytest.fixture
def score(run):
    """``score(*arguments)``: what ``misdetect score`` prints."""

    def command(*arguments):
        code, out, err = run("score", *arguments)
        assert code == 0, err
        return out

    return command


@pytest.fixture
def files(tmp_path):
    truth, records = random_coco(0, crowd=0.1)
    for annotation in truth["annotations"]:
        x, y, width, height = annotation["bbox"]  # the reader may refuse what leaves its image
        annotation["bbox"] = [x, y, min(width, 400 - x), min(height, 400 - y)]
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    (tmp_path / "results.json").write_text(json.dumps(records))
    return f"coco:{tmp_path / 'truth.json'}", tmp_path / "results.json", tmp_path


def test_prints_the_published_twelve_numbers(score):
    cocoapi100()
    truth = f"coco:{COCOAPI100 / 'instances_val2014_100.json'}"
    shown = score("--truth", truth, "--predictions", COCOAPI100 / "instances_val2014_fakebbox100_results.json")
    block = shown.split("AP ", 1)[1].split("TIDE", 1)[0]
    numbers = [word for word in block.split() if word.startswith("0.")]
    left, right = numbers[0::2], numbers[1::2]
    assert left == ["0.505", "0.697", "0.573", "0.586", "0.519", "0.501"]
    assert right == ["0.387", "0.594", "0.595", "0.640", "0.566", "0.564"]


def test_json_is_one_reproducible_document_with_its_settings(score, files):
    truth, results, _ = files
    first = score("--truth", truth, "--predictions", results, "--json")
    assert first == score("--truth", truth, "--predictions", results, "--json")
    document = json.loads(first)
    assert {"ap", "tide", "counts", "by_class", "settings"} <= set(document)
    settings = document["settings"]
    assert settings["iou_thresholds"] == [0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95]
    assert (settings["max_detections"], settings["detection_caps"]) == (100, [1, 10, 100])
    assert (settings["tide_foreground_iou"], settings["tide_background_iou"]) == (0.5, 0.1)
    assert settings["tide_cap"] is None
    assert settings["truth"] == truth


def test_options_reach_the_numbers_and_the_settings(score, files):
    truth, results, folder = files
    rows = folder / "rows.json"
    options = ("--limit", 10, "--tide-cap", 3, "--max-detections", 2, "--rows", rows, "--json")
    document = json.loads(score("--truth", truth, "--predictions", results, *options))
    assert document["counts"]["images"] == 10
    assert document["counts"]["left_out"] > 0
    assert document["counts"]["capped"] > 0
    assert document["settings"]["detection_caps"] == [1, 2, 2]
    assert (document["settings"]["tide_cap"], document["settings"]["limit"]) == (3, 10)
    written = json.loads(rows.read_text())
    counts = document["counts"]
    assert len(written) == counts["objects"] + counts["crowd"] + counts["detections"]


def test_categories_can_be_joined_by_name(run, score, files):
    truth, results, folder = files
    renumbered = json.loads((folder / "truth.json").read_text())
    for category in renumbered["categories"]:
        category["id"] += 70
    (folder / "other.json").write_text(json.dumps(renumbered))
    records = json.loads(results.read_text())
    for record in records:
        record["category_id"] += 70
    moved = folder / "moved.json"
    moved.write_text(json.dumps(records))
    code, _, err = run("score", "--truth", truth, "--predictions", moved, "--out", folder / "run")
    assert (code, "category ids 71" in err) == (2, True)
    assert not (folder / "run").exists()
    joined = f"predictions:{moved},truth={folder / 'other.json'}"
    documents = [json.loads(score("--truth", truth, "--predictions", p, "--json")) for p in (results, joined)]
    assert documents[0]["ap"] == documents[1]["ap"]


def test_an_empty_side_is_drawn_with_dashes(score, files):
    truth, results, folder = files
    empty = folder / "empty.json"
    empty.write_text("[]")
    assert "finds nothing on any of" in score("--truth", truth, "--predictions", empty)
    nothing = json.loads((folder / "truth.json").read_text()) | {"annotations": []}
    (folder / "nothing.json").write_text(json.dumps(nothing))
    assert "–" in score("--truth", f"coco:{folder / 'nothing.json'}", "--predictions", results)


def test_a_kept_run_is_shown_again_and_compared(run, score, files):
    truth, results, folder = files
    common = ("--truth", truth, "--predictions", results)
    document = json.loads(score(*common, "--out", folder / "run", "--json"))
    assert document["out"] == str(folder / "run")
    again = json.loads(run("show", folder / "run", "--json")[1])
    assert again == document
    code, _, err = run("score", *common, "--tide-cap", 3, "--out", folder / "run")
    assert (code, "tide_cap was None, now 3" in err) == (2, True)
    score(*common, "--tide-cap", 3, "--out", folder / "capped")
    code, out, _ = run("compare", folder / "run", folder / "capped", "--json")
    numbers = json.loads(out)["numbers"]
    assert code == 0
    assert [entry["value"] for entry in numbers["AP"]] == [document["ap"]["AP"]] * 2
    assert numbers["tide.Miss"][0]["value"] != numbers["tide.Miss"][1]["value"]


@pytest.mark.parametrize(("name", "why"), [("rows.txt", "parquet"), ("no/such/folder/rows.csv", "no folder")])
def test_rows_that_cannot_be_written_are_refused_before_anything_is_scored(run, files, name, why):
    truth, results, folder = files
    common = ("--truth", truth, "--predictions", results, "--out", folder / "run")
    code, _, err = run("score", *common, "--rows", folder / name)
    assert (code, why in err) == (2, True)
    assert not (folder / "run").exists()

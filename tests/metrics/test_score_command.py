"""``misdetect score`` from the outside: files in, one document out."""

import json

import pytest
import typer
from score_oracles import COCOAPI100, cocoapi100, random_coco
from typer.testing import CliRunner

from misdetect.cli.score import score
from misdetect.errors import BadData

app = typer.Typer()
app.command()(score)


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def files(tmp_path):
    truth, records = random_coco(0, crowd=0.1)
    for annotation in truth["annotations"]:
        x, y, width, height = annotation["bbox"]  # the reader may refuse what leaves its image
        annotation["bbox"] = [x, y, min(width, 400 - x), min(height, 400 - y)]
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    (tmp_path / "results.json").write_text(json.dumps(records))
    return f"coco:{tmp_path / 'truth.json'}", tmp_path / "results.json", tmp_path


def test_prints_the_published_twelve_numbers():
    cocoapi100()
    truth = f"coco:{COCOAPI100 / 'instances_val2014_100.json'}"
    shown = run("--truth", truth, "--predictions", COCOAPI100 / "instances_val2014_fakebbox100_results.json")
    block = shown.split("AP ", 1)[1].split("TIDE", 1)[0]
    numbers = [word for word in block.split() if word.startswith("0.")]
    left, right = numbers[0::2], numbers[1::2]
    assert left == ["0.505", "0.697", "0.573", "0.586", "0.519", "0.501"]
    assert right == ["0.387", "0.594", "0.595", "0.640", "0.566", "0.564"]


def test_json_is_one_reproducible_document_with_its_settings(files):
    truth, results, _ = files
    first = run("--truth", truth, "--predictions", results, "--json")
    assert first == run("--truth", truth, "--predictions", results, "--json")
    document = json.loads(first)
    assert {"ap", "tide", "counts", "by_class", "settings"} <= set(document)
    settings = document["settings"]
    assert settings["iou_thresholds"] == [0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95]
    assert settings["max_detections"] == [1, 10, 100]
    assert (settings["tide_foreground_iou"], settings["tide_background_iou"]) == (0.5, 0.1)
    assert settings["tide_cap"] is None
    assert settings["truth"] == truth


def test_options_reach_the_numbers_and_the_settings(files):
    truth, results, folder = files
    rows = folder / "rows.json"
    options = ("--limit", 10, "--tide-cap", 3, "--max-detections", 2, "--rows", rows, "--json")
    document = json.loads(run("--truth", truth, "--predictions", results, *options))
    assert document["counts"]["images"] == 10
    assert document["counts"]["left_out"] > 0
    assert document["counts"]["capped"] > 0
    assert document["settings"]["max_detections"] == [1, 2, 2]
    assert (document["settings"]["tide_cap"], document["settings"]["limit"]) == (3, 10)
    written = json.loads(rows.read_text())
    counts = document["counts"]
    assert len(written) == counts["objects"] + counts["crowd"] + counts["detections"]


def test_categories_can_be_joined_by_name(files):
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
    with pytest.raises(BadData, match="category ids 71"):
        run("--truth", truth, "--predictions", moved)
    joined = f"predictions:{moved},truth={folder / 'other.json'}"
    documents = [json.loads(run("--truth", truth, "--predictions", p, "--json")) for p in (results, joined)]
    assert documents[0]["ap"] == documents[1]["ap"]


def test_an_empty_side_is_drawn_with_dashes(files):
    truth, results, folder = files
    empty = folder / "empty.json"
    empty.write_text("[]")
    assert "Miss" in run("--truth", truth, "--predictions", empty)
    nothing = json.loads((folder / "truth.json").read_text()) | {"annotations": []}
    (folder / "nothing.json").write_text(json.dumps(nothing))
    assert "–" in run("--truth", f"coco:{folder / 'nothing.json'}", "--predictions", results)

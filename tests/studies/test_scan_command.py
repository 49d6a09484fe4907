"""``misdetect scan`` as a user runs it: the contract of its JSON, its pictures, and bad input as one sentence."""

import json
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from misdetect.engine.store import Run
from misdetect.studies.scan.ranking import ranked

TOYS = Path(__file__).parent / "scan_toys.py"
ROOMS = "rooms:val,size=64,count=8"
ARGUMENTS = ["--detector", f"python:{TOYS}:make_tiles", "--data", ROOMS, "--pairs", "3", "--step", "9"]


def scan(*arguments, ok=True):
    command = [
        sys.executable,
        "-c",
        "from misdetect.cli import main; main()",
        "scan",
        *map(str, arguments),
        "--no-cache",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == ok, done.stderr + done.stdout
    return done


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("scan") / "run"
    return out, json.loads(scan(*ARGUMENTS, "--out", out, "--interference", 2, "--json").stdout)


def test_json_has_the_keys_of_the_contract(run):
    _, document = run
    taus = {"0.3", "0.5", "0.7", "0.95", "0.99"}
    for part in (document, document["null_control"], document["difference"]):
        for row in ("affected", "class_agnostic", "occlusion_20", "no_occlusion"):
            assert set(part[row]) == taus
    assert set(document["intervals"]["affected"]) == taus
    assert {"null_control", "difference"} <= set(document["intervals"])
    assert set(document["flicker"]["affected"]) == taus
    assert document["queries"] == 2 * document["positions"] + len({p["background"] for p in document["pairs"]})
    assert document["settings"]["own"] == "minus-one"
    assert document["settings"]["score"] == 0.5


def test_another_view_of_the_same_run_asks_nothing(run):
    out, document = run
    again = json.loads(
        scan(*ARGUMENTS, "--out", out, "--tau", "0.5", "--policy", "caption", "--pictures", 0, "--json").stdout
    )
    assert again["engine"]["queries"] == 0
    assert again["affected"]["0.5"] >= document["affected"]["0.5"], "the worst original fares no better than the mean"
    refused = scan(*ARGUMENTS, "--out", out, "--own", "matched", ok=False)
    assert refused.returncode == 2
    assert "own was 'minus-one', now 'matched'" in refused.stderr


def test_pictures_show_the_run(run):
    out, document = run
    files = {Path(path).name for path in document["pictures"]}
    assert "maps.html" in files
    page = (out / "maps.html").read_text()
    assert "<script src=" not in page, "it opens without a network"
    assert "S, null control" in page
    for path in document["pictures"]:
        if path.endswith(".png"):
            assert cv2.imread(path) is not None
    number = next(int(name[5:7]) for name in files if name.endswith("-maps.png"))
    rows = (
        Run.open(out)
        .query("SELECT x, y, score FROM rows WHERE pair = ? AND condition = 'object' ORDER BY score, y, x", [number])
        .to_pylist()
    )
    picture = cv2.imread(str(out / "images" / f"pair-{number:02d}-maps.png"))
    factor = 320 // 64
    width = Run.open(out).query("SELECT max(x) AS x FROM rows WHERE pair = ?", [number])["x"][0].as_py()
    worst, best = rows[0], rows[-1]
    assert width > 0
    if best["score"] - worst["score"] > 0.3:
        green = [picture[22 + (row["y"] + 12) * factor, (row["x"] + 12) * factor, 1] for row in (worst, best)]
        assert int(green[1]) != int(green[0]), "different S, different colour"


def test_ranked_positions_add_classes_greedily(run):
    out, document = run
    opened = Run.open(out)
    for pair in document["pairs"]:
        rows = opened.query(
            "SELECT new, objects FROM rows WHERE pair = ? AND condition = 'object'", [pair["pair"]]
        ).to_pylist()
        clean = {thing["label"] for thing in rows[0]["objects"]}
        reachable = {thing["label"] for row in rows for thing in row["new"]} - clean
        found = ranked(opened, pair["pair"], most=9)
        added = [{thing["label"] for thing in position.new} for position in found]
        assert set().union(*added) == reachable
        assert sum(map(len, added)) == len(reachable), "no class twice"
        assert [len(classes) for classes in added] == sorted((len(c) for c in added), reverse=True)


def test_interference_names_what_decides(run):
    _, document = run
    for entry in document["interference"]:
        views = entry["views"]
        assert views["as it is"]["label"] == entry["detected_as"] != entry["really"]
        assert views["noise outside"]["times"] == 10
        plain = [views[name]["label"] for name in ("as it is", "outside zeroed", "inside zeroed", "both zeroed")]
        if entry["decided_by"] == "neither":
            assert len(set(plain)) == 1


def test_by_hand_and_within_one_image(run, tmp_path):
    _, document = run
    pair = document["pairs"][0]
    named = ["--image", pair["background"], "--object", pair["annotation"], "--no-null", "--pictures", 0, "--json"]
    by_hand = scan(*ARGUMENTS, *named, "--max-side", 1, "--min-area", 0, "--out", tmp_path / "hand")
    assert len(json.loads(by_hand.stdout)["pairs"]) == 1
    same = json.loads(scan(*ARGUMENTS, "--same-image", "--no-null", "--json", "--out", tmp_path / "same").stdout)
    assert all(entry["background"] == entry["source"] for entry in same["pairs"])
    assert same["null_control"] is None


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--step", "64"], "choose a smaller step"),
        (["--score", "1.0"], "lower --score"),
        (["--min-area", "0.9", "--max-side", "1"], "widen them"),
        (["--tau", "high"], "--tau takes numbers"),
        (["--trace"], "scan --trace needs a Traced detector"),
        (["--image", "nowhere"], "has no image 'nowhere'"),
        (["--confidence", "100"], "confidence of an interval"),
    ],
)
def test_bad_input_leaves_nothing_behind(tmp_path, arguments, sentence):
    failed = scan(*ARGUMENTS, "--out", tmp_path / "run", *arguments, ok=False)
    assert failed.returncode == 2
    assert sentence in failed.stderr.replace("\n", " ")
    assert not (tmp_path / "run").exists()


def test_data_without_masks_is_named(tmp_path):
    image = np.zeros((64, 64, 3), np.uint8)
    image[:, :, 2] = 200
    cv2.imwrite(str(tmp_path / "a.png"), image)
    cv2.imwrite(str(tmp_path / "b.png"), image[::-1])
    images = [{"id": i, "file_name": f"{n}.png", "width": 64, "height": 64} for i, n in enumerate("ab")]
    boxes = [
        {"id": i, "image_id": i, "category_id": 1, "bbox": [8, 8, 20, 20], "area": 400, "iscrowd": 0} for i in (0, 1)
    ]
    document = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "cat"}]}
    (tmp_path / "boxes.json").write_text(json.dumps(document))
    failed = scan(
        *ARGUMENTS, "--data", f"coco:{tmp_path / 'boxes.json'}", "--score", "0.01", "--out", tmp_path / "r", ok=False
    )
    assert "no masks to cut objects by" in failed.stderr.replace("\n", " ")

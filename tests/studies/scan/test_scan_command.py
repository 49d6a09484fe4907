"""``misdetect scan`` as a user runs it: the contract of its JSON, its pictures, and bad input as one sentence."""

import json
import shutil
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import cv2
import numpy as np
import pytest
from in_process import ended
from rich.console import Console
from scan_toys import BrokenTiles, TileDetector, annotated_rooms

import misdetect as md
from misdetect.engine.store import Run
from misdetect.studies.scan.ranking import ranked
from misdetect.studies.scan.shown import show

TOYS = Path(__file__).parents[1] / "scan_toys.py"
ROOMS = "rooms:val,size=64,count=8"


def with_options(**options):
    """The arguments of a small scan, with these in place of its own or beside them."""
    usual = {"detector": f"python:{TOYS}:make_tiles", "data": ROOMS, "pairs": 3, "step": 9}
    return [part for name, value in (usual | options).items() for part in (f"--{name.replace('_', '-')}", value)]


ARGUMENTS = with_options()


def scan(*arguments, ok=True):
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = ended("scan", *arguments, "--no-cache")
    assert (code == 0) == ok, err.getvalue() + out.getvalue()
    return subprocess.CompletedProcess("scan", code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("scan") / "run"
    return out, json.loads(scan(*ARGUMENTS, "--out", out, "--json").stdout)


def test_json_has_the_keys_of_the_contract(run):
    _, document = run
    taus = {"0.3", "0.5", "0.7", "0.95", "0.99"}
    for part in (document, document["control"], document["difference"]):
        for row in ("affected", "class_agnostic", "occlusion_20", "no_occlusion", "scene"):
            assert set(part[row]) == taus
    assert set(document["intervals"]["affected"]) == taus
    assert {"control", "difference"} <= set(document["intervals"])
    assert set(document["flicker"]["affected"]) == taus
    assert document["queries"] == 2 * document["positions"] + len({p["background"] for p in document["pairs"]})
    assert document["settings"]["own"] == "minus-one"
    assert document["settings"]["score"] == 0.5
    assert {"object", "control", "difference", "intervals"} == set(document["harm"])
    assert set(document["effects"]) == set(document["harms"]) == {"object", "control"}
    assert document["cases"] == document["done"] > 0 == document["failed"]


def test_the_first_line_shown_is_what_harms(run):
    out, document = run
    shown = scan(*ARGUMENTS, "--out", out, "--pictures", 0).stdout.splitlines()
    assert shown[0].startswith(f"The object does harm at {document['harm']['object']:.1f} %")
    table = next(i for i, line in enumerate(shown) if line.startswith("affected"))
    cells = [cell for cell in shown[table + 2].split("  ") if cell.strip()]
    assert cells[0].strip() == "object"
    assert [float(cell.split()[0]) for cell in cells[1:]] == [round(v, 1) for v in document["affected"].values()]
    scene = next(i for i, line in enumerate(shown) if line.startswith("scene"))
    cells = [cell for cell in shown[scene + 3].split("  ") if cell.strip()]
    assert [float(cell.split()[0]) for cell in cells[1:]] == [
        round(v, 1) for v in document["difference"]["scene"].values()
    ]


def test_python_and_the_command_line_say_the_same(run, tmp_path):
    out, document = run
    found = md.scan(f"python:{TOYS}:make_tiles", ROOMS, pairs=3, step=9, cache=False, out=tmp_path / "run")
    assert found.rows().equals(md.open(out).rows())
    assert found.document == md.open(out).document
    assert {key: document[key] for key in found.document} == found.document
    assert found.sentences[0] in repr(found)


def test_another_view_of_the_same_run_asks_nothing(run, tmp_path):
    first, document = run
    out = shutil.copytree(first, tmp_path / "copy")
    again = json.loads(
        scan(*ARGUMENTS, "--out", out, "--tau", "0.5", "--policy", "caption", "--pictures", 0, "--json").stdout
    )
    assert again["engine"]["queries"] == 0
    assert list(again["affected"]) == ["0.5"]
    assert again["affected"]["0.5"] >= document["affected"]["0.5"], "the worst original fares no better than the mean"
    refused = scan(*ARGUMENTS, "--out", out, "--own", "matched", ok=False)
    assert refused.returncode == 2
    assert "own was 'minus-one', now 'matched'" in refused.stderr


def test_pictures_show_the_run(run):
    out, document = run
    files = {Path(path).name for path in document["pictures"]}
    assert sum(name.endswith("-maps.png") for name in files) == sum(name.endswith("-strip.png") for name in files) == 3
    for path in document["pictures"]:
        if path.endswith(".png"):
            assert cv2.imread(path) is not None
    affected = {pair["pair"]: sum(pair["affected"].values()) for pair in document["pairs"]}
    number = max(affected, key=affected.get)
    (one,) = [Path(path) for path in document["pictures"] if path.endswith(f"pair-{number:02d}-maps.png")]
    rows = Run.open(out).query(
        "SELECT x, y, score FROM rows WHERE pair = ? AND condition = 'object' ORDER BY score", [number]
    )
    pair = Run.open(out).settings["transplants"][number]
    picture, factor = cv2.imread(str(one)), 320 // 64
    worst, best = rows.slice(0, 1).to_pylist()[0], rows.slice(rows.num_rows - 1).to_pylist()[0]
    assert best["score"] - worst["score"] > 0.3
    centres = [(row["x"] + pair["t_width"] // 2, row["y"] + pair["t_height"] // 2) for row in (worst, best)]
    green = [int(picture[22 + y * factor, x * factor, 1]) for x, y in centres]
    assert green[1] > green[0] + 10, "from violet to yellow: the higher S, the greener"


def test_the_most_affected_pairs_are_drawn(run):
    out, document = run
    affected = {pair["pair"]: sum(pair["affected"].values()) for pair in document["pairs"]}
    drawn = md.open(out).figures(1)
    assert [path.name for path in drawn[:2]] == [
        f"pair-{max(affected, key=affected.get):02d}-{kind}.png" for kind in ("maps", "strip")
    ]


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


def test_interference_is_part_of_the_run(tmp_path):
    options = {"pairs": 2, "step": 9, "control": False, "cache": False, "interference": 1, "out": tmp_path / "run"}
    found = md.scan(TileDetector(), annotated_rooms(), **options)
    (entry,) = found.document["interference"]
    views = entry["views"]
    assert views["as it is"]["label"] == entry["detected_as"] != entry["really"]
    assert views["noise outside"]["times"] == 10
    assert md.open(tmp_path / "run").document == found.document
    drawn = found.figures(1)
    assert drawn[-1].name == "interference-00.png"
    assert cv2.imread(str(drawn[-1])) is not None
    console = Console(width=200)
    with console.capture() as shown:
        show(console, found.document)
    assert f"{entry['really']} taken for {entry['detected_as']}, decided by {entry['decided_by']}" in shown.get()


@pytest.mark.heavy
def test_cases_that_failed_are_left_out_and_asked_again(tmp_path):
    """Some pictures cannot be asked about, clean ones among them; the pairs stay those that were drawn first."""
    detector = BrokenTiles()
    options = {"pairs": 3, "step": 9, "cache": False, "batch": 1}
    first = md.scan(detector, ROOMS, out=tmp_path / "run", **options).document
    assert 0 < first["failed"] < first["cases"] == first["done"]
    assert first["affected"]["0.95"] is not None
    detector.broken = False
    again = md.scan(detector, ROOMS, out=tmp_path / "run", **options)
    assert again.document["failed"] == first["failed"]
    assert again.outcome.stats["queries"] == 0
    second = md.scan(detector, ROOMS, out=tmp_path / "run", retry_failed=True, **options).document
    assert second["failed"] == 0
    assert second["queries"] == 2 * second["positions"] + len({pair["background"] for pair in second["pairs"]})
    assert [pair["annotation"] for pair in second["pairs"]] == [pair["annotation"] for pair in first["pairs"]]
    whole = md.scan(detector, ROOMS, out=tmp_path / "whole", **options).document
    assert [pair["background"] for pair in whole["pairs"]] != [pair["background"] for pair in second["pairs"]]


def test_by_hand_and_within_one_image(run, tmp_path):
    _, document = run
    pair = document["pairs"][0]
    named = ["--image", pair["background"], "--object", pair["annotation"], "--no-control", "--pictures", 0, "--json"]
    by_hand = scan(*ARGUMENTS, *named, "--max-side", 1, "--min-area", 0, "--out", tmp_path / "hand")
    assert len(json.loads(by_hand.stdout)["pairs"]) == 1
    same = json.loads(scan(*ARGUMENTS, "--same-image", "--no-control", "--json", "--out", tmp_path / "same").stdout)
    assert all(entry["background"] == entry["source"] for entry in same["pairs"])
    assert same["control"] is None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"step": 64}, "choose a smaller step"),
        ({"score": 1.0}, "lower --score"),
        ({"min_area": 0.9, "max_side": 1}, "widen them"),
        ({"tau": "high"}, "tau takes numbers"),
        ({"trace": "true"}, "scan --trace needs a detector that looks inside"),
        ({"image": "nowhere"}, "has no image 'nowhere'"),
        ({"confidence": 100}, "confidence should be from"),
    ],
)
def test_bad_input_leaves_nothing_behind(tmp_path, options, sentence):
    arguments = [part for part in with_options(**options) if part != "true"]
    failed = scan(*arguments, "--out", tmp_path / "run", ok=False)
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
    arguments = with_options(data=f"coco:{tmp_path / 'boxes.json'}", score=0.01, out=tmp_path / "r")
    failed = scan(*arguments, ok=False)
    assert "no masks to cut objects by" in failed.stderr.replace("\n", " ")

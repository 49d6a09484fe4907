"""``inspect`` and ``misdetect data``: planted faults are found and counted, sums are conserved."""

import json
import re
from pathlib import Path

import pytest
from PIL import Image

from misdetect.data import load_data
from misdetect.data.check import inspect

COCO66 = Path(__file__).parents[2] / "../shared/fixtures/coco66/instances.json"
needs_coco66 = pytest.mark.skipif(not COCO66.exists(), reason="needs ../shared/fixtures/coco66")


@pytest.fixture
def faulty(tmp_path: Path) -> str:
    """Five images: fine, missing, empty file, link that leads out, without objects; and faults in the annotations."""
    images = [{"id": i, "file_name": f"{i}.png", "width": 200, "height": 200} for i in range(1, 6)]
    box = {"category_id": 1, "bbox": [10, 10, 40, 40], "area": 1600}
    records = [
        box | {"id": 1, "image_id": 1, "segmentation": [[10, 10, 50, 10, 50, 50, 10, 50]]},
        box | {"id": 2, "image_id": 1},
        box | {"id": 3, "image_id": 2, "segmentation": {"size": [100, 200], "counts": "0"}},
        box | {"id": 4, "image_id": 3, "bbox": [0, 0, 0, 5], "area": 0},
        box | {"id": 5, "image_id": 4, "bbox": [0, 0, 150, 150], "area": 22500, "iscrowd": 1},
        box | {"id": 6, "image_id": 4, "segmentation": [[3, 3, 3, 3]]},
    ]
    folder = tmp_path / "images"
    folder.mkdir()
    for i in (1, 5):
        Image.new("RGB", (200, 200)).save(folder / f"{i}.png")
    (folder / "3.png").touch()
    (tmp_path / "secret.png").touch()
    (folder / "4.png").symlink_to(tmp_path / "secret.png")
    document = {"images": images, "annotations": records, "categories": [{"id": 1, "name": "[b]dog"}]}
    (tmp_path / "a.json").write_text(json.dumps(document))
    return f"coco:{tmp_path / 'a.json'}"


def test_planted_faults_are_found_and_counted(faulty: str) -> None:
    found = inspect(load_data(faulty), masks=True)
    assert {row["kind"]: row["count"] for row in found["warnings"]} == {
        "bad-mask": 1,
        "box-without-area": 1,
        "image-corrupt": 1,
        "image-missing": 1,
        "image-outside": 1,
        "mask-without-pixels": 1,
        "object-twice": 1,
    }
    assert found["sizes"] == {"small": 1, "medium": 4, "large": 1}
    counts = ("images", "objects", "crowd", "images_without_objects")
    assert [found[key] for key in counts] == [5, 6, 1, 1]
    assert found["classes"] == [{"category_id": 1, "images": 4, "name": "[b]dog", "objects": 6}]


def test_images_without_a_readable_header_are_counted(tmp_path: Path) -> None:
    Image.new("RGB", (9, 9)).save(tmp_path / "a.png")
    (tmp_path / "b.png").write_text("no image")
    found = inspect(load_data(f"folder:{tmp_path}"))
    assert found["images_unreadable"] == 1
    assert [row["kind"] for row in found["warnings"]] == ["image-corrupt"]


@needs_coco66
def test_counts_of_real_data_are_conserved() -> None:
    found = inspect(load_data(f"coco:{COCO66}"), masks=True)
    records = json.loads(COCO66.read_text())["annotations"]
    assert found["objects"] == found["masks"] == sum(found["sizes"].values()) == len(records)
    assert sum(row["objects"] for row in found["classes"]) == len(records)
    assert found["sizes"]["small"] == sum(record["area"] < 32**2 for record in records)
    assert found["sizes"]["large"] == sum(record["area"] >= 96**2 for record in records)
    assert found["images_without_objects"] == 66 - len({record["image_id"] for record in records})
    assert found["warnings"] == []


@pytest.mark.unix
def test_the_command_prints_what_inspect_found(faulty: str, run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert json.loads(run("data", faulty, "--json", "--masks")[1]) == inspect(load_data(faulty), masks=True)
    for_people = run("data", faulty)[1]
    assert re.search(r"\[b\]dog +6 +4", for_people)  # markup in a name is text
    assert "image-missing × 1" in for_people
    code, out, _ = run("data", f"folder:{tmp_path}/images", "--limit", "1", "--out", tmp_path / "o", "--json")
    assert (code, json.loads(out)["export"]["images"]) == (0, 1)
    assert (tmp_path / "o" / "images" / "1.png").is_file()

"""What malformed inputs are made of: sound ones, small, in every format, and commands that read them."""

import json
import re
from pathlib import Path
from typing import Any

from PIL import Image

MISSING = object()
DEEP, DIGITS = "@deep@", "@digits@"
"""Stand for what ``json.dumps`` cannot write: 60,000 lists in each other, and a number of 5,000 digits."""


def as_text(document: object) -> str:
    text = json.dumps(document)
    return text.replace(json.dumps(DEEP), "[" * 60_000 + "]" * 60_000).replace(json.dumps(DIGITS), "9" * 5_000)


def photo(path: Path, width: int = 64, height: int = 48) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.effect_noise((width, height), 60).convert("RGB").save(path)


def coco_document() -> dict[str, Any]:
    return {
        "images": [{"id": i, "file_name": f"{i}.png", "width": 64, "height": 48} for i in (1, 2)],
        "categories": [{"id": 5, "name": "dog"}, {"id": 7, "name": "cat"}],
        "annotations": [
            {
                "id": 10 + i,
                "image_id": 1 + i % 2,
                "category_id": (5, 7)[i // 2],
                "bbox": [4 + 8 * i, 6, 20, 24],
                "area": 400,
                "iscrowd": 0,
                "segmentation": [[4, 6, 24, 6, 24, 30, 4, 30]],
            }
            for i in range(4)
        ],
    }


def coco(folder: Path, document: object) -> str:
    """``document`` (or its text) as a COCO file beside its photos; its spec."""
    for name in ("1.png", "2.png"):
        photo(folder / "images" / name)
    path = folder / "instances.json"
    path.write_text(document if isinstance(document, str) else as_text(document), encoding="utf-8")
    return f"coco:{path}"


def bikes_document() -> dict[str, Any]:
    box = {"left": 4, "top": 6, "width": 20, "height": 24}
    parts = {name: {"object_state": "intact", "absolute_bounding_box": dict(box)} for name in ("bell", "saddle")}
    return {"1.png": {"image": {"width": 64, "height": 48}, "parts": parts}}


def bikes_spec(folder: Path, document: object) -> str:
    photo(folder / "images" / "1.png")
    (folder / "bikes.json").write_text(as_text(document))
    return f"delftbikes:{folder / 'bikes.json'}"


VOC = (
    "<annotation><filename>%s</filename><size><width>%s</width><height>%s</height></size><object><name>%s</name>"
    "<difficult>%s</difficult><bndbox><xmin>%s</xmin><ymin>%s</ymin><xmax>%s</xmax><ymax>%s</ymax></bndbox></object></annotation>"
)


def voc_folder(folder: Path) -> str:
    photo(folder / "JPEGImages" / "1.png")
    (folder / "Annotations").mkdir()
    (folder / "ImageSets" / "Main").mkdir(parents=True)
    (folder / "ImageSets" / "Main" / "val.txt").write_text("1\n")
    (folder / "Annotations" / "1.xml").write_text(VOC % ("1.png", 64, 48, "dog", 0, 4, 6, 40, 30))
    return f"voc:{folder}"


def yolo_folder(folder: Path, line: bytes = b"0 .5 .5 .2 .2", settings: object = None) -> str:
    photo(folder / "images" / "1.png")
    (folder / "labels").mkdir()
    (folder / "labels" / "1.txt").write_bytes(line)
    usual = {"names": ["dog", "cat"], "nc": 2, "path": ".", "val": "images"}
    text = as_text(usual if settings is None else settings)  # JSON is YAML too, but for escapes in pairs
    text = re.sub(r"\\ud[89ab]..\\ud[c-f]..", lambda pair: json.loads(f'"{pair[0]}"'), text)
    (folder / "data.yaml").write_text(text, encoding="utf-8")
    return f"yolo:{folder / 'data.yaml'}"


def results_document() -> list[dict[str, Any]]:
    return [
        {
            "image_id": 1 + i % 2,
            "category_id": (5, 7)[i // 2],
            "bbox": [4 + 8 * i, 6, 20, 24],
            "score": 0.9 - 0.1 * i,
            "segmentation": [[4, 6, 24, 6, 24, 30, 4, 30]],
        }
        for i in range(4)
    ]


def score_command(folder: Path, records: object) -> list[str]:
    """``score`` of ``records`` (or their text)."""
    truth = coco(folder, coco_document())
    text = records if isinstance(records, str) else as_text(records)
    (folder / "results.json").write_text(text, encoding="utf-8")
    return ["score", "--truth", truth, "--predictions", str(folder / "results.json")]


MINE = """
class Mine:
    names = ["dog", "cat"]
    def detect(self, images):
        return [([[4, 6, 24, 30]], [0.9], [0]) for image in images]
"""


def mine(folder: Path) -> str:
    (folder / "mine.py").write_text(MINE)
    return f"python:{folder / 'mine.py'}:Mine"


def detect_command(folder: Path, data: str, detector: str | None = None) -> list[str]:
    out = ["--out", str(folder / "out.json"), "--no-cache"]
    return ["detect", "--detector", detector or mine(folder), "--data", data, *out]


def photos(folder: Path) -> str:
    for i in range(3):
        photo(folder / "photos" / f"{i}.png")
    return f"folder:{folder / 'photos'}"

"""What lies where a file should be: pipes, sockets, devices, links in a circle, giants. Every place that is read or
written, every one of them."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from malformed_case import Case
from malformed_world import (
    bikes_document,
    bikes_spec,
    coco,
    coco_document,
    detect_command,
    mine,
    photos,
    score_command,
    voc_folder,
    yolo_folder,
)

Put = Callable[[Path], object]


def _socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def _giant(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(64 << 30)


SPECIAL: dict[str, Put] = {
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "an endless device": lambda path: path.symlink_to("/dev/zero"),
    "a device that is full": lambda path: path.symlink_to("/dev/full"),
    "a folder": Path.mkdir,
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "nothing": lambda path: None,
    "an empty file": Path.touch,
    "a file of 64 GB": _giant,
    "a process's memory": lambda path: path.symlink_to("/proc/self/mem"),
}


def replaced(path: Path, put: Put) -> None:
    """``put`` something in the place of ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        for left in sorted(path.rglob("*"), reverse=True):
            left.rmdir() if left.is_dir() else left.unlink()
        path.rmdir()
    path.unlink(missing_ok=True)
    put(path)


def _yolo_list(folder: Path) -> str:
    settings = {"names": ["dog", "cat"], "val": "val.txt"}
    spec = yolo_folder(folder, settings=settings)
    (folder / "val.txt").write_text("images/1.png\n")
    return spec


def _endpoint(folder: Path) -> str:
    return f"http://127.0.0.1:9/,format=roboflow,names={folder / 'names.txt'}"


def _predictions(folder: Path) -> list[str]:
    made = score_command(folder, [])
    made[-1] = f"predictions:{made[-1]},truth={folder / 'truth.json'}"
    return made


Place = tuple[str, Callable[[Path], list[str]], set[str]]
_UNREAD = set(SPECIAL)
_ABSENT = {"nothing", "a link to nothing"}
_REPLACED = {*_ABSENT, "an empty file", "a file of 64 GB", "a process's memory"}
"""Where a file is to be written: a link itself is replaced, never what it leads to."""
PLACES: dict[str, Place] = {
    # by name: which file, the command, and with what in its place the command still succeeds
    "coco": ("instances.json", lambda f: ["data", coco(f, coco_document())], set()),
    "coco, an image, looked at": ("images/1.png", lambda f: ["data", coco(f, coco_document())], _UNREAD),
    "coco, an image, asked about": ("images/1.png", lambda f: detect_command(f, coco(f, coco_document())), _UNREAD),
    "coco, an image, copied": (
        "images/1.png",
        lambda f: ["data", coco(f, coco_document()), "--out", str(f / "copied")],
        {"an empty file"},
    ),
    "coco, images=": ("images", lambda f: ["data", f"{coco(f, coco_document())},images={f / 'images'}"], _UNREAD),
    "voc, a folder": ("Annotations", lambda f: ["data", voc_folder(f)], set()),
    "voc, an annotation": ("Annotations/1.xml", lambda f: ["data", voc_folder(f)], set()),
    "voc, an image": ("JPEGImages/1.png", lambda f: ["data", voc_folder(f)], _UNREAD),
    "voc, a list": ("ImageSets/Main/val.txt", lambda f: ["data", voc_folder(f) + ",split=val"], set()),
    "yolo": ("data.yaml", lambda f: ["data", yolo_folder(f)], set()),
    "yolo, labels": ("labels/1.txt", lambda f: ["data", yolo_folder(f)], {*_ABSENT, "an empty file"}),
    "yolo, an image": ("images/1.png", lambda f: ["data", yolo_folder(f)], _UNREAD - {"nothing", "a folder"}),
    "yolo, a list": ("val.txt", lambda f: ["data", _yolo_list(f)], set()),
    "delftbikes": ("bikes.json", lambda f: ["data", bikes_spec(f, bikes_document())], set()),
    "folder": ("photos", lambda f: ["data", photos(f)], set()),
    "folder, an image": ("photos/1.png", lambda f: ["data", photos(f)], _UNREAD),
    "folder, an image, asked about": ("photos/1.png", lambda f: detect_command(f, photos(f)), _UNREAD),
    "results": ("results.json", lambda f: score_command(f, []), set()),
    "results, truth=": ("truth.json", _predictions, set()),
    "names of an endpoint": ("names.txt", lambda f: detect_command(f, photos(f), _endpoint(f)), set()),
    "onnx": ("m.onnx", lambda f: detect_command(f, photos(f), f"onnx:{f}/m.onnx,decoder=yolov8,names=coco"), set()),
    "yolox": ("m.pth", lambda f: detect_command(f, photos(f), f"yolox:{f}/m.pth"), set()),
    "zoo, weights=": (
        "m.safetensors",
        lambda f: detect_command(f, photos(f), f"zoo:yolox,weights={f}/m.safetensors"),
        set(),
    ),
    "hf": ("model", lambda f: detect_command(f, photos(f), f"hf:{f}/model"), set()),
    "hf, its configuration": ("model/config.json", lambda f: detect_command(f, photos(f), f"hf:{f}/model"), set()),
    "python": ("other.py", lambda f: detect_command(f, photos(f), f"python:{f}/other.py:Mine"), set()),
    "show": ("run", lambda f: ["show", str(f / "run")], set()),
    "show, run.json": ("run/run.json", lambda f: ["show", str(f / "run")], set()),
    "ledger": ("run/run.json", lambda f: ["ledger", str(f / "run")], set()),
    "replay": ("run/run.json", lambda f: ["replay", str(f / "run"), "0"], set()),
    "compare": ("run", lambda f: ["compare", str(f / "run"), str(f / "run")], set()),
    "compare, run.json": ("run/run.json", lambda f: ["compare", str(f / "run"), str(f / "run")], set()),
    "fuzz --pool": (
        "pool/pool.json",
        lambda f: ["fuzz", "--detector", mine(f), "--data", coco(f, coco_document()), "--pool", str(f / "pool")],
        set(),
    ),
    "detect --out": ("out.json", lambda f: detect_command(f, photos(f)), _REPLACED),
    "data --out": ("made", lambda f: ["data", photos(f), "--out", str(f / "made")], {"nothing", "a folder"}),
    "explain --out": (
        "made",
        lambda f: ["explain", "--detector", mine(f), "--data", coco(f, coco_document()), "--out", str(f / "made")],
        {"nothing", "a folder"},
    ),
    "score --rows": (
        "rows.csv",
        lambda f: [*score_command(f, []), "--rows", str(f / "rows.csv")],
        _REPLACED,
    ),
}
_MADE = ("out.json", "made", "copied", "rows.csv")


def special_cases() -> Iterator[Case]:
    for place, (name, command, fine) in PLACES.items():
        for what, put in SPECIAL.items():

            def make(folder: Path, name: str = name, command: Any = command, put: Put = put) -> list[str]:
                arguments = command(folder)
                replaced(folder / name, put)
                return list(arguments)

            codes = (0,) if what in fine else (2,)
            if place == "names of an endpoint":
                codes = (2,)
            if place == "python" and what == "an empty file":
                codes = (2,)
            case = Case("special files", f"{place}: {what}", make, codes, _MADE)
            yield case

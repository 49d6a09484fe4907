"""What lies where a file should be: pipes, sockets, devices, loops, giants; and files that are not what they say.

Broken images, YAML and XML that grow or go deep, and weights that would run code.
"""

import io
import os
import pickle
import socket
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from malformed_case import Case, Said
from malformed_formats import (
    VOC,
    bikes_document,
    bikes_spec,
    coco,
    coco_document,
    photo,
    score_command,
    yolo_folder,
)
from PIL import Image

Put = Callable[[Path], object]
MINE = """
class Mine:
    names = ["dog", "cat"]
    def detect(self, images):
        return [([[4, 6, 24, 30]], [0.9], [0]) for image in images]
"""


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


def mine(folder: Path) -> str:
    (folder / "mine.py").write_text(MINE)
    return f"python:{folder / 'mine.py'}:Mine"


def replaced(path: Path, put: Put) -> None:
    """``put`` something in the place of ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        for left in sorted(path.rglob("*"), reverse=True):
            left.rmdir() if left.is_dir() else left.unlink()
        path.rmdir()
    path.unlink(missing_ok=True)
    put(path)


def _detect(folder: Path, data: str, detector: str | None = None) -> list[str]:
    out = ["--out", str(folder / "out.json"), "--no-cache"]
    return ["detect", "--detector", detector or mine(folder), "--data", data, *out]


def _voc(folder: Path) -> str:
    photo(folder / "JPEGImages" / "1.png")
    (folder / "Annotations").mkdir()
    (folder / "ImageSets" / "Main").mkdir(parents=True)
    (folder / "ImageSets" / "Main" / "val.txt").write_text("1\n")
    (folder / "Annotations" / "1.xml").write_text(VOC % ("1.png", 64, 48, "dog", 0, 4, 6, 40, 30))
    return f"voc:{folder}"


def _photos(folder: Path) -> str:
    for i in range(3):
        photo(folder / "photos" / f"{i}.png")
    return f"folder:{folder / 'photos'}"


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
    "coco, an image, asked about": ("images/1.png", lambda f: _detect(f, coco(f, coco_document())), _UNREAD),
    "coco, an image, copied": (
        "images/1.png",
        lambda f: ["data", coco(f, coco_document()), "--out", str(f / "copied")],
        {"an empty file"},
    ),
    "coco, images=": ("images", lambda f: ["data", f"{coco(f, coco_document())},images={f / 'images'}"], _UNREAD),
    "voc, a folder": ("Annotations", lambda f: ["data", _voc(f)], set()),
    "voc, an annotation": ("Annotations/1.xml", lambda f: ["data", _voc(f)], set()),
    "voc, an image": ("JPEGImages/1.png", lambda f: ["data", _voc(f)], _UNREAD),
    "voc, a list": ("ImageSets/Main/val.txt", lambda f: ["data", _voc(f) + ",split=val"], set()),
    "yolo": ("data.yaml", lambda f: ["data", yolo_folder(f)], set()),
    "yolo, labels": ("labels/1.txt", lambda f: ["data", yolo_folder(f)], {*_ABSENT, "an empty file"}),
    "yolo, an image": ("images/1.png", lambda f: ["data", yolo_folder(f)], _UNREAD - {"nothing", "a folder"}),
    "yolo, a list": ("val.txt", lambda f: ["data", _yolo_list(f)], set()),
    "delftbikes": ("bikes.json", lambda f: ["data", bikes_spec(f, bikes_document())], set()),
    "folder": ("photos", lambda f: ["data", _photos(f)], set()),
    "folder, an image": ("photos/1.png", lambda f: ["data", _photos(f)], _UNREAD),
    "folder, an image, asked about": ("photos/1.png", lambda f: _detect(f, _photos(f)), _UNREAD),
    "results": ("results.json", lambda f: score_command(f, []), set()),
    "results, truth=": ("truth.json", _predictions, set()),
    "names of an endpoint": ("names.txt", lambda f: _detect(f, _photos(f), _endpoint(f)), set()),
    "onnx": ("m.onnx", lambda f: _detect(f, _photos(f), f"onnx:{f}/m.onnx,decoder=yolov8,names=coco"), set()),
    "yolox": ("m.pth", lambda f: _detect(f, _photos(f), f"yolox:{f}/m.pth"), set()),
    "zoo, weights=": ("m.safetensors", lambda f: _detect(f, _photos(f), f"zoo:yolox,weights={f}/m.safetensors"), set()),
    "hf": ("model", lambda f: _detect(f, _photos(f), f"hf:{f}/model"), set()),
    "hf, its configuration": ("model/config.json", lambda f: _detect(f, _photos(f), f"hf:{f}/model"), set()),
    "python": ("other.py", lambda f: _detect(f, _photos(f), f"python:{f}/other.py:Mine"), set()),
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
    "detect --out": ("out.json", lambda f: _detect(f, _photos(f)), _REPLACED),
    "data --out": ("made", lambda f: ["data", _photos(f), "--out", str(f / "made")], {"nothing", "a folder"}),
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


# Images
def _png(*chunks: tuple[bytes, bytes]) -> bytes:
    body = b"".join(struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks)
    return b"\x89PNG\r\n\x1a\n" + body


def _header(width: int, height: int, bits: int = 8, colour: int = 2) -> tuple[bytes, bytes]:
    return b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)


def _picture(kind: str, size: tuple[int, int] = (64, 48), mode: str = "RGB", **options: Any) -> bytes:
    made = io.BytesIO()
    Image.effect_noise(size, 50).convert(mode).save(made, kind, **options)
    return made.getvalue()


_NOTHING = (b"IDAT", zlib.compress(b"")), (b"IEND", b"")
IMAGES: dict[str, bytes] = {
    "empty": b"",
    "text": b"not an image at all",
    "html": b"<html><body>404</body></html>",
    "nul": b"\0" * 5_000,
    "png, cut off": _picture("PNG")[:700],
    "png, only a signature": b"\x89PNG\r\n\x1a\n",
    "png, no pixels": _png(_header(64, 48), *_NOTHING),
    "png, 0 x 0": _png(_header(0, 0), *_NOTHING),
    "png, 0 wide": _png(_header(0, 48), *_NOTHING),
    "png, 2**31 wide": _png(_header(2**31 - 1, 1), *_NOTHING),
    "png, 2**32 pixels": _png(_header(65_536, 65_536), *_NOTHING),
    "png, bomb": _png(
        _header(30_000, 30_000, 1, 0), (b"IDAT", zlib.compress(b"\0" * 3_751 * 30_000, 9)), (b"IEND", b"")
    ),
    "png, wrong checksum": _picture("PNG").replace(b"IDAT", b"IDAX", 1),
    "png, odd depth": _png(_header(64, 48, 7, 9), *_NOTHING),
    "png, text bomb": _png(_header(4, 4), (b"zTXt", b"a\0\0" + zlib.compress(b"a" * (80 << 20), 9)), *_NOTHING),
    "png, profile bomb": _png(_header(4, 4), (b"iCCP", b"a\0\0" + zlib.compress(b"a" * (80 << 20), 9)), *_NOTHING),
    "png, chunk of 2 GB": b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 2**31 - 1) + b"IHDR" + b"\0" * 40,
    "jpeg, cut off": _picture("JPEG")[:600],
    "jpeg, two bytes": b"\xff\xd8",
    "jpeg, only markers": b"\xff\xd8" + b"\xff\xe1\xff\xff" * 200,
    "jpeg, 65,535 square": _picture("JPEG").replace(b"\x00\x30\x00\x40", b"\xff\xff\xff\xff", 1),
    "gif, cut off": _picture("GIF", mode="P")[:60],
    "gif, 65,535 square": b"GIF89a\xff\xff\xff\xff\x00\x00\x00,\0\0\0\0\xff\xff\xff\xff\x00\x02\x02D\x01\x00;",
    "tiff, loop": b"II*\0\x08\0\0\0" + b"\0\0" + b"\x08\0\0\0",
    "tiff, far": b"II*\0\xff\xff\xff\x7f",
    "tiff, cut off": _picture("TIFF")[:200],
    "bmp, negative": b"BM" + struct.pack("<IHHIIiiHHIIIIII", 54, 0, 0, 54, 40, -64, -(2**31), 1, 24, 0, 0, 0, 0, 0, 0),
    "bmp, cut off": _picture("BMP")[:100],
    "ppm, huge": b"P6 99999999 99999999 255\n",
    "ppm, words": b"P6 wide high 255\n",
    "ppm, negative": b"P6 -5 5 255\n",
    "webp, cut off": _picture("WEBP")[:80],
    "webp, 16,384 square": b"RIFF\x1a\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\0\0",
    "eps": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\nshowpage\n",
    "svg": b"<svg xmlns='http://www.w3.org/2000/svg'><image href='/etc/passwd'/></svg>",
    "zip": b"PK\x03\x04" + b"\0" * 200,
    "floats": _picture("TIFF", mode="F"),
}
WRONGLY_NAMED: dict[str, bytes] = {
    "jpeg called png": _picture("JPEG"),
    "gif called png": _picture("GIF", mode="P"),
    "grey with alpha": _picture("PNG", mode="LA"),
    "one bit": _picture("PNG", mode="1"),
    "cmyk": _picture("JPEG", mode="CMYK"),
    "one pixel": _picture("PNG", (1, 1)),
}


def _names_one(folder: Path, said: Said) -> str | None:
    return None if "1.png" in said.out + said.err else f"the image is named nowhere: {said.out[:200]!r}"


def image_cases() -> Iterator[Case]:
    for name, content in {**IMAGES, **WRONGLY_NAMED}.items():

        def lay(folder: Path, content: bytes = content) -> str:
            spec = _photos(folder)
            (folder / "photos" / "1.png").write_bytes(content)
            return spec

        def declared(folder: Path, content: bytes = content) -> list[str]:
            spec = coco(folder, coco_document())
            (folder / "images" / "1.png").write_bytes(content)
            return _detect(folder, spec)

        broken = name in IMAGES
        told = _names_one if broken else None
        yield Case("images", f"data: {name}", lambda f, lay=lay: ["data", lay(f)], (0,))
        yield Case("images", f"detect: {name}", lambda f, lay=lay: _detect(f, lay(f)), (0,), ("out.json",), check=told)
        yield Case("images", f"detect, size declared: {name}", declared, (0,), ("out.json",))


# YAML, XML, lists of names
_LAUGHS = "".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]\n" for i in range(1, 12))
YAML: dict[str, str] = {
    "a billion laughs": f"l0: &l0 [lol, lol]\n{_LAUGHS}names: *l11\nval: images\n",
    "aliases in keys": "a: &a [x]\nnames: [dog]\n? *a\n: 1\nval: images\n",
    "merge keys": "a: &a {names: [dog]}\n<<: *a\nval: images\n",
    "an alias of itself": "names: &a [*a]\nval: images\n",
    "deep lists": "names: " + "[" * 20_000 + "]" * 20_000 + "\nval: images\n",
    "deep lists, open": "names: " + "[" * 20_000,
    "deep objects": "names: " + "{a: " * 20_000 + "}" * 20_000 + "\nval: images\n",
    "deep blocks": "names:\n" + "".join(" " * i + "a:\n" for i in range(1, 1_400)) + "val: images\n",
    "deep dashes": "names:\n" + "- " * 100_000 + "a\nval: images\n",
    "a python object": "names: !!python/object/apply:os.system ['touch owned']\nval: images\n",
    "a python name": "names: !!python/name:os.system\nval: images\n",
    "an unknown tag": "names: !mine [dog]\nval: images\n",
    "a wrong tag": "names: !!int dog\nval: images\n",
    "a wrong date": "names: [2001-99-99]\nval: images\n",
    "a set": "names: !!set {dog, cat}\nval: images\n",
    "bytes": "names: !!binary aGVsbG8=\nval: images\n",
    "two documents": "names: [dog]\nval: images\n---\nnames: [cat]\n",
    "a lone surrogate": 'names: ["\\ud800", dog]\nval: images\n',
    "tabs": "names:\n\t- dog\nval: images\n",
    "the same key twice": "names: [dog]\nnames: [cat, dog\n",
    "a list as key": "? [a, b]\n: 1\nnames: [dog]\nval: images\n",
    "an object as key": "{{a: b}: 1}\n",
    "endless digits": "names: [dog]\nval: images\nnc: " + "9" * 10_000 + "\n",
    "sexagesimals": "names: [dog]\nval: images\nnc: " + ":".join(["59"] * 5_000) + "\n",
    "many names": "names: [" + ", ".join(f"c{i}" for i in range(60_000)) + "]\nval: nowhere\n",
    "one long name": "names: [" + "a" * 900_000 + "]\nval: nowhere\n",
    "control characters": "names: [\x01]\nval: images\n",
    "not a map": "- dog\n",
    "nothing": "",
    "only a comment": "# names\n",
    "directives": "%YAML 9.9\n---\nnames: [dog]\nval: images\n",
}
_FINE_AS_NAMES = {"many names", "one long name", "not a map"}
XML: dict[str, bytes] = {
    "a billion laughs": b'<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa">'
    + b"".join(b'<!ENTITY %c "%b">' % (98 + i, b"&%c;" % (97 + i) * 10) for i in range(12))
    + b"]><annotation><filename>&m;</filename></annotation>",
    "an outside entity": b'<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]><annotation><filename>&a;</filename></annotation>',
    "a parameter entity": b'<!DOCTYPE a [<!ENTITY % a SYSTEM "http://127.0.0.1:9/x">%a;]><annotation/>',
    "a document type": b"<!DOCTYPE annotation><annotation/>",
    "an unknown entity": b"<annotation><filename>&nbsp;</filename></annotation>",
    "deep": b"<annotation>" + b"<a>" * 100_000 + b"</a>" * 100_000 + b"</annotation>",
    "deep and open": b"<annotation>" + b"<a>" * 100_000,
    "many attributes": b"<annotation " + b" ".join(b'a%d="1"' % i for i in range(100_000)) + b"/>",
    "one long name": b"<annotation><object><name>" + b"a" * 1_000_000 + b"</name></object></annotation>",
    "17 MB": b"<annotation>" + b" " * (17 << 20) + b"</annotation>",
    "utf-16 by name only": b'<?xml version="1.0" encoding="utf-16"?><annotation/>',
    "an unknown encoding": b'<?xml version="1.0" encoding="klingon"?><annotation/>',
    "utf-7": b'<?xml version="1.0" encoding="utf-7"?><annotation/>',
    "two roots": b"<annotation/><annotation/>",
    "nul": b"<annotation>\0</annotation>",
    "a control reference": b"<annotation><filename>&#27;[2J</filename></annotation>",
    "a surrogate reference": b"<annotation><filename>&#xD800;</filename></annotation>",
    "html": b"<html><body>404<br></body></html>",
    "nothing": b"",
    "json": b"{}",
}


def _words(folder: Path, text: str, name: str) -> list[str]:
    (folder / name).write_text(text, encoding="utf-8")
    detector = f"http://127.0.0.1:9/,format=roboflow,retries=0,timeout=1,names={folder / name}"
    return _detect(folder, _photos(folder), detector)


def text_cases() -> Iterator[Case]:
    for name, text in YAML.items():

        def data(folder: Path, text: str = text) -> list[str]:
            spec = yolo_folder(folder)
            (folder / "data.yaml").write_text(text, encoding="utf-8")
            return ["data", spec]

        yield Case("yaml", f"yolo: {name}", data, (2,))
        fine = name in _FINE_AS_NAMES
        yield Case("yaml", f"names: {name}", lambda f, t=text: _words(f, t, "names.yaml"), (3,) if fine else (2,))
    for name, content in XML.items():

        def voc(folder: Path, content: bytes = content) -> list[str]:
            (folder / "1.xml").write_bytes(content)
            return ["data", f"voc:{folder}"]

        yield Case("xml", name, voc, (0,) if name == "many attributes" else (2,))
    lists = {
        "nested": "[" * 100_000,
        "numbers": "[NaN, 1]",
        "a surrogate": '["\\ud800"]',
        "objects": '[{"a": 1}]',
        "null": "null",
        "no names": "[]",
        "an empty name": '["a", ""]',
        "categories that are none": '{"categories": 7}',
        "categories without order": '{"categories": [{"id": 1, "name": "a"}, {"id": "b", "name": "b"}]}',
        "categories nan": '{"categories": [{"id": NaN, "name": "a"}, {"id": 1, "name": null}]}',
        "a gap": '{"names": {"0": "a", "2": "b"}}',
        "huge numbers": '{"names": {"' + "9" * 5_000 + '": "a"}}',
        "twice the same number": '{"names": {"0": "a", "00": "b"}}',
        "nothing": "",
    }
    for name, text in lists.items():
        yield Case("names files", f"json: {name}", lambda f, t=text: _words(f, t, "names.json"), (2,))
    for name, text in {"nothing": "", "blank": "\n\n \n", "binary": "\0\1\2", "an escape": "\x1b[2J\ndog"}.items():
        codes = (2,) if name in ("nothing", "blank") else (3,)
        yield Case("names files", f"text: {name}", lambda f, t=text: _words(f, t, "names.txt"), codes)


# Weights
class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch owned",)


def _pickles() -> dict[str, bytes]:
    import torch

    def saved(value: object, **options: Any) -> bytes:
        made = io.BytesIO()
        torch.save(value, made, **options)
        return made.getvalue()

    whole = saved({"a": torch.zeros(3)})
    huge = b'{"a":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4398046511104]}}'
    return {
        "a pickle that runs code": pickle.dumps(_Evil()),
        "an archive that runs code": saved(_Evil()),
        "an old file that runs code": saved(_Evil(), _use_new_zipfile_serialization=False),
        "a pickled module": saved(torch.nn.Linear(2, 2)),
        "no state": saved([1, 2]),
        "nothing inside": saved({}),
        "other weights": whole,
        "cut off": whole[: len(whole) // 2],
        "text": b"weights",
        "nothing": b"",
        "a zip": b"PK\x05\x06" + b"\0" * 18,
        "safetensors, header of 2**63": struct.pack("<Q", 2**63) + b"{}",
        "safetensors, tensor of 4 TB": struct.pack("<Q", len(huge)) + huge,
        "safetensors, header no json": struct.pack("<Q", 4) + b"{{{{",
    }


def weight_cases() -> Iterator[Case]:
    for name, content in _pickles().items():
        for ending, spec in {
            "pth": "yolox:{0}/m.pth",
            "pt": "torchvision:fasterrcnn_resnet50_fpn,weights={0}/m.pt,names=coco",
            "safetensors": "zoo:yolox,weights={0}/m.safetensors",
            "onnx": "onnx:{0}/m.onnx,decoder=yolov8,names=coco",
        }.items():

            def make(folder: Path, ending: str = ending, spec: str = spec, content: bytes = content) -> list[str]:
                (folder / f"m.{ending}").write_bytes(content)
                return _detect(folder, _photos(folder), spec.format(folder))

            yield Case("weights", f".{ending}: {name}", make, (2,))


def file_cases() -> Iterator[Case]:
    yield from special_cases()
    yield from image_cases()
    yield from text_cases()
    yield from weight_cases()

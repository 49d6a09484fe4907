"""Files that are not what they say: broken images, YAML and XML that grow or go deep, weights that would run code."""

import io
import os
import pickle
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from malformed_case import Case, Said
from malformed_world import coco, coco_document, detect_command, photos, yolo_folder
from PIL import Image


def _png(*chunks: tuple[bytes, bytes]) -> bytes:
    body = b"".join(struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks)
    return b"\x89PNG\r\n\x1a\n" + body


def _header(width: int, height: int, bits: int = 8, colour: int = 2) -> tuple[bytes, bytes]:
    return b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)


def _picture(kind: str, size: tuple[int, int] = (64, 48), mode: str = "RGB", **options: Any) -> bytes:
    made = io.BytesIO()
    Image.effect_noise(size, 50).convert(mode).save(made, kind, **options)
    return made.getvalue()


def _bomb(part: bytes, times: int) -> bytes:
    """Deflated ``part * times``; ``part`` is compressed once, since every run of the tests makes these."""
    packer = zlib.compressobj(9, wbits=-15)
    packed = packer.compress(part) + packer.flush(zlib.Z_FULL_FLUSH)
    check = 1
    for _ in range(times):
        check = zlib.adler32(part, check)
    return b"x\xda" + packed * times + b"\x03\0" + check.to_bytes(4, "big")


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
    "png, bomb": _png(_header(30_000, 30_000, 1, 0), (b"IDAT", _bomb(b"\0" * 3_751 * 300, 100)), (b"IEND", b"")),
    "png, wrong checksum": _picture("PNG").replace(b"IDAT", b"IDAX", 1),
    "png, odd depth": _png(_header(64, 48, 7, 9), *_NOTHING),
    "png, text bomb": _png(_header(4, 4), (b"zTXt", b"a\0\0" + _bomb(b"a" * (1 << 20), 80)), *_NOTHING),
    "png, profile bomb": _png(_header(4, 4), (b"iCCP", b"a\0\0" + _bomb(b"a" * (1 << 20), 80)), *_NOTHING),
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
            spec = photos(folder)
            (folder / "photos" / "1.png").write_bytes(content)
            return spec

        def declared(folder: Path, content: bytes = content) -> list[str]:
            spec = coco(folder, coco_document())
            (folder / "images" / "1.png").write_bytes(content)
            return detect_command(folder, spec)

        broken = name in IMAGES
        told = _names_one if broken else None
        yield Case("images", f"data: {name}", lambda f, lay=lay: ["data", lay(f)], (0,))
        yield Case(
            "images", f"detect: {name}", lambda f, lay=lay: detect_command(f, lay(f)), (0,), ("out.json",), check=told
        )
        yield Case("images", f"detect, size declared: {name}", declared, (0,), ("out.json",))


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
    return detect_command(folder, photos(folder), detector)


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
                return detect_command(folder, photos(folder), spec.format(folder))

            yield Case("weights", f".{ending}: {name}", make, (2,))

"""Words that mean something to somebody: markup, SQL, paths, formulas, terminal escapes, as names of classes, files,
images, detectors and folders.

Most are legal. What is printed is harmless all the same, and tables for spreadsheets calculate nothing.
"""

import csv
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from malformed_case import Case, Said, prepared
from malformed_world import (
    bikes_document,
    bikes_spec,
    coco,
    coco_document,
    detect_command,
    mine,
    photo,
    results_document,
    score_command,
    yolo_folder,
)

WORDS: dict[str, str] = {
    "markup": "[/red]",
    "markup that opens": "[bold red]x",
    "a link": "[link=file:///etc/passwd]x[/link]",
    "a home": "~x",
    "home": "~",
    "a backslash": "a\\b",
    "a backslash at the end": "a\\",
    "a bracket after a backslash": "\\[x]\\",
    "a path up": "../x",
    "a path from the root": "/etc/passwd",
    "a drive": "C:\\x",
    "sql": '"; DROP TABLE rows; --',
    "a quote": "x' OR '1'='1",
    "a format": "%s%n%d%(x)s",
    "braces": "{0}{__class__}{",
    "a shell": "$HOME $(touch owned) `touch owned`",
    "emoji": "🙂👩‍👩‍👧 :smile:",
    "right to left": "שלום",
    "turned around": "a\u202egpj.exe",
    "an isolate": "\u2066x\u2069\u200f",
    "10,000 characters": "a" * 10_000,
    "nothing": "",
    "a blank": " ",
    "lines": "a\nmisdetect: all is well\nb",
    "a return": "dog\rcat",
    "a tab": "a\tb",
    "a bell": "a\a\bb",
    "an escape": "\x1b[2J\x1b[31mred",
    "a window's title": "\x1b]0;owned\x07",
    "c1": "\x9b31mred\x9d0;x\x9c",
    "delete": "a\x7fb",
    "a line separator": "a\u2028b\u2029c",
    "accents": "a" + "\u0301" * 60,
    "nul": "a\0b",
    "a lone surrogate": "a\ud83d",
    "a formula": "=cmd|' /C calc'!A0",
    "a plus": "+1+1",
    "a minus": "-1+1",
    "an at": "@SUM(A1)",
    "a formula after a tab": "\t=1+1",
    "a formula after a return": "\r=1+1",
    "html": "<script>alert(1)</script>",
    "a glob": "*?[a-z]",
    "an option": "--json",
    "a spec's option": "x,limit=3",
    "null": "null",
}
NO_TEXT = {"nothing", "a lone surrogate"}
"""No name of a class."""
_OUTSIDE = {"a path up", "a path from the root", "a drive"}
_LONG = {"10,000 characters"}
_NO_FILE = {"nul", "nothing", "a lone surrogate", *_OUTSIDE, *_LONG}
"""No name of a file in a data set."""
_FROM_THE_ROOT = {"a bracket after a backslash"}
"""On Windows; a data set is portable, a folder is not."""


def _named(name: str) -> dict[str, Any]:
    document = coco_document()
    document["categories"][0]["name"] = name
    return document


def _knowing(folder: Path, name: str) -> str:
    """A detector with the class ``name``."""
    (folder / "names.json").write_text(json.dumps([name, "cat"]))
    text = "import json, pathlib\n" + Path(mine(folder).split(":")[1]).read_text(encoding="utf-8")
    text = text.replace('["dog", "cat"]', 'json.loads((pathlib.Path(__file__).parent / "names.json").read_text())')
    (folder / "mine.py").write_text(text)
    return f"python:{folder / 'mine.py'}:Mine"


def _explain(folder: Path, name: str) -> list[str]:
    how = ["--out", str(folder / "run"), "--pictures", "1", "--no-cache"]
    return ["explain", "--detector", _knowing(folder, name), "--data", coco(folder, _named(name)), *how]


def _confusion(folder: Path, name: str) -> list[str]:
    return ["confusion", *_explain(folder, name)[1:]]


def class_cases() -> Iterator[Case]:
    for what, word in WORDS.items():
        codes = (2,) if what in NO_TEXT else (0,)
        not_voc = what in NO_TEXT | {"nul", "an escape", "a window's title", "a bell", "a blank"}
        yield Case("class names", f"coco: {what}", lambda f, w=word: ["data", coco(f, _named(w))], codes)
        yield Case("class names", f"voc: {what}", lambda f, w=word: _voc_named(f, w), (2,) if not_voc else (0,))
        yield Case(
            "class names",
            f"yolo: {what}",
            lambda f, w=word: _yolo_named(f, w),
            (2,) if what == "a lone surrogate" else (0,),
        )
        yield Case(
            "class names",
            f"delftbikes: {what}",
            lambda f, w=word: _bikes_named(f, w),
            (2,) if what == "a lone surrogate" else (0,),
        )
        yield Case("class names", f"score: {what}", lambda f, w=word: _score_named(f, w), codes)
        yield Case("class names", f"explain: {what}", lambda f, w=word: _explain(f, w), codes, ("run",))
        yield Case("class names", f"confusion: {what}", lambda f, w=word: _confusion(f, w), codes, ("run",))
        if what not in NO_TEXT:
            yield Case("class names", f"show: {what}", lambda f, w=word: _after(f, w, "show"), (0,))
            yield Case("class names", f"ledger: {what}", lambda f, w=word: _after(f, w, "ledger"), (0,))


def _voc_named(folder: Path, name: str) -> list[str]:
    from xml.sax.saxutils import escape

    box = "<bndbox><xmin>4</xmin><ymin>6</ymin><xmax>40</xmax><ymax>30</ymax></bndbox>"
    text = f"<annotation><filename>1.png</filename><object><name>{escape(name)}</name>{box}</object></annotation>"
    photo(folder / "1.png")
    (folder / "1.xml").write_bytes(text.encode("utf-8", "surrogatepass"))
    return ["data", f"voc:{folder}"]


def _yolo_named(folder: Path, name: str) -> list[str]:
    return ["data", yolo_folder(folder, settings={"names": [name, "cat dog"], "val": "images"})]


def _bikes_named(folder: Path, name: str) -> list[str]:
    document = bikes_document()
    document["1.png"]["parts"][name] = document["1.png"]["parts"].pop("bell")
    return ["data", bikes_spec(folder, document) + ",parts=any"]


def _score_named(folder: Path, name: str) -> list[str]:
    arguments = score_command(folder, results_document())
    coco(folder, _named(name))
    return arguments


def _after(folder: Path, name: str, verb: str) -> list[str]:
    prepared(_explain(folder, name))
    return {
        "show": ["show", str(folder / "run")],
        "ledger": ["ledger", str(folder / "run"), "--sql", "SELECT run, label, image FROM ledger"],
    }[verb]


# Files and images
def file_name_cases() -> Iterator[Case]:
    for what, word in WORDS.items():
        listed = (2,) if what in _NO_FILE | _FROM_THE_ROOT else (0,)
        yield Case("file names", f"coco: {what}", lambda f, w=word: ["data", coco(f, _called(w, f))], listed)
        yield Case(
            "file names",
            f"coco, asked about: {what}",
            lambda f, w=word: detect_command(f, coco(f, _called(w, f))),
            listed,
            ("out.json",),
        )
        yield Case(
            "file names",
            f"coco, copied: {what}",
            lambda f, w=word: ["data", coco(f, _called(w, f)), "--out", "copied"],
            listed,
            ("copied",),
        )
        ids = (2,) if what == "a lone surrogate" else (0,)
        yield Case(
            "file names",
            f"coco, an id: {what}",
            lambda f, w=word: detect_command(f, coco(f, _numbered(w))),
            ids,
            ("out.json",),
        )
        yield Case("file names", f"results, an id: {what}", lambda f, w=word: _score_numbered(f, w), ids)
        if what not in _NO_FILE | {"a lone surrogate"}:
            yield Case("file names", f"folder: {what}", lambda f, w=word: ["data", _photos_called(f, w)], (0,))
            yield Case(
                "file names",
                f"folder, asked about: {what}",
                lambda f, w=word: detect_command(f, _photos_called(f, w)),
                (0,),
                ("out.json",),
            )
    yield Case("file names", "folder: not utf-8", lambda f: ["data", _photos_called(f, b"\xff\xfe")], (2,))
    yield Case(
        "file names", "folder, asked about: not utf-8", lambda f: detect_command(f, _photos_called(f, b"\xff")), (2,)
    )


def _called(name: str, folder: Path) -> dict[str, Any]:
    """An image of that name, which exists where a file can be called so."""
    document = coco_document()
    document["images"][0]["file_name"] = name + ".png" if name and len(name) < 200 else name
    with suppress(OSError, ValueError):  # no file can be called so: then there is none, which a command must bear too
        path = folder / "images" / document["images"][0]["file_name"]
        if path.resolve().is_relative_to(folder.resolve()):
            photo(path)
    return document


def _numbered(name: str) -> dict[str, Any]:
    document = coco_document()
    document["images"][0]["id"] = name
    for record in document["annotations"]:
        record["image_id"] = name if record["image_id"] == 1 else 2
    return document


def _score_numbered(folder: Path, name: str) -> list[str]:
    document = _numbered(name)
    document["images"][1]["id"] = "2"
    records = results_document()
    for record in (*records, *document["annotations"]):
        record["image_id"] = name if record["image_id"] in (1, name) else "2"
    arguments = score_command(folder, records)
    coco(folder, document)
    return arguments


def _photos_called(folder: Path, name: str | bytes) -> str:
    photo(folder / "photos" / "0.png")
    path = os.fsencode(folder / "photos") + b"/" + (name if isinstance(name, bytes) else name.encode()) + b".png"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write((folder / "photos" / "0.png").read_bytes())
    return f"folder:{folder / 'photos'}"


# Arguments
def argument_cases() -> Iterator[Case]:
    for what, word in WORDS.items():
        if what in ("nul", "a lone surrogate"):  # no argument can hold them
            continue
        usable = what not in _LONG | {"nothing", "a path from the root"}

        def named(folder: Path, word: str = word) -> str:
            """A path that ends in the word, inside the folder."""
            return word if not word.startswith("--") else f"./{word}"

        def photos(folder: Path) -> str:
            photo(folder / "photos" / "0.png")
            return f"folder:{folder / 'photos'}"

        yield Case("arguments", f"data: {what}", lambda f, w=word: ["data", "--", w])
        yield Case("arguments", f"data, scheme: {what}", lambda f, w=word: ["data", "--", w + ":x"])
        yield Case("arguments", f"data, target: {what}", lambda f, w=word: ["data", f"coco:{w}"])
        yield Case("arguments", f"data, an option: {what}", lambda f, w=word: ["data", f"rooms:val,count={w}"])
        yield Case("arguments", f"--detector: {what}", lambda f, w=word: _plain(f, photos(f), w))
        yield Case("arguments", f"--detector, zoo: {what}", lambda f, w=word: _plain(f, photos(f), f"zoo:{w}"))
        yield Case(
            "arguments",
            f"--detector, python: {what}",
            lambda f, w=word: _plain(f, photos(f), f"python:{w}:Mine"),
            (2, 3),
        )
        yield Case("arguments", f"ledger --sql: {what}", lambda f, w=word: ["ledger", f"--sql={w}"], (2,))
        yield Case("arguments", f"show: {what}", lambda f, w=word, n=named: ["show", "--", n(f)])
        yield Case("arguments", f"a verb: {what}", lambda f, w=word: [w, "--verbose"] if not w.startswith("-") else [w])
        if usable and "/" not in word and what not in ("home",):
            legal = what != "a blank"
            yield Case("arguments", f"--out: {what}", lambda f, n=named: _out(f, photos(f), n(f)), (0,), (word,))
            yield Case(
                "arguments",
                f"data --out: {what}",
                lambda f, n=named: ["data", photos(f), f"--out={n(f)}"],
                (0,),
                (word,),
            )
            del legal


def _plain(folder: Path, data: str, detector: str) -> list[str]:
    return ["detect", f"--detector={detector}", "--data", data, "--out", str(folder / "out.json"), "--no-cache"]


def _out(folder: Path, data: str, out: str) -> list[str]:
    return ["detect", "--detector", mine(folder), "--data", data, f"--out={out}", "--no-cache"]


# Spreadsheets
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def _calculates(path: Path) -> str | None:
    """A cell of a table that a spreadsheet would take for a formula."""
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.reader(file):
            for cell in row:
                if cell.startswith(_FORMULA) and not _is_number(cell):
                    return f"the cell {cell!r} is a formula"
    return None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def spreadsheet_cases() -> Iterator[Case]:
    words = {k: w for k, w in WORDS.items() if w.startswith(_FORMULA) or k in ("sql", "lines", "a quote", "a return")}
    for what, word in {**words, "a formula in quotes": '="a","b"', "a wide at": "＝1+1"}.items():

        def rows(folder: Path, word: str = word) -> list[str]:
            return [*_score_named(folder, word), "--rows", str(folder / "rows.csv")]

        def ids(folder: Path, word: str = word) -> list[str]:
            return [*_score_numbered(folder, word), "--rows", str(folder / "rows.csv")]

        def ledger(folder: Path, word: str = word) -> list[str]:
            prepared(_explain(folder, word))
            return ["ledger", str(folder / "run"), "--out", str(folder / "rows.csv")]

        def query(folder: Path, word: str = word) -> list[str]:
            sql = f"SELECT '{word.replace(chr(39), chr(39) * 2)}' AS \"{word.replace(chr(34), chr(34) * 2)}\""
            return ["ledger", f"--sql={sql}", "--out", str(folder / "rows.csv")]

        def check(folder: Path, said: Said) -> str | None:
            return _calculates(folder / "rows.csv")

        for name, make in {"score --rows": rows, "score --rows, ids": ids, "ledger": ledger, "--sql": query}.items():
            yield Case("spreadsheets", f"{name}: {what}", make, (0,), ("rows.csv",), check=check)


def word_cases() -> Iterator[Case]:
    yield from class_cases()
    yield from file_name_cases()
    yield from argument_cases()
    yield from spreadsheet_cases()

"""What data a file or folder holds, seen from what is in it: ``data.yaml`` stands for ``yolo:data.yaml,split=val``.

Each format names a function here (or in its own package) that is called with a path and returns the spec it would be
opened by, or ``None``. Only the beginning and the end of a file are looked at.
"""

import re
from pathlib import Path

from misdetect.data.formats import Format
from misdetect.kept.files import open_regular
from misdetect.nouns.spec import is_path, split_options
from misdetect.registry import DATA, registered
from misdetect.said.errors import BadPlugin, BadSpec

_PEEK = 1 << 16
"""Bytes read of each end of a file."""
_NAME = re.compile(r'"(\w+)"\s*:')
_IMAGES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff")


def recognised(text: str) -> tuple[str, str | None]:
    """The spec that ``text`` stands for, and a sentence on how it was taken where it names a file or folder alone."""
    head, options = split_options(text.strip())
    if not is_path(head) or not head:
        return text, None
    path = Path(head)
    if not path.exists():
        raise BadSpec(
            f"{head!r}: there is no such file or folder, and it is no data spec either, such as 'coco:instances.json'."
        )
    found = readings(path)
    if not found:
        raise BadSpec(
            f"{head!r}: this holds no data that is known here: COCO JSON, a YOLO data.yaml, PASCAL VOC, LabelMe, CVAT, "
            "Label Studio, Open Images, or a folder of images. Say which it is, e.g. 'coco:instances.json'."
        )
    spec, what = found[0]
    given = {option.partition("=")[0] for option in options}
    base, implied = split_options(spec)
    whole = ",".join([base, *(each for each in implied if each.partition("=")[0] not in given), *options])
    others = f"; it could be read as {' or '.join(each for each, _ in found[1:])} too" if found[1:] else ""
    return whole, f"{head} was read as {what}, {whole}{others}."


def readings(path: Path) -> list[tuple[str, str]]:
    """Each spec that ``path`` could be opened by, with what that is in words; those without annotations only where no
    other is."""
    found: list[tuple[bool, str, str]] = []
    for each in registered(DATA).values():
        try:
            kind = each.load(Format)
            spec = kind.recognise(path)
        except (BadPlugin, OSError, ValueError):  # a broken package, or a file that nobody can read
            continue
        if spec is not None:
            found.append((kind.annotated, spec, kind.what))
    best = any(annotated for annotated, _, _ in found)
    return [(spec, what) for annotated, spec, what in found if annotated == best]


def _ends(path: Path) -> str:
    """The beginning and the end of a file as text."""
    with open_regular(path) as file:
        start = file.read(_PEEK)
        size = file.seek(0, 2)
        file.seek(max(size - _PEEK, len(start)))
        return (start + b"\n" + file.read(_PEEK)).decode("utf-8-sig", "replace")


def _first(path: Path, pattern: str) -> Path | None:
    """The first file in the folder ``path``."""
    return next((each for each in sorted(path.glob(pattern)) if not each.name.startswith(".")), None)


def coco(path: Path) -> str | None:
    """A JSON object with images, annotations and categories; of a folder, the only such file in it or its
    ``annotations``."""
    if path.is_dir():
        files = [f for p in ("*.json", "annotations/*.json") for f in sorted(path.glob(p)) if coco(f)]
        best = [f for f in files if "val" in f.stem] or files
        return f"coco:{best[0]}" if best else None
    if path.suffix.lower() != ".json":
        return None
    text = _ends(path)
    return (
        f"coco:{path}" if _is_object(text) and len({"images", "annotations", "categories"} & _names(text)) > 1 else None
    )


def yolo(path: Path) -> str | None:
    """A ``data.yaml``, or a folder with one, or with ``classes.txt``."""
    if path.is_dir():
        file = next((path / name for name in ("data.yaml", "dataset.yaml") if (path / name).is_file()), None)
        if file is not None:
            return yolo(file)
        return f"yolo:{path}" if (path / "classes.txt").is_file() and (path / "images").is_dir() else None
    if path.suffix.lower() not in (".yaml", ".yml"):
        return None
    keys = set(re.findall(r"^['\"]?(\w+)['\"]?\s*:\s*(?:[^#\s]|$)", _ends(path), re.MULTILINE))
    split = next((each for each in ("val", "test", "train") if each in keys), None)
    return f"yolo:{path},split={split}" if "names" in keys and split else None


def voc(path: Path) -> str | None:
    """A folder of XML files, one per image."""
    if not path.is_dir():
        return None
    file = _first(path / "Annotations", "*.xml") or _first(path, "*.xml")
    return f"voc:{path}" if file is not None and re.search(r"<annotation[\s>]", _ends(file)) else None


def cvat(path: Path) -> str | None:
    """An XML file of annotations; of a folder, ``annotations.xml``."""
    if path.is_dir():
        path = path / "annotations.xml"
    if path.suffix.lower() != ".xml" or not path.is_file():
        return None
    return f"cvat:{path}" if re.search(r"<annotations[\s>]", _ends(path)) else None


def labelme(path: Path) -> str | None:
    """A folder of JSON files, one per image."""
    file = _first(path, "*.json") if path.is_dir() else None
    return f"labelme:{path}" if file is not None and {"shapes", "imagePath"} <= _names(_ends(file)) else None


def labelstudio(path: Path) -> str | None:
    """A JSON list of tasks."""
    if path.is_dir() or path.suffix.lower() != ".json":
        return None
    text = _ends(path)
    listed = text.lstrip()[:1] == "["
    tasks = "original_width" in _names(text) or {"annotations", "data"} <= _names(text)
    return f"labelstudio:{path}" if listed and tasks else None


def delftbikes(path: Path) -> str | None:
    """A JSON object of images with parts and their states."""
    if path.is_dir() or path.suffix.lower() != ".json":
        return None
    text = _ends(path)
    return f"delftbikes:{path}" if _is_object(text) and {"parts", "object_state"} <= _names(text) else None


def openimages(path: Path) -> str | None:
    """A table with the columns of Open Images."""
    if path.is_dir() or path.suffix.lower() != ".csv":
        return None
    columns = _ends(path).partition("\n")[0]
    return f"openimages:{path}" if "ImageID" in columns and "XMin" in columns else None


def folder(path: Path) -> str | None:
    """A folder with images in it."""
    if not path.is_dir():
        return None
    return f"folder:{path}" if any(each.suffix.lower() in _IMAGES for each in path.rglob("*")) else None


def _is_object(text: str) -> bool:
    return text.lstrip()[:1] == "{"


def _names(text: str) -> set[str]:
    return set(_NAME.findall(text))

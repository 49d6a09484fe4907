"""Data sets by spec: ``load_data("coco:instances.json")``. One file per format, one dict of schemes.

Opening reads annotations only. See docs/data.md for the formats, their options and what is refused.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from misdetect.data.dataset import Dataset
from misdetect.data.renaming import read_renaming
from misdetect.kept.mirror import local_path, opened_before, readdressed
from misdetect.kept.remote import as_url
from misdetect.nouns.spec import Spec, did_you_mean
from misdetect.said.errors import BadSpec, MisdetectError


def _coco(spec: Spec) -> Dataset:
    from misdetect.data.coco import load_coco

    return load_coco(spec)


def _voc(spec: Spec) -> Dataset:
    from misdetect.data.voc import load_voc

    return load_voc(spec)


def _yolo(spec: Spec) -> Dataset:
    from misdetect.data.yolo import load_yolo

    return load_yolo(spec)


def _cvat(spec: Spec) -> Dataset:
    from misdetect.data.cvat import load_cvat

    return load_cvat(spec)


def _fiftyone(spec: Spec) -> Dataset:
    from misdetect.data.fiftyone import load_fiftyone

    return load_fiftyone(spec)


def _hfdata(spec: Spec) -> Dataset:
    from misdetect.data.hfdata import load_hfdata

    return load_hfdata(spec)


def _labelme(spec: Spec) -> Dataset:
    from misdetect.data.labelme import load_labelme

    return load_labelme(spec)


def _openimages(spec: Spec) -> Dataset:
    from misdetect.data.open_images import load_open_images

    return load_open_images(spec)


def _delftbikes(spec: Spec) -> Dataset:
    from misdetect.data.delftbikes import load_delftbikes

    return load_delftbikes(spec)


def _folder(spec: Spec) -> Dataset:
    from misdetect.data.folder import load_folder

    return load_folder(spec)


def _rooms(spec: Spec) -> Dataset:
    from misdetect.data.rooms import load_rooms

    return load_rooms(spec)


def _bikes(spec: Spec) -> Dataset:
    from misdetect.data.bikes import load_bikes

    return load_bikes(spec)


SCHEMES: dict[str, Callable[[Spec], Dataset]] = {
    "bikes": _bikes,
    "coco": _coco,
    "cvat": _cvat,
    "delftbikes": _delftbikes,
    "fiftyone": _fiftyone,
    "folder": _folder,
    "hfdata": _hfdata,
    "labelme": _labelme,
    "openimages": _openimages,
    "rooms": _rooms,
    "voc": _voc,
    "yolo": _yolo,
}


_OF_FOLDERS = ("folder", "voc")
"""Schemes of which the target is a folder; that of others is a file."""
_PATHS = {"images", "labels"}
"""Options that are paths."""


def load_data(spec: str | Dataset | Iterable[tuple[Any, Any]], names: Sequence[str] | None = None) -> Dataset:
    """The data set that ``spec`` names, e.g. ``coco:FILE,images=DIR``; a data set is returned as it is.

    Pairs of an image (uint8 RGB array) and a ``Truth`` (or a dict of its fields) are data too; their labels are names,
    or indices into ``names``.
    """
    if isinstance(spec, Dataset):
        return spec
    if not isinstance(spec, str):
        from misdetect.data.memory import from_pairs

        return from_pairs(spec, names)
    parsed = Spec.parse(spec)
    if parsed.scheme not in SCHEMES:
        raise BadSpec(
            f"{spec!r} is no data spec: {parsed.scheme!r} is none of {', '.join(sorted(SCHEMES))}."
            f"{did_you_mean(parsed.scheme, SCHEMES)}"
        )
    parsed.target = str(_here(parsed.target, folder=parsed.scheme in _OF_FOLDERS))
    for name in _PATHS & parsed.options.keys():
        parsed.options[name] = str(_here(parsed.options[name], folder=name == "images"))
    labels = parsed.take("labels", "")
    try:
        found = SCHEMES[parsed.scheme](parsed)
    except BadSpec as error:
        raise BadSpec(parsed.misspelt() or str(error)) from error
    except MisdetectError as error:
        raise readdressed(error, Path(parsed.target)) from error
    return found.renamed(read_renaming(Path(labels), found.names)) if labels else found


def _here(path: str, folder: bool) -> Path | str:
    """``path``, or where the mirror of that address is. Of a file its folder is mirrored, with the images."""
    url = as_url(path)
    if url is None:
        return path
    if folder:
        return local_path(url, data=True)
    parent, _, name = url.rpartition("/")
    return local_path(parent, data=True) / name


def unseen(spec: str) -> str | None:
    """The place beyond this machine that opening ``spec`` would read and that was never opened here, which nobody
    should do because a stranger's file says so; ``None`` if there is none."""
    try:
        parsed = Spec.parse(spec)
        urls = [as_url(path) for path in (parsed.target, *parsed.options.values())]
    except BadSpec:
        return None  # it is not opened
    if parsed.scheme == "hfdata":
        from misdetect.data.hfdata import is_fetched

        return None if is_fetched(parsed.target) else "the Hugging Face Hub"
    return next((url for url in urls if url is not None and not opened_before(url)), None)

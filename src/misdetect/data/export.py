"""Writing any data set as COCO: ``instances.json`` and ``images/``, plus ``delftbikes.json`` where parts have states.

Image files are copied byte for byte; procedural images are written as PNG. The folder appears whole or not at all.
Reading the export gives the same boxes, labels, crowd flags, areas, states and masks.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from PIL import Image

from misdetect.data.dataset import Dataset, Sample
from misdetect.data.faults import BadMask, ExportRefused
from misdetect.data.images import FileSource, check_name, inside, open_image
from misdetect.kept.files import check_local
from misdetect.kept.system import LockFile, portable_name, replace
from misdetect.nouns.boxes import xyxy_to_xywh
from misdetect.nouns.detections import STATES
from misdetect.said.errors import BadArray


def export_coco(
    dataset: Dataset,
    out: Path,
    *,
    about: Callable[[int], Mapping[str, Any]] | None = None,
    progress: Callable[[int], None] | None = None,
) -> dict[str, int]:
    """Write ``dataset`` to the folder ``out``, which must be absent or empty; returns counts of what was written.

    Ids of images and annotations are kept where they are unique numbers, else numbered from 1. ``about`` says more of
    the image of that index, which its record carries too; ``progress`` is called with the number of images done.
    """
    with whole_folder(out) as partial:
        return _write(dataset, partial, about, progress)


def check_new_folder(out: Path) -> None:
    """Refuse ``out`` if something is there already, or if it is no name."""
    check_local(out)
    if not out.name:
        raise ExportRefused(f"Expected the name of a new folder. Got {str(out)!r}.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ExportRefused(f"{out} exists and is not empty; choose another folder, or remove it.")


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """A folder to fill, which becomes ``out`` when the block ends and vanishes when it fails; ``out`` must be absent or
    empty."""
    check_new_folder(out)
    partial = out.with_name(f".{out.name}.partial")
    try:
        partial.mkdir(parents=True, exist_ok=True)
        lock = LockFile(partial, folder=True)
    except BlockingIOError:
        raise ExportRefused(f"{out} is being written by another process; wait for it.") from None
    except OSError as error:
        raise ExportRefused(f"{out} cannot be written: {error.strerror}.") from error
    try:
        for left in partial.iterdir():  # by one that was killed
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        yield partial
        if out.is_dir():
            out.rmdir()
        replace(partial, out)
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, OSError) and str(error.filename or partial).startswith(str(partial)):
            raise ExportRefused(f"{out} cannot be written: {error.strerror or error}.") from error
        raise
    finally:
        lock.release(remove=True)


def export_labels(
    dataset: Dataset, out: Path, places: Sequence[int], labels: Sequence[Sequence[Mapping[str, Any]]]
) -> dict[str, int]:
    """Write the photos at ``places`` of ``dataset`` to ``data/`` of the new folder ``out``, what ``labels`` says of
    each to ``labels.json``, and its truth to ``truth.json``: COCO files, in the layout that FiftyOne imports.

    A label has ``bbox`` and ``category``, a name; whatever else it has stays with it. Names that the data lacks become
    further categories.
    """
    names = dict(zip(dataset.names, map(int, dataset.category_ids), strict=True))
    for label in (each for some in labels for each in some):
        names.setdefault(label["category"], max(names.values(), default=0) + 1)
    images: list[dict[str, Any]] = []
    truths: list[list[dict[str, Any]]] = []
    taken: set[str] = set()
    with whole_folder(out) as partial:
        for number, place in enumerate(places, start=1):
            sample = dataset[place]
            name = _write_image(sample, partial / "data", taken, number)
            images.append({"id": number, "file_name": name, "width": sample.width, "height": sample.height})
            truths.append(_annotations(sample, dataset))
        records = [[_label(label, names[label["category"]]) for label in some] for some in labels]
        about = {"images": images, "categories": [{"id": i, "name": n} for n, i in names.items()]}
        counts = {}
        for file, objects in (("labels.json", records), ("truth.json", truths)):
            found = [r | {"image_id": image["id"]} for image, rs in zip(images, objects, strict=True) for r in rs]
            found = [record | {"id": number} for number, record in enumerate(found, start=1)]
            info = {"description": f"Exported by misdetect from {dataset.spec}"}
            _write_json(partial / file, {"info": info, **about, "annotations": found})
            counts[file] = len(found)
    return {"images": len(images), "labels": counts["labels.json"], "annotations": counts["truth.json"]}


def _label(label: Mapping[str, Any], category: int) -> dict[str, Any]:
    more = {key: value for key, value in label.items() if key != "category"}
    return {**more, "category_id": category, "area": label["bbox"][2] * label["bbox"][3], "iscrowd": 0}


def _write(
    dataset: Dataset,
    folder: Path,
    about: Callable[[int], Mapping[str, Any]] | None,
    progress: Callable[[int], None] | None,
) -> dict[str, int]:
    images: list[dict[str, Any]] = []
    objects: list[list[dict[str, Any]]] = []
    bikes: dict[str, Any] = {}
    taken: set[str] = set()
    for number, sample in enumerate(dataset, start=1):
        name = _write_image(sample, folder / "images", taken, number)
        own = {"id": sample.image_id, "file_name": name, "width": sample.width, "height": sample.height}
        images.append({**(about(number - 1) if about is not None else {}), **own})
        objects.append(_annotations(sample, dataset))
        if (bike := _bike(sample, objects[-1], dataset)) is not None:
            bikes[name] = bike
        if progress is not None:
            progress(number)
    annotations = _numbered(images, objects)
    categories = [{"id": i, "name": n} for i, n in zip(dataset.category_ids, dataset.names, strict=True)]
    document = {
        "info": {"description": f"Exported by misdetect from {dataset.spec}"},
        "images": images,
        "annotations": annotations,
        "categories": categories,
    }
    _write_json(folder / "instances.json", document)
    written = {"annotations": len(annotations), "images": len(images)}
    if bikes and len(bikes) == len(images):
        _write_json(folder / "delftbikes.json", bikes)
        written["delftbikes_images"] = len(bikes)
    return written


def _write_json(path: Path, document: dict[str, Any]) -> None:
    with path.open("w", encoding="utf-8") as file:
        json.dump(document, file, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())


def _write_image(sample: Sample, folder: Path, taken: set[str], number: int) -> str:
    """Copy or draw one image; returns its name below ``images/``, which every system can have. Names that clash get a
    number, also those that differ in the case of letters only."""
    source = sample.source
    plain = check_name(sample.file_name or f"{sample.id}.png", f"image {sample.id!r}")
    name = PurePosixPath(*map(portable_name, PurePosixPath(plain).parts))
    if not isinstance(source, FileSource):
        name = name.with_suffix(".png")
    while name.as_posix().casefold() in taken:
        name = name.with_name(f"{name.stem}-{number}{name.suffix}")
    taken.add(name.as_posix().casefold())
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(source, FileSource):
        with open_image(inside(source.path, source.root)) as image, target.open("xb") as copy:
            shutil.copyfileobj(image, copy)
    else:
        Image.fromarray(np.ascontiguousarray(source.read())).save(target, compress_level=1)
    return name.as_posix()


def _annotations(sample: Sample, dataset: Dataset) -> list[dict[str, Any]]:
    """COCO records of one image, without ``image_id``; masks as compressed run lengths."""
    truth = sample.truth
    records: list[dict[str, Any]] = []
    ids, crowd, areas = truth.ids, truth.crowd, truth.areas
    if ids is None or crowd is None or areas is None:
        raise BadArray(f"Image {sample.id!r}: its truth is incomplete.")
    for i, box in enumerate(xyxy_to_xywh(truth.boxes).tolist()):
        record: dict[str, Any] = {
            "id": int(ids[i]),
            "category_id": int(dataset.category_ids[int(truth.labels[i])]),
            "bbox": box,
            "area": float(areas[i]),
            "iscrowd": int(crowd[i]),
        }
        if truth.masks is not None and truth.masks.has(i):
            try:
                record["segmentation"] = truth.masks.rle(i)
            except BadArray as error:
                raise BadMask(f"Image {sample.id!r}, annotation {record['id']}: {error}") from error
        if truth.states is not None:
            record["state"] = truth.states[i]
        records.append(record)
    return records


def _numbered(images: list[dict[str, Any]], objects: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """All annotations, with ids that are unique numbers, as COCO tools expect; those that already are stay."""
    ids = [image["id"] for image in images]
    if not all(type(value) is int for value in ids) or len(set(ids)) < len(ids):
        for number, image in enumerate(images, start=1):
            image["id"] = number
    annotations = [r | {"image_id": image["id"]} for image, rs in zip(images, objects, strict=True) for r in rs]
    if len({record["id"] for record in annotations}) < len(annotations):
        for number, record in enumerate(annotations, start=1):
            record["id"] = number
    return annotations


def _bike(sample: Sample, records: list[dict[str, Any]], dataset: Dataset) -> dict[str, Any] | None:
    """One image in the DelftBikes layout; None where that cannot hold it: no states, other states, a part twice."""
    labels, states = sample.truth.labels.tolist(), sample.truth.states
    if states is None or not set(states) <= set(STATES) or len(set(labels)) < len(labels):
        return None
    parts: dict[str, Any] = {}
    for record, label, state in zip(records, labels, states, strict=True):
        left, top, width, height = record["bbox"]
        parts[dataset.names[label]] = {
            "part_name": dataset.names[label],
            "object_state": state,
            "absolute_bounding_box": {"left": left, "top": top, "width": width, "height": height},
        }
    return {"image": {"channels": 3, "height": sample.height, "width": sample.width}, "parts": parts}

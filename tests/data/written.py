"""Writers of the formats of annotation tools, for tests: any data set in, a spec that should give it back out."""

import base64
import csv
import io
import json
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
from PIL import Image

from misdetect.data.dataset import Dataset, Sample


def png(pixels: np.ndarray) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def bounds(mask: np.ndarray) -> tuple[int, int, int, int]:
    """First and last column and row (included) that a mask has: left, top, right, bottom."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return int(columns[0]), int(rows[0]), int(columns[-1]), int(rows[-1])


def labelme(data: Dataset, folder: Path, *, embedded: bool = False, masks: bool = True) -> str:
    """One JSON per image, shapes of type mask or rectangle."""
    folder.mkdir(parents=True, exist_ok=True)
    for sample in data:
        name = f"{sample.id}.png"
        content = png(sample.image)
        if not embedded:
            (folder / name).write_bytes(content)
        document = {
            "version": "5.5.0",
            "flags": {},
            "shapes": [_labelme_shape(sample, data, i, masks) for i in range(len(sample.truth))],
            "imagePath": name,
            "imageData": base64.b64encode(content).decode() if embedded else None,
            "imageHeight": sample.height,
            "imageWidth": sample.width,
        }
        (folder / f"{sample.id}.json").write_text(json.dumps(document))
    return f"labelme:{folder}"


def _labelme_shape(sample: Sample, data: Dataset, i: int, masks: bool) -> dict[str, Any]:
    shape: dict[str, Any] = {"label": data.names[sample.truth.labels[i]], "group_id": None, "flags": {}}
    if not masks:
        box = sample.truth.boxes[i].tolist()
        return {**shape, "shape_type": "rectangle", "points": [box[2:], box[:2]]}  # drawn from below
    mask = sample.truth.masks[i]
    left, top, right, bottom = bounds(mask)
    crop = png((mask[top : bottom + 1, left : right + 1] * 255).astype(np.uint8))
    corners = [[left, top], [right, bottom]]
    return {**shape, "shape_type": "mask", "points": corners, "mask": base64.b64encode(crop).decode()}


def cvat(data: Dataset, folder: Path, *, masks: bool = True) -> str:
    """ "CVAT for images 1.1": one XML, images beside it."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    labels = "".join(f"<label><name>{name}</name></label>" for name in data.names)
    images = []
    for number, sample in enumerate(data):
        name = f"{sample.id}.png"
        (folder / "images" / name).write_bytes(png(sample.image))
        shapes = "".join(_cvat_shape(sample, data, i, masks) for i in range(len(sample.truth)))
        size = f'width="{sample.width}" height="{sample.height}"'
        images.append(f'<image id="{number}" name={quoteattr(name)} {size}>{shapes}</image>')
    head = f"<version>1.1</version><meta><task><labels>{labels}</labels></task></meta>"
    path = folder / "annotations.xml"
    path.write_text(f'<?xml version="1.0" encoding="utf-8"?><annotations>{head}{"".join(images)}</annotations>')
    return f"cvat:{path}"


def _cvat_shape(sample: Sample, data: Dataset, i: int, masks: bool) -> str:
    common = f'label={quoteattr(data.names[sample.truth.labels[i]])} source="manual" occluded="1" z_order="{i}"'
    crowd = f'<attribute name="is_crowd">{str(bool(sample.truth.crowd[i])).lower()}</attribute>'
    if not masks:
        x0, y0, x1, y1 = sample.truth.boxes[i].tolist()
        return f'<box {common} xtl="{x0}" ytl="{y0}" xbr="{x1}" ybr="{y1}">{crowd}</box>'
    mask = sample.truth.masks[i]
    left, top, right, bottom = bounds(mask)
    flat = mask[top : bottom + 1, left : right + 1].reshape(-1)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flat.astype(int)])) != 0)
    runs = np.diff(np.concatenate([[0], edges, [len(flat)]]))
    rle = ", ".join(map(str, runs.tolist()))
    place = f'left="{left}" top="{top}" width="{right + 1 - left}" height="{bottom + 1 - top}"'
    return f'<mask {common} rle="{rle}" {place}>{crowd}</mask>'


def open_images(data: Dataset, folder: Path, *, described: bool = True) -> str:
    """Boxes and class names as CSV, images beside them."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    rows = []
    for sample in data:
        (folder / "images" / f"{sample.id}.png").write_bytes(png(sample.image))
        for box, label, crowd in zip(sample.truth.boxes, sample.truth.labels, sample.truth.crowd, strict=True):
            x0, y0, x1, y1 = (box / ([sample.width, sample.height] * 2)).tolist()
            rows.append([sample.id, "xclick", f"/m/{label}", 1, x0, x1, y0, y1, 0, 0, int(crowd), 0, 0])
    head = (
        "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsDepiction,IsInside"
    )
    path = folder / "validation-annotations-bbox.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head.split(","), *rows])
    if described:
        names = "".join(f'/m/{i},"{name}"\n' for i, name in enumerate(data.names))
        (folder / "class-descriptions-boxable.csv").write_text(names)
    return f"openimages:{path}"

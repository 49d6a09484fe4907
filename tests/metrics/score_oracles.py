"""What the tests of scoring share: random and real COCO dicts, data sets made of them, and the two reference
programs.
"""

import contextlib
import copy
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from misdetect.data.dataset import Dataset, Sample
from misdetect.detectors.predictions import StoredPredictions, detection_columns, read_results
from misdetect.metrics.columns import DetectionColumns, TruthColumns, truth_columns
from misdetect.nouns.detections import Truth
from misdetect.nouns.masks import Masks

Coco = dict[str, Any]
Records = list[dict[str, Any]]

COCOAPI100 = Path(__file__).parents[2] / "../shared/fixtures/cocoapi100"
MAIN_AND_SPECIAL = ("Cls", "Loc", "Both", "Dupe", "Bkg", "Miss", "FalsePos", "FalseNeg")


def cocoapi100(kind: str = "bbox") -> tuple[Coco, Records]:
    """The COCO API's 100 images and its stored results of ``kind`` "bbox" or "segm"."""
    if not COCOAPI100.is_dir():
        pytest.skip("the cocoapi100 fixture is not here")
    truth = json.loads((COCOAPI100 / "instances_val2014_100.json").read_text())
    return truth, json.loads((COCOAPI100 / f"instances_val2014_fake{kind}100_results.json").read_text())


def random_coco(
    seed: int,
    *,
    images: int = 30,
    classes: int = 5,
    without_truth: int = 0,
    crowd: float = 0.0,
    decimals: int | None = None,
    objects: int = 6,
    copies: int = 2,
) -> tuple[Coco, Records]:
    """A random scene set: jittered, renamed and repeated detections of random objects, and some of nothing at all.

    Some images stay empty; the last ``without_truth`` classes are only ever detected.
    """
    rng = np.random.default_rng(seed)
    annotations: Records = []
    records: Records = []

    def box() -> list[float]:
        return [*rng.uniform(0, 250, 2).tolist(), *rng.uniform(4, 150, 2).tolist()]

    def report(image: int, category: int, xywh: list[float]) -> None:
        score = float(rng.random() if decimals is None else np.round(rng.random(), decimals))
        records.append({"image_id": image, "category_id": category, "bbox": xywh, "score": score})

    for image in range(1, images + 1):
        for _ in range(rng.integers(0, objects + 1)):
            category, xywh = int(rng.integers(1, classes + 1 - without_truth)), box()
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": image,
                    "category_id": category,
                    "bbox": xywh,
                    "area": xywh[2] * xywh[3] * float(rng.uniform(0.4, 1)),
                    "iscrowd": int(rng.random() < crowd),
                }
            )
            for _ in range(rng.integers(0, copies + 1)):
                moved = np.array(xywh) + rng.normal(0, 0.15, 4) * np.tile(xywh[2:], 2)
                renamed = category if rng.random() < 0.8 else int(rng.integers(1, classes + 1))
                report(image, renamed, [*moved[:2].tolist(), *np.maximum(moved[2:], 2).tolist()])
        for _ in range(rng.integers(0, 4)):
            report(image, int(rng.integers(1, classes + 1)), box())
    # the file's order must not be the images' order
    shuffled = [records[i] for i in rng.permutation(len(records))]
    truth = {
        "images": [{"id": i, "width": 400, "height": 400, "file_name": f"{i}.jpg"} for i in range(1, images + 1)],
        "categories": [{"id": c, "name": f"class {c}"} for c in range(1, classes + 1)],
        "annotations": annotations,
    }
    return truth, shuffled


class NoPixels:
    """Fails if scoring ever looks at an image."""

    def read(self) -> Any:
        raise AssertionError("scoring must not read pixels")

    def key(self) -> str:
        raise AssertionError("scoring must not hash pixels")


def dataset_of(truth: Coco) -> Dataset:
    """A ``Dataset`` made by hand from a COCO dict."""
    label_of = {c["id"]: i for i, c in enumerate(truth["categories"])}
    of_image: dict[Any, Records] = {image["id"]: [] for image in truth["images"]}
    for annotation in truth["annotations"]:
        of_image[annotation["image_id"]].append(annotation)

    def sample(index: int) -> Sample:
        image = truth["images"][index]
        found = of_image[image["id"]]
        boxes = np.array([a["bbox"] for a in found], dtype=float).reshape(-1, 4)
        boxes[:, 2:] += boxes[:, :2]
        masks = Masks([a.get("segmentation") for a in found], image["height"], image["width"])
        labels = np.array([label_of[a["category_id"]] for a in found], dtype=int)
        return Sample(
            id=str(image["id"]),
            source=NoPixels(),
            truth=Truth(
                boxes,
                labels,
                ids=np.array([a["id"] for a in found], dtype=int),
                crowd=np.array([a["iscrowd"] for a in found], dtype=bool),
                areas=np.array([a["area"] for a in found], dtype=float),
                masks=masks if all("segmentation" in a for a in found) else None,
            ),
            width=image["width"],
            height=image["height"],
            image_id=image["id"],
            file_name=image["file_name"],
        )

    names = [c["name"] for c in truth["categories"]]
    ids = [c["id"] for c in truth["categories"]]
    return Dataset("coco:made-by-hand", names, len(truth["images"]), sample, fingerprint="0", category_ids=ids)


def stored(records: Records, folder: Path) -> StoredPredictions:
    """``records`` written to a file and read back."""
    path = folder / "results.json"
    path.write_text(json.dumps(records))
    return StoredPredictions(read_results(path))


def columns(
    truth: Coco, records: Records, folder: Path, *, masks: bool = False
) -> tuple[TruthColumns, DetectionColumns]:
    """Both sides as columns, by way of a data set and a results file."""
    data = dataset_of(truth)
    flat = truth_columns(data, masks=masks)
    return flat, detection_columns(stored(records, folder), flat, data, masks=masks)


def pycocotools_evaluation(truth: Coco, records: Records, kind: str = "bbox", cap: int = 100) -> Any:
    """A finished ``COCOeval`` of pycocotools."""
    coco = pytest.importorskip("pycocotools.coco")
    cocoeval = pytest.importorskip("pycocotools.cocoeval")
    with contextlib.redirect_stdout(io.StringIO()):
        ground = coco.COCO()
        ground.dataset = copy.deepcopy(truth)
        ground.createIndex()
        found = ground.loadRes(copy.deepcopy(records))
        evaluation = cocoeval.COCOeval(ground, found, kind)
        evaluation.params.maxDets = [1, 10, cap]
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation


def tidecv_run(truth: Coco, records: Records, *, masks: bool = False) -> tuple[float, dict[str, float], dict[str, int]]:
    """Base AP, costs and counts by tidecv, fed past its own reader, which needs masks even to compare boxes."""
    tidecv = pytest.importorskip("tidecv")
    from tidecv.data import Data
    from tidecv.functions import toRLE

    size = {i["id"]: (i["width"], i["height"]) for i in truth["images"]}
    ground, found = Data("truth", max_dets=100), Data("predictions")
    for category in truth["categories"]:
        ground.add_class(category["id"], category["name"])
    for image in sorted(truth["images"], key=lambda i: i["id"]):
        ground.add_image(image["id"], image["file_name"])
    for a in truth["annotations"]:
        add = ground.add_ignore_region if a["iscrowd"] else ground.add_ground_truth
        mask = toRLE(copy.deepcopy(a["segmentation"]), *size[a["image_id"]]) if masks else None
        add(a["image_id"], a["category_id"], a["bbox"], mask)
    for r in records:
        mask = r["segmentation"] if masks else None
        found.add_detection(r["image_id"], r["category_id"], r["score"], r.get("bbox"), mask)
    run = tidecv.TIDE().evaluate(ground, found, mode=tidecv.TIDE.MASK if masks else tidecv.TIDE.BOX)
    costs = {**run.fix_main_errors(), **run.fix_special_errors()}
    counts = {kind.short_name: count for kind, count in run.count_errors().items()}
    return run.ap, {kind.short_name: value for kind, value in costs.items()}, counts

"""How fast `misdetect score` is: ratios to pycocotools, tidecv and hotcoco, measured in the same run on the same data.

Synthetic data of COCO's size (5,000 images, 36 k objects, 178 k detections). The references are slow, so by default
they and misdetect are compared on a tenth of the images; `--reference-images 5000` compares on all. Prints one JSON
document.
"""

import contextlib
import io
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _measuring import Parser

import misdetect as md
from misdetect.data import load_data
from misdetect.data.opened import Opened
from misdetect.detectors.predictions import StoredPredictions, detection_columns, read_results
from misdetect.metrics.ap import average_precision
from misdetect.metrics.columns import truth_columns
from misdetect.metrics.tide import TideSettings, assign, costs
from misdetect.studies.documents import document_of
from misdetect.studies.predictions import Predictions
from misdetect.studies.score.settings import ScoreSettings
from misdetect.studies.score.study import ScoreStudy, run_score

OBJECTS_PER_IMAGE, DETECTIONS_PER_IMAGE, CLASSES = 7.2, 35.6, 80


def synthetic(images: int, seed: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A COCO dict and results: a fifth of the detections close to an object, the rest far off or renamed."""
    rng = np.random.default_rng(seed)
    objects, detections = round(images * OBJECTS_PER_IMAGE), round(images * DETECTIONS_PER_IMAGE)
    where = np.sort(rng.integers(0, images, objects))
    label = rng.zipf(1.4, objects) % CLASSES
    size = np.clip(rng.lognormal(4, 0.8, (objects, 2)), 4, 300)
    corner = rng.uniform(0, 1, (objects, 2)) * ([640, 480] - np.minimum(size, [600, 440]))
    boxes = np.round(np.hstack([corner, size]), 2)
    annotations = [
        {
            "id": i + 1,
            "image_id": int(w) + 1,
            "category_id": int(c) + 1,
            "bbox": b,
            "area": b[2] * b[3],
            "iscrowd": int(k),
        }
        for i, (w, c, b, k) in enumerate(zip(where, label, boxes.tolist(), rng.random(objects) < 0.01, strict=True))
    ]
    of = rng.integers(0, objects, detections)
    close = rng.random(detections) < 0.35
    moved = boxes[of] + rng.normal(0, 1, (detections, 4)) * np.where(close, 0.06, 0.8)[:, None] * np.tile(size[of], 2)
    moved[:, 2:] = np.maximum(moved[:, 2:], 2)
    renamed = np.where(rng.random(detections) < 0.85, label[of], rng.integers(0, CLASSES, detections))
    marks = np.clip(rng.beta(1, 6, detections) + close * rng.uniform(0, 0.6, detections), 0, 1)
    results = [
        {"image_id": int(w) + 1, "category_id": int(c) + 1, "bbox": b, "score": s}
        for w, c, b, s in zip(where[of], renamed, np.round(moved, 2).tolist(), marks.tolist(), strict=True)
    ]
    truth = {
        "images": [{"id": i + 1, "width": 640, "height": 480, "file_name": f"{i + 1}.jpg"} for i in range(images)],
        "categories": [{"id": c + 1, "name": f"class {c}"} for c in range(CLASSES)],
        "annotations": annotations,
    }
    return truth, results


def seconds(work: Callable[[], Any], repeats: int = 3) -> float:
    """The median time of ``work``."""
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def ours(folder: Path, truth: dict[str, Any], results: list[dict[str, Any]]) -> dict[str, float]:
    """Times of misdetect: AP and TIDE from columns; from the files to a run directory and its document, and the parts
    of that."""
    truth_file, results_file = folder / "truth.json", folder / "results.json"
    truth_file.write_text(json.dumps(truth))
    results_file.write_text(json.dumps(results))
    data = load_data(f"coco:{truth_file}")
    flat = truth_columns(data)
    found = detection_columns(StoredPredictions(read_results(results_file)), flat, data)
    settings = TideSettings(cap=100)

    run = run_score(study(truth_file, results_file), folder / f"run-{len(results)}")
    return {
        "ap": seconds(lambda: average_precision(flat, found)),
        "columns": seconds(lambda: truth_columns(data)),
        "files_to_document": seconds(lambda: md.score(results_file, f"coco:{truth_file}")),
        "read_and_match": seconds(lambda: study(truth_file, results_file).table),
        "run_to_document": seconds(lambda: document_of(run)),
        "tide": seconds(lambda: costs(assign(flat, found, settings), flat, found, settings)),
    }


def study(truth: Path, results: Path) -> ScoreStudy:
    data = load_data(f"coco:{truth}")
    return ScoreStudy(Predictions.of(results, data), Opened(data), ScoreSettings())


def pycocotools_seconds(folder: Path) -> float:
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        ground = COCO(str(folder / "truth.json"))
        evaluation = COCOeval(ground, ground.loadRes(str(folder / "results.json")), "bbox")

        def run() -> None:
            evaluation.evaluate()
            evaluation.accumulate()

        return seconds(run, repeats=1)


def hotcoco_seconds(folder: Path) -> dict[str, float]:
    """AP and TIDE by hotcoco from its own objects: the fastest there is."""
    from hotcoco import COCO, COCOeval

    ground = COCO(str(folder / "truth.json"))
    found = ground.load_res(str(folder / "results.json"))

    def ap() -> None:
        evaluation = COCOeval(ground, found, "bbox")
        evaluation.evaluate()
        evaluation.accumulate()

    def tide() -> None:
        evaluation = COCOeval(ground, found, "bbox")
        evaluation.evaluate()
        evaluation.tide_errors()

    return {"ap": seconds(ap), "tide": seconds(tide)}


def tidecv_seconds(truth: dict[str, Any], results: list[dict[str, Any]]) -> float:
    from tidecv import TIDE
    from tidecv.data import Data

    ground, found = Data("truth", max_dets=100), Data("predictions")
    for image in truth["images"]:
        ground.add_image(image["id"], image["file_name"])
    for a in truth["annotations"]:
        add = ground.add_ignore_region if a["iscrowd"] else ground.add_ground_truth
        add(a["image_id"], a["category_id"], a["bbox"], None)
    for r in results:
        found.add_detection(r["image_id"], r["category_id"], r["score"], r["bbox"], None)

    def run() -> None:
        done = TIDE().evaluate(ground, found, mode=TIDE.BOX)
        done.fix_main_errors()
        done.fix_special_errors()

    return seconds(run, repeats=1)


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--images", type=int, default=5000, short=50)
    parser.add_argument("--reference-images", type=int, default=500, short=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    document: dict[str, Any] = {"timing": {}, "ratios": {}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        truth, results = synthetic(options.images, options.seed)
        document["size"] = {
            "detections": len(results),
            "images": options.images,
            "objects": len(truth["annotations"]),
            "reference_images": options.reference_images,
        }
        whole = document["timing"]["misdetect"] = ours(folder, truth, results)
        native = document["timing"]["hotcoco"] = hotcoco_seconds(folder)
        truth, results = synthetic(options.reference_images, options.seed)
        same = document["timing"]["misdetect_on_reference_images"] = ours(folder, truth, results)
        document["timing"]["pycocotools"] = pycocotools_seconds(folder)
        document["timing"]["tidecv"] = tidecv_seconds(truth, results)
        document["ratios"] = {
            "hotcoco_over_misdetect_ap": native["ap"] / whole["ap"],
            "hotcoco_over_misdetect_tide": native["tide"] / whole["tide"],
            "pycocotools_over_misdetect_ap": document["timing"]["pycocotools"] / same["ap"],
            "tidecv_over_misdetect_tide": document["timing"]["tidecv"] / same["tide"],
        }
    print(json.dumps(document, indent=2, sort_keys=True))


if __name__ == "__main__":
    main()

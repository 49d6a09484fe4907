"""How fast the confusion matrix is: the ratio to a plain loop over detections, and the whole document of a run.

Synthetic data of COCO's size (5,000 images, 36 k objects, 178 k detections, 80 classes). The loop, the one that the
tests have as oracle, is given the images one by one, and only a part of them; both are measured on that, in processor
time. Prints one JSON document.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _measuring import Parser

from misdetect.metrics.columns import DetectionColumns, ImageRow, TruthColumns
from misdetect.metrics.confusion import POLICIES, assign, confusion

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "metrics"))
import confusion_oracles as naive

CLASSES = 80


def synthetic(images: int, seed: int = 0) -> tuple[TruthColumns, DetectionColumns, Any]:
    """About 7 objects and 36 detections an image, a third of them close to an object; and background scores."""
    rng = np.random.default_rng(seed)
    objects, detections = round(7.2 * images), round(35.6 * images)
    image = np.sort(rng.integers(0, images, objects))
    size = np.clip(rng.lognormal(4, 0.8, (objects, 2)), 4, 300)
    corner = rng.uniform(0, 400, (objects, 2))
    boxes = np.hstack([corner, corner + size])
    label = rng.zipf(1.4, objects) % CLASSES
    of = np.sort(rng.integers(0, objects, detections))
    spread = np.where(rng.random(detections) < 0.35, 0.06, 0.8)[:, None]
    moved = boxes[of] + rng.normal(0, 1, (detections, 4)) * spread * np.tile(size[of], 2)
    moved[:, 2:] = np.maximum(moved[:, 2:], moved[:, :2] + 2)
    called = np.where(rng.random(detections) < 0.85, label[of], rng.integers(0, CLASSES, detections))
    truth = TruthColumns(
        images=(ImageRow("", "", 640, 480),) * images,
        names=tuple(map(str, range(CLASSES))),
        image=image,
        label=label.astype(np.int64),
        boxes=boxes,
        areas=size.prod(axis=1),
        crowd=rng.random(objects) < 0.01,
        ids=np.arange(objects),
    )
    found = DetectionColumns.of(image[of], called, moved, rng.random(detections))
    return truth, found, 1 - found.scores


def one_image(truth: TruthColumns, found: DetectionColumns, background: Any, image: int) -> tuple[Any, Any, Any]:
    """The columns of one image alone."""
    there, here = truth.image == image, found.image == image
    columns = ("label", "boxes", "areas", "crowd", "ids")
    t = TruthColumns(
        images=truth.images[:1],
        names=truth.names,
        image=truth.image[there] * 0,
        **{name: getattr(truth, name)[there] for name in columns},
    )
    d = DetectionColumns.of(found.image[here] * 0, found.label[here], found.boxes[here], found.scores[here])
    return t, d, background[here]


def seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    """Processor time of one call, and what it returns."""
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--images", type=int, default=5000, short=100)
    parser.add_argument("--reference-images", type=int, default=300, short=10)
    given = parser.parse_args()
    assign(*synthetic(2)[:2], "optimal")  # imports the solver
    truth, found, background = synthetic(given.reference_images)
    took, fast = seconds(lambda: confusion(truth, found, background=background))

    parts = [one_image(truth, found, background, i) for i in range(given.reference_images)]

    def loop() -> Any:
        return sum(
            naive.matrix(t, d, naive.owners(t, d, "paper", 0.5), "hard", b, d.scores[:, None])[0] for t, d, b in parts
        )

    slow, counts = seconds(loop)
    assert np.array_equal(fast.counts, counts)
    truth, found, background = synthetic(given.images)
    whole, _ = seconds(lambda: confusion(truth, found, background=background))
    document = {
        "images": given.images,
        "objects": len(truth),
        "detections": len(found),
        "seconds": round(whole, 3),
        "seconds_by_policy": {p: round(seconds(lambda p=p: assign(truth, found, p))[0], 3) for p in POLICIES},
        "reference_images": given.reference_images,
        "times_the_naive_loop": round(slow / took, 1),
    }
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()

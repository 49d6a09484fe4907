"""Share of decoding (with suppression) in the time of an ONNX detector, and what it adds to ONNX Runtime itself.

    python benchmarks/decode.py [SPEC IMAGE_FOLDER] [--repeats 3]

By default YOLOX-nano on 66 photos of COCO. Images are already in memory: reading files would only make the shares
smaller. ``of_runtime`` is the time of ONNX Runtime on arrays that are ready, called directly, over that of the adapter
(its call of ONNX Runtime and decoding) on the same arrays, image by image in one run; ``end_to_end`` has preprocessing
in it too. Times are those of the CPU, so that other processes do not count (leave threads=1). Prints one JSON document;
ratios carry over between machines, milliseconds do not.
"""

import json
import os
from pathlib import Path
from time import process_time

import cv2
from _measuring import FIXTURES, YOLOX_NANO, Parser, need_fixtures

from misdetect.detectors import load_detector
from misdetect.detectors.onnx.detector import OnnxDetector

STAGES = ("preprocess", "inference", "decode", "runtime")


def measure(detector: OnnxDetector, images: list) -> dict[str, float]:
    """Seconds spent in each stage over all images, one at a time, and the number of detections."""
    spent = dict.fromkeys(STAGES, 0.0)
    found = 0
    session, name = detector.file.session, detector.file.image.name
    for number, image in enumerate(images):
        start = process_time()
        tensor, placements = detector.prepare([image])
        spent["preprocess"] += process_time() - start

        def runtime() -> None:
            begun = process_time()
            session.run(None, {name: tensor})  # noqa: B023
            spent["runtime"] += process_time() - begun

        if number % 2:  # neither is always the one that finds the caches warm
            runtime()
        begun = process_time()
        outputs = detector.infer(tensor)
        inferred = process_time()
        (detections,) = detector.decode(outputs, [image], placements)
        spent["decode"] += process_time() - inferred
        spent["inference"] += inferred - begun
        if not number % 2:
            runtime()
        found += len(detections)
    return spent | {"detections": found}


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("spec", nargs="?", default=YOLOX_NANO)
    parser.add_argument("images", type=Path, nargs="?", default=FIXTURES / "coco66" / "images")
    parser.add_argument("--repeats", type=int, default=3, short=1)
    parser.add_argument("--limit", type=int, short=2, help="of the images")
    arguments = parser.parse_args()
    if arguments.spec == YOLOX_NANO:
        need_fixtures()
    files = sorted(file for file in arguments.images.iterdir() if file.suffix.lower() in (".jpg", ".jpeg", ".png"))
    images = [cv2.cvtColor(cv2.imread(str(file)), cv2.COLOR_BGR2RGB) for file in files[: arguments.limit]]
    if not images:
        parser.error(f"{arguments.images} holds no .jpg or .png images")
    detector = load_detector(arguments.spec)
    if not isinstance(detector, OnnxDetector) or detector.file.companions:
        parser.error(f"{arguments.spec} is no onnx: detector of one input")
    measure(detector, images)  # warm-up
    runs = [measure(detector, images) for _ in range(arguments.repeats)]
    best = {stage: min(run[stage] for run in runs) for stage in STAGES}
    adapter = best["inference"] + best["decode"]
    total = best["preprocess"] + adapter
    document = {
        "decode_share": round(best["decode"] / total, 4),
        "preprocess_share": round(best["preprocess"] / total, 4),
        "decode_of_runtime": round(best["decode"] / best["runtime"], 4),
        "of_runtime": round(best["runtime"] / adapter, 4),
        "end_to_end": round(best["runtime"] / total, 4),
        "images": len(images),
        "detections_per_image": round(runs[0]["detections"] / len(images), 1),
        "load": round(os.getloadavg()[0], 1),
        "settings": detector.settings,
        "timing": {f"{stage}_ms": round(seconds / len(images) * 1000, 3) for stage, seconds in best.items()},
    }
    print(json.dumps(document, indent=2, sort_keys=True))


if __name__ == "__main__":
    main()

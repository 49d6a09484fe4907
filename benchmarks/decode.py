"""Share of decoding (with suppression) in the end-to-end time of an ONNX detector.

    python benchmarks/decode.py onnx:yolox_nano.onnx,decoder=yolox,names=coco IMAGE_FOLDER [--repeats 3]

End to end is preprocessing, inference and decoding of images already in memory: reading files would only make the
share smaller. Prints one JSON document; ratios carry over between machines, milliseconds do not.
"""

import argparse
import json
from pathlib import Path
from time import perf_counter

import cv2

from misdetect.detectors import load_detector
from misdetect.detectors.onnx.detector import OnnxDetector


def measure(detector: OnnxDetector, images: list) -> dict[str, float]:
    """Seconds spent in each stage over all images, one at a time, and the number of detections."""
    spent = {"preprocess": 0.0, "inference": 0.0, "decode": 0.0}
    found = 0
    for image in images:
        start = perf_counter()
        tensor, placements = detector.prepare([image])
        prepared = perf_counter()
        outputs = detector.infer(tensor)
        inferred = perf_counter()
        (detections,) = detector.decode(outputs, [image], placements)
        spent["decode"] += perf_counter() - inferred
        spent["inference"] += inferred - prepared
        spent["preprocess"] += prepared - start
        found += len(detections)
    return spent | {"detections": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("spec")
    parser.add_argument("images", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    files = sorted(file for file in arguments.images.iterdir() if file.suffix.lower() in (".jpg", ".jpeg", ".png"))
    images = [cv2.cvtColor(cv2.imread(str(file)), cv2.COLOR_BGR2RGB) for file in files]
    if not images:
        parser.error(f"{arguments.images} holds no .jpg or .png images")
    detector = load_detector(arguments.spec)
    if not isinstance(detector, OnnxDetector):
        parser.error(f"{arguments.spec} is no onnx: detector")
    measure(detector, images)  # warm-up
    runs = [measure(detector, images) for _ in range(arguments.repeats)]
    best = {stage: min(run[stage] for run in runs) for stage in ("preprocess", "inference", "decode")}
    total = sum(best.values())
    document = {
        "decode_share": round(best["decode"] / total, 4),
        "preprocess_share": round(best["preprocess"] / total, 4),
        "images": len(images),
        "detections_per_image": round(runs[0]["detections"] / len(images), 1),
        "settings": detector.settings,
        "timing": {f"{stage}_ms": round(seconds / len(images) * 1000, 3) for stage, seconds in best.items()},
    }
    print(json.dumps(document, indent=2, sort_keys=True))


if __name__ == "__main__":
    main()

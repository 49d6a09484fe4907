"""Opening a COCO-val-sized file: time against ``json.load`` and pycocotools, and peak memory, each in its own process.

Makes a synthetic file of 5,000 images and 36,781 annotations with polygons (no photos, so no pixel can be read),
opens it in fresh processes and prints one JSON line. Ratios are what counts; seconds are the machine's.

    python benchmarks/open_coco.py [--repeat 3]
"""

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from _measuring import Parser

IMAGES, ANNOTATIONS, CLASSES = 5_000, 36_781, 80

_MEASURE = """
import json, resource, sys, time
{imports}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start, cpu = time.perf_counter(), time.process_time()
kept = {opening}
seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({{"cpu_seconds": cpu, "mb_before": before / 1024, "mb_peak": after / 1024, "seconds": seconds}}))
"""

OPENERS = {
    "misdetect": (
        "from misdetect.data import load_data; import misdetect.data.coco",
        "load_data('coco:' + sys.argv[1])",
    ),
    "json": ("", "json.load(open(sys.argv[1]))"),
    "pycocotools": ("import io, contextlib; from pycocotools.coco import COCO", "_coco(sys.argv[1])"),
}
_QUIET = "\ndef _coco(path):\n    with contextlib.redirect_stdout(io.StringIO()):\n        return COCO(path)\n"


def write_coco(path: Path, seed: int = 0) -> None:
    """A file with COCO val2017's counts, fields and, within a few percent, its size (20 MB)."""
    rng = random.Random(seed)
    images = [
        {
            "license": 4,
            "file_name": f"{i:012d}.jpg",
            "coco_url": f"http://images.example.org/val/{i:012d}.jpg",
            "height": 480,
            "width": 640,
            "date_captured": "2013-11-14 17:02:52",
            "flickr_url": f"http://farm.example.org/7/{i:010d}_z.jpg",
            "id": i,
        }
        for i in range(1, IMAGES + 1)
    ]
    annotations = []
    for number in range(1, ANNOTATIONS + 1):
        x, y, w, h = rng.uniform(0, 500), rng.uniform(0, 350), rng.uniform(8, 130), rng.uniform(8, 130)
        points = rng.randint(8, 45)
        polygon = [round(v, 2) for _ in range(points) for v in (rng.uniform(x, x + w), rng.uniform(y, y + h))]
        annotations.append(
            {
                "segmentation": [polygon],
                "area": round(w * h / 2, 4),
                "iscrowd": 0,
                "image_id": rng.randint(1, IMAGES),
                "bbox": [round(v, 2) for v in (x, y, w, h)],
                "category_id": rng.randint(1, CLASSES),
                "id": number,
            }
        )
    categories = [{"supercategory": "thing", "id": i, "name": f"class {i}"} for i in range(1, CLASSES + 1)]
    path.write_text(
        json.dumps({"images": images, "annotations": annotations, "categories": categories}), encoding="utf-8"
    )


def measure(name: str, path: Path, repeat: int) -> dict[str, float]:
    """The fastest of ``repeat`` openings, each in a fresh process."""
    imports, opening = OPENERS[name]
    code = _MEASURE.format(imports=imports + (_QUIET if name == "pycocotools" else ""), opening=opening)
    runs = [
        json.loads(subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, check=True).stdout)
        for _ in range(repeat)
    ]
    return {key: round(min(run[key] for run in runs), 3) for key in runs[0]}


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--repeat", type=int, default=3, short=1)
    parser.add_argument("--write", type=Path, help="only write the synthetic file")
    arguments = parser.parse_args()
    if arguments.write:
        write_coco(arguments.write)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "instances.json"
        # Written by a child: a child's peak memory starts at its parent's, which therefore has to stay small.
        subprocess.run([sys.executable, __file__, "--write", str(path)], check=True)
        results = {name: measure(name, path, arguments.repeat) for name in OPENERS}
        size = path.stat().st_size / 1e6
    own = results["misdetect"]["cpu_seconds"]
    document = {
        "benchmark": "open_coco",
        "file_mb": round(size, 1),
        "results": results,
        "times_faster_than_json": round(results["json"]["cpu_seconds"] / own, 2),
        "times_faster_than_pycocotools": round(results["pycocotools"]["cpu_seconds"] / own, 2),
    }
    print(json.dumps(document, sort_keys=True))


if __name__ == "__main__":
    main()

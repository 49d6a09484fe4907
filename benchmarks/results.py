"""Memory of results with millions of detections: writing those of a run as COCO JSON, and reading them to score.

Makes a run of detect on 5,000 images without asking anybody, once with a tenth of the detections, and prints the peak
memory of each step in a fresh process, beyond what importing takes. What is streamed does not grow with the detections.

    python benchmarks/results.py [--detections 2000000]
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from _measuring import Parser

from misdetect.data import load_data
from misdetect.engine.indices import Indices
from misdetect.engine.requests import Case
from misdetect.engine.store import Run
from misdetect.studies.detect.study import DetectStudy

IMAGES, CLASSES, PART = 5_000, 80, 500

_STEP = """
import json, resource, sys, time
from misdetect.data import load_data
from misdetect.engine.store import Run
from misdetect.studies.coco_results import coco_results, write_results
from misdetect.studies.predictions import Predictions
from pathlib import Path
folder = Path(sys.argv[1])
data = load_data(f"coco:{{folder}}/data.json")
before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
{step}
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({{"mb": round((peak - before) / 1024), "cpu_seconds": round(time.process_time() - start, 1)}}))
"""
STEPS = {
    "write": 'write_results(folder / "results.json", coco_results(Run.open(folder / "run"), data))',
    "read the run": 'kept = Predictions.of(folder / "run", data)',
    "read the file": 'kept = Predictions.of(folder / "results.json", data)',
}


def make(folder: Path, detections: int) -> None:
    """A run of ``detections`` in ``folder``, and its data, without photos."""
    images = [{"id": i, "file_name": f"{i}.png", "width": 640, "height": 480} for i in range(IMAGES)]
    categories = [{"id": i, "name": f"class {i}"} for i in range(CLASSES)]
    (folder / "data.json").write_text(json.dumps({"images": images, "categories": categories, "annotations": []}))
    data = load_data(f"coco:{folder / 'data.json'}")
    names = list(data.names)
    about = {"spec": data.spec, "fingerprint": data.fingerprint, "names": names, "limit": None, "part": None}
    known = {"spec": "toy:", "fingerprint": "toy", "names": names}
    identity = {"study": "detect", "settings": {}, "detector": known, "data": about}
    run = Run.start(folder / "run", identity, DetectStudy.schema, command=[], versions={}, detector_settings={})
    run.note(cases=IMAGES)
    chance, each = np.random.default_rng(0), detections // IMAGES
    for start in range(0, IMAGES, PART):
        _part(run, [Case(i, data[i].id) for i in range(start, start + PART)], each, names, chance)
    run.close()


def _part(run: Run, cases: list[Case], each: int, names: list[str], chance: np.random.Generator) -> None:
    n = len(cases) * each
    corner, size = chance.random((n, 2)) * 300, chance.random((n, 2)) * 100 + 1
    place = np.repeat(np.arange(len(cases)), each)
    columns = {
        "case_index": place + cases[0].index,
        "case": [cases[i].id for i in place],
        "row": np.tile(np.arange(each, dtype=np.int32), len(cases)),
        "error": pa.nulls(n, pa.string()),
        "error_image": pa.nulls(n, pa.string()),
        "image": [cases[i].id for i in place],
        "label": [names[i] for i in chance.integers(0, CLASSES, n)],
        "score": chance.random(n),
        **dict(zip(("x0", "y0", "x1", "y1"), np.hstack([corner, corner + size]).T, strict=True)),
        "mask": pa.nulls(n, pa.string()),
    }
    assert run._schema is not None
    run._write_part(pa.table(columns, schema=run._schema), Indices(case.index for case in cases), Indices())


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--detections", type=int, default=2_000_000, short=50000)
    asked = parser.parse_args()
    found: dict[str, dict[str, object]] = {name: {} for name in STEPS}
    for count in (asked.detections // 10, asked.detections):
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder), count)
            for name, step in STEPS.items():
                code = [sys.executable, "-c", _STEP.format(step=step), folder]
                done = subprocess.run(code, capture_output=True, text=True, check=True)
                found[name][f"{count} detections"] = json.loads(done.stdout)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()

"""How long a zoo detector takes from a cold process to its first answers.

    python benchmarks/cold_start.py [--rounds 3] [--names yolox ssd …]

A new process each: torch is imported, then the clock runs while misdetect is imported, the detector loaded, and 16
images detected on (drawing the images is left out). The median of the rounds, in seconds: absolute, since it is a
promise to who waits for it, so measure on an idle machine. ``over_torch``, the ratio to importing torch, carries over.
"""

import json
import statistics
import subprocess
import sys

from _measuring import Parser

from misdetect.detectors.zoo.shipped import ZOO, manifest

SCRIPT = """
import sys, time
start = time.perf_counter()
import torch
imported = time.perf_counter()
import misdetect
detector = misdetect.load_detector("zoo:" + sys.argv[1])
loaded = time.perf_counter()
images = [sample.image for sample in misdetect.load_data(sys.argv[2] + ":val,count=16")]
drawn = time.perf_counter()
detector.detect(images)
print(imported - start, loaded - imported + time.perf_counter() - drawn)
"""


def main() -> None:
    """Measure and print one JSON document."""
    parser = Parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3, short=1)
    parser.add_argument(
        "--names", nargs="+", default=[n for n in ZOO if n in manifest()], choices=list(ZOO), short=["yolox"]
    )
    args = parser.parse_args()
    seconds, ratios = {name: [] for name in args.names}, {name: [] for name in args.names}
    for _ in range(args.rounds):
        for name in args.names:
            command = [sys.executable, "-c", SCRIPT, name, ZOO[name].data]
            torch, own = map(float, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
            seconds[name].append(own)
            ratios[name].append(own / torch)
    document = {
        name: {
            "seconds": round(statistics.median(seconds[name]), 2),
            "over_torch": round(statistics.median(ratios[name]), 2),
        }
        for name in args.names
    }
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()

"""Images per second and core of the procedural data sets, with masks and truth.

``python benchmarks/generate.py [--json]`` draws each data set at its own size on one thread and reports CPU time, which
neither waits for nor counts what else the machine does. The best of several rounds is the one least disturbed. Images
that build the textures and patterns, once per process, are drawn before the clock starts.
"""

import json
import time

import cv2
from _measuring import Parser

from misdetect.data.bikes import load_bikes
from misdetect.data.rooms import load_rooms
from misdetect.nouns.spec import Spec

WARM_UP = 100


def rate(load, spec: str, rounds: int, images: int) -> dict[str, float]:
    """Images per CPU second: the best and the middle round of ``rounds``, each of ``images`` new images."""
    data = load(Spec.parse(f"{spec},count={WARM_UP + rounds * images}"))
    for index in range(WARM_UP):
        data[index].image  # noqa: B018
    rates = []
    for r in range(rounds):
        start = time.process_time()
        for index in range(WARM_UP + r * images, WARM_UP + (r + 1) * images):
            sample = data[index]
            sample.image  # noqa: B018
            len(sample.truth)
        rates.append(images / (time.process_time() - start))
    rates.sort()
    return {"best": round(rates[-1], 1), "median": round(rates[len(rates) // 2], 1)}


def main() -> None:
    """Print the rates of ``rooms`` at 128 and ``bikes`` at 160 pixels."""
    parser = Parser(__doc__)
    parser.add_argument("--rounds", type=int, default=12, short=1)
    parser.add_argument("--images", type=int, default=50, short=4)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    cv2.setNumThreads(1)
    result = {
        "rooms:train": rate(load_rooms, "rooms:train", args.rounds, args.images),
        "bikes:train": rate(load_bikes, "bikes:train", args.rounds, args.images),
    }
    if args.json:
        print(json.dumps({"images_per_cpu_second": result}, sort_keys=True))
        return
    for spec, found in result.items():
        print(f"{spec:12s} {found['best']:7.1f} images/s/core (median of rounds {found['median']:.1f})")


if __name__ == "__main__":
    main()

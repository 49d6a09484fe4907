"""Naturalness of an edit computed where it changed against computed in full, and what the numbers are like.

    python benchmarks/naturalness.py [--data rooms:val,size=640,count=12] [--object 100] [--repeats 20]

Objects of the data are pasted at random places of its other photos. Time is the process's own (CPU), full and partial
in turn. Prints one JSON document; ratios carry over between machines, milliseconds do not.
"""

import json
from time import process_time

import cv2
import numpy as np
from _measuring import Parser

from misdetect.compose.naturalness import Naturalness, naturalness
from misdetect.compose.paste import Paste
from misdetect.data import load_data
from misdetect.nouns.picture import Raw
from misdetect.pools.pool import build_pool


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--data", default="rooms:val,size=640,count=12", short="rooms:val,count=3")
    parser.add_argument("--object", type=int, default=100, help="longer side of the pasted objects, pixels")
    parser.add_argument("--repeats", type=int, default=20, short=2)
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    data = load_data(arguments.data)
    pool = build_pool(data)
    random = np.random.default_rng(0)
    partial, whole, values, others, worst = [], [], [], [], 0.0
    before = None
    for sample in data:
        photo = sample.image
        natural = Naturalness(Raw(photo))
        for _ in range(arguments.repeats):
            thing = pool[int(random.integers(len(pool)))]
            scale = arguments.object / max(thing.size)
            size = tuple(max(1, round(side * scale)) for side in thing.size)
            free = [max(1, a - b) for a, b in zip((sample.width, sample.height), size, strict=True)]
            paste = Paste(Raw(photo), thing, tuple(int(random.integers(v)) for v in free), size)
            edited = paste.render()
            start = process_time()
            value = natural.of(paste.part(paste.box), paste.at)
            middle = process_time()
            full = natural.of(edited)
            whole.append(process_time() - middle)
            partial.append(middle - start)
            values.append(value)
            worst = max(worst, abs(value - full))
        if before is not None:
            height, width = (min(a, b) for a, b in zip(photo.shape[:2], before.shape[:2], strict=True))
            others.append(naturalness(before[:height, :width], photo[:height, :width]))
        before = photo
    document = {
        "full_over_partial": round(float(np.median(whole) / np.median(partial)), 2),
        "largest_difference": worst,
        "naturalness": {"inserted": round(float(np.mean(values)), 4), "other_photo": round(float(np.mean(others)), 4)},
        "edits": len(values),
        "settings": {"data": arguments.data, "object": arguments.object},
        "timing": {
            "partial_ms": round(float(np.median(partial)) * 1000, 3),
            "full_ms": round(float(np.median(whole)) * 1000, 3),
        },
    }
    print(json.dumps(document, indent=2, sort_keys=True))


if __name__ == "__main__":
    main()

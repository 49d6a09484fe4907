"""Explain runs written down by hand: objects of images, found or lost to a mechanism, for the comparison's tests."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.engine.identity import identity
from misdetect.engine.requests import Case, Finished
from misdetect.engine.store import Run
from misdetect.metrics.mechanisms import MECHANISMS
from misdetect.studies.explain.rows import SCHEMA
from misdetect.studies.explain.settings import ExplainSettings

NAMES = ("cup", "bowl")


def fates(images: int, seed: int, rate: float = 0.4) -> list[list[str | None]]:
    """For each image the mechanism of each of its objects, ``None`` where it is found; images differ in difficulty."""
    rng, world = np.random.default_rng(seed), np.random.default_rng(99)
    found: list[list[str | None]] = []
    for count, hard in zip(world.integers(1, 9, images), world.uniform(0, 2 * rate, images), strict=True):
        lost = rng.random(count) < hard
        found.append([str(rng.choice(MECHANISMS)) if gone else None for gone in lost])
    return found


def write(
    path: Path, objects: list[list[str | None]], *, detector="zoo:one", data="made", cases=None, shift=0.0, **settings
) -> Path:
    """A run directory that says ``objects``; of its ``cases`` these are done. ``shift`` moves every box."""
    how = ExplainSettings(**{"inside": True, "score": 0.3, **settings})
    made = Dataset(data, NAMES, len(objects), lambda i: None, fingerprint=data)
    who = SimpleNamespace(spec=detector, fingerprint=detector, names=NAMES)
    known = identity("explain", how.document(), who, made)
    command = ["explain", "--detector", detector]
    run = Run.start(path, known, SCHEMA, command=command, versions={}, detector_settings={})
    for i, of_image in enumerate(objects):
        rows = [
            {
                "kind": "object", "image": f"i{i}", "id": k, "label": NAMES[k % 2], "found": why is None,
                "mechanism": why, "reason": why and "hidden", "tide": why and "Miss", "best_iou": [0.0] * 10,
                "x0": 10.0 * k + shift, "y0": 0.0, "x1": 10.0 * k + 8 + shift, "y1": 8.0, "area": 64.0,
                "crowding": 0.0, "occlusion": 0.0, "truncation": 0.0, "aspect": 1.0,
            }
            for k, why in enumerate(of_image)
        ]  # fmt: skip
        run.add(Finished(Case(i, f"i{i}"), rows))
    run.note(cases=cases or len(objects), view=how.document("view"))
    run.close()
    return path

"""Explain runs written down by hand: objects of images, found or lost to a mechanism, for the comparison's tests."""

from pathlib import Path

import numpy as np

from misdetect.engine.pump import Finished
from misdetect.engine.requests import Case
from misdetect.engine.store import Run
from misdetect.metrics.mechanisms import MECHANISMS
from misdetect.studies.explain.rows import SCHEMA

SETTINGS = {
    "inside": True,
    "miss": "any",
    "pixels": True,
    "reading": "auto",
    "regions": 20,
    "thresholds": {"cls": 0.3, "loc": 0.5, "score": None},
    "truth": None,
}


def fates(images: int, seed: int, rate: float = 0.4) -> list[list[str | None]]:
    """For each image the mechanism of each of its objects, ``None`` where it is found; images differ in difficulty."""
    rng, world = np.random.default_rng(seed), np.random.default_rng(99)
    found: list[list[str | None]] = []
    for count, hard in zip(world.integers(1, 9, images), world.uniform(0, 2 * rate, images), strict=True):
        lost = rng.random(count) < hard
        found.append([str(rng.choice(MECHANISMS)) if gone else None for gone in lost])
    return found


def write(
    path: Path, objects: list[list[str | None]], *, detector="zoo:one", data="made", limit="all", shift=0.0, **settings
) -> Path:
    """A run directory that says ``objects``; all cases are done. ``shift`` moves every box."""
    limit = len(objects) if limit == "all" else limit
    identity = {
        "study": "explain",
        "settings": SETTINGS | settings,
        "detector": {"spec": detector, "fingerprint": detector},
        "data": {"spec": data, "fingerprint": data, "limit": limit},
    }
    run = Run.start(path, identity, SCHEMA, command=["explain", "--detector", detector], versions={})
    for i, of_image in enumerate(objects):
        rows = [
            {
                "kind": "object", "image": f"i{i}", "id": k, "label": ("cup", "bowl")[k % 2], "found": why is None,
                "mechanism": why, "reason": why and "hidden", "tide": why and "missed",
                "x0": 10.0 * k + shift, "y0": 0.0, "x1": 10.0 * k + 8 + shift, "y1": 8.0,
            }
            for k, why in enumerate(of_image)
        ]  # fmt: skip
        run.add(Finished(Case(i, f"i{i}"), rows))
    run.close()
    return path

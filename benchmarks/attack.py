"""What an attack costs beyond its gradients: PGD through the engine against a bare torch loop and against ART's PGD;
two workers against one.

Prints one JSON document of ratios, each measured in one run with both sides in turn: gradients per second of an
attack's climb (engine, projection, rounding) over those of a loop that only runs the network forward and backward on
ready tensors. Real sizes: SSD at 300 px, Faster R-CNN at 320; and the zoo.

    python benchmarks/attack.py [--only NAME|art|workers] [--images N] [--steps N] [--rounds N]

ART takes part where it is installed (``adversarial-robustness-toolbox``, a development dependency).
"""

import json
import statistics
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _measuring import Parser, cpu_seconds

import misdetect as md
from misdetect.detectors.torch_detector import TorchDetector, in_mode
from misdetect.engine.backend import Asking
from misdetect.engine.requests import Case
from misdetect.nouns.detections import Truth
from misdetect.studies.climb import Ball, Pace, climb, uphill

REAL = {
    "ssd300": ("torchvision:ssd300_vgg16,weights=random,classes=20", 300),
    "faster-rcnn-320": ("torchvision:fasterrcnn_mobilenet_v3_large_320_fpn,weights=random,classes=20", 320),
}
ZOO = ("zoo:ssd", "zoo:faster-rcnn", "zoo:yolox", "zoo:deformable-detr")
EPS, ALPHA = 8, 2


class Climbs:
    """A study that only attacks: what the engine adds to the gradients, without looking before and after."""

    name, schema, data = "climbs", None, None

    def __init__(self, samples: list[tuple[np.ndarray, Truth]], steps: int) -> None:
        self.samples, self.steps = samples, steps

    def settings(self) -> dict[str, Any]:
        return {}

    def __len__(self) -> int:
        return len(self.samples)

    def cases(self) -> Any:
        return (Case(i, str(i)) for i in range(len(self.samples)))

    def run(self, case: Case) -> Any:
        image, truth = self.samples[case.index]
        ball = Ball(image, EPS)
        made = yield from climb(ball, ball.clean, uphill(truth, "all"), Pace(self.steps, ALPHA))
        ball.rounded(made.x)
        return []


def through_the_engine(detector: TorchDetector, samples: list[tuple[np.ndarray, Truth]], steps: int) -> None:
    study = Climbs(samples, steps)
    for finished in Asking(cached=False).pump(detector, study).run(study.cases()):
        assert finished.error is None, finished.error


def bare(detector: TorchDetector, samples: list[tuple[np.ndarray, Truth]], steps: int) -> None:
    """Forward and backward on ready tensors in full batches; nothing is projected, converted or checked."""
    size = detector.batch_size
    batches = [samples[i : i + size] for i in range(0, len(samples), size)]
    with in_mode(detector.module, False):
        for batch in batches:
            tensors = [detector._tensor(image).requires_grad_() for image, _ in batch]
            truths = [truth for _, truth in batch]
            for _ in range(steps):
                cls, loc = detector._image_losses(tensors, truths)
                torch.autograd.grad((cls + loc).sum(), tensors)


def alternately(one: Callable[[], object], other: Callable[[], object], rounds: int) -> float:
    """Median over rounds of the time of ``other`` over that of ``one``: how many times as fast ``one`` is. In processor
    time, since other processes may be at work."""
    one(), other()
    ratios = []
    for _ in range(rounds):
        ours, theirs = cpu_seconds(one), cpu_seconds(other)
        ratios.append(theirs / ours)
    return round(statistics.median(ratios), 3)


def photos(count: int, side: int, classes: int) -> list[tuple[np.ndarray, Truth]]:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(count):
        coarse = rng.integers(0, 256, (side // 20, side // 20, 3), dtype=np.uint8)
        image = np.kron(coarse, np.ones((20, 20, 1), dtype=np.uint8))[:side, :side]
        corner = rng.uniform(0, side / 2, (4, 2))
        boxes = np.concatenate([corner, corner + rng.uniform(30, side / 2, (4, 2))], axis=1)
        found.append((np.ascontiguousarray(image), Truth(boxes, rng.integers(0, classes, 4))))
    return found


def rooms(count: int, detector: Any) -> list[tuple[np.ndarray, Truth]]:
    data = md.load_data(f"rooms:val,count={count}")
    place = [list(detector.names).index(name) for name in data.names]
    return [(s.image, Truth(s.truth.boxes, np.array(place)[s.truth.labels])) for s in data]


def engine_to_bare(images: int, steps: int, rounds: int, only: str | None) -> dict[str, float]:
    found = {}
    for name, (spec, side) in REAL.items():
        if only in (None, name):
            detector: Any = md.load_detector(spec)
            samples = photos(max(2, images // 4), side, 20)
            found[name] = _ratio(detector, samples, steps, rounds)
    for spec in ZOO:
        if only in (None, spec):
            detector = md.load_detector(spec)
            found[spec] = _ratio(detector, rooms(images, detector), steps, rounds)
    return found


def _ratio(detector: Any, samples: list[tuple[np.ndarray, Truth]], steps: int, rounds: int) -> float:
    return alternately(
        lambda: through_the_engine(detector, samples, steps), lambda: bare(detector, samples, steps), rounds
    )


def to_art(images: int, steps: int, rounds: int) -> float | str:
    """Our PGD on ``all`` against ART's on the same losses of the same torchvision detector."""
    if find_spec("art") is None:
        return "ART is not installed"
    from art.attacks.evasion import ProjectedGradientDescent
    from art.estimators.object_detection import PyTorchObjectDetector

    detector: Any = md.load_detector("zoo:ssd")
    samples = rooms(images, detector)
    x = np.stack([image.transpose(2, 0, 1) for image, _ in samples]).astype(np.float32) / 255
    y = [
        {"boxes": t.boxes.astype(np.float32), "labels": t.labels + 1, "scores": np.ones(len(t), np.float32)}
        for _, t in samples
    ]
    theirs = PyTorchObjectDetector(
        model=detector.module,
        input_shape=x.shape[1:],
        clip_values=(0, 1),
        channels_first=True,
        attack_losses=("bbox_regression", "classification"),
        device_type="cpu",
    )
    attack = ProjectedGradientDescent(
        theirs, norm=np.inf, eps=EPS / 255, eps_step=ALPHA / 255, max_iter=steps, batch_size=8, verbose=False
    )
    return alternately(lambda: through_the_engine(detector, samples, steps), lambda: attack.generate(x=x, y=y), rounds)


def workers(images: int, steps: int) -> dict[str, float]:
    """One worker's time over that of two, on a machine that has two cores to give: of a run of some minutes with the
    start of its workers, and of each further image of a longer run."""
    taken: dict[tuple[int, int], float] = {}
    for count in (1, 2):
        for size in (images, 4 * images):
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder) / "run"
                run = md.attack(
                    "zoo:ssd", f"rooms:val,count={size}", out=out, workers=count, steps=steps, ladder=0, cache=False
                )
                assert run.outcome is not None
                taken[count, size] = run.outcome.seconds
    further = [taken[count, 4 * images] - taken[count, images] for count in (1, 2)]
    whole = taken[1, 4 * images] / taken[2, 4 * images]
    return {"run": round(whole, 2), "each_further_image": round(further[0] / further[1], 2)}


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--only", help="one of the detectors, art or workers")
    parser.add_argument("--images", type=int, default=16, short=1)
    parser.add_argument("--steps", type=int, default=10, short=2)
    parser.add_argument("--rounds", type=int, default=3, short=1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    document: dict[str, Any] = {}
    if given.only not in ("art", "workers"):
        document["engine_to_bare"] = engine_to_bare(given.images, given.steps, given.rounds, given.only)
    if given.only in (None, "art"):
        document["to_art"] = to_art(given.images, given.steps, given.rounds)
    if given.only in (None, "workers"):
        document["two_workers_to_one"] = workers(4 * given.images, 2 * given.steps)
    print(json.dumps(document, indent=2, sort_keys=True))


if __name__ == "__main__":
    main()

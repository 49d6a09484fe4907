"""What looking inside costs: ``trace`` against ``detect``, ``gradient`` against a bare forward and backward pass.

Prints one JSON document of ratios (each the median over rounds, both sides timed alternately in every round) and the
memory that a RetinaNet-sized trace adds. A family takes part by adding a ``Case`` to ``CASES``.

    python benchmarks/trace.py [--only NAME] [--rounds N]
"""

import argparse
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from misdetect.detectors.torch_detector import TorchDetector, in_mode
from misdetect.nouns.detections import Truth

HEIGHT, WIDTH, CLASSES = 480, 640, 80
MEMORY = ("trace", "detect", "everything")


@dataclass(frozen=True)
class Case:
    """``build`` makes the detector; ``bare`` is the sum of its network's outputs for one ``[3, H, W]`` tensor."""

    name: str
    build: Callable[[], TorchDetector]
    bare: Callable[[TorchDetector, Tensor], Tensor]


def torchvision_case(name: str, options: str = "") -> Case:
    def build() -> TorchDetector:
        from misdetect.detectors.torchvision.load import load_torchvision, wrap
        from misdetect.nouns.spec import Spec

        torch.manual_seed(0)
        text = f"torchvision:{name},weights=random,classes={CLASSES}{options}"
        detector = load_torchvision(Spec.parse(text))
        spread(detector)
        # a threshold that a few thousand pairs pass, as with trained weights
        scores = detector.trace([photo()])[0].scores
        threshold = float(np.partition(scores.ravel(), -4000)[-4000])
        return wrap(detector.module, detector.names, spec=text, score=threshold)

    return Case(name, build, torchvision_outputs)


def spread(detector: TorchDetector) -> None:
    """Untrained class layers and norms give every box the same score; trained ones do not."""
    norms = [part for part in detector.module.modules() if isinstance(part, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 1.0
    with torch.no_grad():
        detector.losses([photo().astype(np.float32)] * 2, [objects()] * 2)
    for name, weight in detector.module.named_parameters():
        if weight.ndim > 1 and any(part in name for part in ("cls_logits", "cls_score", "classification_head")):
            torch.nn.init.normal_(weight, std=2 / weight[0].numel() ** 0.5)
    with torch.no_grad():  # logits of about unit size, whatever the untrained layers before them do
        for part in detector.module.modules():
            if isinstance(getattr(part, "cls_logits", None), torch.nn.Conv2d):
                outputs: list[Tensor] = []
                hook = part.cls_logits.register_forward_hook(lambda *args: outputs.append(args[2]))  # noqa: B023
                detector.detect([photo()])
                hook.remove()
                part.cls_logits.weight /= max(float(output.std()) for output in outputs) + 1e-6


def torchvision_outputs(detector: TorchDetector, image: Tensor) -> Tensor:
    """Everything the network computes in eval mode up to its heads, with its own proposals for an R-CNN."""
    if not hasattr(detector.module, "rpn"):
        return sum(part.sum() for part in detector._heads([image]).outputs.values())
    first = detector._first(image)
    proposals, _ = detector.module.rpn.filter_proposals(first.boxes[None], first.objectness, [first.size], first.levels)
    return sum(part.sum() for part in (first.objectness, first.deltas, *detector._second(first, proposals[0])))


def yolox_case(variant: str) -> Case:
    def build() -> TorchDetector:
        from misdetect.detectors.yolox.detector import YoloxDetector
        from misdetect.detectors.yolox.net import VARIANTS, YOLOX

        torch.manual_seed(0)
        names = [f"class {i}" for i in range(CLASSES)]
        return YoloxDetector(YOLOX(CLASSES, VARIANTS[variant]), names, size=640, score=1e-4)

    return Case(f"yolox_{variant}", build, yolox_outputs)


def yolox_outputs(detector: TorchDetector, image: Tensor) -> Tensor:
    raw = detector.module(detector._canvas([image])[0])
    return raw.offsets.sum() + raw.objectness.sum() + raw.classes.sum()


def deformable_case() -> Case:
    def build() -> TorchDetector:
        from misdetect.detectors.hf.detector import wrap
        from misdetect.detectors.hf.small import small_deformable_detr

        names = [f"class {i}" for i in range(CLASSES)]
        return wrap(small_deformable_detr(names), names, size="native")

    return Case("deformable_detr_small", build, deformable_outputs)


def deformable_outputs(detector: TorchDetector, image: Tensor) -> Tensor:
    output = detector.module(pixel_values=detector._pixels([image]))
    return output.logits.sum() + output.pred_boxes.sum()


CASES: list[Case] = [
    yolox_case("s"),
    deformable_case(),
    torchvision_case("ssd300_vgg16"),
    torchvision_case("ssdlite320_mobilenet_v3_large"),
    torchvision_case("fasterrcnn_mobilenet_v3_large_fpn"),
    torchvision_case("fasterrcnn_resnet50_fpn"),
    torchvision_case("retinanet_resnet50_fpn"),
    torchvision_case("fcos_resnet50_fpn"),
]


def photo() -> np.ndarray:
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (HEIGHT // 32, WIDTH // 32, 3), dtype=np.uint8)
    return np.kron(coarse, np.ones((32, 32, 1), dtype=np.uint8))


def objects() -> Truth:
    rng = np.random.default_rng(0)
    corner = rng.uniform(0, [WIDTH - 200, HEIGHT - 200], (7, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(30, 200, (7, 2))], axis=1)
    return Truth(boxes, rng.integers(0, CLASSES, 7))


def seconds(run: Callable[[], object]) -> float:
    start = time.process_time()  # one thread: the processor's time, whatever else the machine is doing
    run()
    return time.process_time() - start


def ratio(subject: Callable[[], object], reference: Callable[[], object], rounds: int) -> dict[str, float]:
    """Median of both sides timed in turn; one round first to warm up."""
    subject(), reference()
    pairs = [(seconds(subject), seconds(reference)) for _ in range(rounds)]
    return {
        "ratio": round(statistics.median(a for a, _ in pairs) / statistics.median(b for _, b in pairs), 3),
        "seconds": round(statistics.median(a for a, _ in pairs), 4),
    }


def measure(case: Case, rounds: int) -> dict[str, object]:
    detector = case.build()
    image = photo()
    pixels, truth = image.astype(np.float32), objects()

    def bare() -> None:
        tensor = detector._tensor(pixels).requires_grad_()
        with in_mode(detector.module, False):
            torch.autograd.grad(case.bare(detector, tensor), tensor)

    traced = detector.trace([image])[0]
    return {
        "candidates": len(traced),
        "kept": len(traced.kept),
        "dropped": len(traced.dropped),
        "trace_to_detect": ratio(lambda: detector.trace([image]), lambda: detector.detect([image]), rounds),
        "gradient_to_bare": ratio(lambda: detector.gradient([pixels], [truth], "all"), bare, rounds),
    }


def status_mb(name: str) -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024 / 1e6


def peak_of(run: Callable[[], object]) -> float:
    """How much higher the process's memory stood during ``run`` than before it, in MB, by the kernel's own mark.

    Linux only. A thread that samples the memory instead misses short peaks.
    """
    gc.collect()
    before = status_mb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    run()
    return round(status_mb("VmHWM") - before, 1)


def memory(what: str) -> dict[str, float]:
    """In a process of its own: a RetinaNet of 160k anchors and 80 classes looks at its first image.

    "everything" is the worst case, a threshold that all 13 million (anchor, class) pairs pass: each one that is dropped
    takes 32 bytes of the result, whatever the code does.
    """
    from misdetect.detectors.torchvision.load import load_torchvision, wrap
    from misdetect.nouns.spec import Spec

    if what == "everything":
        loaded = load_torchvision(Spec.parse(f"torchvision:retinanet_resnet50_fpn,weights=random,classes={CLASSES}"))
        detector: TorchDetector = wrap(loaded.module, loaded.names, score=0.0)
    else:
        detector = torchvision_case("retinanet_resnet50_fpn").build()
    call = detector.detect if what == "detect" else detector.trace
    return {"mb": peak_of(lambda: call([photo()]))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="run the case of this name, or 'memory'")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", choices=MEMORY, help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.memory:
        print(json.dumps(memory(given.memory)))
        return
    document: dict[str, object] = {
        case.name: measure(case, given.rounds) for case in CASES if given.only in (None, case.name)
    }
    if given.only in (None, "memory"):
        document["retinanet_memory_mb"] = {
            what: json.loads(subprocess.check_output([sys.executable, __file__, "--memory", what]))["mb"]
            for what in MEMORY
        }
    print(json.dumps(document, indent=2, sort_keys=True))


if __name__ == "__main__":
    main()

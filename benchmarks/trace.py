"""What looking inside costs: ``trace`` against ``detect``, ``gradient`` against a bare forward and backward pass.

Prints one JSON document of ratios (each the median over rounds, both sides timed alternately in every round) and the
memory that a RetinaNet-sized trace adds. A family takes part by adding a ``Case`` to ``CASES``.

The bare pass is the module's own call, as its user writes it, and the backward pass of the sum of all that its network
says: no losses, no matching with objects, and no detections, since none passes the module's threshold.

    python benchmarks/trace.py [--only NAME] [--rounds N]
"""

import gc
import json
import statistics
import subprocess
import sys
from argparse import SUPPRESS
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from _measuring import Parser, cpu_seconds, memory_kb
from torch import Tensor

from misdetect.detectors.torch_detector import TorchDetector, in_mode
from misdetect.nouns.detections import Truth

HEIGHT, WIDTH, CLASSES = 480, 640, 80
MEMORY = ("trace", "detect", "everything")


@dataclass(frozen=True)
class Case:
    """``build`` makes the detector, for photos whose shorter side it takes to ``size`` where it has no size of its own;
    ``bare`` is the sum of its network's outputs for one ``[3, H, W]`` tensor."""

    name: str
    build: Callable[[int], TorchDetector]
    bare: Callable[[TorchDetector, Tensor], Tensor]


def torchvision_case(name: str) -> Case:
    def build(size: int) -> TorchDetector:
        from misdetect.detectors.torchvision.load import load_torchvision, wrap
        from misdetect.nouns.spec import Spec

        torch.manual_seed(0)
        text = f"torchvision:{name},weights=random,classes={CLASSES}"
        if not name.startswith("ssd"):
            text += f",min_size={size}"
        detector = load_torchvision(Spec.parse(text))
        spread(detector)
        # a threshold that a few thousand pairs pass, as with trained weights
        scores = detector.trace([photo()])[0].scores
        threshold = float(np.partition(scores.ravel(), -4000)[-4000])
        # the module's own, which the bare pass meets: a gradient does not choose detections, so neither should that
        getattr(detector.module, "roi_heads", detector.module).score_thresh = 1.0
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
    """What the heads say while the module detects; an R-CNN has two, the second one for its own proposals."""
    module, said = detector.module, []
    heads = [module.rpn.head, module.roi_heads.box_predictor] if hasattr(module, "rpn") else [module.head]
    with ExitStack() as hooks:
        for head in heads:
            hooks.enter_context(head.register_forward_hook(lambda *call: said.append(call[2])))
        module([image])
    return total(said)


def total(outputs: object) -> Tensor:
    """The sum of all tensors in ``outputs``, however they lie in lists and dicts."""
    if isinstance(outputs, Tensor):
        return outputs.sum()
    return sum(total(part) for part in (outputs.values() if isinstance(outputs, dict) else outputs))


def yolox_case(variant: str) -> Case:
    def build(size: int) -> TorchDetector:
        from misdetect.detectors.yolox.detector import YoloxDetector
        from misdetect.detectors.yolox.net import VARIANTS, YOLOX

        torch.manual_seed(0)
        names = [f"class {i}" for i in range(CLASSES)]
        return YoloxDetector(YOLOX(CLASSES, VARIANTS[variant]), names, size=640, score=1e-4)

    return Case(f"yolox_{variant}", build, yolox_outputs)


def yolox_outputs(detector: TorchDetector, image: Tensor) -> Tensor:
    from misdetect.detectors.preprocess_torch import to_canvas

    canvas, _ = to_canvas(image[None], detector.convention)
    raw = detector.module(canvas.contiguous(memory_format=torch.channels_last))
    return raw.offsets.sum() + raw.objectness.sum() + raw.classes.sum()


def deformable_case() -> Case:
    def build(size: int) -> TorchDetector:
        from misdetect.detectors.hf.detector import wrap
        from misdetect.detectors.hf.small import small_deformable_detr

        names = [f"class {i}" for i in range(CLASSES)]
        return wrap(small_deformable_detr(names), names, size="native")

    return Case("deformable_detr_small", build, deformable_outputs)


def deformable_outputs(detector: TorchDetector, image: Tensor) -> Tensor:
    output = detector.module(pixel_values=detector.prepare(image[None]))
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


def ratio(subject: Callable[[], object], reference: Callable[[], object], rounds: int) -> dict[str, float]:
    """Median of both sides timed in turn; one round first to warm up."""
    subject(), reference()
    pairs = [(cpu_seconds(subject), cpu_seconds(reference)) for _ in range(rounds)]
    return {
        "ratio": round(statistics.median(a for a, _ in pairs) / statistics.median(b for _, b in pairs), 3),
        "seconds": round(statistics.median(a for a, _ in pairs), 4),
    }


def measure(case: Case, rounds: int, size: int) -> dict[str, object]:
    detector = case.build(size)
    image = photo()
    pixels, truth = image.astype(np.float32), objects()

    def bare() -> None:
        tensor = (torch.from_numpy(pixels).permute(2, 0, 1).contiguous() / 255).requires_grad_()
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


def peak_of(run: Callable[[], object]) -> float:
    """How much higher the process's memory stood during ``run`` than before it, in MB, by the kernel's own mark.

    Linux only. A thread that samples the memory instead misses short peaks.
    """
    gc.collect()
    before = memory_kb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # resets the high-water mark
    run()
    return round((memory_kb("VmHWM") - before) * 1024 / 1e6, 1)


def memory(what: str, size: int) -> dict[str, float]:
    """In a process of its own: a RetinaNet of 160k anchors and 80 classes looks at its first image.

    "everything" is the worst case, a threshold that all 13 million (anchor, class) pairs pass: each one that is dropped
    takes 32 bytes of the result, whatever the code does.
    """
    from misdetect.detectors.torchvision.load import load_torchvision, wrap
    from misdetect.nouns.spec import Spec

    if what == "everything":
        text = f"torchvision:retinanet_resnet50_fpn,weights=random,classes={CLASSES},min_size={size}"
        loaded = load_torchvision(Spec.parse(text))
        detector: TorchDetector = wrap(loaded.module, loaded.names, score=0.0)
    else:
        detector = torchvision_case("retinanet_resnet50_fpn").build(size)
    call = detector.detect if what == "detect" else detector.trace
    return {"mb": peak_of(lambda: call([photo()]))}


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--only", help="run the case of this name, or 'memory'")
    parser.add_argument("--rounds", type=int, default=5, short=1)
    parser.add_argument("--size", type=int, default=800, short=64, help="to which R-CNN, RetinaNet and FCOS resize")
    parser.add_argument("--memory", choices=MEMORY, help=SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.memory:
        print(json.dumps(memory(given.memory, given.size)))
        return
    document: dict[str, object] = {
        case.name: measure(case, given.rounds, given.size) for case in CASES if given.only in (None, case.name)
    }
    if given.only in (None, "memory"):
        again = [sys.executable, __file__, "--size", str(given.size)]
        document["retinanet_memory_mb"] = {
            what: json.loads(subprocess.check_output([*again, "--memory", what]))["mb"] for what in MEMORY
        }
    print(json.dumps(document, indent=2, sort_keys=True))


if __name__ == "__main__":
    main()

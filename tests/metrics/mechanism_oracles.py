"""Paper 3's Algorithm 1 written as loops, line by line, and small detectors of every family to compare it on."""

import numpy as np

NETWORKS = ("ssd", "retinanet", "fcos", "faster-rcnn", "yolox", "detr", "deformable", "deformable-two-stage", "rt-detr")
CELLS = ("fcos", "yolox")


def overlap(a, b) -> float:
    a, b = [float(v) for v in a], [float(v) for v in b]
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    return width * height / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - width * height)


def is_missed(box, label, detections, loc=0.5, score=0.3) -> bool:
    for other, found, confidence in zip(detections.boxes, detections.labels, detections.scores, strict=True):
        if found == label and confidence >= score and overlap(box, other) >= loc:
            return False
    return True


def centre_inside(box, cell) -> bool:
    x, y = (float(cell[0]) + float(cell[2])) / 2, (float(cell[1]) + float(cell[3])) / 2
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


def algorithm_1(box, label, candidates, loc=0.5, cls=0.3, cells=False) -> str:
    localised = [k for k in range(len(candidates)) if overlap(box, candidates.refined[k]) >= loc]  # lines 1-3
    if localised:
        for k in localised:
            if candidates.scores[k, label] >= cls:  # line 4
                return "discarded"
        for k in localised:
            for c in range(candidates.scores.shape[1]):
                if candidates.scores[k, c] >= cls:  # line 6
                    return "interclass"
        return "background"
    for proposal in candidates.proposals:  # lines 11-12; for a grid's cells: docs/definitions/explain.md
        if centre_inside(box, proposal) if cells else overlap(box, proposal) >= loc:
            return "regressor"
    return "proposal"


def network(family: str, seed: int = 0):
    """A traced detector of ``family`` with random weights, its picture, and its number of classes."""
    if family in ("ssd", "retinanet", "fcos", "faster-rcnn"):
        from torchvision_toys import NAMES, pictures, toy

        from misdetect.detectors.torchvision.load import wrap

        return wrap(toy(family, seed=seed).eval(), NAMES), pictures(1, seed=seed)[0], len(NAMES)
    if family == "yolox":
        import torch

        from misdetect.detectors.yolox.detector import YoloxDetector
        from misdetect.detectors.yolox.net import YOLOX, Shape

        torch.manual_seed(seed)
        module = YOLOX(4, Shape(0.33, 0.125)).eval()
        with torch.no_grad():
            for name, weight in module.named_parameters():
                if "preds" in name and weight.ndim > 1:
                    weight.normal_(std=2 / weight[0].numel() ** 0.5)
                elif "preds" in name:
                    weight.fill_(0.5)
        detector = YoloxDetector(
            module, ("a", "b", "c", "d"), size=64, score=0.1, nms=0.45, cap=30, targets="hard", spec="yolox:toy"
        )
        image = np.random.default_rng(seed).integers(0, 256, (64, 64, 3), dtype=np.uint8)
        return detector, image, 4
    import hf_models

    from misdetect.detectors.hf.detector import wrap as wrap_hf

    detector = wrap_hf(hf_models.build(family, seed=seed), score=0.1, size="native")
    return detector, hf_models.images(1, seed=seed)[0], hf_models.CLASSES


def objects(candidates, classes: int, image, count: int, seed: int):
    """Random objects, half of them drawn around candidates' boxes so that every branch is met."""
    rng = np.random.default_rng(seed)
    height, width = image.shape[:2]
    corner = rng.uniform(0, [width - 8, height - 8], (count, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(1, 40, (count, 2))], axis=1)
    for i in range(0, count, 2):
        pool = candidates.refined if rng.random() < 0.6 else candidates.proposals
        box = pool[rng.integers(len(pool))].astype(np.float64)
        side = np.tile(box[2:] - box[:2], 2)
        box = box + rng.uniform(-0.25, 0.25, 4) * side
        if (box[2:] > box[:2]).all():
            boxes[i] = box
    return boxes, rng.integers(0, classes, count)

"""How to read a graph's outputs: the decoder, its options, and how sure that is.

One run on noise shows shapes, types and values; with the names of inputs and outputs and the exporter's metadata that
is nearly always enough. What follows from it is sure; what is merely usual is guessed, and said to be.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from misdetect.detectors.onnx.decoders import DECODERS
from misdetect.detectors.onnx.heads import Coding, cells_of, levels_of
from misdetect.detectors.onnx.seen import (
    Finding,
    Reading,
    Seen,
    activation_of,
    candidates_per_cell,
    decoder_found,
    form_of,
    is_decoded,
    is_logits,
    is_shares,
    is_whole,
    only_one,
    output_named,
    pair_of,
    roles_found,
    rows_first,
    units_of,
)
from misdetect.detectors.onnx.suppressed import LAYOUTS, TABLES
from misdetect.detectors.outputs import NAMED, SYNONYMS, Array, Frame, plain_name
from misdetect.said.errors import BadSpec

_TYPED = "by their shapes and types"


def advise(seen: Seen) -> Reading:
    """How to read what was ``seen``; a ``BadSpec`` that says what the outputs are, where no decoder reads them."""
    task = seen.metadata.task
    if task and task != "detect":
        raise BadSpec(f"the file says of itself that it is for the task {task!r}, not for detection.")
    _refuse_masks(seen)
    for read in (_indexed, _parts, _table, _queries, _apart, _dense, _heads):
        reading = read(seen)
        if reading is not None:
            return replace(reading, preset=reading.preset or _preset(seen, reading.findings[0].value))
    raise BadSpec(_no_detector(seen))


def _refuse_masks(seen: Seen) -> None:
    """Complain of a table of candidates with maps of a quarter of the image beside it, of which masks are made."""
    maps = only_one(seen, lambda o: o.ndim == 4 and o.shape[2:] == cells_of(seen.width, seen.height, 4))
    if maps is not None and sorted(o.ndim for o in seen.outputs) == [3, 4]:
        raise BadSpec(f"the graph gives maps for masks beside its boxes ({seen.describe()}): it segments instances.")


# --- suppression inside ----------------------------------------------------------------------------------------------


def _indexed(seen: Seen) -> Reading | None:
    """Indices [K, 3] into boxes [B, N, 4] and scores [B, C, N], as the operator NonMaxSuppression gives them."""
    indices = only_one(seen, lambda o: is_whole(o) and o.ndim >= 2 and o.shape[-1] == 3)
    boxes = only_one(seen, lambda o: o.dtype.kind == "f" and o.ndim == 3 and o.shape[2] == 4)
    if indices is None or boxes is None:
        return None
    number = seen.outputs[boxes].shape[1]
    scores = only_one(
        seen, lambda o: o.dtype.kind == "f" and o.ndim == 3 and o.shape[2] == number and o.shape[1] != number
    )
    if scores is None:
        return None
    roles = {"indices": indices, "boxes": boxes, "scores": scores}
    zoo = "image_shape" in seen.companions
    form = "the ONNX model zoo's YOLOv3 puts y before x" if zoo else "the operator NonMaxSuppression takes y before x"
    findings = (
        decoder_found("nms", f"indices of what NonMaxSuppression kept, beside {seen.describe()}"),
        *roles_found(seen, roles, why=_TYPED),
        Finding("boxes", "yxyx", zoo, form),
        *units_of(seen, seen.outputs[boxes].reshape(-1, 4)),
    )
    why = "the ONNX model zoo's YOLOv3 wants images letterboxed with 128, RGB, 0..1"
    preset = (Finding("preset", "ultralytics", True, why), Finding("pad", "128", True, why)) if zoo else ()
    return Reading(findings, seen.outputs[scores].shape[1], preset)


def _parts(seen: Seen) -> Reading | None:
    """Boxes [.., n, 4], labels [.., n] and scores [.., n], or boxes [.., n, 5] that carry their scores."""
    plain = [plain_name(name) for name in seen.names]
    tensorflow = "detection_boxes" in plain and "detection_classes" in plain
    found = {role: output_named(plain, names) for role, names in NAMED.items()}
    boxes = found["boxes"]
    if boxes is None or seen.outputs[boxes].ndim < 2:
        boxes = only_one(seen, lambda o: o.dtype.kind == "f" and o.ndim >= 2 and o.shape[-1] in (4, 5))
    if boxes is None or seen.outputs[boxes].ndim < 2 or seen.outputs[boxes].shape[-1] not in (4, 5):
        return None
    rows = seen.outputs[boxes].shape[:-1]
    labels = found["labels"]
    if labels is None or seen.outputs[labels].shape != rows:
        labels = only_one(seen, lambda o: is_whole(o) and o.shape == rows)
    scores = found["scores"]
    if scores is None or seen.outputs[scores].shape != rows:
        scores = only_one(seen, lambda o: o.dtype.kind == "f" and o.shape == rows)
    carried = seen.outputs[boxes].shape[-1] == 5
    if labels is None or (scores is None and not carried) or seen.outputs[labels].shape != rows or labels == scores:
        return None
    roles = {"boxes": boxes, "labels": labels} | ({} if carried or scores is None else {"scores": scores})
    count = found["count"]
    if count is not None:
        roles["count"] = count
    findings = [decoder_found("nms", f"boxes, scores and labels of what is left after suppression: {seen.describe()}")]
    findings += roles_found(seen, roles, NAMED, _TYPED)
    values = seen.outputs[boxes].reshape(-1, seen.outputs[boxes].shape[-1])
    alive = values[:, 4] > 0 if scores is None or carried else seen.outputs[scores].reshape(-1) > 0
    if tensorflow:
        why = "TensorFlow's object detection API defines them so"
        findings += [Finding("boxes", "yxyx", True, why), Finding("units", "shares", True, why)]
        if seen.classes not in (None, 91):
            findings.append(Finding("labels_from", "1", True, why))
    else:
        findings += units_of(seen, values[alive, :4])
    if not seen.batched and not tensorflow and seen.classes not in (None, 91):
        findings.append(Finding("labels_from", "1", False, "torchvision's label 0 is the background"))
    elif seen.batched and not tensorflow and not _counts_from_0(seen, plain, seen.outputs[labels].reshape(-1)[alive]):
        why = "usual; nothing shows whether label 0 is the first class or, as torchvision's, the background"
        findings.append(Finding("labels_from", "0", False, why, implied=True))
    known = tensorflow or not seen.batched  # both number labels as COCO's category ids do
    return Reading(tuple(findings), seen.classes or (91 if known else None))


_FROM_0 = ({"dets", "labels"}, {"num_dets", "det_boxes", "det_scores", "det_classes"})
"""Outputs of MMDeploy, and of TensorRT's EfficientNMS."""


def _counts_from_0(seen: Seen, plain: Sequence[str], labels: Array) -> bool:
    """Whether the first class is known to be label 0: its exporter is, or there is such a label."""
    known = seen.own or {*plain} in _FROM_0 or "orig_target_sizes" in seen.companions
    return known or bool((labels == 0).any())


_MOST_KEPT = 3000
"""Rows of a table after suppression; before it there are more."""


def _table(seen: Seen) -> Reading | None:
    """One table [.., n, 6] or [.., n, 7]."""
    table = only_one(seen, lambda o: o.dtype.kind == "f" and o.ndim >= 2 and o.shape[-1] in (6, 7))
    others = [o for i, o in enumerate(seen.outputs) if i != table]
    if table is None or any(not (is_whole(o) and o.ndim <= 2) for o in others):
        return None
    output = seen.outputs[table]
    rows = output.reshape(-1, output.shape[-1])
    # a single class with objectness has six columns too
    if not seen.metadata.suppresses and output.ndim == 3 and candidates_per_cell(output.shape[1], seen) is not None:
        return None
    if not seen.metadata.suppresses and len(rows) > _MOST_KEPT:
        return None
    default = TABLES[output.shape[-1]]
    fitting = [layout for layout in LAYOUTS if layout.count(",") + 1 == output.shape[-1] and _fits(layout, rows)]
    wide = seen.classes is not None and output.shape[-1] - seen.classes in (4, 5)
    if wide and not seen.metadata.suppresses and not fitting and rows.max(initial=0) > 0:
        return None  # a box and class scores
    paddle = "scale_factor" in seen.companions
    columns = "class,score,x0,y0,x1,y1" if paddle else default if default in fitting or not fitting else fitting[0]
    sure = paddle or seen.metadata.suppresses or len(fitting) == 1
    why = "PaddleDetection's order" if paddle else "by the values" if sure else "the usual order; noise shows no boxes"
    findings = [
        decoder_found("nms", f"a table of what is left after suppression: {seen.describe()}"),
        Finding("columns", columns, sure, why, implied=columns == default),
    ]
    if len(seen.outputs) > 1:
        count = next(i for i in range(len(seen.outputs)) if i != table)
        findings += roles_found(seen, {"table": table, "count": count})
    layout = columns.split(",")
    alive = rows[rows[:, layout.index("score")] > 0] if len(rows) else rows
    boxes = alive[:, [layout.index(name) for name in ("x0", "y0", "x1", "y1")]]
    return Reading((*findings, *units_of(seen, boxes)), seen.classes)


def _fits(layout: str, rows: Array) -> bool:
    """Whether the values of ``rows`` can be what ``layout`` says, and some show it."""
    columns = dict(zip(layout.split(","), rows.T, strict=True))
    alive = columns["score"] > 0
    if not alive.any() or columns["score"].max() > 1.001 or columns["score"].min() < -1:
        return False
    found = {name: values[alive] for name, values in columns.items()}
    whole = [found["class"], *([found["batch"]] if "batch" in found else [])]
    if any((values != np.round(values)).any() or values.min() < 0 for values in whole):
        return False
    ordered: bool = bool((found["x1"] >= found["x0"]).all() and (found["y1"] >= found["y0"]).all())
    return ordered


# --- every candidate -------------------------------------------------------------------------------------------------


def _queries(seen: Seen) -> Reading | None:
    """DETR's pair: logits [B, Q, K] and boxes [B, Q, 4] as shares."""
    pair = pair_of(seen)
    if pair is None:
        return None
    boxes, logits = pair
    values, box = seen.outputs[logits], seen.outputs[boxes]
    columns = values.shape[2]
    if values.shape[:2] != box.shape[:2] or box.ndim != 3 or not is_logits(values) or not is_shares(box):
        return None
    if candidates_per_cell(box.shape[1], seen) is not None:
        return None
    if seen.classes is not None and columns not in (seen.classes, seen.classes + 1):
        raise BadSpec(_other_number(seen, f"{columns} (with a sigmoid) or {columns - 1} (with a softmax)"))
    softmax = columns == seen.classes + 1 if seen.classes is not None else columns == 92
    decoder, classes = ("detr", columns - 1) if softmax else ("rtdetr", columns)
    why = f"{columns} logits and 4 shares for each of {box.shape[1]} queries: {seen.describe()}"
    findings = [decoder_found(decoder, why, sure=seen.classes is not None)]
    findings += roles_found(seen, {"logits": logits, "boxes": boxes}, SYNONYMS)
    preset: tuple[Finding, ...] = ()
    if plain_name(seen.names[boxes]) == "dets":  # RF-DETR's name for them
        preset = (Finding("preset", "detr", False, "RF-DETR takes ImageNet's mean and deviation"),)
    return Reading(tuple(findings), classes, preset)


def _apart(seen: Seen) -> Reading | None:
    """Boxes [B, N, 4] and class scores [B, N, C] or [B, C, N] apart, before suppression."""
    pair = pair_of(seen)
    if pair is None:
        return None
    boxes, scores = pair
    rows, values = seen.outputs[boxes].reshape(-1, 4), seen.outputs[scores]
    number = seen.outputs[boxes].shape[1]
    classes = values.shape[2] if values.shape[1] == number else values.shape[1]
    if seen.classes is not None and classes != seen.classes:
        raise BadSpec(_other_number(seen, str(classes)))
    findings = (
        decoder_found("boxes-scores", f"a box and {classes} class scores for each of {number}: {seen.describe()}"),
        *roles_found(seen, {"boxes": boxes, "scores": scores}, NAMED),
        *form_of(rows, "xyxy"),
        *units_of(seen, rows),
        *activation_of(values),
    )
    return Reading(findings, classes)


def _dense(seen: Seen) -> Reading | None:
    """One output with all candidates: [B, N, K] or [B, K, N]."""
    flat = [o for o in seen.outputs if o.dtype.kind == "f" and o.ndim == 3 and _may_be_dense(o.shape[1:], seen)]
    if not flat or (len(flat) > 1 and len({o.shape[1:] for o in flat}) > 1 and _heads(seen) is not None):
        return None
    output = flat[0]
    upright = rows_first(output.shape[1:], seen)
    table = (output if upright else output.swapaxes(1, 2))[0]
    number, columns = table.shape
    per_cell = candidates_per_cell(number, seen)
    if _is_binned(columns, seen, per_cell):
        classes = seen.classes or columns - 32
        return Reading(
            (decoder_found("nanodet", f"{classes} class scores and 4 × 8 bins: {seen.describe()}"),), classes
        )
    objectness = _has_objectness(columns, upright, per_cell, seen)
    classes = columns - 5 if objectness else columns - 4
    sure = seen.classes is not None
    box, scores = table[:, :4], table[:, 4:]
    what = f"{'objectness and ' if objectness else ''}{classes} classes for each of {number}: {seen.describe()}"
    if objectness and per_cell == 1 and not is_decoded(box, seen):
        findings = [decoder_found("yolox", f"offsets from cells, log sizes, {what}", sure=sure), *activation_of(scores)]
        return Reading(tuple(findings), classes)
    findings = [decoder_found("yolov5" if objectness else "yolov8", f"a box, {what}", sure=sure)]
    if not objectness:
        findings += form_of(box, "cxcywh")
    findings += [*units_of(seen, box), *activation_of(scores)]
    preset: tuple[Finding, ...] = ()
    if seen.metadata.exporter == "ultralytics" and upright and per_cell is None:
        why = "Ultralytics exports RT-DETR so, which needs no suppression and stretches images"
        findings.append(Finding("nms", "1", True, why))
        preset = (Finding("preset", "rtdetr", True, why),)
    if objectness and per_cell == 1 and not seen.own:
        preset = (Finding("preset", "yolox", False, "one candidate per cell, as YOLOX has"),)
    return Reading(tuple(findings), classes, preset)


def _may_be_dense(shape: tuple[int, ...], seen: Seen) -> bool:
    if seen.classes is not None and any(size - seen.classes in (4, 5) for size in shape):
        return True
    return min(shape) >= 5


def _has_objectness(columns: int, upright: bool, per_cell: int | None, seen: Seen) -> bool:
    if seen.classes is None:  # COCO's 80 show themselves either way up
        return columns == 85 or (upright and columns != 84 and per_cell is not None)
    if columns - seen.classes not in (4, 5):
        raise BadSpec(_other_number(seen, f"{columns - 4} (without objectness) or {columns - 5} (with it)"))
    return columns - seen.classes == 5


def _is_binned(columns: int, seen: Seen, per_cell: int | None) -> bool:
    if seen.classes is not None:
        return columns - seen.classes == 32
    return columns == 112 and per_cell == 1


def _heads(seen: Seen) -> Reading | None:
    """One output per level, or per level and part."""
    shapes = tuple((1, *o.shape[1:]) for o in seen.outputs)
    if len(shapes) < 2 or any(len(shape) < 3 for shape in shapes):
        return None
    codings: tuple[tuple[Coding, int], ...] = (("distances", 1), ("offsets", 1), ("anchors", 3))
    for classes in [seen.classes] if seen.classes is not None else _possible_classes(shapes):
        frame = Frame(seen.width, seen.height, classes, 0.0, seen.names, "", False, shapes)
        for coding, anchors in codings:
            levels = levels_of(frame, coding, (), anchors)
            if len(levels) < 2:
                continue
            index, place, span = levels[0].parts["classes"]
            scores = place.rows(seen.outputs[index][:1])[:, span]
            binned = levels[0].parts["boxes"][1].columns == 32
            decoder = {"offsets": "yolox", "anchors": "yolov5"}.get(coding, "nanodet" if binned else "yolov8")
            strides = ", ".join(str(level.strides[0]) for level in levels)
            why = f"heads of strides {strides} with {classes} classes: {seen.describe()}"
            findings = [decoder_found(decoder, why, sure=seen.classes is not None), *activation_of(scores)]
            if coding == "anchors":
                findings.append(Finding("anchors", "yolov5", False, "those of YOLOv5 for COCO; YOLOv7's are others"))
            if decoder == "nanodet":
                findings.append(Finding("middle", "0.5", False, "PicoDet's cells; NanoDet-Plus has 0"))
            preset: tuple[Finding, ...] = ()
            if decoder == "nanodet" and all(".tmp_" in name for name in seen.names):
                preset = (Finding("preset", "detr", False, "PaddlePaddle's names: PicoDet, in RGB"),)
            return Reading(tuple(findings), classes, preset)
    return None


def _possible_classes(shapes: Iterable[tuple[int, ...]]) -> list[int]:
    """Numbers of classes that some output may show, 80 first."""
    counts = {size for shape in shapes for size in shape[1:]}
    possible = {c for n in counts for c in (n, n - 64, n - 32, n - 5, n // 3 - 5) if 0 < c <= 2000}
    return sorted(possible, key=lambda c: (c != 80, c))


# --- what values do not show -----------------------------------------------------------------------------------------


def _preset(seen: Seen, decoder: str) -> tuple[Finding, ...]:
    own = DECODERS[decoder].preset
    if seen.own:
        why = "Ultralytics' metadata is in the file, and its networks share one preprocessing"
        return (Finding("preset", "ultralytics", True, why, implied=own == "ultralytics"),)
    if "orig_target_sizes" in seen.companions:
        return (Finding("preset", "rtdetr", False, "RT-DETR and D-FINE have this second input"),)
    if "scale_factor" in seen.companions:
        why = "PP-YOLOE+ and RT-DETR; the infer_cfg.yml beside the model says what it was trained with"
        return (Finding("preset", "rtdetr", False, why),)
    if own:
        return (Finding("preset", own, False, f"usual for decoder={decoder}", implied=True),)
    why = "the most common one" if seen.batched else "torchvision's graphs take RGB in 0..1 and do the rest themselves"
    return (Finding("preset", "ultralytics", False, why),)


def _other_number(seen: Seen, shown: str) -> str:
    return f"there are {seen.classes} names, but the outputs show {shown} classes ({seen.describe()}); check names=."


def _no_detector(seen: Seen) -> str:
    outputs, shown = seen.outputs, seen.describe()
    if all(o.ndim <= 2 for o in outputs) and not any(o.ndim == 2 and o.shape[-1] in (4, 5, 6, 7) for o in outputs):
        return f"the graph gives numbers for a whole image ({shown}), as a classifier does, and no boxes."
    maps = [o for o in outputs if o.ndim == 4 and min(o.shape[2:]) * 8 >= min(seen.width, seen.height)]
    if maps and len(outputs) == len(maps):
        return f"the graph gives maps of the image ({shown}), as for segmentation or depth, and no boxes."
    return f"no decoder reads these outputs: {shown}; state decoder=, or write one (decoder=python:MODULE:FUNCTION)."

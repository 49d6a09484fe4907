"""The white box of an ONNX file: what ``OnnxDetector.white_box`` and ``level=differentiable`` open.

The graph is converted by onnx2torch and must agree with ONNX Runtime before it is used. Its decoded outputs are the
candidates; losses are defined on them (docs/yolox.md), since a file does not say how it was trained. It is ``Traced``
and ``Differentiable`` but not ``Trainable``: an exported graph has lost its training form.
"""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from misdetect.detectors.onnx.decoders import BoxesAndScores, ClassChannels, Objectness, Queries
from misdetect.detectors.onnx.detector import OnnxDetector
from misdetect.detectors.onnx.heads import Heads
from misdetect.detectors.onnx.opset import KNOWN, CannotLower, lower
from misdetect.detectors.preprocess_torch import to_canvas
from misdetect.detectors.selection import Dense, Selection
from misdetect.detectors.torch_detector import TorchModule, as_array
from misdetect.detectors.yolox.detector import objects_in
from misdetect.detectors.yolox.loss import Answers, Objects, SimOTA, assign, losses_of, near_centre, paired_iou
from misdetect.detectors.yolox.net import Cells, Raw
from misdetect.nouns.candidates import Candidates
from misdetect.nouns.detections import Truth
from misdetect.nouns.picture import digest
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec, LevelTooLow, MissingExtra

PARITY = 1e-3
"""Largest difference from ONNX Runtime's outputs, in units of 1 + their size."""
_CERTAIN = 1e-7  # probabilities are kept this far from 0 and 1, where a logit is infinite


class Decoded(NamedTuple):
    """A batch's outputs read by a decoder, differentiable: ``boxes`` ``[N, K, 4]`` corners in network pixels,
    ``classes`` ``[N, K, C]`` probabilities, ``objectness`` and ``background`` ``[N, K]`` or ``None``."""

    boxes: Tensor
    classes: Tensor
    objectness: Tensor | None = None
    background: Tensor | None = None

    @property
    def scores(self) -> Tensor:
        """``[N, K, C]`` as the detector ranks them."""
        return self.classes if self.objectness is None else self.classes * self.objectness[..., None]


class Reader(NamedTuple):
    """How a family's outputs are read in torch, and what is known of its candidates.

    ``cells`` are the grid cells where the decoder knows them; ``rule`` the assignment; ``multilabel`` whether each
    (candidate, class) pair counts.
    """

    read: Callable[[Sequence[Tensor]], Decoded]
    rule: SimOTA
    cells: Cells | None = None
    multilabel: bool = False


class DifferentiableOnnx(TorchModule):
    """An ONNX detector that can be traced and differentiated; ``module`` is the converted graph.

    ``detect`` runs the converted graph too, so that it is the selection from ``trace``.
    """

    fingerprint = ""  # that of the file, and not of the converted weights

    def __init__(
        self,
        module: nn.Module,
        source: OnnxDetector,
        reader: Reader,
        how: Selection,
        device: torch.device,
        fingerprint: str,
    ) -> None:
        settings = {**source.settings, "level": "differentiable"}
        self._device, self.fingerprint = device, fingerprint
        super().__init__(module, source.names, spec=source.spec, settings=settings, batch_size=source.batch_size)
        self.convention, self.reader, self.how = source.preprocess, reader, how

    def __repr__(self) -> str:
        return f"DifferentiableOnnx({self.spec!r})"

    @property
    def device(self) -> torch.device:
        """Where the graph was put; one without parameters has no other way to say so."""
        return self._device

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32

    def _decoded(self, images: list[Tensor]) -> tuple[Decoded, Any]:
        x, where = to_canvas(torch.stack(images), self.convention)
        return self.reader.read(_outputs(self.module(x))), where

    def _trace(self, images: list[Tensor]) -> list[Candidates]:
        found, where = self._decoded(images)
        height, width = images[0].shape[1:]
        boxes, scores, classes = as_array(found.boxes), as_array(found.scores), as_array(found.classes)
        objectness = None if found.objectness is None else as_array(found.objectness)
        background = None if found.background is None else as_array(found.background)
        cells = self.reader.cells
        return [
            Dense(
                boxes[i] if cells is None else as_array(cells.boxes),
                boxes[i],
                scores[i],
                None if objectness is None else objectness[i],
                None if objectness is None else classes[i],
                None if background is None else background[i],
                None if cells is None else as_array(cells.levels),
            ).candidates(self.how, where, width, height, self.settings)
            for i in range(len(images))
        ]

    def _image_losses(self, images: list[Tensor], truths: Sequence[Truth]) -> tuple[Tensor, Tensor]:
        found, where = self._decoded(images)
        objects = [objects_in(truth, where, found.boxes) for truth in truths]
        with torch.no_grad():
            pairs = [
                assign(found.boxes[i], found.scores[i], self._near(found.boxes[i], one), one, self.reader.rule)
                for i, one in enumerate(objects)
            ]
        answers = Answers.join(pairs, objects)
        presence = None if found.objectness is None else torch.logit(found.objectness, _CERTAIN)
        losses = losses_of(torch.logit(found.classes, _CERTAIN), presence, found.boxes, answers, iou_targets=False)
        count = losses.cells.clamp(min=1)
        return (losses.classification + losses.objectness) / count, losses.localisation / count

    def _near(self, boxes: Tensor, objects: Objects) -> Tensor:
        """``[G, K]`` the candidates that may answer for each object."""
        if self.reader.cells is not None:
            return near_centre(self.reader.cells, objects, self.reader.rule.radius)
        centre = (boxes[:, :2] + boxes[:, 2:]) / 2
        inside = (centre[None] > objects.boxes[:, None, :2]) & (centre[None] < objects.boxes[:, None, 2:])
        near = inside.all(-1)
        # an object without any candidate inside still asks the one that overlaps it best
        closest = paired_iou(boxes[None], objects.boxes[:, None]).argmax(1, keepdim=True)
        return near | (~near.any(1, keepdim=True) & torch.zeros_like(near).scatter(1, closest, True))


def load_differentiable(detector: OnnxDetector) -> DifferentiableOnnx:
    """The white box of ``detector``: same file, decoder, thresholds and preprocessing, in torch.

    Raises ``LevelTooLow`` where the graph cannot be converted, its decoder does not show every candidate, or the
    converted graph does not agree with ONNX Runtime.
    """
    spec = Spec.parse(detector.spec)
    device = _device(spec.take("device", "cpu"))
    reader = _reader(detector, device)
    module = _convert(Path(spec.target), detector.spec).to(device)
    _check_parity(module, detector, device)
    limits = detector.settings
    how = Selection(
        limits["score"], limits["nms"], limits["max"], limits["agnostic"], limits["multilabel"] or reader.multilabel
    )
    where = [] if device.type == "cpu" else [device.type]
    fingerprint = digest(detector.fingerprint, "onnx2torch", *where)
    return DifferentiableOnnx(module, detector, reader, how, device, fingerprint)


def _device(wanted: str) -> torch.device:
    """The device of ``device=``, which ONNX Runtime has; the CPU where this torch is not built for it."""
    return torch.device(wanted if torch.cuda.is_available() else "cpu")


def _reader(detector: OnnxDetector, device: torch.device) -> Reader:
    """How to read this detector's outputs in torch, or a ``LevelTooLow`` that says why it cannot be done."""
    decoder, one_each = detector.decoder, SimOTA(overlaps=0)
    if not getattr(decoder, "activated", True):
        raise LevelTooLow(
            f"{detector.spec!r}: a white box cannot read scores that lack their sigmoid; export the graph with it."
        )
    if isinstance(decoder, Objectness) and decoder.grid is not None:
        corners, steps = (torch.from_numpy(part).to(device) for part in decoder.grid)
        strides = steps.flatten()
        cells = Cells(corners, strides, torch.unique_consecutive(strides, return_inverse=True)[1])
        return Reader(
            lambda outputs: _grid_and_objectness(_rows(outputs, 5 + decoder.frame.classes), cells), SimOTA(), cells
        )
    if isinstance(decoder, Objectness):
        scale = torch.as_tensor(decoder.size, device=device)
        return Reader(lambda outputs: _objectness(_rows(outputs, 5 + decoder.frame.classes), scale), SimOTA())
    if isinstance(decoder, ClassChannels):
        return Reader(lambda outputs: _class_channels(_rows(outputs, 4 + decoder.frame.classes, 1), decoder), SimOTA())
    if isinstance(decoder, BoxesAndScores):
        return Reader(lambda outputs: _boxes_and_scores(outputs, decoder), SimOTA())
    if isinstance(decoder, Queries):
        size = torch.tensor([decoder.frame.width, decoder.frame.height] * 2, device=device)
        return Reader(lambda o: _queries(decoder, size, o), one_each, multilabel=not decoder.softmax)
    if isinstance(decoder, Heads):
        raise LevelTooLow(
            f"{detector.spec!r}: a white box cannot read heads that nothing has joined and decoded; export the graph "
            f"with its decoding."
        )
    raise LevelTooLow(
        f"{detector.spec!r}: a white box needs a decoder that shows every candidate (yolox, yolov5, yolov8, yolo11, "
        f"boxes-scores, detr, rtdetr); decoder={detector.settings['decoder']} shows only what is left of them."
    )


def _rows(outputs: Sequence[Tensor], columns: int, usual: int = 2) -> Tensor:
    """The one output ``[N, K, columns]``; exporters exchange its last axes at times, and ``usual`` is where columns
    are looked for first."""
    table = next(output for output in outputs if output.ndim == 3)
    axis = usual if table.shape[usual] == columns else 3 - usual
    return table if axis == 2 else table.transpose(1, 2)


def _corners(boxes: Tensor, form: str = "cxcywh") -> Tensor:
    if form == "xyxy":
        return boxes
    if form == "yxyx":
        return boxes[..., [1, 0, 3, 2]]
    if form == "xywh":
        return torch.cat([boxes[..., :2], boxes[..., :2] + boxes[..., 2:]], dim=-1)
    half = boxes[..., 2:] / 2
    return torch.cat([boxes[..., :2] - half, boxes[..., :2] + half], dim=-1)


def _grid_and_objectness(rows: Tensor, cells: Cells) -> Decoded:
    raw = Raw(rows[..., :4], rows[..., 4], rows[..., 5:])
    return Decoded(raw.boxes(cells), raw.classes, raw.objectness)


def _objectness(rows: Tensor, scale: Tensor) -> Decoded:
    return Decoded(_corners(rows[..., :4]) * scale, rows[..., 5:], rows[..., 4])


def _class_channels(rows: Tensor, decoder: ClassChannels) -> Decoded:
    scale = torch.as_tensor(decoder.size, device=rows.device)
    return Decoded(_corners(rows[..., :4], decoder.format) * scale, rows[..., 4:])


def _boxes_and_scores(outputs: Sequence[Tensor], decoder: BoxesAndScores) -> Decoded:
    scores = outputs[decoder.scores]
    scale = torch.as_tensor(decoder.size, device=scores.device)
    boxes = outputs[decoder.boxes].reshape(len(scores), -1, 4)
    if scores.shape[1] != boxes.shape[1]:
        scores = scores.transpose(1, 2)
    return Decoded(_corners(boxes, decoder.format) * scale, scores)


def _queries(decoder: Queries, size: Tensor, outputs: Sequence[Tensor]) -> Decoded:
    logits, boxes = outputs[decoder.logits], _corners(outputs[decoder.boxes]) * size
    if not decoder.softmax:
        return Decoded(boxes, logits.sigmoid())
    shares = logits.softmax(-1)
    return Decoded(boxes, shares[..., :-1], background=shares[..., -1])


def _outputs(result: Any) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else list(result)


def _convert(path: Path, spec: str) -> nn.Module:
    try:
        import onnx

        from misdetect.detectors.torchvision import ops as torchvision_ops

        torchvision_ops.load()  # onnx2torch imports torchvision
        from onnx2torch import convert
    except ModuleNotFoundError as error:
        raise MissingExtra.named("the inside of an ONNX file", "onnx-torch") from error
    try:
        model = onnx.load(path)
        lower(model)
        module: nn.Module = convert(model).eval()
    except CannotLower as error:
        raise LevelTooLow(
            f"{spec!r}: the graph is of a newer operator set than onnx2torch converts, and {error}; export it with "
            f"opset {KNOWN}. It still runs as a Detector."
        ) from error
    except NotImplementedError as error:
        raise LevelTooLow(
            f"{spec!r}: the graph has an operator that onnx2torch cannot convert ({_first_line(error)}); it "
            "still runs as a Detector."
        ) from error
    except Exception as error:  # a converter of hand-written files fails in as many ways as there are files
        raise LevelTooLow(
            f"{spec!r}: onnx2torch cannot convert the graph ({_first_line(error)}); it still runs as a Detector."
        ) from error
    # onnx2torch indexes in a way that torch warns of at every call; what matters is that the outputs agree
    warnings.filterwarnings("ignore", "Using a non-tuple sequence for multidimensional indexing", UserWarning)
    for parameter in module.parameters():
        parameter.requires_grad_(False)  # only pixels are differentiated
    return module


def _check_parity(module: nn.Module, detector: OnnxDetector, device: torch.device) -> None:
    """Refuse a converted graph whose outputs differ from ONNX Runtime's on an image of noise."""
    convention = detector.preprocess
    random = np.random.default_rng(0)
    image = random.integers(0, 256, (convention.height, convention.width, 3), dtype=np.uint8)
    tensor, _ = detector.prepare([image] * detector.batch_size)
    if convention.dtype != "float32":
        raise BadSpec(f"{detector.spec!r}: a white box needs a float32 input. Got {convention.dtype}.")
    expected = detector.infer(tensor)
    try:
        with torch.no_grad():
            got = [as_array(output) for output in _outputs(module(torch.from_numpy(tensor.copy()).to(device)))]
    except Exception as error:  # see `_convert`
        raise LevelTooLow(f"{detector.spec!r}: the converted graph does not run ({_first_line(error)}).") from error
    for name, mine, theirs in zip(detector.decoder.frame.outputs, got, expected, strict=True):  # type: ignore[attr-defined]
        if mine.shape != theirs.shape:
            raise LevelTooLow(
                f"{detector.spec!r}: converted, output {name!r} has shape {list(mine.shape)}, not {list(theirs.shape)}."
            )
        worst = float(np.max(np.abs(mine - theirs) / (1 + np.abs(theirs)), initial=0))
        if not worst <= PARITY:
            raise LevelTooLow(
                f"{detector.spec!r}: converted to torch, output {name!r} differs from ONNX Runtime's by {worst:.2g} "
                f"(allowed: {PARITY:g}), so its gradients would be those of another network."
            )


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].rstrip('.')}" if lines else type(error).__name__

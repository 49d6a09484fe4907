"""``onnx:FILE,decoder=NAME,…`` — a detector in an ONNX file, run by ONNX Runtime.

The graph and its metadata say the input's size, layout and type, and mostly how to read the outputs (``look``); the
decoder says which preprocessing its family uses; all can be stated in the spec, and what nobody states is an error.
This offers the ``Detector`` level only, and opens itself (``white_box``) for studies that need more.
"""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import numpy as np

from misdetect.boxes import clip, nms
from misdetect.detections import Detections
from misdetect.detectors.onnx.decoders import DECODER_OPTIONS, decoder_kind
from misdetect.detectors.onnx.file import PROVIDERS, OnnxFile
from misdetect.detectors.onnx.look import Look, file_layout, file_sides, look_at, names_of
from misdetect.detectors.outputs import Array, Decoder, Frame, Readout
from misdetect.detectors.preprocess import PRESETS, Colour, Layout, Placement, Preprocess, Resize
from misdetect.errors import BadArray, BadSpec, DetectorFailed, LevelTooLow, MissingExtra
from misdetect.grid import boxes_on_grid, scores_on_grid
from misdetect.picture import Pixels, check_pixels, digest
from misdetect.spec import Spec

_DEFAULT_BATCH = 8


class OnnxDetector:
    """A detector in an ONNX file. ``detect`` is ``prepare``, ``infer`` and ``decode`` for each batch in turn."""

    def __init__(
        self,
        file: OnnxFile,
        names: Sequence[str],
        preprocess: Preprocess,
        decoder: Decoder,
        *,
        spec: str,
        fingerprint: str,
        settings: dict[str, Any],
        batch_size: int,
        fixed_batch: bool,
        closed: bool = False,
    ) -> None:
        self.names = tuple(names)
        self.spec, self.fingerprint, self.settings, self.batch_size = spec, fingerprint, settings, batch_size
        self.images_per_call = batch_size * -(-_DEFAULT_BATCH // batch_size)
        self.preprocess, self.decoder = preprocess, decoder
        self.file, self._fixed_batch = file, fixed_batch
        self._buffer = preprocess.buffer(batch_size)
        self._closed, self._opened = closed, None

    def __repr__(self) -> str:
        return f"OnnxDetector({self.spec!r})"

    def white_box(self) -> Any:
        """The same file in torch, ``Traced`` and ``Differentiable``, opened when first asked for; an error that says
        why it cannot be, or is not to be (``closed``)."""
        if self._closed:
            raise LevelTooLow(f"{self.spec!r}: level=detector keeps the file closed; without it, it is opened.")
        if self._opened is None:
            self._opened = _open(self)
        return self._opened

    def detect(self, images: Sequence[Pixels]) -> list[Detections]:
        """One ``Detections`` per image ``[H, W, 3]`` uint8 RGB."""
        found: list[Detections] = []
        for start in range(0, len(images), self.batch_size):
            batch = images[start : start + self.batch_size]
            tensor, placements = self.prepare(batch)
            found += self.decode(self.infer(tensor), batch, placements)
        return found

    def prepare(self, images: Sequence[Pixels]) -> tuple[Array, list[Placement]]:
        """The network's input for up to ``batch_size`` images (a view of a buffer that the next call overwrites)."""
        placements = [self.preprocess.apply(check_pixels(image), self._buffer[i])[1] for i, image in enumerate(images)]
        return self._buffer if self._fixed_batch else self._buffer[: len(images)], placements

    def infer(self, tensor: Array) -> list[Array]:
        """The graph's outputs for a prepared batch."""
        return self.file.run(tensor, self.preprocess.width, self.preprocess.height, self.spec)

    def decode(
        self, outputs: Sequence[Array], images: Sequence[Pixels], placements: Sequence[Placement]
    ) -> list[Detections]:
        """``Detections`` of each of ``images`` from the outputs of their batch."""
        each = self.decoder.split(outputs, self.batch_size if self._fixed_batch else len(images))
        return [
            self._finish(self.decoder.decode(of_image), image, placement)
            for of_image, image, placement in zip(each, images, placements, strict=False)
        ]

    def _finish(self, found: Readout, image: Pixels, placement: Placement) -> Detections:
        """Suppress, cap, go back to the image's pixels, clip."""
        boxes, scores, labels = found
        threshold, cap = self.settings["nms"], self.settings["max"]
        ranks = scores_on_grid(scores)
        if threshold < 1:
            kept, _ = nms(boxes_on_grid(boxes), ranks, threshold, None if self.settings["agnostic"] else labels)
        else:
            kept = np.argsort(-ranks, kind="stable")
        kept = kept[:cap]
        inside = clip(placement.to_original(boxes[kept]), image.shape[1], image.shape[0])
        try:
            return Detections(inside, scores[kept], labels[kept])
        except BadArray as error:
            raise DetectorFailed(f"{self.spec!r}: the decoded output is no detection: {error}") from error


def load_onnx(spec: Spec) -> object:
    """The detector that ``spec`` describes; see docs/detectors.md for its options."""
    level = spec.take("level", "auto", choices=("auto", "detector", "differentiable"))
    detector = _load_detector(spec, closed=level == "detector")
    return detector.white_box() if level == "differentiable" else detector


def _open(detector: OnnxDetector) -> Any:
    try:
        from misdetect.detectors.onnx.white_box import load_differentiable
    except ModuleNotFoundError as error:
        raise MissingExtra.named("the inside of an ONNX file", "onnx-torch") from error
    return load_differentiable(detector)


def look_into(spec: Spec) -> Look:
    """What can be found out about the file that ``spec`` names; see ``look``."""
    return look_at(_file(spec), spec)


def _file(spec: Spec) -> OnnxFile:
    device = spec.take("device", "cpu", choices=tuple(PROVIDERS))
    return OnnxFile.open(Path(spec.target), spec, device=device, threads=_positive(spec, "threads", 1))


def _load_detector(spec: Spec, *, closed: bool) -> OnnxDetector:
    stated = spec.take("decoder", "")
    if stated:
        decoder_kind(stated, spec)  # complain of a decoder that is none before the file is opened
    file = _file(spec)
    shapes = _complete(spec, file)
    kind, source = decoder_kind(spec.take("decoder", ""), spec)
    spec.take("names", "")
    names = names_of(file, spec)
    if names is None:
        raise BadSpec(f"{spec.text!r}: the file carries no class names; give names=coco or names=FILE.")
    preset = spec.take("preset", kind.preset or "", choices=tuple(PRESETS))
    preprocess = _preprocess(spec, preset, file)
    limits = _limits(spec, kind.nms)
    outputs = tuple(entry.name for entry in file.outputs)
    frame = Frame(
        preprocess.width,
        preprocess.height,
        len(names),
        limits["score"],
        outputs,
        spec.text,
        limits["multilabel"],
        shapes,
    )
    decoder = kind.build(frame, spec)
    batch = _batch_size(spec, file.shape[0])
    spec.finish()
    own = {name: spec.options[name] for name in DECODER_OPTIONS if name in spec.options}
    settings = {"decoder": spec.options["decoder"], "preset": preset or None} | limits | own
    settings["preprocess"] = preprocess.settings()
    detector = OnnxDetector(
        file,
        names,
        preprocess,
        decoder,
        spec=spec.text,
        fingerprint=digest(*file.hashes(), source, names, sorted(settings.items(), key=lambda item: item[0])),
        settings=settings,
        batch_size=batch,
        fixed_batch=file.shape[0] is not None,
        closed=closed,
    )
    # Blank images first: a graph that does not fit its decoder, names, size or batch says so here, not in mid-run.
    detector.detect([np.zeros((preprocess.height, preprocess.width, 3), np.uint8)] * min(batch, 2))
    return detector


def _complete(spec: Spec, file: OnnxFile) -> tuple[tuple[int, ...], ...]:
    """Add to the options of ``spec`` what a look at the file is sure of, and return its outputs' shapes.

    Without ``decoder=`` everything has to be sure. With it, only what belongs to that decoder is added, and a file that
    nobody understands is the decoder's to complain of.
    """
    stated = spec.options.get("decoder", "")
    if stated.startswith("python:"):
        return ()
    _refuse_task(spec, file)
    try:
        look = look_at(file, spec)
    except (BadSpec, DetectorFailed):
        if not stated:
            raise
        return ()
    if not stated and look.guessed:
        unknown = ", ".join(dict.fromkeys(finding.option for finding in look.guessed))
        raise BadSpec(
            f"{spec.text!r}: nothing in the file states {unknown}; where that is as usual, the spec is "
            f"{look.spec(spec)!r} (misdetect detectors {spec.target} says what was seen and what is guessed)."
        )
    same = {stated, look.value("decoder")} <= {"yolov8", "yolo11"} or stated in ("", look.value("decoder"))
    for finding in look.findings:
        if same and finding.sure and not finding.implied:
            spec.options.setdefault(finding.option, finding.value)
    return look.shapes


def _refuse_task(spec: Spec, file: OnnxFile) -> None:
    task = file.metadata.task
    if task and task != "detect":
        raise BadSpec(f"{spec.text!r}: the file says of itself that it is for the task {task!r}, not for detection.")


def _limits(spec: Spec, suppression: float) -> dict[str, Any]:
    """The thresholds and caps that decide what is reported."""
    return {
        "score": _share(spec, "score", 0.01),
        "nms": _share(spec, "nms", suppression),
        "max": _positive(spec, "max", 100),
        "agnostic": spec.take("agnostic", False),
        "multilabel": spec.take("multilabel", False),
    }


def _preprocess(spec: Spec, preset: str, file: OnnxFile) -> Preprocess:
    """The preprocessing that preset, spec and graph state together, or a ``BadSpec`` that says what is missing."""
    stated: dict[str, Any] = dict(PRESETS[preset]) if preset else {}
    for name, kind in (("resize", Resize), ("colour", Colour)):
        if value := spec.take(name, "", choices=get_args(kind)):
            stated[name] = value
    for name in ("scale", "pad"):
        if value := spec.take(name, ""):
            (stated[name],) = _numbers(spec, name, value, 1)
    for name in ("mean", "std"):
        if value := spec.take(name, ""):
            stated[name] = _numbers(spec, name, value, 3)
    spec.take("layout", "", choices=get_args(Layout))
    layout = file_layout(file, spec)
    size = _size(spec, *file_sides(file, layout), file.metadata.size)
    stride = file.metadata.stride or 1
    if size and any(side % stride for side in size) and None in file.shape[1:]:
        raise BadSpec(
            f"{spec.text!r}: expected a size of multiples of {stride}, the file's stride. Got {size[0]}x{size[1]}."
        )
    missing = [name for name in ("resize", "colour", "scale") if name not in stated]
    missing += ["pad"] if str(stated.get("resize", "")).startswith("letterbox") and "pad" not in stated else []
    missing += ["layout"] if not layout else []
    missing += ["size"] if size is None else []
    if missing or size is None or not layout:
        raise BadSpec(
            f"{spec.text!r}: neither the graph nor the decoder states {', '.join(missing)}; give "
            f"{', '.join(f'{name}=' for name in missing)}"
            + ("" if preset or missing == ["size"] else f" or preset= ({', '.join(PRESETS)})")
            + " as the network was trained with."
        )
    try:
        return Preprocess(*size, **stated, layout=layout, dtype=file.image.dtype)
    except BadArray as error:
        raise BadSpec(f"{spec.text!r}: {error}") from error


def _size(
    spec: Spec, width: int | None, height: int | None, exported: tuple[int, int] | None
) -> tuple[int, int] | None:
    """Width and height: the graph's where it fixes them, else ``size=640`` or ``size=WIDTHxHEIGHT``, else those that
    the file says it was ``exported`` for."""
    text = spec.take("size", "")
    if not text:
        usual = exported or (0, 0)
        found = (width or usual[0], height or usual[1])
        return found if all(found) else None
    parts = text.lower().split("x")
    if len(parts) > 2 or not all(part.isdecimal() and int(part) for part in parts):
        raise BadSpec(f"{spec.text!r}: size={text} should be a number of pixels or WIDTHxHEIGHT, such as 640x480.")
    size = int(parts[0]), int(parts[-1])
    if (width or size[0], height or size[1]) != size:
        raise BadSpec(f"{spec.text!r}: size={text}, but the graph's input is {width or 'any'}x{height or 'any'}.")
    return size


def _batch_size(spec: Spec, axis: int | None) -> int:
    given = _positive(spec, "batch", axis or _DEFAULT_BATCH)
    if axis and given != axis:
        raise BadSpec(f"{spec.text!r}: batch={given}, but the graph takes {axis} images at a time.")
    return given


def _numbers(spec: Spec, name: str, text: str, count: int) -> tuple[float, ...] | Any:
    """``count`` numbers, written as decimals or fractions (``1/255``); one number stands for all."""
    try:
        values = tuple(float(Fraction(part.strip())) for part in text.split(","))
    except (ValueError, ZeroDivisionError, OverflowError):
        values = ()
    if len(values) not in (1, count):
        wanted = "a number such as 0.5 or 1/255" if count == 1 else f"{count} numbers such as 0.485,0.456,0.406"
        raise BadSpec(f"{spec.text!r}: {name}={text} should be {wanted}.")
    return values * count if len(values) == 1 else values


def _share(spec: Spec, name: str, default: float) -> float:
    value = spec.take(name, default)
    if not 0 <= value <= 1:
        raise BadSpec(f"{spec.text!r}: {name}={value:g} should be between 0 and 1.")
    return value


def _positive(spec: Spec, name: str, default: int) -> int:
    value = spec.take(name, default)
    if value < 1:
        raise BadSpec(f"{spec.text!r}: {name}={value} should be at least 1.")
    return value

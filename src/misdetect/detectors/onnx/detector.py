"""``onnx:FILE,decoder=NAME,…`` — a detector in an ONNX file, run by ONNX Runtime.

The graph says its input's size, layout and type; the decoder says how to read the outputs and which preprocessing its
family uses; all can be stated in the spec, and what nobody states is an error. This offers the ``Detector`` level
only, and opens itself (``white_box``) for studies that need more. It loads no custom operators: the file is untrusted.
"""

import hashlib
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args
from weakref import WeakValueDictionary

import numpy as np

from misdetect.boxes import clip, nms
from misdetect.detections import Detections
from misdetect.detectors.names import names_in_metadata, read_names
from misdetect.detectors.onnx.decoders import DECODER_OPTIONS, decoder_kind
from misdetect.detectors.outputs import Array, Decoder, Frame, Readout
from misdetect.detectors.preprocess import PRESETS, Colour, Layout, Placement, Preprocess, Resize
from misdetect.errors import BadArray, BadSpec, BadWeights, DetectorFailed, LevelTooLow, MissingExtra
from misdetect.grid import boxes_on_grid, scores_on_grid
from misdetect.picture import Pixels, check_pixels, digest
from misdetect.spec import Spec

_DTYPES = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(uint8)": "uint8"}
_MASK_DTYPES = {"tensor(int64)": "int64", "tensor(bool)": "bool", "tensor(float)": "float32"}
_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
_DEFAULT_BATCH = 8
_sessions: "WeakValueDictionary[tuple[Any, ...], Any]" = WeakValueDictionary()
"""Graphs in use: detectors that read one file by different options share it."""
_ORIGINAL_SIZE, _PIXEL_MASK = "orig_target_sizes", "pixel_mask"


class OnnxDetector:
    """A detector in an ONNX file. ``detect`` is ``prepare``, ``infer`` and ``decode`` for each batch in turn."""

    def __init__(
        self,
        session: Any,
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
        self._session, self._fixed_batch = session, fixed_batch
        self._buffer = preprocess.buffer(batch_size)
        self._image, *self._others = session.get_inputs()
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
        feed = {self._image.name: tensor}
        for entry in self._others:
            feed[entry.name] = self._companion(entry, len(tensor))
        try:
            outputs = self._session.run(None, feed)
        except Exception as error:  # ONNX Runtime's exceptions have no common class of their own
            raise DetectorFailed(f"{self.spec!r}: ONNX Runtime failed: {_first_line(error)}") from error
        if not all(isinstance(output, np.ndarray) for output in outputs):
            raise DetectorFailed(f"{self.spec!r}: the graph returns sequences or maps; only tensors can be decoded.")
        return list(outputs)

    def _companion(self, entry: Any, count: int) -> Array:
        """The second input of some DETR exports: the size to scale boxes to, or which pixels are real (all are)."""
        height, width = self.preprocess.height, self.preprocess.width
        if entry.name == _ORIGINAL_SIZE:
            return np.repeat(np.array([[width, height]], np.int64), count, axis=0)
        shape = [
            size if isinstance(size, int) else own for size, own in zip(entry.shape[1:], (height, width), strict=True)
        ]
        return np.ones((count, *shape), _MASK_DTYPES[entry.type])

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


def _load_detector(spec: Spec, *, closed: bool) -> OnnxDetector:
    path = Path(spec.target)
    if not path.is_file():
        raise BadSpec(f"{spec.text!r}: there is no file {spec.target!r}.")
    kind, source = decoder_kind(spec.take("decoder", ""), spec)
    session = _open_session(path, spec)
    metadata = session.get_modelmeta().custom_metadata_map
    names = _names(spec, metadata)
    shape, dtype = _input_of(session, spec)
    preset = spec.take("preset", kind.preset or "", choices=tuple(PRESETS))
    preprocess = _preprocess(spec, preset, shape, dtype)
    limits = _limits(spec, kind.nms)
    outputs = tuple(entry.name for entry in session.get_outputs())
    frame = Frame(
        preprocess.width, preprocess.height, len(names), limits["score"], outputs, spec.text, limits["multilabel"]
    )
    decoder = kind.build(frame, spec)
    fixed = isinstance(shape[0], int)
    batch = _batch_size(spec, shape[0])
    spec.finish()
    own = {name: spec.options[name] for name in DECODER_OPTIONS if name in spec.options}
    settings = {"decoder": spec.options["decoder"], "preset": preset or None} | limits | own
    settings["preprocess"] = preprocess.settings()
    detector = OnnxDetector(
        session,
        names,
        preprocess,
        decoder,
        spec=spec.text,
        fingerprint=digest(*_file_hashes(path), source, names, sorted(settings.items(), key=lambda item: item[0])),
        settings=settings,
        batch_size=batch,
        fixed_batch=fixed,
        closed=closed,
    )
    # Blank images first: a graph that does not fit its decoder, names, size or batch says so here, not in mid-run.
    detector.detect([np.zeros((preprocess.height, preprocess.width, 3), np.uint8)] * min(batch, 2))
    return detector


def _limits(spec: Spec, suppression: float) -> dict[str, Any]:
    """The thresholds and caps that decide what is reported."""
    return {
        "score": _share(spec, "score", 0.01),
        "nms": _share(spec, "nms", suppression),
        "max": _positive(spec, "max", 100),
        "agnostic": spec.take("agnostic", False),
        "multilabel": spec.take("multilabel", False),
    }


def _open_session(path: Path, spec: Spec) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtra.named("onnx:", "onnx") from error
    device = spec.take("device", "cpu", choices=tuple(_PROVIDERS))
    if _PROVIDERS[device] not in onnxruntime.get_available_providers():
        raise BadSpec(
            f"{spec.text!r}: device={device} needs an ONNX Runtime built for it (pip install onnxruntime-gpu)."
        )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = _positive(spec, "threads", 1)
    options.inter_op_num_threads = 1
    stat = path.stat()
    key = str(path.resolve()), stat.st_size, stat.st_mtime_ns, device, options.intra_op_num_threads
    session = _sessions.get(key)
    if session is None:
        session = _sessions[key] = _new_session(onnxruntime, path, options, device, spec)
    return session


def _new_session(onnxruntime: Any, path: Path, options: Any, device: str, spec: Spec) -> Any:
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=[_PROVIDERS[device]])
    except Exception as error:  # ONNX Runtime's exceptions have no common class of their own
        raise BadWeights(f"{spec.target} cannot be loaded as an ONNX graph: {_first_line(error)}") from error


def _names(spec: Spec, metadata: dict[str, str]) -> tuple[str, ...]:
    given = spec.take("names", "")
    names = read_names(given, spec.text) if given else names_in_metadata(metadata, spec.text)
    if names is None:
        raise BadSpec(f"{spec.text!r}: the file carries no class names; give names=coco or names=FILE.")
    return names


def _input_of(session: Any, spec: Spec) -> tuple[list[int | None], str]:
    """Shape of the image input (``None`` where it is dynamic) and its NumPy type."""
    first, *others = session.get_inputs()
    foreign = [entry.name for entry in others if not _is_companion(entry)]
    if foreign:
        raise BadSpec(f"{spec.text!r}: the graph also wants {foreign[0]!r}; only graphs of one image can be run.")
    shape = [size if isinstance(size, int) and size > 0 else None for size in first.shape]
    if len(shape) != 4:
        raise BadSpec(
            f"{spec.text!r}: expected an input of rank 4 such as [1, 3, H, W]. Got {first.name} {list(first.shape)}."
        )
    if first.type not in _DTYPES:
        raise BadSpec(f"{spec.text!r}: expected an input of {', '.join(_DTYPES)}. Got {first.name} {first.type}.")
    return shape, _DTYPES[first.type]


def _is_companion(entry: Any) -> bool:
    if entry.name == _PIXEL_MASK:
        return entry.type in _MASK_DTYPES and len(entry.shape) == 3
    return bool(entry.name == _ORIGINAL_SIZE and entry.type == "tensor(int64)")


def _preprocess(spec: Spec, preset: str, shape: list[int | None], dtype: str) -> Preprocess:
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
    layout = _layout(spec, shape)
    height, width = (shape[2], shape[3]) if layout == "nchw" else (shape[1], shape[2])
    size = _size(spec, width, height)
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
        return Preprocess(*size, **stated, layout=layout, dtype=dtype)
    except BadArray as error:
        raise BadSpec(f"{spec.text!r}: {error}") from error


def _layout(spec: Spec, shape: list[int | None]) -> Layout | None:
    """What the channel axis of the graph says, or the spec; ``None`` where neither does."""
    first, last = shape[1] == 3, shape[3] == 3
    stated = spec.take("layout", "", choices=get_args(Layout))
    seen = {(True, False): "nchw", (False, True): "nhwc"}.get((first, last))
    possible = [name for name, channels in (("nchw", shape[1]), ("nhwc", shape[3])) if channels in (3, None)]
    if not possible or (stated and stated not in possible):
        raise BadSpec(
            f"{spec.text!r}: expected an input with 3 channels{f' in layout={stated}' if stated else ''}. Got {shape}."
        )
    return stated or seen  # type: ignore[return-value]


def _size(spec: Spec, width: int | None, height: int | None) -> tuple[int, int] | None:
    """Width and height: the graph's where it fixes them, else ``size=640`` or ``size=WIDTHxHEIGHT``."""
    text = spec.take("size", "")
    fixed = (width, height) if width and height else None
    if not text:
        return fixed
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


def _file_hashes(path: Path) -> list[str]:
    """Hashes of the graph and of the external tensors that exporters put beside it."""
    beside = [path.with_name(path.name + ending) for ending in (".data", "_data")]
    hashes = []
    for file in [path, *(p for p in beside if p.is_file())]:
        with file.open("rb") as stream:
            hashes.append(hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest())
    return hashes


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") + "." if lines else f"{type(error).__name__}."

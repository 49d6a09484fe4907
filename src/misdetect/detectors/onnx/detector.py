"""``onnx:FILE,decoder=NAME,…`` — a detector in an ONNX file, run by ONNX Runtime.

The graph says its input's size, layout and type; the decoder says how to read the outputs and which preprocessing its
family uses; all can be stated in the spec, and what nobody states is an error. This offers the ``Detector`` level
only, and opens itself (``white_box``) for studies that need more. It loads no custom operators: the file is untrusted.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from misdetect.detectors.exported import ExportedDetector
from misdetect.detectors.names import names_in_metadata, read_names
from misdetect.detectors.onnx.decoders import DECODER_OPTIONS, decoder_kind
from misdetect.detectors.outputs import Array, Decoder, Frame
from misdetect.detectors.preprocess import PRESETS, Preprocess
from misdetect.detectors.wiring import batch_size_of, file_hash, first_line, limits_of, positive, preprocess_of
from misdetect.errors import BadSpec, BadWeights, DetectorFailed, LevelTooLow, MissingExtra
from misdetect.picture import digest
from misdetect.spec import Spec

_DTYPES = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(uint8)": "uint8"}
_MASK_DTYPES = {"tensor(int64)": "int64", "tensor(bool)": "bool", "tensor(float)": "float32"}
_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
_sessions: "WeakValueDictionary[tuple[Any, ...], Any]" = WeakValueDictionary()
"""Graphs in use: detectors that read one file by different options share it."""
_ORIGINAL_SIZE, _PIXEL_MASK = "orig_target_sizes", "pixel_mask"


class OnnxDetector(ExportedDetector):
    """A detector in an ONNX file."""

    def __init__(
        self,
        session: Any,
        names: Sequence[str],
        preprocess: Preprocess,
        decoder: Decoder,
        *,
        closed: bool = False,
        **about: Any,
    ) -> None:
        super().__init__(names, preprocess, decoder, **about)
        self._session = session
        self._image, *self._others = session.get_inputs()
        self._closed, self._opened = closed, None

    def white_box(self) -> Any:
        """The same file in torch, ``Traced`` and ``Differentiable``, opened when first asked for; an error that says
        why it cannot be, or is not to be (``closed``)."""
        if self._closed:
            raise LevelTooLow(f"{self.spec!r}: level=detector keeps the file closed; without it, it is opened.")
        if self._opened is None:
            self._opened = _open(self)
        return self._opened

    def infer(self, tensor: Array) -> list[Array]:
        """The graph's outputs for a prepared batch."""
        feed = {self._image.name: tensor}
        for entry in self._others:
            feed[entry.name] = self._companion(entry, len(tensor))
        try:
            outputs = self._session.run(None, feed)
        except Exception as error:  # ONNX Runtime's exceptions have no common class of their own
            raise DetectorFailed(f"{self.spec!r}: ONNX Runtime failed: {first_line(error)}") from error
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
    preprocess = preprocess_of(spec, preset, shape, dtype)
    limits = limits_of(spec, kind.nms)
    outputs = tuple(entry.name for entry in session.get_outputs())
    frame = Frame(
        preprocess.width, preprocess.height, len(names), limits["score"], outputs, spec.text, limits["multilabel"]
    )
    decoder = kind.build(frame, spec)
    fixed = isinstance(shape[0], int)
    batch = batch_size_of(spec, shape[0])
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
    options.intra_op_num_threads = positive(spec, "threads", 1)
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
        raise BadWeights(f"{spec.target} cannot be loaded as an ONNX graph: {first_line(error)}") from error


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


def _file_hashes(path: Path) -> list[str]:
    """Hashes of the graph and of the external tensors that exporters put beside it."""
    beside = [path.with_name(path.name + ending) for ending in (".data", "_data")]
    return [file_hash(file) for file in [path, *(p for p in beside if p.is_file())]]

"""An ONNX file: opened by ONNX Runtime, its inputs told apart, its tensors and metadata looked at.

The file is untrusted: no custom operators are loaded, tensors beside it only from its own folder.
"""

import mmap
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # what is looked at is told to nobody; read when it is imported
import onnxruntime

from misdetect.detectors.files import file_hash, file_of, first_line, kind_of_file
from misdetect.detectors.network import told
from misdetect.detectors.onnx.metadata import Metadata
from misdetect.detectors.outputs import Array, plain_name
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec, BadWeights, DetectorFailed

onnxruntime.disable_telemetry_events()  # for whoever has imported it before
DTYPES = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(uint8)": "uint8"}
_NUMBERS = DTYPES | {
    "tensor(double)": "float64",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(bool)": "bool",
}
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
_sessions: "WeakValueDictionary[tuple[Any, ...], Any]" = WeakValueDictionary()
"""Graphs in use: detectors that read one file by different options share it."""
_LOCATION = re.compile(rb"\n\x08location\x12([\x01-\x7f])")
"""How a file names another that holds a tensor: a field of text, its length in one byte."""

COMPANIONS = {
    "orig_target_sizes": lambda width, height: (width, height),  # RT-DETR, D-FINE
    "image_shape": lambda width, height: (height, width),  # YOLOv3 of the ONNX model zoo
    "im_shape": lambda width, height: (height, width),  # PaddleDetection
    "scale_factor": lambda width, height: (1, 1),  # PaddleDetection
    "im_info": lambda width, height: (height, width, 1),  # Caffe2
    "pixel_mask": None,  # transformers' DETR: which pixels are real
}
"""Inputs beside the image, and what each is told: that the image has the network's size, and all its pixels are real.
Boxes then come in pixels of the network's input, and the way back to the image is the detector's own."""


@dataclass(frozen=True)
class Entry:
    """An input or output: its ``shape``, with ``None`` where an axis is dynamic, and NumPy's name of its type."""

    name: str
    shape: tuple[int | None, ...]
    dtype: str

    def __str__(self) -> str:
        return told(self.name, self.dtype, self.shape)


@dataclass(frozen=True)
class OnnxFile:
    """A graph of one ``image`` and what it says of itself; ``companions`` are the inputs beside it, ``results`` its
    outputs. It is a ``Network`` of ``exported``."""

    path: Path
    session: Any
    image: Entry
    companions: tuple[Entry, ...]
    results: tuple[Entry, ...]
    metadata: Metadata
    spec: str
    runtime = "ONNX Runtime"
    classes = None

    @classmethod
    def open(cls, spec: Spec, *, device: str = "cpu", threads: int = 1) -> "OnnxFile":
        """The graph that ``spec`` names; a sentence where there is none, or one that does not look at an image."""
        path = file_of(spec)
        session = _session(path, spec, device, threads)
        inputs = [_entry(each) for each in session.get_inputs()]
        results = tuple(_entry(each) for each in session.get_outputs())
        metadata = Metadata.of(session.get_modelmeta().custom_metadata_map, spec.text)
        companions = tuple(each for each in inputs if _is_companion(each))
        images = [each for each in inputs if each not in companions]
        if len(images) > 1:
            raise BadSpec(
                f"{spec.text!r}: the graph also wants {images[1].name!r}; only graphs of one image can be run "
                f"(known beside it: {', '.join(COMPANIONS)})."
            )
        if not images:
            raise BadSpec(f"{spec.text!r}: the graph has no input for an image.")
        found = cls(path, session, images[0], companions, results, metadata, spec.text)
        shape = found.shape
        if len(shape) != 4 or (not found.batched and 3 not in (shape[1], shape[3])):
            raise BadSpec(f"{spec.text!r}: expected an image as input, such as [1, 3, H, W]. Got {found.image}.")
        if found.dtype not in DTYPES.values():
            raise BadSpec(
                f"{spec.text!r}: expected an image as input, of {', '.join(DTYPES.values())}. Got {found.image}."
            )
        return found

    @property
    def batched(self) -> bool:
        """Whether the image has a batch axis; torchvision's exports have none."""
        return len(self.image.shape) == 4

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The image's shape with a batch axis."""
        return self.image.shape if self.batched else (1, *self.image.shape)

    @property
    def dtype(self) -> str:
        """The type in which the graph wants pixels."""
        return self.image.dtype

    @property
    def inputs(self) -> tuple[str, ...]:
        """Its inputs in words, the image first."""
        return tuple(str(entry) for entry in (self.image, *self.companions))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of its outputs."""
        return tuple(entry.name for entry in self.results)

    @property
    def described(self) -> tuple[str, ...]:
        """Its outputs in words."""
        return tuple(str(entry) for entry in self.results)

    def run(self, tensor: Array) -> list[Array]:
        """The outputs for a batch of images, which fill the network's input."""
        height, width = tensor.shape[1:3] if tensor.shape[3] == 3 else tensor.shape[2:]
        feed = {self.image.name: tensor if self.batched else tensor[0]}
        for entry in self.companions:
            feed[entry.name] = _companion(entry, len(tensor), width, height)
        try:
            outputs = self.session.run(None, feed)
        except Exception as error:  # ONNX Runtime's exceptions have no common class of their own
            raise DetectorFailed(f"{self.spec!r}: ONNX Runtime failed: {first_line(error)}") from error
        if not all(isinstance(output, np.ndarray) for output in outputs):
            raise DetectorFailed(f"{self.spec!r}: the graph returns sequences or maps; only tensors can be decoded.")
        return list(outputs)

    def hashes(self) -> list[str]:
        """Hashes of the graph and of the tensors beside it."""
        return [file_hash(file) for file in [self.path, *outside_tensors(self.path)] if file.is_file()]


def outside_tensors(path: Path) -> list[Path]:
    """The files beside ``path`` that it says hold its tensors, each once."""
    with path.open("rb") as stream:
        if not path.stat().st_size:
            return []
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            named = {data[m.end() : m.end() + m[1][0]] for m in _LOCATION.finditer(data)}
    texts = sorted(name.decode(errors="replace") for name in named)
    return [path.parent / text for text in texts if "\0" not in text]


def _entry(node: Any) -> Entry:
    shape = tuple(size if isinstance(size, int) and size > 0 else None for size in node.shape)
    return Entry(node.name, shape, _NUMBERS.get(node.type, node.type))


def _is_companion(entry: Entry) -> bool:
    name = plain_name(entry.name)
    if name not in COMPANIONS or entry.dtype not in _NUMBERS.values():
        return False
    return len(entry.shape) == (3 if COMPANIONS[name] is None else 2)


def _companion(entry: Entry, count: int, width: int, height: int) -> Array:
    told = COMPANIONS[plain_name(entry.name)]
    if told is None:
        sides = [size or own for size, own in zip(entry.shape[1:], (height, width), strict=True)]
        return np.ones((count, *sides), entry.dtype)
    return np.repeat(np.array([told(width, height)], entry.dtype), count, axis=0)


def _session(path: Path, spec: Spec, device: str, threads: int) -> Any:
    if PROVIDERS[device] not in onnxruntime.get_available_providers():
        raise BadSpec(
            f"{spec.text!r}: device={device} needs an ONNX Runtime built for it (pip install onnxruntime-gpu)."
        )
    stat = path.stat()
    key = str(path.resolve()), stat.st_size, stat.st_mtime_ns, device, threads
    session = _sessions.get(key)
    if session is None:
        _refuse_outside(path)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        try:
            session = onnxruntime.InferenceSession(str(path), options, providers=[PROVIDERS[device]])
        except Exception as error:  # ONNX Runtime's exceptions have no common class of their own
            raise BadWeights(_unreadable(path, spec, error)) from error
        _sessions[key] = session
    return session


def _refuse_outside(path: Path) -> None:
    """ONNX Runtime looks for tensors wherever the file says, in its older versions at least."""
    folder = path.parent.resolve()
    for file in outside_tensors(path):
        if not file.resolve().is_relative_to(folder):
            raise BadWeights(
                f"{path} says that its tensors are in {file}, outside of its folder: such a file is not read."
            )


def _unreadable(path: Path, spec: Spec, error: Exception) -> str:
    """What is in a file that ONNX Runtime does not take."""
    text = first_line(error)
    with path.open("rb") as stream:
        head, size = stream.read(64), path.stat().st_size
    if head.startswith(b"version https://git-lfs"):
        return f"{spec.target} is a pointer of Git LFS and not the file itself: run git lfs pull."
    if operator := re.search(r"([\w.]*:?\w+)\(-?\d+\) is not a registered function/op", text):
        return (
            f"{spec.target} cannot be loaded as an ONNX graph: it uses the operator {operator[1]}, which ONNX "
            f"Runtime does not have; export it without custom operators."
        )
    if "INVALID_PROTOBUF" in text or not size:
        found = f"its {size} bytes are not one, or not all of it ({kind_of_file(path)})"
        return f"{spec.target} cannot be loaded as an ONNX graph: {found}."
    return f"{spec.target} cannot be loaded as an ONNX graph: {text}"

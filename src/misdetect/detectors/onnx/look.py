"""A look at an ONNX file: the spec to use it by, with what is sure of it and what is guessed.

``misdetect detectors FILE.onnx`` shows it, and ``onnx:FILE`` without a decoder goes by it where nothing is guessed.
"""

from dataclasses import dataclass
from typing import Any

from misdetect.detectors.names import read_names
from misdetect.detectors.onnx.advice import advise
from misdetect.detectors.onnx.file import DTYPES, OnnxFile
from misdetect.detectors.onnx.seen import Finding, Reading, Seen
from misdetect.detectors.outputs import Array, plain_name, shapes_of
from misdetect.detectors.preprocess import Layout
from misdetect.detectors.probe import completed, noise
from misdetect.detectors.wiring import layout_of, needs_preset, sides_of, size_stated
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec, DetectorFailed

_USUAL_SIZE = 640
_ZOO_SIZE = 416
"""Of the ONNX model zoo's YOLOv3."""


@dataclass(frozen=True)
class Look:
    """What was found in ``file``: the ``decoder`` that reads it, ``findings``, which are the options that its spec does
    not say, ``shapes``, those of its outputs for one image, and ``classes``, how many the outputs show."""

    file: OnnxFile
    decoder: str
    findings: tuple[Finding, ...]
    shapes: tuple[tuple[int, ...], ...]
    classes: int | None

    @property
    def guessed(self) -> tuple[Finding, ...]:
        """What nothing in the file shows."""
        return tuple(finding for finding in self.findings if not finding.sure)

    def spec(self, given: Spec) -> str:
        """``given`` with all that was found and need be said."""
        return completed(given, self.findings)

    def document(self, given: Spec) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "file": str(self.file.path),
            "spec": self.spec(given),
            "sure": not self.guessed,
            "inputs": [str(entry) for entry in (self.file.image, *self.file.companions)],
            "outputs": [str(entry) for entry in self.file.results],
            "classes": self.classes,
            "findings": [finding._asdict() for finding in self.findings],
        }


def look_at(file: OnnxFile, given: Spec) -> Look:
    """What can be found out about ``file``, of which ``given`` already says some options.

    Raises ``BadSpec`` where its outputs are no detections, or nobody knows how to read them.
    """
    layout = file_layout(file, given) or "nchw"
    size, sized = _size(file, given, layout)
    refuse_between_strides(given, file, *size)
    outputs, single = _probe(file, given, layout, size)
    names = names_of(file, given)
    seen = Seen(
        file.outputs,
        tuple(outputs),
        *size,
        None if names is None else len(names),
        frozenset(plain_name(entry.name) for entry in file.companions),
        file.metadata,
        file.batched,
    )
    try:
        reading = advise(seen)
    except BadSpec as error:
        raise BadSpec(f"{given.text!r}: {error}") from error
    findings = (
        *reading.findings,
        *_names(file, names, reading),
        *_preset(file, given, reading),
        *sized,
        *_batch(single),
    )
    kept = tuple(finding for finding in findings if finding.option not in given.options)
    return Look(file, reading.findings[0].value, kept, shapes_of(outputs), reading.classes)


def file_layout(file: OnnxFile, spec: Spec) -> Layout | None:
    """What the channel axis of the graph says, or the spec; ``None`` where neither does."""
    shape = file.shape
    if len(shape) != 4 or (not file.batched and 3 not in (shape[1], shape[3])):
        raise BadSpec(f"{spec.text!r}: expected an image as input, such as [1, 3, H, W]. Got {file.image}.")
    if file.image.dtype not in DTYPES.values():
        raise BadSpec(f"{spec.text!r}: expected an image as input, of {', '.join(DTYPES)}. Got {file.image}.")
    return layout_of(spec, shape, str(file.image))


def names_of(file: OnnxFile, spec: Spec) -> tuple[str, ...] | None:
    """The class names: those of the spec, else those in the file."""
    given = spec.options.get("names", "")
    return read_names(given, spec.text) if given else file.metadata.names


def refuse_between_strides(spec: Spec, file: OnnxFile, width: int, height: int) -> None:
    """Complain of a size that is stated for a graph of any size and does not go with the stride in its metadata."""
    stride = file.metadata.stride or 1
    if (width % stride or height % stride) and None in file.shape[1:]:
        raise BadSpec(
            f"{spec.text!r}: expected a size of multiples of {stride}, the file's stride. Got {width}x{height}."
        )


def _size(file: OnnxFile, given: Spec, layout: Layout) -> tuple[tuple[int, int], list[Finding]]:
    width, height = sides_of(file.shape, layout)
    if width and height:
        return (width, height), []
    if stated := size_stated(given):
        return (width or stated[0], height or stated[1]), []
    if file.metadata.size is not None:
        own = (width or file.metadata.size[0], height or file.metadata.size[1])
        why = "the metadata says so (imgsz)"
        return own, [Finding("size", f"{own[0]}x{own[1]}", True, why, implied=True)]
    zoo = any(plain_name(entry.name) == "image_shape" for entry in file.companions)
    usual = width or height or (_ZOO_SIZE if zoo else _USUAL_SIZE)
    why = "the graph takes any size, and nothing says which it was trained with"
    return (width or usual, height or usual), [Finding("size", f"{width or usual}x{height or usual}", False, why)]


def _probe(file: OnnxFile, given: Spec, layout: Layout, size: tuple[int, int]) -> tuple[list[Array], bool]:
    """The outputs for noise, and whether a graph of any number of images takes but one."""
    fixed = file.shape[0]
    asked = given.options.get("batch", "")
    counts = [fixed] if fixed else [int(asked)] if asked in ("1", "2") else [2, 1]
    width, height = size
    for count in counts:
        try:
            return file.run(noise(count, *size, layout, file.dtype)), not fixed and count == 1 and not asked
        except DetectorFailed as error:
            if count == counts[-1]:
                free = None in sides_of(file.shape, layout)
                tried = f" It was tried with an image of {width}x{height}; size= states another." if free else ""
                raise BadSpec(f"{error}{tried}") from error
    raise AssertionError("a graph is run at least once")


def _names(file: OnnxFile, names: tuple[str, ...] | None, reading: Reading) -> list[Finding]:
    if names is not None:
        why = f"{len(names)} in the metadata"
        return [Finding("names", names[0] + ", …", True, why, implied=True)] if names == file.metadata.names else []
    shown = "the outputs do not show how many" if reading.classes is None else f"{reading.classes} classes"
    known = {None: "coco", 80: "coco", 91: "coco91"}.get(reading.classes, "")
    if known:
        return [Finding("names", known, False, f"{shown}, and the file has no names; COCO's are the most common")]
    return [Finding("names", "FILE", False, f"{shown}, and the file has no names")]


def _preset(file: OnnxFile, given: Spec, reading: Reading) -> tuple[Finding, ...]:
    if not needs_preset(given):
        return ()
    if file.image.dtype == "uint8":
        why = "the graph takes whole pixels"
        return (
            Finding("resize", "stretch", False, "graphs of whole pixels mostly resize by themselves"),
            Finding("colour", "rgb", False, "more common than BGR"),
            Finding("scale", "1", True, why),
        )
    return reading.preset


def _batch(single: bool) -> list[Finding]:
    return [Finding("batch", "1", True, "the graph takes one image at a time, whatever it says")] if single else []

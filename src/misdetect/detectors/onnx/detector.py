"""``onnx:FILE,decoder=NAME,…`` — a detector in an ONNX file, run by ONNX Runtime.

The graph and its metadata say the input's size, layout and type, and mostly how to read the outputs (``look``); the
decoder says which preprocessing its family uses; all can be stated in the spec, and what nobody states is an error.
This offers the ``Detector`` level only, and opens itself (``white_box``) for studies that need more.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from misdetect.detectors.exported import ExportedDetector, assemble
from misdetect.detectors.onnx.decoders import decoder_kind
from misdetect.detectors.onnx.file import PROVIDERS, OnnxFile
from misdetect.detectors.onnx.look import Look, file_layout, look_at, names_of, refuse_between_strides
from misdetect.detectors.probe import add_sure, refuse_guesses, refuse_task
from misdetect.detectors.wiring import positive
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec, DetectorFailed, LevelTooLow, MissingExtra


class OnnxDetector(ExportedDetector):
    """A detector in an ONNX ``file``."""

    def __init__(self, file: OnnxFile, *parts: Any, closed: bool = False, **about: Any) -> None:
        super().__init__(file, *parts, **about)
        self.file = file
        self._closed, self._opened = closed, None

    def white_box(self) -> Any:
        """The same file in torch, ``Traced`` and ``Differentiable``, opened when first asked for; an error that says
        why it cannot be, or is not to be (``closed``)."""
        if self._closed:
            raise LevelTooLow(f"{self.spec!r}: level=detector keeps the file closed; without it, it is opened.")
        if self._opened is None:
            self._opened = _open(self)
        return self._opened


D = TypeVar("D", bound=OnnxDetector)


def load_onnx(spec: Spec) -> object:
    """The detector that ``spec`` describes; see docs/detectors.md for its options."""
    level = spec.take("level", "auto", choices=("auto", "detector", "differentiable"))
    detector = load_with(partial(OnnxDetector, closed=level == "detector"), spec)
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


def described(spec: Spec) -> dict[str, Any]:
    """What ``look_into`` finds, as the document of ``misdetect detectors FILE``."""
    return look_into(spec).document(spec)


def _file(spec: Spec) -> OnnxFile:
    device = spec.take("device", "cpu", choices=tuple(PROVIDERS))
    return OnnxFile.open(spec, device=device, threads=positive(spec, "threads", 1))


def load_with(make: Callable[..., D], spec: Spec) -> D:
    """What ``make`` makes of the file that ``spec`` names, tried on blank images."""
    stated = spec.take("decoder", "")
    if stated:
        decoder_kind(stated, spec)  # complain of a decoder that is none before the file is opened
    file = _file(spec)
    shapes = _complete(spec, file)
    spec.take("names", "")
    names = names_of(file, spec)
    if names is None:
        raise BadSpec(f"{spec.text!r}: the file carries no class names; give names=coco or names=FILE.")
    file_layout(file, spec)  # complain of an input that is no image
    detector = assemble(make, spec, file, names, hashes=file.hashes(), exported=file.metadata.size, shapes=shapes)
    refuse_between_strides(spec, file, detector.preprocess.width, detector.preprocess.height)
    detector.try_out()
    return detector


def _complete(spec: Spec, file: OnnxFile) -> tuple[tuple[int, ...], ...]:
    """Add to the options of ``spec`` what a look at the file is sure of, and return its outputs' shapes.

    Without ``decoder=`` everything has to be sure. With it, only what belongs to that decoder is added, and a file that
    nobody understands is the decoder's to complain of.
    """
    stated = spec.options.get("decoder", "")
    if stated.startswith("python:"):
        return ()
    refuse_task(spec, file.metadata)
    try:
        look = look_at(file, spec)
    except (BadSpec, DetectorFailed):
        if not stated:
            raise
        return ()
    if not stated:
        more = f" (misdetect detectors {spec.target} says what was seen and what is guessed)"
        refuse_guesses(spec, look.findings, more)
    add_sure(spec, look.findings, look.decoder)
    return look.shapes

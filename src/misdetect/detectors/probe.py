"""How a network in a file is to be read, as far as it shows it: by its outputs for noise, and by what its exporter
wrote into it. What is sure need not be stated in a spec; what is guessed is only proposed."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from misdetect.detectors.files import first_line
from misdetect.detectors.onnx.advice import advise
from misdetect.detectors.onnx.metadata import Metadata
from misdetect.detectors.onnx.seen import Finding, Seen
from misdetect.detectors.outputs import Array, shapes_of
from misdetect.detectors.wiring import layout_of, needs_preset, sides_of, size_stated
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec, DetectorFailed


def refuse_task(spec: Spec, metadata: Metadata) -> None:
    """Complain of a file that says it is of another task."""
    if metadata.task and metadata.task != "detect":
        raise BadSpec(
            f"{spec.text!r}: the file says of itself that it is for the task {metadata.task!r}, not for detection."
        )


def completed(spec: Spec, findings: Iterable[Finding]) -> str:
    """The text of ``spec`` with what was found and need be said."""
    said = [f for f in findings if not f.implied and f.option not in spec.options]
    return ",".join([spec.text, *(f"{f.option.replace('_', '-')}={f.value}" for f in said)])


def refuse_guesses(spec: Spec, findings: Sequence[Finding], more: str = "") -> None:
    """Complain of what is not sure and what ``spec`` does not say; ``more`` is what else can be done."""
    guessed = [f.option.replace("_", "-") for f in findings if not f.sure and f.option not in spec.options]
    if guessed:
        raise BadSpec(
            f"{spec.text!r}: nothing in the file states {', '.join(dict.fromkeys(guessed))}; where that is as usual, "
            f"the spec is {completed(spec, findings)!r}{more}."
        )


def add_sure(spec: Spec, findings: Iterable[Finding], decoder: str) -> None:
    """Add to the options of ``spec`` what is sure of ``decoder``; where it states another, nothing."""
    stated = spec.options.get("decoder", "")
    if stated in ("", decoder) or {stated, decoder} <= {"yolov8", "yolo11"}:
        for finding in findings:
            if finding.sure and not finding.implied:
                spec.options.setdefault(finding.option, finding.value)


def complete(spec: Spec, network: Any, classes: int, metadata: Metadata) -> tuple[tuple[int, ...], ...]:
    """Add to the options of ``spec`` what a ``Network`` shows beyond doubt, and return the shapes of its outputs for
    one image, with the batch axis; none where it cannot be run on noise.

    Without ``decoder=`` everything has to be sure. With it, a network that nobody understands is the decoder's to
    complain of.
    """
    stated = spec.options.get("decoder", "")
    size = _size(spec, network, metadata)
    if stated.startswith("python:") or size is None:
        return ()
    refuse_task(spec, metadata)
    try:
        outputs = network.run(noise(network.shape[0] or 1, *size, layout_of(spec, network.shape), network.dtype))
        reading = advise(Seen(network.outputs, tuple(outputs), *size, classes, metadata=metadata))
    except BadSpec as error:
        if not stated:
            raise BadSpec(f"{spec.text!r}: {error}") from error
        return ()
    except Exception as error:  # runtimes' exceptions have no common class
        if not stated:
            raise DetectorFailed(f"{spec.text!r}: {network.runtime} failed: {first_line(error)}") from error
        return ()
    findings = (*reading.findings, *(reading.preset if needs_preset(spec) else ()))
    if not stated:
        refuse_guesses(spec, findings)
    add_sure(spec, findings, reading.findings[0].value)
    return shapes_of(outputs)


def _size(spec: Spec, network: Any, metadata: Metadata) -> tuple[int, int] | None:
    """Width and height of the network's input, where they are known."""
    width, height = sides_of(network.shape, layout_of(spec, network.shape))
    if width and height:
        return width, height
    if stated := size_stated(spec):
        return width or stated[0], height or stated[1]
    return metadata.size


def noise(count: int, width: int, height: int, layout: str | None, dtype: str) -> Array:
    """A batch of noise as the input of a network; the same whenever it is made."""
    shape = (count, height, width, 3) if layout == "nhwc" else (count, 3, height, width)
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    return pixels if dtype == "uint8" else (pixels / 255).astype(dtype)

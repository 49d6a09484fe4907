"""A look at a network in a file: the spec to use it by, with what is sure of it and what is guessed.

The network is run once on noise; shapes, types and values of its outputs, names of inputs and outputs, and what its
exporter wrote into it say how it is to be read. ``misdetect detectors FILE`` shows it, and a spec that leaves options
out goes by it (``exported``).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from misdetect.detectors.files import first_line
from misdetect.detectors.names import COCO, COCO91, read_names
from misdetect.detectors.network import Exported
from misdetect.detectors.onnx.advice import advise
from misdetect.detectors.onnx.decoders import DECODERS
from misdetect.detectors.onnx.heads import ANCHORS
from misdetect.detectors.onnx.metadata import Metadata
from misdetect.detectors.onnx.seen import Finding, Reading, Seen
from misdetect.detectors.onnx.suppressed import LAYOUTS
from misdetect.detectors.outputs import Array, plain_name, shapes_of
from misdetect.detectors.preprocess import PRESETS
from misdetect.detectors.wiring import layout_of, needs_preset, sides_of, size_stated
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec, DetectorFailed, MisdetectError

SIZES = (640, 416, 320, 512, 800, 300, 224)
"""Sides of a network's input, the most usual first."""
_ZOO_SIZE = 416
"""Of the ONNX model zoo's YOLOv3."""
_COCOS = {"coco": COCO, "coco91": COCO91}
Options = Mapping[str, str]
UNKNOWN = "FILE"
"""What stands for names that nobody can guess."""


@dataclass(frozen=True)
class Look:
    """What was found in ``file``: the ``decoder`` that reads it, ``findings``, which are the options that its spec does
    not say, ``shapes``, those of its outputs for one image, ``classes``, how many the outputs show, and ``others``:
    what else the outputs could mean, each as options that differ from the findings."""

    file: Exported
    decoder: str
    findings: tuple[Finding, ...]
    shapes: tuple[tuple[int, ...], ...]
    classes: int | None
    outputs: tuple[str, ...]
    others: tuple[Options, ...] = ()

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
            "inputs": list(self.file.network.inputs),
            "outputs": list(self.outputs),
            "classes": self.classes,
            "findings": [finding._asdict() for finding in self.findings],
        }


def completed(spec: Spec, findings: Iterable[Finding]) -> str:
    """The text of ``spec`` with what was found and need be said."""
    said = [f for f in findings if not f.implied and f.option not in spec.options]
    return ",".join([spec.text, *(f"{f.option.replace('_', '-')}={f.value}" for f in said)])


def refuse_task(spec: Spec, metadata: Metadata) -> None:
    """Complain of a file that says it is of another task."""
    if metadata.task and metadata.task != "detect":
        raise BadSpec(
            f"{spec.text!r}: the file says of itself that it is for the task {metadata.task!r}, not for detection."
        )


def look_at(file: Exported, given: Spec) -> Look:
    """What can be found out about ``file``, of which ``given`` already says some options.

    Raises ``BadSpec`` where its outputs are no detections, or nobody knows how to read them.
    """
    stated = dict(file.stated)
    given = replace(given, options=stated | given.options)
    layout = layout_of(given, file.network.shape, file.network.inputs[0]) or "nchw"
    size, sized = _size(file, given, layout)
    refuse_between_strides(given, file, *size)
    outputs, single = _probe(file, given, layout, size)
    seen = Seen(
        file.network.outputs,
        tuple(outputs),
        *size,
        None,
        file.companions,
        file.metadata,
        file.batched,
    )
    reading, names, others = _readings(file, given, seen)
    findings = (*reading.findings, *names, *_preset(file, given, reading), *sized, *_batch(single))
    kept = tuple(finding for finding in findings if finding.option not in given.options)
    said = [_described(file, name, output) for name, output in zip(file.network.outputs, outputs, strict=True)]
    return Look(file, reading.findings[0].value, kept, shapes_of(outputs), reading.classes, tuple(said), others)


def _described(file: Exported, name: str, output: Array) -> str:
    known: dict[str, str] = {entry.partition(" ")[0]: entry for entry in getattr(file.network, "described", ())}
    return known.get(name, f"{name} {output.dtype}{list(output.shape)}")


def refuse_between_strides(spec: Spec, file: Exported, width: int, height: int) -> None:
    """Complain of a size that is stated for a graph of any size and does not go with the stride in its metadata."""
    stride = file.metadata.stride or 1
    if (width % stride or height % stride) and None in list(file.network.shape)[1:]:
        raise BadSpec(
            f"{spec.text!r}: expected a size of multiples of {stride}, the file's stride. Got {width}x{height}."
        )


def _size(file: Exported, given: Spec, layout: Any) -> tuple[tuple[int, int], list[Finding]]:
    width, height = sides_of(file.network.shape, layout)
    if width and height:
        return (width, height), []
    if stated := size_stated(given):
        return (width or stated[0], height or stated[1]), []
    if file.metadata.size is not None:
        own = (width or file.metadata.size[0], height or file.metadata.size[1])
        why = "the metadata says so (imgsz)"
        return own, [Finding("size", f"{own[0]}x{own[1]}", True, why, implied=True)]
    why = "the graph takes any size, and nothing says which it was trained with"
    one = width or height
    sides = (one,) if one else (_ZOO_SIZE,) if "image_shape" in file.companions else SIZES
    sizes = [(width or side, height or side) for side in sides]
    found = next((size for size in sizes if len(sizes) > 1 and _runs(file, layout, size)), sizes[0])
    return found, [Finding("size", f"{found[0]}x{found[1]}", False, why)]


def _runs(file: Exported, layout: Any, size: tuple[int, int]) -> bool:
    """Whether the network runs on an image of ``size`` at all: one that was traced has a size that it does not say."""
    try:
        file.network.run(noise(file.network.shape[0] or 1, *size, layout, file.network.dtype))
    except Exception:  # runtimes' exceptions have no common class
        return False
    return True


def noise(count: int, width: int, height: int, layout: str | None, dtype: str) -> Array:
    """A batch of noise as the input of a network; the same whenever it is made."""
    shape = (count, height, width, 3) if layout == "nhwc" else (count, 3, height, width)
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    return pixels if dtype == "uint8" else (pixels / 255).astype(dtype)


def _probe(file: Exported, given: Spec, layout: str, size: tuple[int, int]) -> tuple[list[Array], bool]:
    """The outputs for noise, and whether a graph of any number of images takes but one."""
    network, fixed, asked = file.network, file.network.shape[0] if file.batched else 1, given.options.get("batch", "")
    counts = (fixed,) if fixed else (int(asked),) if asked in ("1", "2") else file.tries
    for count in counts:
        try:
            outputs = network.run(noise(count, *size, layout, network.dtype))
            if count > 1 and not fixed and all(output.ndim > 2 and len(output) == 1 for output in outputs):
                continue  # it looks at the first alone, or at all of them as one
            return [output.copy() for output in outputs], not fixed and not asked and count == 1 < counts[0]
        except Exception as error:  # runtimes' exceptions have no common class
            if count == counts[-1]:
                free = None in sides_of(network.shape, layout)  # type: ignore[arg-type]
                tried = f" It was tried with an image of {size[0]}x{size[1]}; size= states another." if free else ""
                own = isinstance(error, MisdetectError)
                said = str(error) if own else f"{given.text!r}: {network.runtime} failed: {first_line(error)}"
                raise (BadSpec if free or own else DetectorFailed)(said + tried) from error
    raise AssertionError("a graph is run at least once")


# --- classes, and what else could be meant ---------------------------------------------------------------------------


def names_of(file: Exported, spec: Spec) -> tuple[str, ...] | None:
    """The class names: those of the spec, else those in the file, else those that are known from before."""
    given = spec.options.get("names", "")
    return read_names(given, spec.text) if given else file.metadata.names or spec.known_names


def usual_names(spec: Spec, file: Exported) -> Iterator[tuple[Finding, tuple[str, ...]]]:
    """Classes that a network is likely to have where neither spec nor file says: those of the data, then COCO's."""
    data, written = spec.data_names() if spec.data_names is not None else (COCO, "")
    if data != COCO:
        why = f"the {len(data)} classes of the data"
        yield Finding("names", written or "the data's", False, why, implied=not written), data
    for value, names in tuple(_COCOS.items())[file.first_label == 1 :]:  # whose labels are ids
        yield Finding("names", value, False, "COCO's are the most common"), names


def is_coco(names: Finding) -> bool:
    """Whether ``names`` are COCO's, which are only the most common."""
    return names.value in _COCOS


def fits(file: Exported, names: tuple[str, ...]) -> bool:
    """Whether ``names`` are as many as the network says itself that it tells apart."""
    own = file.network.classes
    return own is None or len(names) - has_background(names) == own


def has_background(names: tuple[str, ...]) -> bool:
    """Whether the first of ``names`` stands for no class, so that they are numbered by ids that start at 1."""
    return names[0].startswith("unused ")


def _readings(file: Exported, given: Spec, seen: Seen) -> tuple[Reading, tuple[Finding, ...], tuple[Options, ...]]:
    """How the outputs are read, the finding of their names, and what else they could mean."""
    names = names_of(file, given)
    if names is not None:
        reading = _advised(replace(seen, classes=len(names)), given, file)
        own = Finding("names", names[0] + ", …", True, f"{len(names)} in the metadata", implied=True)
        return reading, (own,) if names == file.metadata.names else (), tuple(_variations(reading))
    shown = _advised(seen, given, file)
    found: list[tuple[int, Reading, Finding]] = []
    for finding, usual in usual_names(given, file):
        try:
            reading = _advised(replace(seen, classes=len(usual)), given, file)
        except BadSpec:
            continue
        if fits(file, usual) and reading.classes in (None, len(usual)):
            new = not is_coco(finding) and not set(usual) <= set(COCO91)
            unlike = shown.classes not in (None, len(usual))
            if unlike and is_coco(finding) and reading.findings[0].value != "nms":
                continue  # another reading of the same numbers; of graphs that suppress, the number is only usual
            found.append((-1 if new else int(unlike), _unsure(reading), finding))
    if not found:
        number = file.network.classes or shown.classes
        what = "the outputs do not show how many" if number is None else f"{number} classes"
        return shown, (Finding("names", UNKNOWN, False, f"{what}, and nothing names them"),), ()
    _, reading, finding = min(found, key=lambda each: each[0])
    count = file.network.classes or shown.classes
    told = "the outputs do not show how many" if count is None else f"{count} classes"
    named = finding._replace(why=f"{told}, and the file has no names; {finding.why}")
    others = [
        _options(each) | {"names": other.value} for _, each, other in found if other != finding and not other.implied
    ]
    return reading, (named,), (*_variations(reading), *others)


def _unsure(reading: Reading) -> Reading:
    """Of outputs whose classes nobody counted, the decoder is as sure as the count."""
    first, *rest = reading.findings
    return replace(reading, findings=(first._replace(sure=first.sure and first.value == "nms"), *rest))


def _advised(seen: Seen, given: Spec, file: Exported) -> Reading:
    try:
        reading = advise(seen)
    except BadSpec as error:
        raise BadSpec(f"{given.text!r}: {error}") from error
    if file.first_label is not None:  # its runtime knows better than names of outputs do
        reading = replace(reading, findings=tuple(f for f in reading.findings if f.option != "labels_from"))
    return reading


def _options(reading: Reading) -> dict[str, str]:
    return {finding.option: finding.value for finding in reading.findings}


def _variations(reading: Reading) -> Iterator[Options]:
    """What else the guessed ones among the options of ``reading`` could be, one at a time."""
    for finding in reading.findings:
        if finding.sure:
            continue
        width = finding.value.count(",")
        usual = {
            "columns": tuple(each for each in LAYOUTS if each.count(",") == width),
            "labels_from": ("0", "1"),
            "units": ("pixels", "shares"),
            "boxes": ("xyxy", "yxyx"),
            "anchors": tuple(ANCHORS),
            "middle": ("0.5", "0"),
        }
        for value in usual.get(finding.option, ()):
            if value != finding.value:
                yield {finding.option: value}


# --- preprocessing ---------------------------------------------------------------------------------------------------


def _preset(file: Exported, given: Spec, reading: Reading) -> tuple[Finding, ...]:
    """How pixels become values, as far as nothing states it."""
    if not needs_preset(given):
        return ()
    usual = tuple(Finding(option, value, False, why) for option, (value, why) in file.usual.items())
    if usual:
        return usual
    if file.network.dtype == "uint8":
        family = PRESETS.get(DECODERS[reading.findings[0].value].preset or "", {})
        why = "usual for its decoder" if family else "graphs of whole pixels mostly resize by themselves"
        found = {"resize": "stretch", "colour": "rgb"} | {
            name: str(family[name]) for name in ("resize", "colour", "pad") if name in family
        }
        pixels = Finding("scale", "1", True, "the graph takes whole pixels")
        return (*(Finding(name, value, False, why) for name, value in found.items()), pixels)
    return reading.preset


def preset_is_open(spec: Spec) -> bool:
    """Whether neither ``spec`` nor the decoder that it states says how pixels become values."""
    kind = DECODERS.get(spec.options.get("decoder", ""))
    return needs_preset(spec) and (kind is None or kind.preset is None)


def _batch(single: bool) -> list[Finding]:
    return [Finding("batch", "1", True, "the graph takes one image at a time, whatever it says")] if single else []


def companions_of(names: Iterable[str]) -> frozenset[str]:
    """The plain names of the inputs beside the image."""
    return frozenset(plain_name(name) for name in names)

"""A network in a file as a detector: what all runtimes share.

``detect`` is ``prepare`` (the network's input), ``infer`` (its outputs, by whatever runs it) and ``decode`` for each
batch in turn. A runtime adds a ``Network``, how a file is opened and run; ``load_exported`` makes a detector of it.
What neither the spec nor the file says is assumed (``Guess``), and the detector says so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from misdetect.detectors.files import first_line
from misdetect.detectors.look import (
    UNKNOWN,
    Look,
    Options,
    fits,
    has_background,
    is_coco,
    look_at,
    names_of,
    preset_is_open,
    refuse_between_strides,
    refuse_task,
    usual_names,
)
from misdetect.detectors.network import Exported, Network
from misdetect.detectors.onnx.decoders import DECODER_OPTIONS, UserDecoder, decoder_kind
from misdetect.detectors.onnx.seen import Finding
from misdetect.detectors.outputs import Array, Decoder, Frame, Readout
from misdetect.detectors.preprocess import PRESETS, Placement, Preprocess, place
from misdetect.detectors.selection import Selection
from misdetect.detectors.wiring import DEFAULT_BATCH, WIRING, batch_size_of, limits_of, needs_preset, preprocess_of
from misdetect.nouns.boxes import clip
from misdetect.nouns.detections import Detections
from misdetect.nouns.picture import Pixels, check_pixels, digest
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadArray, BadSpec, DetectorFailed, MisdetectError


@dataclass(frozen=True, eq=False)
class Guess:
    """What was assumed of a network: ``findings``, options of its spec that nothing states, and ``added``, what its
    spec is to say beyond what was ``given``. ``readings`` are other ways to read its outputs, as options; unless
    ``wired``, how pixels become values was assumed as well, but for the options that are ``fixed``. ``build`` makes a
    detector by a spec."""

    given: Spec
    findings: tuple[Finding, ...]
    added: Options
    readings: tuple[Options, ...]
    fixed: frozenset[str]
    wired: bool
    build: "Callable[[Spec], ExportedDetector]"

    def spec(self, options: Options) -> Spec:
        """The whole spec, with ``options`` in place of what was assumed."""
        dropped = WIRING if WIRING & options.keys() else frozenset()
        added = {name: value for name, value in self.added.items() if name not in dropped} | {**options}
        text = ",".join([self.given.text, *(f"{name.replace('_', '-')}={value}" for name, value in added.items())])
        return replace(self.given, text=text, options={**self.given.options, **added})

    @property
    def usual(self) -> Options:
        """What the decoder's family does, which a spec has to say otherwise."""
        kind, _ = decoder_kind({**self.added, **self.given.options}.get("decoder", "nms"), self.given)
        return {name: str(value) for name, value in PRESETS.get(kind.preset or "", {}).items()}

    def make(self, options: Options) -> "ExportedDetector":
        """The detector with ``options`` in place of what was assumed, not tried yet."""
        return self.build(self.spec(options))

    def words(self, options: Options) -> str:
        """What is assumed, with ``options`` in place of what was assumed first."""
        assumed = {each.option: each.value for each in self.findings}
        assumed = {k: v for k, v in assumed.items() if not (WIRING & options.keys() and k in WIRING)} | {**options}
        parts = [f"{name.replace('_', '-')}={value}" for name, value in assumed.items()]
        return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


class ExportedDetector:
    """A ``Network`` in a file as a detector. With ``own_size`` it takes each image as large as it is, one at a time,
    and its boxes are ``"shares"`` of the image or its ``"pixels"``."""

    def __init__(
        self,
        network: Network,
        names: Sequence[str],
        preprocess: Preprocess,
        decoder: Decoder,
        *,
        own_size: str,
        spec: str,
        fingerprint: str,
        settings: dict[str, Any],
        batch_size: int,
    ) -> None:
        self.network, self.names, self._own_size = network, tuple(names), own_size
        self.guess: Guess | None = None
        self.spec, self.fingerprint, self.settings, self.batch_size = spec, fingerprint, settings, batch_size
        self.images_per_call = batch_size * -(-DEFAULT_BATCH // batch_size)
        self.preprocess, self.decoder = preprocess, decoder
        self._selection = Selection(settings["score"], settings["nms"], settings["max"], settings["agnostic"])
        self._fixed_batch = network.shape[0] is not None
        self._buffer = preprocess.buffer(batch_size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.spec!r})"

    def detect(self, images: Sequence[Pixels]) -> list[Detections]:
        """One ``Detections`` per image ``[H, W, 3]`` uint8 RGB."""
        found: list[Detections] = []
        for start in range(0, len(images), self.batch_size):
            batch = images[start : start + self.batch_size]
            tensor, placements = self.prepare(batch)
            found += self.decode(self.infer(tensor), batch, placements)
        return found

    def try_out(self) -> None:
        """Look at blank images: a graph that does not fit its decoder, names, size or batch says so here, and not in
        the middle of a run."""
        height, width = _BLANK if self._own_size else (self.preprocess.height, self.preprocess.width)
        try:
            self.detect([np.zeros((height, width, 3), np.uint8)] * min(self.batch_size, 2))
        except DetectorFailed as error:
            if isinstance(self.decoder, UserDecoder):
                raise
            raise BadSpec(str(error)) from error

    def prepare(self, images: Sequence[Pixels]) -> tuple[Array, list[Placement]]:
        """The network's input for up to ``batch_size`` images (a view of a buffer that the next call overwrites)."""
        if self._own_size:
            (image,) = images
            height, width = check_pixels(image).shape[:2]
            tensor, where = replace(self.preprocess, width=width, height=height).apply(image)
            return tensor[None], [place(width, height, 1, 1, "stretch") if self._own_size == "shares" else where]
        placements = [self.preprocess.apply(check_pixels(image), self._buffer[i])[1] for i, image in enumerate(images)]
        return self._buffer if self._fixed_batch else self._buffer[: len(images)], placements

    def infer(self, tensor: Array) -> list[Array]:
        """The graph's outputs for a prepared batch."""
        try:
            return self.network.run(tensor)
        except MisdetectError:
            raise
        except Exception as error:  # runtimes' exceptions have no common class
            raise DetectorFailed(f"{self.spec!r}: {self.network.runtime} failed: {first_line(error)}") from error

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
        kept, _ = self._selection.rank(boxes, scores, labels)
        inside = clip(placement.to_original(boxes[kept]), image.shape[1], image.shape[0])
        try:
            return Detections(inside, scores[kept], labels[kept])
        except BadArray as error:
            raise DetectorFailed(f"{self.spec!r}: the decoded output is no detection: {error}") from error


D = TypeVar("D", bound=ExportedDetector)
_OWN_SIZE = "image"
"""``size=image``: a graph that resizes by itself is given images as they are."""
_PLACEHOLDERS = ("???", "n/a", "background", "__background__")
_BLANK = (240, 320)


def load_exported(
    spec: Spec, file: Exported, make: Callable[..., ExportedDetector] = ExportedDetector
) -> ExportedDetector:
    """The detector that ``spec`` and a network in a ``file`` make together, tried on blank images. Where the spec
    leaves options out that the file does not say, it has a ``guess``."""
    if stated := spec.take("decoder", ""):
        decoder_kind(stated, spec)  # complain of a decoder that is none before the network is run
    refuse_task(spec, file.metadata)
    look, findings = _found(spec, file)
    guessed = tuple(finding for finding in findings if not finding.sure)
    said = {finding.option: finding.value for finding in findings if not finding.implied}
    shapes = () if look is None else look.shapes

    def build(whole: Spec) -> ExportedDetector:
        size = spec.options.get("size", said.get("size"))
        seen = shapes if whole.options.get("size", size) == size else ()  # of another size, others
        return _assembled(make, replace(whole, options={**file.stated, **whole.options}), file, seen)

    if not guessed:
        found = build(replace(spec, options={**said, **spec.options}))
        found.try_out()
        return found
    others, wired = () if look is None else look.others, WIRING.isdisjoint(each.option for each in guessed)
    fixed = frozenset(WIRING & {*spec.options, *file.stated})
    return _first_that_runs(Guess(spec, guessed, said, others, fixed, wired, build))


def _found(spec: Spec, file: Exported) -> tuple[Look | None, tuple[Finding, ...]]:
    """A look at the network, where it can be run on noise, and the options that ``spec`` does not say. Of a decoder
    that is stated, its own options have defaults, and what else is seen is only taken where it belongs to it."""
    known, look = {**file.stated, **spec.options}, None
    decoder = known.get("decoder", "")
    whole_images = known.get("size", file.usual.get("size", ("", ""))[0]) == _OWN_SIZE
    if not whole_images and not decoder.startswith("python:"):
        try:
            look = look_at(file, spec)
        except (BadSpec, DetectorFailed):
            if not decoder:
                raise
    stated = spec.options.get("decoder", "")
    if look is None:
        findings = _without_look(spec, file)
    else:
        same = stated in ("", look.decoder) or {stated, look.decoder} <= {"yolov8", "yolo11"}
        findings = tuple(f for f in look.findings if same or f.option in ("names", "size", *WIRING))
    if stated:
        free = {"names", "size", *(WIRING if preset_is_open(spec) else ())}
        findings = tuple(f for f in findings if f.sure or f.option in free)
    return look, findings


def _without_look(spec: Spec, file: Exported) -> tuple[Finding, ...]:
    """What is usual, where the outputs do not show it."""
    usual = [Finding(option, value, False, why) for option, (value, why) in file.usual.items()]
    if not needs_preset(spec):
        usual = [finding for finding in usual if finding.option not in WIRING]
    if names_of(file, spec) is None:
        known = file.first_label is not None  # else nothing tells whether they are as many as COCO's
        usual += [f for f, names in usual_names(spec, file) if fits(file, names) and (known or not is_coco(f))][:1]
    return tuple(finding for finding in usual if finding.option not in spec.options)


def _first_that_runs(guess: Guess) -> ExportedDetector:
    """The detector that was guessed; where a blank image already shows that it cannot be, the next one."""
    refused: BadSpec | None = None
    for options in ({}, *guess.readings):
        try:
            found = guess.make(options)
            found.try_out()
        except BadSpec as error:
            refused = refused or error
            continue
        findings = tuple(each._replace(value=options.get(each.option, each.value)) for each in guess.findings)
        found.guess = replace(guess, findings=findings, added={**guess.added, **options})
        return found
    assert refused is not None
    raise refused


def _assembled(make: Callable[..., D], spec: Spec, file: Exported, shapes: tuple[tuple[int, ...], ...]) -> D:
    """What ``make`` makes of a ``file`` and a ``spec`` that states everything: a detector, not tried yet. ``shapes``
    are those of its outputs for one image, where they are known."""
    network = file.network
    kind, source = decoder_kind(spec.take("decoder", ""), spec)
    names = _names(spec, file)
    if file.first_label is not None and spec.options["decoder"] == "nms":
        spec.options.setdefault("labels_from", str(file.first_label - has_background(names)))
    own_size = _own_size(spec, network)
    preset = spec.take("preset", kind.preset or "", choices=tuple(PRESETS))
    preprocess = preprocess_of(spec, preset, network.shape, network.dtype, file.metadata.size)
    limits = limits_of(spec, kind.nms)
    # pixels of images of any size: only whether boxes can be such is judged by it
    height, width = _BLANK if own_size == "pixels" else (preprocess.height, preprocess.width)
    frame = Frame(width, height, len(names), limits["score"], network.outputs, spec.text, limits["multilabel"], shapes)
    decoder = kind.build(frame, spec)
    batch = batch_size_of(spec, 1 if own_size or not file.batched else network.shape[0])
    spec.finish()
    refuse_between_strides(spec, file, preprocess.width, preprocess.height)
    read_by = {name: spec.options[name] for name in DECODER_OPTIONS if name in spec.options}
    settings = {"decoder": spec.options["decoder"], "preset": preset or None} | limits | read_by
    settings["preprocess"] = preprocess.settings() | ({"width": None, "height": None} if own_size else {})
    return make(
        network,
        names,
        preprocess,
        decoder,
        own_size=own_size,
        spec=spec.text,
        fingerprint=digest(*file.hashes, source, names, sorted(settings.items(), key=lambda item: item[0])),
        settings=settings,
        batch_size=batch,
    )


def _names(spec: Spec, file: Exported) -> tuple[str, ...]:
    given, classes = spec.take("names", ""), file.network.classes
    found = names_of(file, spec) if given != UNKNOWN else None
    if found is None and not given and spec.data_names is not None:
        found, _ = spec.data_names()
    if found is None:
        raise BadSpec(
            f"{spec.text!r}: the file carries no class names, and neither the data's nor COCO's are as many as it "
            "tells apart; give names=FILE."
        )
    names = tuple(f"unused {i}" if name.lower() in _PLACEHOLDERS else name for i, name in enumerate(found))
    if not fits(file, names):
        raise BadSpec(
            f"{spec.text!r}: the graph tells {classes} classes apart, but {given or 'the file'} names "
            f"{len(names) - has_background(names)}; check names=."
        )
    return names


def _own_size(spec: Spec, network: Network) -> str:
    """In what units boxes come back from images that are given as they are; empty where they are resized."""
    if spec.options.get("size") != _OWN_SIZE:
        return ""
    if None not in (network.shape[1:3] if network.shape[-1] == 3 else network.shape[2:]):
        raise BadSpec(f"{spec.text!r}: size=image needs a graph that takes images of any size. Got {network.shape}.")
    if spec.options.get("decoder") != "nms":
        raise BadSpec(f"{spec.text!r}: size=image needs decoder=nms; other decoders read a grid of a known size.")
    spec.options["size"] = "1"  # of the canvas in whose units shares are
    spec.options.setdefault("resize", "stretch")
    return spec.take("units", "pixels", choices=("pixels", "shares"))

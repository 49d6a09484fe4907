"""A network in a file as a detector: what all runtimes share.

``detect`` is ``prepare`` (the network's input), ``infer`` (its outputs, by whatever runs it) and ``decode`` for each
batch in turn. A runtime adds a ``Network``, how a file is opened and run; ``load_exported`` makes a detector of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np

from misdetect.detectors.files import first_line
from misdetect.detectors.names import read_names
from misdetect.detectors.onnx.decoders import DECODER_OPTIONS, UserDecoder, decoder_kind
from misdetect.detectors.onnx.metadata import Metadata
from misdetect.detectors.outputs import Array, Decoder, Frame, Readout
from misdetect.detectors.preprocess import PRESETS, Placement, Preprocess, place
from misdetect.detectors.probe import complete
from misdetect.detectors.selection import Selection
from misdetect.detectors.wiring import DEFAULT_BATCH, batch_size_of, limits_of, preprocess_of
from misdetect.nouns.boxes import clip
from misdetect.nouns.detections import Detections
from misdetect.nouns.picture import Pixels, check_pixels, digest
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadArray, BadSpec, DetectorFailed, MisdetectError


class Network(Protocol):
    """A graph as its ``runtime`` (a name, for messages) has opened it.

    ``shape`` is that of the image input, batch first, ``None`` where it is dynamic; ``dtype`` the NumPy type in which
    it wants pixels; ``outputs`` the names of what ``run`` returns; ``classes`` how many it tells apart, if it says so.
    """

    runtime: str

    @property
    def shape(self) -> Sequence[int | None]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def outputs(self) -> tuple[str, ...]: ...
    @property
    def classes(self) -> int | None: ...

    def run(self, tensor: Array) -> list[Array]:
        """Its outputs for a batch of images; they need not outlive the next call."""
        ...


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
    spec: Spec,
    network: Network,
    *,
    hashes: Sequence[str],
    metadata: Metadata | None = None,
    first_label: int | None = None,
) -> ExportedDetector:
    """The detector that ``spec`` and a ``network`` make together, tried on blank images.

    ``hashes`` are those of its files, ``metadata`` what they say of it. ``first_label`` is the label of the first
    class in graphs that suppress by themselves, where their convention is known; ``labels-from=`` states it otherwise.
    """
    about = metadata or Metadata()
    if stated := spec.take("decoder", ""):
        decoder_kind(stated, spec)  # complain of a decoder that is none before the network is run
    names = _names(spec, about.names, network.classes)
    if first_label is not None and stated == "nms":
        spec.options.setdefault("labels_from", str(first_label - has_background(names)))
    own_size = _own_size(spec, network)
    shapes = () if own_size else complete(spec, network, len(names), about)
    found = assemble(
        ExportedDetector, spec, network, names, hashes=hashes, exported=about.size, shapes=shapes, own_size=own_size
    )
    found.try_out()
    return found


def assemble(
    make: Callable[..., D],
    spec: Spec,
    network: Network,
    names: tuple[str, ...],
    *,
    hashes: Sequence[str],
    exported: tuple[int, int] | None,
    shapes: tuple[tuple[int, ...], ...],
    own_size: str = "",
) -> D:
    """What ``make`` makes of a ``network`` and the rest of ``spec``, which now states a decoder: an
    ``ExportedDetector``, not tried yet. ``exported`` is the width and height that its file says, ``shapes`` those of
    its outputs for one image where they are known."""
    kind, source = decoder_kind(spec.take("decoder", ""), spec)
    preset = spec.take("preset", kind.preset or "", choices=tuple(PRESETS))
    preprocess = preprocess_of(spec, preset, network.shape, network.dtype, exported)
    limits = limits_of(spec, kind.nms)
    # pixels of images of any size: only whether boxes can be such is judged by it
    height, width = _BLANK if own_size == "pixels" else (preprocess.height, preprocess.width)
    frame = Frame(width, height, len(names), limits["score"], network.outputs, spec.text, limits["multilabel"], shapes)
    decoder = kind.build(frame, spec)
    batch = batch_size_of(spec, 1 if own_size else network.shape[0])
    spec.finish()
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
        fingerprint=digest(*hashes, source, names, sorted(settings.items(), key=lambda item: item[0])),
        settings=settings,
        batch_size=batch,
    )


def has_background(names: Sequence[str]) -> bool:
    """Whether the first of ``names`` stands for no class, so that they are numbered by ids that start at 1."""
    return names[0].startswith("unused ")


def _names(spec: Spec, own: Sequence[str] | None, classes: int | None) -> tuple[str, ...]:
    given = spec.take("names", "")
    found = read_names(given, spec.text) if given else own
    if found is None:
        raise BadSpec(f"{spec.text!r}: the file carries no class names; give names=coco or names=FILE.")
    names = tuple(f"unused {i}" if name.lower() in _PLACEHOLDERS else name for i, name in enumerate(found))
    if classes is not None and len(names) - has_background(names) != classes:
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

"""A network in a file, as a runtime has opened it, and what the file says of itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from misdetect.detectors.onnx.metadata import Metadata
from misdetect.detectors.outputs import Array


class Network(Protocol):
    """A graph as its ``runtime`` (a name, for messages) has opened it.

    ``shape`` is that of the image input, batch first, ``None`` where it is dynamic; ``dtype`` the NumPy type in which
    it wants pixels; ``inputs`` are its inputs in words, the image first; ``outputs`` the names of what ``run`` returns;
    ``classes`` how many it tells apart, if it says so.
    """

    runtime: str

    @property
    def shape(self) -> Sequence[int | None]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def inputs(self) -> tuple[str, ...]: ...
    @property
    def outputs(self) -> tuple[str, ...]: ...
    @property
    def classes(self) -> int | None: ...

    def run(self, tensor: Array) -> list[Array]:
        """Its outputs for a batch of images; they need not outlive the next call."""
        ...


@dataclass(frozen=True)
class Exported:
    """The ``network`` in ``path``. ``hashes`` are those of its files, ``metadata`` and ``stated`` (options of a spec)
    what they say, ``usual`` the options that are usual for such files and that nothing says.

    ``first_label`` is the label of the first class in graphs that suppress by themselves, where their convention is
    known; ``companions`` are the inputs beside the image; ``batched``: it has a batch axis, and ``tries`` are the
    numbers of images that it is tried with where that axis is free.
    """

    path: Path
    network: Network
    hashes: Sequence[str]
    metadata: Metadata = field(default_factory=Metadata)
    stated: Mapping[str, str] = field(default_factory=dict)
    usual: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    first_label: int | None = None
    companions: frozenset[str] = frozenset()
    batched: bool = True
    tries: tuple[int, ...] = (1,)


def told(name: str, dtype: str, shape: Sequence[int | None]) -> str:
    """An input or output in words: ``images float32[1, 3, ?, ?]``."""
    return f"{name} {dtype}[{', '.join('?' if size is None else str(size) for size in shape)}]"

"""``TorchDetector``: a torch module behind all four access levels; ``TorchModule`` without training.

A family (torchvision, transformers, YOLOX) says how its module detects, what its candidates are and what its losses
are; this file does what is the same for all: images to tensors, batches, gradients with respect to the pixels, weights,
and leaving the user's module as it was found. Families never change mode, gradients or hooks themselves.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from misdetect.detectors.weights import fit_weights, read_weights, weights_digest, write_weights
from misdetect.nouns.boxes import Floats
from misdetect.nouns.candidates import Candidates
from misdetect.nouns.detections import Detections, Truth
from misdetect.nouns.picture import Pixels, check_pixels, digest
from misdetect.nouns.protocols import Loss
from misdetect.said.errors import BadArray

T = TypeVar("T")


def learnable(truth: Truth) -> Truth:
    """The objects of ``truth`` that a loss can be of: neither crowds nor boxes without area."""
    return truth[~np.asarray(truth.crowd) & (truth.boxes[:, 2:] > truth.boxes[:, :2]).all(axis=1)]


def as_array(tensor: Tensor) -> NDArray[Any]:
    """``tensor`` as a NumPy array (shared memory where it is on the CPU); float types NumPy lacks become float32."""
    tensor = tensor.detach()
    return (tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor).cpu().numpy()


@contextmanager
def in_mode(module: nn.Module, training: bool) -> Iterator[None]:
    """``module`` in the given mode inside the block; every submodule's own mode is restored after it."""
    modes = [(part, part.training) for part in module.modules()]
    module.train(training)
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


class TorchModule(ABC):
    """A ``Differentiable`` (hence ``Traced``) detector around ``module``.

    ``names`` are the foreground classes; ``settings`` the thresholds and caps that shape the output. Images are run in
    batches of exactly ``batch_size`` equal-sized images (the last one is filled up by repetition), so that an image's
    result does not depend on how many companions it has. On some CPUs its last bits depend on its place among them.
    """

    def __init__(
        self, module: nn.Module, names: Sequence[str], *, spec: str, settings: Mapping[str, Any], batch_size: int = 1
    ) -> None:
        self.module = module
        self.names = tuple(names)
        self.spec = spec
        self.settings = dict(settings)
        self.batch_size = batch_size
        self._apart = True

    # What a family supplies. `images` are equal-sized [3, H, W] tensors in 0..1, with the module's device and float
    # type; boxes and labels of truths are in pixels of those images and index `names`. The module is in the right mode.

    def _detect(self, images: list[Tensor]) -> list[Detections]:
        """Detections of each image, in eval mode without gradients."""
        return [candidates.select() for candidates in self._trace(images)]

    @abstractmethod
    def _trace(self, images: list[Tensor]) -> list[Candidates]:
        """Candidates of each image, in eval mode without gradients; ``select`` of each equals ``_detect``'s."""

    @abstractmethod
    def _image_losses(self, images: list[Tensor], truths: Sequence[Truth]) -> tuple[Tensor, Tensor]:
        """Classification and localisation loss of each image, two ``[N]`` tensors, in *eval* mode, differentiable,
        deterministic, each image normalised by itself."""

    # The levels.

    def detect(self, images: Sequence[Pixels]) -> list[Detections]:
        """One ``Detections`` per image, see ``protocols.Detector``."""
        with in_mode(self.module, False), torch.no_grad():
            return self._batched([self._tensor(check_pixels(image)) for image in images], self._detect)

    def trace(self, images: Sequence[Pixels]) -> list[Candidates]:
        """One ``Candidates`` per image, see ``protocols.Traced``."""
        with in_mode(self.module, False), torch.no_grad():
            return self._batched([self._tensor(check_pixels(image)) for image in images], self._trace)

    def gradient(self, images: Sequence[Floats], truths: Sequence[Truth], loss: Loss) -> tuple[Floats, list[Floats]]:
        """Loss values ``[N]`` and pixel gradients, see ``protocols.Differentiable``."""
        if loss not in ("cls", "loc", "all"):
            raise BadArray(f"Expected loss to be 'cls', 'loc' or 'all'. Got {loss!r}.")
        self._check_truths(images, truths)
        pairs = [(self._tensor(image).requires_grad_(), truth) for image, truth in zip(images, truths, strict=True)]

        def slopes(batch: list[tuple[Tensor, Truth]]) -> list[tuple[float, Floats]]:
            tensors = [tensor for tensor, _ in batch]
            classification, localisation = self._image_losses(tensors, [truth for _, truth in batch])
            value = {"cls": classification, "loc": localisation, "all": classification + localisation}[loss]
            # autograd.grad, unlike backward, leaves the parameters' own gradients alone
            found: Sequence[Tensor | None] = [None] * len(tensors)
            if value.requires_grad:
                found = torch.autograd.grad(value.sum(), tensors, allow_unused=True)
            arrays = [
                as_array((torch.zeros_like(t) if g is None else g / 255).permute(1, 2, 0))
                for t, g in zip(tensors, found, strict=True)
            ]
            return list(zip(value.detach().cpu().double().tolist(), arrays, strict=True))

        with in_mode(self.module, False), torch.enable_grad():
            results = self._batched(pairs, slopes, shape=lambda pair: tuple(pair[0].shape), fresh=_fresh_leaf)
        return np.array([value for value, _ in results]), [array for _, array in results]

    @property
    def fingerprint(self) -> str:
        """A hash of weights, names and settings: what a cached prediction depends on, as it does not on the batch."""
        settings = sorted(item for item in self.settings.items() if item[0] != "batch")
        return digest(type(self).__name__, weights_digest(self.module), self.names, settings)

    @property
    def device(self) -> torch.device:
        """Where the module's parameters are."""
        return next(self.module.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The float type of the module's parameters, and of the images it is given."""
        return next(self.module.parameters()).dtype

    # The machinery.

    def _tensor(self, image: Floats | Pixels | Tensor) -> Tensor:
        """``[H, W, 3]`` in 0..255 to a contiguous ``[3, H, W]`` tensor in 0..1, of the module's own float type."""
        array = image if isinstance(image, Tensor) else np.asarray(image)
        if array.ndim != 3 or array.shape[2] != 3:
            raise BadArray(f"Expected an image of shape [H, W, 3] in 0..255. Got {list(array.shape)}.")
        if isinstance(array, Tensor):  # not by way of NumPy, which gradients do not pass
            return array.permute(2, 0, 1).to(self.device, self.dtype).contiguous() / 255
        wide = np.float64 if array.dtype == np.float64 else np.float32
        tensor = torch.from_numpy(np.ascontiguousarray(array.transpose(2, 0, 1), dtype=wide))
        return tensor.to(self.device, self.dtype) / 255

    def _check_truths(self, images: Sequence[Any], truths: Sequence[Truth]) -> None:
        if len(images) != len(truths):
            raise BadArray(f"Expected one truth per image. Got {len(images)} images and {len(truths)} truths.")
        for index, truth in enumerate(truths):
            if len(truth) and not 0 <= truth.labels.min() <= truth.labels.max() < len(self.names):
                raise BadArray(
                    f"Expected labels of truth {index} to index the {len(self.names)} names of {self.spec}. Got "
                    f"{truth.labels.min()} to {truth.labels.max()}; join the data's names with the detector's first."
                )

    def _batched(
        self,
        items: list[Any],
        run: Callable[[list[Any]], list[T]],
        *,
        shape: Callable[[Any], tuple[int, ...]] = lambda item: tuple(item.shape),
        fresh: Callable[[Any], Any] = lambda item: item,
    ) -> list[T]:
        """``run`` over ``items`` in full batches of one shape; results in the order of ``items``."""
        results: dict[int, T] = {}
        by_shape: dict[tuple[int, ...], list[int]] = {}
        for index, item in enumerate(items):
            by_shape.setdefault(shape(item), []).append(index)
        for members in by_shape.values():
            for start in range(0, len(members), self.batch_size):
                chosen = members[start : start + self.batch_size]
                filler = [fresh(items[chosen[-1]]) for _ in range(self.batch_size - len(chosen))]
                results.update(zip(chosen, run([items[i] for i in chosen] + filler), strict=False))
        return [results[index] for index in range(len(items))]


class TorchDetector(TorchModule):
    """A ``TorchModule`` that is ``Trainable``."""

    @abstractmethod
    def _training_losses(self, images: list[Tensor], truths: Sequence[Truth]) -> dict[str, Tensor]:
        """Scalar losses of the batch in training mode, by the family's own names."""

    @contextmanager
    def together(self, count: int) -> Iterator[None]:
        """Inside the block, ``count`` images go through the module as one batch that is not filled up, and a gradient
        may depend on its companions, and on what training samples at random: faster, and enough for training."""
        usual = self.batch_size
        self.batch_size, self._apart = count, False
        try:
            yield
        finally:
            self.batch_size, self._apart = usual, True

    def losses(self, images: Sequence[Floats | Tensor], truths: Sequence[Truth]) -> dict[str, Tensor]:
        """Training losses of one batch, see ``protocols.Trainable``; the module trains during the call only. Images may
        also be torch tensors (``[H, W, 3]`` in 0..255), which the losses' gradients then reach."""
        self._check_truths(images, truths)
        with in_mode(self.module, True):
            return self._training_losses([self._tensor(image) for image in images], truths)

    def parameters(self) -> list[nn.Parameter]:
        """The parameters that are trained."""
        return [p for p in self.module.parameters() if p.requires_grad]

    def state(self) -> dict[str, Tensor]:
        """The live parameters and buffers by name."""
        return self.module.state_dict(keep_vars=True)

    def save(self, path: Path) -> None:
        """Write the weights as safetensors."""
        write_weights(self.module, path)

    def load(self, path: Path) -> None:
        """Read weights; a ``BadWeights`` says what does not fit."""
        fit_weights(self.module, read_weights(path), path)


def _fresh_leaf(pair: tuple[Tensor, Truth]) -> tuple[Tensor, Truth]:
    """A copy that is differentiated on its own, so that padding a batch never adds to a real image's gradient."""
    tensor, truth = pair
    return tensor.detach().clone().requires_grad_(), truth

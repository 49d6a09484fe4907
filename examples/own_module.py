"""Your own torch module as a detector: ``misdetect scan --detector python:examples/own_module.py:load,score=0.6 …``.

All that is needed is an object with ``names`` and ``detect(images)``. Options of the spec arrive as strings.
"""

import torch
from torch import Tensor, nn

from misdetect.nouns.detections import Detections


class Colours(nn.Module):
    """Stands for your network: ``[3, H, W]`` in 0..1 to one box per colour, around where that colour dominates."""

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        smooth = nn.functional.avg_pool2d(image[None], 5, 1, 2, count_include_pad=False)[0]
        dominance = 2 * smooth - smooth.sum(
            0
        )  # +1 where only this channel is lit, negative where it is not the brightest
        boxes, scores = torch.zeros(3, 4), torch.zeros(3)
        for channel, strength in enumerate(dominance):
            y, x = (strength > 0.5).nonzero(as_tuple=True)
            if len(x):
                boxes[channel] = torch.stack([x.min(), y.min(), x.max() + 1, y.max() + 1])
                scores[channel] = strength[y, x].mean()
        return boxes, scores


class OwnDetector:
    names = ("red thing", "green thing", "blue thing")

    def __init__(self, module: nn.Module, score: float) -> None:
        self.module, self.settings = module.eval(), {"score": score}

    @torch.no_grad()
    def detect(self, images):
        """``images`` are ``[H, W, 3]`` uint8 RGB; boxes are x0, y0, x1, y1 in their pixels, labels index ``names``."""
        found = []
        for image in images:
            boxes, scores = self.module(torch.from_numpy(image.copy()).permute(2, 0, 1) / 255)
            found.append(Detections(boxes, scores, range(3)).above(self.settings["score"]))
        return found


def load(score: str = "0.5") -> OwnDetector:
    return OwnDetector(Colours(), float(score))

"""Tiny models of the DETR family with random weights, spread so that thresholds, caps and gradients have work to do."""

from typing import Any

import numpy as np
import torch
from torch import nn

from misdetect.detectors.hf.folder import transformers_package
from misdetect.nouns.detections import Truth

CLASSES = 5
_PLAIN = {"use_timm_backbone": False, "backbone": None, "use_pretrained_backbone": False, "num_labels": CLASSES}
_SMALL = {
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "num_queries": 16,
}
_ONE = {"out_features": ["stage4"]}
_THREE = {"out_features": ["stage2", "stage3", "stage4"]}


def _real_time(**changes: Any) -> dict[str, Any]:
    return {
        **_SMALL,
        "encoder_layers": 1,
        "encoder_hidden_dim": 32,
        "encoder_in_channels": [16, 24, 32],
        "feat_strides": [8, 16, 32],
        "d_model": 32,
        "decoder_in_channels": [32, 32, 32],
        "num_feature_levels": 3,
        "num_denoising": 6,
        **changes,
    }


def build(kind: str, seed: int = 0) -> Any:
    """A module of ``kind`` (see ``KINDS``) in eval mode."""
    t = transformers_package()
    stages = {"embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "layer_type": "basic"}
    resnet = t.ResNetConfig(**stages, **(_ONE if kind in ("detr", "conditional", "dab") else _THREE))
    real = t.RTDetrResNetConfig(**stages, **_THREE)
    deformable = {**_SMALL, "d_model": 32, "num_feature_levels": 3, "two_stage_num_proposals": 16}
    make = {
        "detr": lambda: t.DetrForObjectDetection(t.DetrConfig(backbone_config=resnet, d_model=32, **_SMALL, **_PLAIN)),
        "conditional": lambda: t.ConditionalDetrForObjectDetection(
            t.ConditionalDetrConfig(backbone_config=resnet, d_model=32, **_SMALL, **_PLAIN)
        ),
        "dab": lambda: t.DabDetrForObjectDetection(
            t.DabDetrConfig(backbone_config=resnet, hidden_size=32, **_SMALL, **_PLAIN)
        ),
        "deformable": lambda: t.DeformableDetrForObjectDetection(
            t.DeformableDetrConfig(backbone_config=resnet, with_box_refine=False, **deformable, **_PLAIN)
        ),
        "deformable-refine": lambda: t.DeformableDetrForObjectDetection(
            t.DeformableDetrConfig(backbone_config=resnet, with_box_refine=True, **deformable, **_PLAIN)
        ),
        "deformable-two-stage": lambda: t.DeformableDetrForObjectDetection(
            t.DeformableDetrConfig(backbone_config=resnet, with_box_refine=True, two_stage=True, **deformable, **_PLAIN)
        ),
        "rt-detr": lambda: t.RTDetrForObjectDetection(t.RTDetrConfig(backbone_config=real, **_real_time(), **_PLAIN)),
        "rt-detr-v2": lambda: t.RTDetrV2ForObjectDetection(
            t.RTDetrV2Config(backbone_config=real, **_real_time(), **_PLAIN)
        ),
        "d-fine": lambda: t.DFineForObjectDetection(
            t.DFineConfig(backbone_config=real, **_real_time(max_num_bins=8), **_PLAIN)
        ),
    }[kind]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = make().eval()
        _spread(module)
        _calibrate(module)
    return module.eval()


KINDS = (
    "detr",
    "conditional",
    "dab",
    "deformable",
    "deformable-refine",
    "deformable-two-stage",
    "rt-detr",
    "rt-detr-v2",
    "d-fine",
)
SIGMOID = KINDS[1:]
TWO_STAGE = KINDS[5:]


def _spread(module: nn.Module) -> None:
    """Random init leaves scores equal, boxes at their reference and (RT-DETR, D-FINE) the output blind to the image."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.requires_grad and parameter.ndim > 1:
                gain = 2.0 if "class" in name or "score" in name else 0.5 if "bbox" in name else 0.2
                parameter.add_(torch.randn_like(parameter) * gain / parameter[0].numel() ** 0.5)
            elif parameter.requires_grad and ("class" in name or "score" in name):
                parameter.add_(torch.randn_like(parameter) - 0.5)


def _calibrate(module: nn.Module) -> None:
    """Set batch norms to what they see; with their initial statistics an image's signal fades to a millionth."""
    norms = [part for part in module.modules() if isinstance(part, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = None
        norm.train()
    batch = torch.from_numpy(np.stack(images(4, seed=9))).permute(0, 3, 1, 2).float() / 255
    with torch.no_grad():
        for _ in norms[:1]:
            module(pixel_values=batch)


def images(count: int, height: int = 96, width: int = 128, seed: int = 0) -> list[Any]:
    """Blobs and noise, uint8. No pixel is saturated: equal neighbours tie in max pooling, where no slope exists."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        coarse = np.kron(rng.integers(60, 196, (height // 16, width // 16, 3)), np.ones((16, 16, 1)))
        made.append((coarse + rng.integers(-60, 60, (height, width, 3))).astype(np.uint8))
    return made


def truth(seed: int = 0, objects: int = 3, height: int = 96, width: int = 128) -> Truth:
    """Random objects inside an image of that size."""
    rng = np.random.default_rng(seed)
    corners = np.sort(rng.random((objects, 2, 2)), axis=1) * [width, height]
    boxes = np.concatenate([corners[:, 0], corners[:, 1] + 2], axis=1)
    return Truth(boxes, rng.integers(0, CLASSES, objects))

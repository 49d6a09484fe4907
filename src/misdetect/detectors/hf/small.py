"""A Deformable DETR small enough to be trained from scratch on one CPU core, for the zoo and for tests.

The architecture is transformers' own; only its size is ours. It sees images of about 128 × 128 pixels as they are.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from misdetect.detectors.hf.detector import thaw
from misdetect.detectors.hf.folder import model_class, transformers_package


def small_deformable_detr(
    names: Sequence[str],
    *,
    queries: int = 30,
    width: int = 64,
    encoder_layers: int = 2,
    decoder_layers: int = 3,
    two_stage: bool = False,
    channels: Sequence[int] = (32, 48, 96, 128),
    depths: Sequence[int] = (1, 1, 2, 1),
    seed: int = 0,
) -> nn.Module:
    """A ``DeformableDetrForObjectDetection`` with random weights, every one of them trainable.

    ``width`` is the transformer's (a multiple of 32). The encoder, which attends from every cell, looks at two points
    per head and level instead of four: it is where the time goes. ``channels`` and ``depths`` are the four stages of
    the ResNet in front of it, of which the last three (strides 8, 16 and 32) are attended to. Boxes are refined from
    layer to layer. With ``two_stage`` the encoder proposes where the queries begin. The same ``seed`` gives the same
    weights; torch's own random state is left alone. Run it with ``wrap(module, size="native")``. Boxes are learned in
    minutes, classes much sooner from a backbone (``module.model.backbone``) that was trained before.
    """
    transformers = transformers_package()
    backbone = transformers.ResNetConfig(
        embedding_size=channels[0],
        hidden_sizes=list(channels),
        depths=list(depths),
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )
    config = transformers.DeformableDetrConfig(
        use_timm_backbone=False,
        backbone=None,
        use_pretrained_backbone=False,
        backbone_config=backbone,
        id2label=dict(enumerate(names)),
        label2id={name: i for i, name in enumerate(names)},
        num_queries=queries,
        two_stage=two_stage,
        two_stage_num_proposals=queries,
        with_box_refine=True,
        auxiliary_loss=True,
        d_model=width,
        num_feature_levels=3,
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        encoder_n_points=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        # The paper weights class, L1 and GIoU as 2 : 5 : 2; transformers fixes the first at 1 and takes whole numbers.
        class_cost=2,
        bbox_loss_coefficient=2,
        giou_loss_coefficient=1,
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = model_class("DeformableDetrForObjectDetection")(config)
        _start(module)
    return thaw(module)


def _start(module: Any) -> None:
    """The first weights of the Deformable DETR paper's own code, which transformers leaves to its checkpoints.

    Rare classes at first (focal loss is swamped by background otherwise), boxes that begin at their reference, and
    matrices of Glorot's size: at transformers' 0.02, made for widths of 256 and more, signals fade and all queries
    begin in the middle of the image, each almost the same as the next.
    """
    model, two_stage = module.model, module.config.two_stage
    parts = [model.encoder, model.decoder, model.input_proj]
    parts += [model.enc_output, model.pos_trans] if two_stage else []
    with torch.no_grad():
        for name, value in (pair for part in parts for pair in part.named_parameters()):
            # offsets and weights of the sampled points begin as transformers made them: a star around the reference
            if value.ndim > 1 and "sampling_offsets" not in name and "attention_weights" not in name:
                nn.init.xavier_uniform_(value)
        if not two_stage:
            nn.init.normal_(model.query_position_embeddings.weight)
        for head in module.class_embed:
            nn.init.xavier_uniform_(head.weight)
            head.bias.fill_(-4.6)  # a score of 0.01
        for i, head in enumerate(module.bbox_embed):
            for layer in head.layers[:-1]:
                layer.reset_parameters()
            head.layers[-1].weight.zero_()
            head.layers[-1].bias.zero_()
            if i == 0 and not two_stage:
                head.layers[-1].bias[2:] = -2.0  # the first layer's boxes are about an eighth of the image wide

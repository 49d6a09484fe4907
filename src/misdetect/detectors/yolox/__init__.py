"""This project's YOLOX: network, losses and detector; it reads official checkpoints."""

from misdetect.detectors.family import TORCH, Family, named

FAMILY = Family(
    "YOLOX with official checkpoints",
    "Trainable",
    "yolox:CHECKPOINT",
    "misdetect.detectors.yolox.detector:load_yolox",
    recognises=named(".pth"),
    needs=TORCH,
    extra="torch",
    trained_later=True,
    place=40,
)

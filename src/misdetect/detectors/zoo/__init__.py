"""The small detectors that come with the package, trained by this project (``weights/``)."""

from misdetect.detectors.family import TORCH, Family

FAMILY = Family(
    "small detectors trained by this project",
    "Trainable",
    "zoo:yolox",
    "misdetect.detectors.zoo.shipped:load_zoo",
    needs=TORCH,
    extra="torch",
    place=10,
)

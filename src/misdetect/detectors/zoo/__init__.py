"""The small detectors that come with the package, trained by this project (``weights/``)."""

from misdetect.detectors.family import Family

FAMILY = Family(
    "small detectors trained by this project; without torch those of YOLOX alone, boxes only",
    "Trainable",
    "zoo:yolox",
    "misdetect.detectors.zoo.shipped:load_zoo",
    place=10,
)

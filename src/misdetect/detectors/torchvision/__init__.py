"""SSD, SSDlite, Faster and Mask R-CNN, RetinaNet and FCOS of torchvision, looked into and differentiated."""

from misdetect.detectors.family import DOWNLOADED, TORCH, Family

FAMILY = Family(
    "SSD, SSDlite, Faster and Mask R-CNN, RetinaNet, FCOS",
    "Trainable",
    "torchvision:fasterrcnn_resnet50_fpn,weights=FILE",
    "misdetect.detectors.torchvision.load:load_torchvision",
    needs=TORCH,
    extra="torch",
    reach=lambda spec: DOWNLOADED if spec.options.get("weights") == "hub" else None,
    place=20,
)

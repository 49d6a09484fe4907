"""SSD, SSDlite, Faster and Mask R-CNN, RetinaNet and FCOS of torchvision, looked into and differentiated."""

from misdetect.detectors.torchvision.load import wrap

__all__ = ["wrap"]

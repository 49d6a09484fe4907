"""The DETR family of transformers, looked into and differentiated."""

from misdetect.detectors.hf.detector import wrap

__all__ = ["wrap"]

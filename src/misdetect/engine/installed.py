"""Versions of what results can depend on."""

import platform
from importlib.metadata import PackageNotFoundError, version

_RUNTIMES = ("onnxruntime", "ai-edge-litert", "openvino", "tensorflow", "torch", "torchvision", "transformers")
_PACKAGES = ("misdetect", "numpy", "opencv-python-headless", *_RUNTIMES)


def versions() -> dict[str, str]:
    """Versions of what results can depend on, by name; what is not installed is left out."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found

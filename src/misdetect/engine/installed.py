"""Versions of what results can depend on."""

import platform
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import misdetect

CODE = "misdetect's code"
"""What ``code`` is called where it is compared."""

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


def code() -> str:
    """A hash of the source of this package: two nodes may have one version and yet not the same code, and then they do
    not understand each other."""
    folder, found = Path(misdetect.__file__).parent, blake2b(digest_size=4)
    for path in sorted(folder.rglob("*.py")):
        found.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()

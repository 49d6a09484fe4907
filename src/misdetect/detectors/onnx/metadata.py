"""What an exporter wrote into a file about the network: class names, input size, stride, task.

Ultralytics writes all of it (its YOLOv5 only names and stride), others write nothing. The texts are a stranger's: they
are bounded, and nothing in them is run.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from misdetect.detectors.names import names_in_metadata

_LONGEST = 1000
_LARGEST = 1 << 14
"""Characters of a short value, and pixels of a side: a network of a larger input is none."""


@dataclass(frozen=True)
class Metadata:
    """``size`` is (width, height) in pixels; ``suppresses``: the graph has suppression inside; ``exporter`` is
    ``"ultralytics"``, ``"yolov5"`` or "" where nobody knows."""

    names: tuple[str, ...] | None = None
    size: tuple[int, int] | None = None
    stride: int | None = None
    task: str = ""
    suppresses: bool = False
    exporter: str = ""

    @classmethod
    def of(cls, texts: Mapping[str, str], spec: str) -> "Metadata":
        """The metadata in ``texts``, as ONNX files, Ultralytics' ``metadata.yaml`` and its TorchScript files hold them.

        Names that cannot be read are an error; everything else that cannot is not there.
        """
        names = names_in_metadata(texts, spec)
        arguments = _literal(texts, "args")
        inside = arguments.get("nms") is True if isinstance(arguments, dict) else False
        task = texts.get("task", "")[:40]
        stride = _side(_literal(texts, "stride"))
        exporter = "ultralytics" if names and (texts.get("author") == "Ultralytics" or (task and stride)) else ""
        if names and stride and not exporter:
            exporter = "yolov5"
        return cls(
            names,
            _size(_literal(texts, "imgsz")),
            stride,
            task if task.isalpha() else "",
            inside or _literal(texts, "end2end") is True,
            exporter,
        )


def as_texts(values: Any) -> dict[str, str]:
    """Values by key, as JSON and YAML files hold them, as the texts that ``Metadata.of`` reads."""
    if not isinstance(values, Mapping):
        return {}
    return {str(key): value if isinstance(value, str) else repr(value) for key, value in values.items()}


def _literal(texts: Mapping[str, str], key: str) -> Any:
    text = texts.get(key, "")
    if not text or len(text) > _LONGEST:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


def _side(value: Any) -> int | None:
    return value if type(value) is int and 0 < value <= _LARGEST else None


def _size(value: Any) -> tuple[int, int] | None:
    """Ultralytics writes [height, width]."""
    height, width = value if isinstance(value, list | tuple) and len(value) == 2 else (value, value)
    return (width, height) if _side(width) and _side(height) else None

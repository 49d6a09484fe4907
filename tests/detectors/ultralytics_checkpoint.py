"""A checkpoint as Ultralytics writes it, made without Ultralytics: a pickled module of its class."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch


def write_checkpoint(path: Path) -> None:
    """``torch.save`` of an object whose class says that it is from ``ultralytics.nn.tasks``."""
    tasks = ModuleType("ultralytics.nn.tasks")
    kind = type("DetectionModel", (torch.nn.Linear,), {"__module__": tasks.__name__})
    tasks.DetectionModel = kind
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "ultralytics", ModuleType("ultralytics"))
        patch.setitem(sys.modules, "ultralytics.nn", ModuleType("ultralytics.nn"))
        patch.setitem(sys.modules, tasks.__name__, tasks)
        torch.save({"model": kind(2, 2)}, path)

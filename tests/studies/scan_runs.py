"""Scan runs written down by hand: positions with what became of the originals and what is new."""

from pathlib import Path
from types import SimpleNamespace

from misdetect.boxes import SIDES
from misdetect.data.dataset import Dataset
from misdetect.engine.identity import identity
from misdetect.engine.requests import Case, Finished
from misdetect.engine.store import Run
from misdetect.studies.scan import ScanSettings
from misdetect.studies.scan.rows import SCHEMA

NAMES = ("cup", "bowl", "bed", "vase", "lamp")


def thing(label, box=(0, 0, 8, 8), score=0.5, **more):
    """An entry of ``objects`` or ``new``."""
    return {"label": label, "score": score, **dict(zip(SIDES, map(float, box), strict=True)), **more}


def position(x, y, new=(), objects=(), pair=0, condition="object", **more):
    """A row; ``class_difference`` counts the classes of ``new`` that no original has."""
    fresh = {each["label"] for each in new} - {each["label"] for each in objects}
    return {"pair": pair, "condition": condition, "x": x, "y": y, "new": list(new), "objects": list(objects),
            "class_difference": len(fresh), "before": len(objects), "background": "i0", **more}  # fmt: skip


def write(path: Path, rows: list[dict]) -> Run:
    """The finished run of ``rows``, one case each."""
    how = ScanSettings()
    data = Dataset("made", NAMES, 1, lambda i: None, fingerprint="made")
    who = SimpleNamespace(spec="zoo:one", fingerprint="one", names=NAMES)
    run = Run.start(path, identity("scan", how.document(), who, data), SCHEMA, command=["scan"], versions={},
                    detector_settings={})  # fmt: skip
    for i, row in enumerate(rows):
        run.add(Finished(Case(i, f"{row['pair']}/{i}"), [row]))
    run.note(cases=len(rows), view=how.document("view"))
    run.close()
    return Run.open(path)

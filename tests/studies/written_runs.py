"""Runs written down by hand; of a scan, positions with what became of the originals and what is new."""

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa

from misdetect.data.dataset import Dataset
from misdetect.engine.identity import identity
from misdetect.engine.requests import Case, Finished
from misdetect.engine.store import Run
from misdetect.nouns.boxes import SIDES
from misdetect.nouns.settings import Settings
from misdetect.studies.scan.rows import SCHEMA
from misdetect.studies.scan.settings import ScanSettings

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
    """The finished scan of these positions, one case each."""
    return written(path, "scan", ScanSettings(), SCHEMA, rows)


def written(path: Path, study: str, how: Settings, schema: pa.Schema, rows: list[dict]) -> Run:
    """A finished run of ``study`` with these rows, one case each; a row may bring the name of its ``case``."""
    data = Dataset("made", NAMES, 1, lambda i: None, fingerprint="made")
    who = SimpleNamespace(spec="zoo:one", fingerprint="one", names=NAMES)
    run = Run.start(path, identity(study, how.document(), who, data), schema, command=[study], versions={},
                    detector_settings={})  # fmt: skip
    for i, row in enumerate(rows):
        case = Case(i, row.get("case", f"{row.get('pair', 0)}/{i}"))
        run.add(Finished(case, [{name: value for name, value in row.items() if name != "case"}]))
    run.note(cases=len(rows), view=how.document("view"))
    run.close()
    return Run.open(path)

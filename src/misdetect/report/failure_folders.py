"""One folder per failure, to attach to a bug report: the photo and what was asked about, with the object marked, the
row of the ledger, where it comes from, and the command that asks again."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.data.export import whole_folder
from misdetect.drawing.figures import enlarged, save_png, with_boxes
from misdetect.engine.store import Run
from misdetect.nouns.boxes import SIDES
from misdetect.nouns.picture import Pixels
from misdetect.said.printable import printable
from misdetect.studies.failures import Failure, Pictures, told
from misdetect.studies.notes import Note, with_note

_ABOUT = ("versions", "detector_settings", "command")


def write_folders(
    run: Run, data: Dataset, found: Sequence[Failure], out: Path, notes: Mapping[str, Note] | None = None
) -> list[str]:
    """Write a folder for each of ``found`` into the new folder ``out``, with what people said of it (``notes``); their
    names, in that order."""
    pictures, names = Pictures(run, data), []
    with whole_folder(out) as partial:
        for number, failure in enumerate(found, start=1):
            plain = re.sub(r"[^A-Za-z0-9]+", "-", f"{failure['outcome']}-{failure['label']}").strip("-")[:40]
            names.append(f"{number:03d}-{plain}")
            folder = partial / names[-1]
            folder.mkdir()
            _draw(pictures, failure, folder)
            said = with_note(failure, notes or {})
            document = {"failure": _plain(failure) | said, **_source(run)}
            text = json.dumps(document, indent=2, sort_keys=True, allow_nan=False) + "\n"
            (folder / "failure.json").write_text(text, encoding="utf-8")
            (folder / "README.md").write_text(_page(run, failure, folder, said), encoding="utf-8")
    return names


def _draw(pictures: Pictures, failure: Failure, folder: Path) -> None:
    photo, edited = pictures.sample(failure).image, pictures.edited(failure)
    if edited is None:
        save_png(folder / "failure.png", _marked(photo, failure, told(failure)))
        return
    save_png(folder / "before.png", _marked(photo, failure, "" if failure["outcome"] == "extra" else failure["label"]))
    save_png(folder / "after.png", _marked(edited, failure, told(failure)))
    save_png(folder / "asked.png", edited)


def _marked(image: Pixels, failure: Failure, caption: str) -> Pixels:
    large, factor = enlarged(image)
    if not caption:
        return large
    box = np.array([[failure[side] for side in SIDES]], dtype=np.float64)
    return with_boxes(large, box * factor, [caption], [0])


def _plain(failure: Failure) -> dict[str, Any]:
    """The row as JSON has it; ``evidence`` is JSON itself. Which picture shows it is told by ``case``."""
    row = {name: None if value != value else value for name, value in failure.items() if name != "scene"}
    return row | {"evidence": None if row["evidence"] is None else json.loads(row["evidence"])}


def _source(run: Run) -> dict[str, Any]:
    identity = run.about["identity"]
    who = {key: {k: v for k, v in identity[key].items() if k != "names"} for key in ("detector", "data")}
    return {**who, "settings": run.settings, **{key: run.about.get(key) for key in _ABOUT}}


def _page(run: Run, failure: Failure, folder: Path, said: Mapping[str, Any]) -> str:
    """In a code block, where nothing that a stranger has named is Markdown."""
    detector, data = (run.about["identity"][key]["spec"] for key in ("detector", "data"))
    shown = "`failure.png` shows it"
    if (folder / "after.png").exists():
        shown = "`before.png` and `after.png` show it, `asked.png` is exactly what the detector was asked about"
    lines = [
        f"what      {told(failure)}" + (f" ({failure['times']} times)" if failure["times"] > 1 else ""),
        f"where     {failure['image']}, object {failure['object']}, {failure['condition']}",
        *([f"why       {failure['mechanism']}"] if failure["mechanism"] else []),
        *([f"tags      {', '.join(said['tags'])}"] if "tags" in said else []),
        *([f"note      {said['note']}"] if "note" in said else []),
        f"detector  {detector}",
        f"data      {data}",
        f"again     {shlex.join(['misdetect', 'replay', run.address, failure['case']])}",
    ]
    block = "\n".join(f"    {printable(line)}" for line in lines)
    return f"# A failure found by misdetect {run.study}\n\n{block}\n\n{shown}; `failure.json` has all numbers.\n"

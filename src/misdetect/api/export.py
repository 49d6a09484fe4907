"""``export``: what a run found in the forms that other tools take: images to train on, failures as COCO annotations,
the papers' tables as LaTeX, a folder per failure for a bug report, a page for a person."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from misdetect.api.run import Run, open_run
from misdetect.data.export import check_new_folder, export_coco, export_labels
from misdetect.kept.files import check_writable, write_atomically
from misdetect.nouns.boxes import SIDES
from misdetect.report.failure_folders import write_folders
from misdetect.report.latex import latex
from misdetect.said.errors import BadData, BadSpec
from misdetect.studies.contract import Document, Hidden, Inserted
from misdetect.studies.failures import Failure, failures
from misdetect.studies.kinds import kind_of, kinds
from misdetect.studies.notes import read_notes, with_note

Form = Literal["images", "coco", "folders", "latex", "page"]
MOST = 50
_LABEL = ("outcome", "became", "harm", "study", "condition", "case", "object", "mechanism", "tide", "reason", "times")
"""What an exported failure says of itself, beside class, box and score."""


def export(
    run: Run | Path | str,
    out: Path | str,
    *more: Run | Path | str,
    to: Form = "images",
    which: str | None = None,
    inserted: Inserted = "unlabelled",
    hidden: Hidden = "drop",
    most: int | None = None,
) -> Document:
    """Write what a run found to the new folder ``out`` (LaTeX, page: to that file), and return what was written.

    ``to`` "images", of fuzz and attack: images to train on as COCO, with the annotations of the photos that they were
    made of. Of ``fuzz`` those that fail, the worst first; each image's record says which case it is, what fails, and
    where what was expected. ``which``: by the inserted object's doing ("attributable"), "all", or "any" that was asked
    about, failing or not; ``inserted``: whether that object is annotated too; the paper leaves it out; ``hidden``: what
    becomes of annotations that it hides by more than 90 %: dropped, marked (``iscrowd``), or kept. Of ``attack`` the
    adversarial ones; ``which``: the attack's name, by default the first loss.

    ``to`` "coco", of any study: the photos on which something fails, and the failures as annotations, in the layout
    that FiftyOne imports. "folders": one folder per failure, with pictures and the command that asks again, for at
    most ``most`` (50) of them, the worst first. "latex": the papers' tables, of this run and of ``more`` of its study.
    "page": all of it as one self-contained HTML page.
    """
    opened = [each if isinstance(each, Run) else open_run(each) for each in (run, *more)]
    if to not in get_args(Form):
        raise BadSpec(f"to should be {' or '.join(get_args(Form))}. Got {to!r}.")
    if to == "latex":
        return _latex(opened, Path(out))
    if more:
        raise BadSpec(f"only tables (latex) are made of several runs. Got {len(opened)} for {to}.")
    if to == "page":
        return _page(opened[0], Path(out))
    check_new_folder(Path(out))
    if to == "images":
        return _images(opened[0], Path(out), which, inserted, hidden)
    return _failures(opened[0], Path(out), to, most)


def _images(opened: Run, out: Path, which: str | None, inserted: Inserted, hidden: Hidden) -> Document:
    about = {"run": opened.address, "out": str(out), "to": "images", "inserted": inserted, "hidden": hidden}
    images = kind_of(opened.study).images
    if images is None:
        able = " or ".join(kind.name for kind in kinds() if kind.has("images"))
        raise BadData(f"{opened.address} is a run of {opened.study!r}; this needs one of {able}.")
    made = images(opened.directory, opened.data, which, inserted, hidden)
    found = made.dataset()
    counts = export_coco(found, out, about=made.about)
    unseen = sum(len(made.about(i).get("hidden", ())) for i in range(len(found)))
    return {**about, "hidden_annotations": unseen, "which": made.which, **counts}


def _failures(opened: Run, out: Path, to: Form, most: int | None) -> Document:
    if most is not None and most < 1:
        raise BadSpec(f"most should be at least 1. Got {most}.")
    every = failures(opened.directory)
    if not every:
        raise BadData(f"{opened.address} has no failure, so there is nothing to export.")
    about: dict[str, Any] = {"run": opened.address, "out": str(out), "to": to, "failures": len(every)}
    notes = read_notes(opened.directory)
    if to == "folders":
        names = write_folders(opened.directory, opened.data, every[: most or MOST], out, notes)
        return {**about, "folders": names}
    chosen = every[:most]
    by_image: dict[str, list[Failure]] = {}
    for failure in chosen:
        by_image.setdefault(failure["image"], []).append(failure)
    place = {opened.data[i].id: i for i in range(len(opened.data))}
    images = sorted(by_image, key=place.__getitem__)
    labels = [[_label(failure) | with_note(failure, notes) for failure in by_image[image]] for image in images]
    return {**about, **export_labels(opened.data, out, [place[image] for image in images], labels)}


def _label(failure: Failure) -> dict[str, Any]:
    """A failure as an annotation: FiftyOne takes ``score`` for its confidence, and the rest for its attributes."""
    x0, y0, x1, y1 = (failure[side] for side in SIDES)
    said = {name: failure[name] for name in _LABEL if failure[name] is not None}
    score = failure["score_before"] if failure["score_before"] is not None else failure["score"]
    own = {"bbox": [x0, y0, x1 - x0, y1 - y0], "category": failure["label"], **said}
    return own | ({} if score is None else {"score": score})


def _page(opened: Run, out: Path) -> Document:
    check_writable(out)
    opened.report(out)
    return {"run": opened.address, "out": str(out), "to": "page", "study": opened.study}


def _latex(runs: Sequence[Run], out: Path) -> Document:
    check_writable(out)
    if len({run.study for run in runs}) > 1:
        said = ", ".join(f"{run.address} is of {run.study}" for run in runs)
        raise BadData(f"a table is of runs of one study: {said}.")
    write_atomically(out, latex([run.document for run in runs]).encode())
    return {"runs": [run.address for run in runs], "out": str(out), "to": "latex", "study": runs[0].study}

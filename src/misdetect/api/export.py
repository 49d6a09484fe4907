"""``export``: the failing images of a campaign as a COCO data set, to train on or to look at."""

from pathlib import Path

from misdetect.api.run import Run, open_run
from misdetect.data.export import check_new_folder, export_coco
from misdetect.studies.contract import Document
from misdetect.studies.fuzz.failing import FailingImages, Hidden, Inserted, Which, check_study


def export(
    run: Run | Path | str,
    out: Path | str,
    *,
    which: Which = "attributable",
    inserted: Inserted = "unlabelled",
    hidden: Hidden = "drop",
) -> Document:
    """Write the failing images of a run of ``fuzz`` to the new folder ``out`` as COCO, the worst first, labelled as
    their backgrounds; each image's record says which case it is, what fails, and where what was expected.

    ``which``: failures of the inserted object's doing, or all. ``inserted``: whether that object is annotated too; the
    paper leaves it out. ``hidden``: what becomes of annotations that it hides by more than 90 %: dropped, marked
    (``iscrowd``), or kept. Returns what was written.
    """
    check_new_folder(Path(out))
    opened = run if isinstance(run, Run) else open_run(run)
    check_study(opened.directory)
    images = FailingImages(opened.directory, opened.data, which, inserted, hidden)
    found = images.dataset()
    counts = export_coco(found, Path(out), about=images.about)
    covered = sum(len(images.about(i)["hidden"]) for i in range(len(found)))
    how = {"which": which, "inserted": inserted, "hidden": hidden}
    return {"run": str(opened.path), "out": str(out), **how, **counts, "hidden_annotations": covered}

"""``export``: the failing images of a campaign as a COCO data set, to train on or to look at."""

from pathlib import Path

from misdetect.api.run import Run, open_run
from misdetect.data.export import check_new_folder, export_coco
from misdetect.studies.contract import Document
from misdetect.studies.fuzz.failing import Inserted, Which, check_study, failing_images


def export(
    run: Run | Path | str, out: Path | str, *, which: Which = "attributable", inserted: Inserted = "unlabelled"
) -> Document:
    """Write the failing images of a run of ``fuzz`` to the new folder ``out`` as COCO, labelled as their backgrounds.

    ``which``: failures of the inserted object's doing, or all. ``inserted``: whether that object is annotated too; the
    paper leaves it out. Returns what was written.
    """
    check_new_folder(Path(out))
    opened = run if isinstance(run, Run) else open_run(run)
    check_study(opened.directory)
    counts = export_coco(failing_images(opened.directory, opened.data, which, inserted), Path(out))
    return {"run": str(opened.path), "out": str(out), "which": which, "inserted": inserted, **counts}

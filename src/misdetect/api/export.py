"""``export``: the failing images of a campaign, or the adversarial ones of an attack, as a COCO data set."""

from pathlib import Path
from typing import cast, get_args

from misdetect.api.run import Run, open_run
from misdetect.data.export import check_new_folder, export_coco
from misdetect.errors import BadSpec
from misdetect.studies.attack.adversarial import adversarial_images, first_loss
from misdetect.studies.contract import Document
from misdetect.studies.fuzz.failing import Inserted, Which, check_study, failing_images


def export(
    run: Run | Path | str, out: Path | str, *, which: str | None = None, inserted: Inserted = "unlabelled"
) -> Document:
    """Write images of a run to the new folder ``out`` as COCO, with the annotations of the photos they were made of.

    Of ``fuzz`` those that fail; ``which``: by the inserted object's doing ("attributable"), or "all"; ``inserted``:
    whether that object is annotated too; the paper leaves it out. Of ``attack`` the adversarial ones; ``which``: the
    attack's name, by default the first loss. Returns what was written.
    """
    check_new_folder(Path(out))
    opened = run if isinstance(run, Run) else open_run(run)
    if opened.study == "attack":
        which = which or first_loss(opened.directory)
        found = adversarial_images(opened.directory, opened.data, which)
    else:
        check_study(opened.directory)
        which = _which(which)
        found = failing_images(opened.directory, opened.data, which, inserted)
    counts = export_coco(found, Path(out))
    return {"run": str(opened.path), "out": str(out), "which": which, "inserted": inserted, **counts}


def _which(named: str | None) -> Which:
    for known in get_args(Which):
        if known == (named or "attributable"):
            return cast("Which", known)
    raise BadSpec(f"which should be {' or '.join(get_args(Which))} for a run of fuzz. Got {named!r}.")

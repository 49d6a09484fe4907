"""``export``: the failing images of a campaign, or the adversarial ones of an attack, as a COCO data set."""

from pathlib import Path
from typing import cast, get_args

from misdetect.api.run import Run, open_run
from misdetect.data.export import check_new_folder, export_coco
from misdetect.errors import BadSpec
from misdetect.studies.attack.adversarial import adversarial_images, first_loss
from misdetect.studies.contract import Document
from misdetect.studies.fuzz.failing import FailingImages, Hidden, Inserted, Which, check_study


def export(
    run: Run | Path | str,
    out: Path | str,
    *,
    which: str | None = None,
    inserted: Inserted = "unlabelled",
    hidden: Hidden = "drop",
) -> Document:
    """Write images of a run to the new folder ``out`` as COCO, with the annotations of the photos they were made of.

    Of ``fuzz`` those that fail, the worst first; each image's record says which case it is, what fails, and where what
    was expected. ``which``: by the inserted object's doing ("attributable"), "all", or "any" that was asked about,
    failing or not; ``inserted``: whether that object is annotated too; the paper leaves it out; ``hidden``: what
    becomes of annotations that it hides by more than 90 %: dropped, marked (``iscrowd``), or kept. Of ``attack`` the
    adversarial ones; ``which``: the attack's name, by default the first loss. Returns what was written.
    """
    check_new_folder(Path(out))
    opened = run if isinstance(run, Run) else open_run(run)
    about = {"run": str(opened.path), "out": str(out), "inserted": inserted, "hidden": hidden, "hidden_annotations": 0}
    if opened.study == "attack":
        which = which or first_loss(opened.directory)
        return {
            **about,
            "which": which,
            **export_coco(adversarial_images(opened.directory, opened.data, which), Path(out)),
        }
    check_study(opened.directory)
    images = FailingImages(opened.directory, opened.data, _which(which), inserted, hidden)
    found = images.dataset()
    counts = export_coco(found, Path(out), about=images.about)
    about["hidden_annotations"] = sum(len(images.about(i)["hidden"]) for i in range(len(found)))
    return {**about, "which": _which(which), **counts}


def _which(named: str | None) -> Which:
    for known in get_args(Which):
        if known == (named or "attributable"):
            return cast("Which", known)
    raise BadSpec(f"which should be {' or '.join(get_args(Which))} for a run of fuzz. Got {named!r}.")

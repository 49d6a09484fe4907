"""The failing images of a campaign as data to train on, labelled as their backgrounds are (paper 4)."""

from typing import Literal

from misdetect.data.dataset import Dataset, Sample
from misdetect.detections import Truth
from misdetect.engine.store import Run
from misdetect.errors import BadData
from misdetect.picture import Picture, Pixels
from misdetect.studies.fuzz.campaign import rebuild
from misdetect.studies.fuzz.results import Campaign
from misdetect.studies.fuzz.rows import Insertion

Which = Literal["attributable", "all"]
Inserted = Literal["unlabelled", "labelled"]


class _Drawn:
    """A picture as the source of a sample."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def read(self) -> Pixels:
        return self._picture.render()

    def key(self) -> str:
        return self._picture.key


def check_study(run: Run) -> None:
    """Refuse a run of another study."""
    if run.study != "fuzz":
        raise BadData(f"{run.path} is a run of {run.study!r}; this needs one of fuzz or attack.")


def failing_images(
    run: Run, data: Dataset, which: Which = "attributable", inserted: Inserted = "unlabelled"
) -> Dataset:
    """The synthetic images of ``run``, a campaign on ``data``, that fail: those whose failure is the inserted object's
    doing ("attributable"), or "all". ``inserted``: whether that object is annotated too; the paper leaves it out."""
    rows = [row for row in Campaign.of(run).failing if row["attributable"] or which == "all"]
    if not rows:
        raise BadData("no case of this run fails in that way, so there is nothing to export.")
    bench = rebuild(run, data).bench

    def sample(i: int) -> Sample:
        row = rows[i]
        insertion = Insertion.of_row(row)
        background = bench.sample(insertion.image)
        truth = background.truth
        if inserted == "labelled" and row["label"] in data.names:
            truth = _with(truth, insertion, data.names.index(row["label"]))
        name, picture = f"fuzz-{row['case_index']:06d}.png", _Drawn(bench.picture(insertion))
        return Sample(row["case"], picture, truth, background.width, background.height, i + 1, name)

    spec = f"{data.spec} with inserted objects"
    return Dataset(spec, data.names, len(rows), sample, fingerprint=data.fingerprint, category_ids=data.category_ids)


def _with(truth: Truth, insertion: Insertion, label: int) -> Truth:
    """``truth`` and the inserted object; masks and states, which it has none of, are left out."""
    assert truth.ids is not None
    assert truth.crowd is not None
    assert truth.areas is not None
    width, height = insertion.size
    return Truth(
        [*truth.boxes.tolist(), list(map(float, insertion.box))],  # type: ignore[arg-type]
        [*truth.labels.tolist(), label],  # type: ignore[arg-type]
        [*truth.ids.tolist(), int(truth.ids.max(initial=0)) + 1],  # type: ignore[arg-type]
        [*truth.crowd.tolist(), False],  # type: ignore[arg-type]
        [*truth.areas.tolist(), float(width * height)],  # type: ignore[arg-type]
    )

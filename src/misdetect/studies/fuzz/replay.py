"""A campaign opened again from its run directory: to replay one of its cases, or to export what failed."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from misdetect.data.dataset import Dataset, Sample
from misdetect.data.pool import load_pool
from misdetect.detections import Detections, Truth
from misdetect.engine.store import Run
from misdetect.errors import BadData, RunMismatch
from misdetect.metrics.metamorphic import Change, Oracle, compare
from misdetect.picture import Picture, Pixels
from misdetect.studies.fuzz.results import Campaign
from misdetect.studies.fuzz.rows import CLEAN, Insertion, change_of, detections_of
from misdetect.studies.fuzz.settings import Fuzzing
from misdetect.studies.fuzz.study import FuzzStudy


def fuzzing_of(settings: Mapping[str, Any]) -> Fuzzing:
    """The settings that a run was started with."""
    known = {field.name: settings[field.name] for field in fields(Fuzzing) if field.name in settings}
    wanted = known["destination"]
    known["destination"] = wanted if isinstance(wanted, str) else tuple(wanted)
    return Fuzzing(**{**known, "oracle": Oracle(**settings["oracle"])})


def open_campaign(path: Path) -> tuple[Run, FuzzStudy]:
    """The run in ``path`` and its study. The data and the pool must be those of the run."""
    run = Run.open(path)
    identity = run.document.get("identity", {})
    if identity.get("study") != "fuzz":
        raise BadData(f"{path} is a run of {identity.get('study')!r}; this needs one of fuzz.")
    settings, data = identity["settings"], identity["data"]
    pool = load_pool(settings["pool"])
    if pool.fingerprint != settings["pool_fingerprint"]:
        raise RunMismatch(
            f"the pool {settings['pool']} has changed since {path} was run; its cases cannot be replayed."
        )
    study = FuzzStudy(data["spec"], pool, settings["names"], fuzzing_of(settings), data["limit"])
    if study.data.fingerprint != data["fingerprint"]:
        raise RunMismatch(f"the data {data['spec']} has changed since {path} was run; its cases cannot be replayed.")
    return run, study


def find_case(run: Run, case: str) -> tuple[dict[str, Any], Detections]:
    """The row of ``case`` (its name, or its number) and the detections on its background."""
    number = int(case) if case.isdecimal() else -1
    rows = run.query('SELECT * FROM rows WHERE "case" = ? OR case_index = ?', [case, number]).to_pylist()
    if not rows:
        raise BadData(f"{run.path} has no case {case!r}.")
    if rows[0]["phase"] == CLEAN:
        raise BadData(f"case {case!r} of {run.path} is a background without any edit; name an insertion.")
    row = rows[0]
    if row["found"] is None and row["origin"] is not None:  # the search did not get anywhere
        return find_case(run, str(row["origin"]))
    image = row["image"]
    clean = run.query("SELECT detections FROM rows WHERE phase = ? AND image = ?", [CLEAN, image]).to_pylist()
    return row, detections_of(clean[0]["detections"])


def replay_changes(
    study: FuzzStudy, row: Mapping[str, Any], before: Detections, after: Detections
) -> tuple[list[Change], bool]:
    """What ``after`` (the detector's answer now) changes, and whether that is what the row says."""
    changes = compare(before, after, Insertion.of_row(row).box, study.fuzzing.oracle)
    stored = [change_of(record) for record in row["changes"] or ()]
    same = len(changes) == len(stored) and all(now.same_as(then) for now, then in zip(changes, stored, strict=True))
    return changes, same


class _Drawn:
    """A picture as the source of a sample."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def read(self) -> Pixels:
        return self._picture.render()

    def key(self) -> str:
        return self._picture.key


def failing_images(study: FuzzStudy, campaign: Campaign, *, attributable: bool, label_inserted: bool) -> Dataset:
    """The synthetic images that fail, labelled as their backgrounds are (paper 4), as a data set.

    ``attributable``: only those whose failure is the inserted object's doing. ``label_inserted``: the inserted object
    is annotated too; the paper leaves it out.
    """
    rows = [row for row in campaign.failing if row["attributable"] or not attributable]
    names = study.data.names
    if not rows:
        raise BadData("no case of this run fails in that way, so there is nothing to export.")

    def sample(i: int) -> Sample:
        row = rows[i]
        insertion = Insertion.of_row(row)
        background = study.sample(insertion.image)
        truth = background.truth
        if label_inserted and row["label"] in names:
            truth = _with(truth, insertion, names.index(row["label"]))
        name = f"fuzz-{row['case_index']:06d}.png"
        picture = _Drawn(study.picture(insertion))
        return Sample(row["case"], picture, truth, background.width, background.height, i + 1, name)

    spec = f"{study.data.spec} with inserted objects"
    fingerprint = study.data.fingerprint
    return Dataset(spec, names, len(rows), sample, fingerprint=fingerprint, category_ids=study.data.category_ids)


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

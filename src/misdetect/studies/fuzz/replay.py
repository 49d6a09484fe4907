"""A campaign opened again from its run directory: to replay one of its cases, or to export what failed."""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from misdetect.data.dataset import Dataset, Sample
from misdetect.detections import Detections, Truth
from misdetect.engine.store import Run
from misdetect.errors import BadData, RunMismatch
from misdetect.metrics.metamorphic import Change, Oracle, compare, same_extra
from misdetect.picture import Picture, Pixels
from misdetect.pool.pool import load_pool
from misdetect.studies.fuzz.results import Campaign
from misdetect.studies.fuzz.rows import CLEAN, WATCH, Insertion, change_of
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
    # a row says what was inserted; what else might have been (which takes a look at the data) is not asked again
    fuzzing = replace(fuzzing_of(settings), reach=0)
    study = FuzzStudy(data["spec"], pool, settings["names"], fuzzing, data["limit"])
    if study.data.fingerprint != data["fingerprint"]:
        raise RunMismatch(f"the data {data['spec']} has changed since {path} was run; its cases cannot be replayed.")
    return run, study


def find_case(run: Run, case: str) -> dict[str, Any]:
    """The row of ``case`` (its name, or its number); of a search that got nowhere, the row that it started from."""
    number = int(case) if case.isdecimal() and len(case) < 18 else -1
    rows = run.query('SELECT * FROM rows WHERE "case" = ? OR case_index = ?', [case, number]).to_pylist()
    if not rows:
        raise BadData(f"{run.path} has no case {case!r}; fuzz prints their names, such as insertion/120.")
    row: dict[str, Any] = rows[0]
    if row["phase"] == CLEAN:
        raise BadData(f"case {case!r} of {run.path} is a background without any edit; name an insertion.")
    if row["failed"] is None:
        raise BadData(f"case {case!r} of {run.path} was not asked about, being unnatural; there is nothing to replay.")
    if row["found"] is None and row["origin"] is not None:
        return find_case(run, str(row["origin"]))
    return row


def replay_changes(
    study: FuzzStudy, row: Mapping[str, Any], before: Detections, after: Detections
) -> tuple[list[Change], bool]:
    """What the edit of ``row`` changes now, from ``before`` to ``after``, and whether that is what the row says.

    It is where both have the same failures: what the oracle forgives or what only flickers is left out, unless the run
    counts flicker. They are compared by type, class and box, since another detector lists its detections otherwise.
    """
    oracle = study.fuzzing.oracle
    changes = compare(before.above(min(WATCH, oracle.low)), after, Insertion.of_row(row).box, oracle)
    now = [change for change in changes if _fails(study, change)]
    then = [change for change in map(change_of, row["changes"] or ()) if _fails(study, change)]
    same = all(any(map(_like(one), then)) for one in now) and all(any(map(_like(one), now)) for one in then)
    return changes, same


def _fails(study: FuzzStudy, change: Change) -> bool:
    return change.counts and (study.fuzzing.count_flicker or not change.flickers)


def _like(one: Change) -> Callable[[Change], bool]:
    def compared(other: Change) -> bool:
        same = one.type == other.type and one.became == other.became
        return same and same_extra(one.label, one.box, other.label, other.box)

    return compared


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

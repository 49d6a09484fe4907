"""One case of a run asked again: does the same happen now?

The study is made again from the run directory and the data, the case is run once more against a detector, nothing is
answered from a cache, and its rows are compared with those that were stored. A study that can say more does (fuzz).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from misdetect.data.dataset import Dataset
from misdetect.engine.backend import Asking
from misdetect.engine.requests import Case, Study, UnderWay
from misdetect.engine.store import Run
from misdetect.nouns.protocols import Detector
from misdetect.said.errors import BadData, BadSpec, DetectorFailed
from misdetect.studies.contract import Document
from misdetect.studies.kinds import kind_of

CLOSE = 1e-4
"""Relative difference up to which two numbers are the same: kernels differ by the batch and by the machine."""
_OWN = ("case_index", "case", "row")


def replay(run: Run, data: Dataset, case: str, detector: Detector) -> Document:
    """Ask ``detector`` again about ``case`` (its name, or its number) of ``run``: ``reproduced``, and what differs."""
    names = run.about["identity"]["detector"]["names"]
    if list(detector.names) != names:
        raise BadSpec(
            f"the detector has other classes than that of {run.address} ({', '.join(list(detector.names)[:3])}, … for "
            f"{', '.join(names[:3])}, …); their answers cannot be compared."
        )
    kind = kind_of(run.study)
    if kind.replay is not None:
        return kind.replay(run, data, case, detector)
    study = kind.rebuild(run, data)
    if kind.asked is not None:
        detector = kind.asked(detector, study.how)  # type: ignore[attr-defined]
    return replay_case(run, study, find(study, case, run), detector)


def replay_case(run: Run, study: Study, found: Case, detector: Any) -> Document:
    """Run the case ``found`` of ``study`` once more and compare its rows with those of ``run``."""
    before = [_plain(row) for row in run.query(_STORED, [found.index]).to_pylist()]
    after = [_plain(row) for row in _again(study, found, detector)]
    differs = _differing(before, after)
    return {
        "run": run.address,
        "study": run.study,
        "case": found.id,
        "reproduced": not differs,
        "differs": differs,
        "rows_before": len(before),
        "rows_now": len(after),
    }


_STORED = "SELECT * FROM rows WHERE case_index = ? ORDER BY row"


def find(study: Study, case: str, run: Run) -> Case:
    """The case called ``case``, or of that number."""
    for each in study.cases():
        if each is not None and case in (each.id, str(each.index)):
            return each
    raise BadData(f"{run.address} has no case {case!r}; `misdetect ledger {run.address}` lists them.")


def _again(study: Study, case: Case, detector: Any) -> Sequence[Mapping[str, Any]]:
    for event in Asking(cached=False).pump(detector, study).run([case]):
        if isinstance(event, UnderWay):
            continue
        if event.error is not None:
            raise DetectorFailed(f"the detector failed on this case: {event.error}")
        return event.rows
    raise BadData("the detector's own budget is spent; nothing was asked.")


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in _OWN and value is not None}


def _differing(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> list[str]:
    """The columns in which the rows differ, sorted; "rows" where there are more or fewer."""
    if len(before) != len(after):
        return ["rows"]
    found = {
        name
        for one, other in zip(before, after, strict=True)
        for name in one.keys() | other.keys()
        if not _same(one.get(name), other.get(name))
    }
    return sorted(found)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return all(_same(one.get(name), other.get(name)) for name in one.keys() | other.keys())
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=CLOSE, abs_tol=CLOSE)
    return bool(one == other)

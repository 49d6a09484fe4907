"""One case of a campaign asked again: does the same happen now, to this detector or to another?"""

from collections.abc import Mapping, Sequence
from typing import Any

from misdetect.data.dataset import Dataset
from misdetect.drawing.figures import save_png
from misdetect.engine import ask
from misdetect.engine.backend import Asking
from misdetect.engine.store import Run
from misdetect.metrics.metamorphic import Change, compare, same_extra
from misdetect.nouns.boxes import SIDES
from misdetect.nouns.detections import Detections
from misdetect.nouns.picture import Picture
from misdetect.nouns.protocols import Detector
from misdetect.said.errors import BadData, DetectorFailed
from misdetect.studies.contract import Document
from misdetect.studies.fuzz.campaign import rebuild
from misdetect.studies.fuzz.cases import firm
from misdetect.studies.fuzz.rows import CLEAN, WATCH, Classes, Insertion
from misdetect.studies.fuzz.settings import FuzzSettings


def replay(run: Run, data: Dataset, case: str, detector: Detector) -> Document:
    """Ask ``detector`` about the background and the edit of ``case`` again, and compare its answers with each other as
    the campaign did. The ``picture`` that was asked about is written into the run directory."""
    row = find_case(run, case)
    study = rebuild(run, data)
    bench, insertion = study.bench, Insertion.of_row(row)
    picture = bench.picture(insertion)
    before, after = (bench.classes.joined(found) for found in _ask(detector, [bench.sample(insertion.image), picture]))
    changes, same = compared(study.how, bench.classes, row, before, after)
    written = save_png(run.path / "images" / f"replay-{row['case'].replace('/', '-')}.png", picture.render())
    return {
        "run": run.address,
        "study": run.study,
        "case": row["case"],
        "background": row["image"],
        "inserted": row["label"],
        "box": list(insertion.box),
        "opacity": insertion.opacity,
        "reproduced": same,
        "changes": [_told(bench.classes.change_record(change)) for change in changes],
        "picture": str(written),
    }


def find_case(run: Run, case: str) -> dict[str, Any]:
    """The row of ``case`` (its name, or its number); of a search that got nowhere, the row that it started from."""
    number = int(case) if case.isdecimal() and len(case) < 18 else -1
    rows = run.query('SELECT * FROM rows WHERE "case" = ? OR case_index = ?', [case, number]).to_pylist()
    if not rows:
        raise BadData(f"{run.address} has no case {case!r}; fuzz prints their names, such as insertion/120.")
    row: dict[str, Any] = rows[0]
    if row["phase"] == CLEAN:
        raise BadData(f"case {case!r} of {run.address} is a background without any edit; name an insertion.")
    if row["failed"] is None:
        raise BadData(
            f"case {case!r} of {run.address} was not asked about, being unnatural; there is nothing to replay."
        )
    if row["found"] is None and row["origin"] is not None:
        return find_case(run, str(row["origin"]))
    return row


def compared(
    how: FuzzSettings, classes: Classes, row: Mapping[str, Any], before: Detections, after: Detections
) -> tuple[list[Change], bool]:
    """What the edit of ``row`` changes now, from ``before`` to ``after``, and whether that is what the row says.

    It is where both have the same failures: what the oracle forgives or what only flickers is left out, unless the run
    counts flicker. They are compared by type, class and box, since another detector lists its detections otherwise.
    """
    oracle = how.rules
    changes = compare(before.above(min(WATCH, oracle.low)), after, Insertion.of_row(row).box, oracle)
    now, then = firm(changes, how), firm([classes.change(record) for record in row["changes"] or ()], how)
    same = all(any(_alike(one, other) for other in then) for one in now)
    return changes, same and all(any(_alike(one, other) for other in now) for one in then)


def _alike(one: Change, other: Change) -> bool:
    same = one.type == other.type and one.became == other.became
    return same and same_extra(one.label, one.box, other.label, other.box)


def _ask(detector: Detector, pictures: Sequence[Picture]) -> list[Detections]:
    """The answers now. The background is asked about too: another detector, or a newer one, sees it otherwise."""
    found = []
    for answer in ask(detector, pictures, Asking(cached=False)):
        if isinstance(answer, str):
            raise DetectorFailed(f"the detector failed on this case: {answer}")
        if answer is None:
            raise BadData("the detector's own budget is spent; nothing was asked.")
        found.append(answer)
    return found


def _told(record: Mapping[str, Any]) -> Document:
    """A change for people; the controls were not asked."""
    kept = {name: record[name] for name in ("type", "label", "became", "score", "after", "flickers", "counts")}
    return kept | {"box": [record[name] for name in SIDES]}

"""``misdetect replay``: ask a detector again about one case of a run, and say whether the same happens."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from misdetect.cli.shell import Document, Json, present
from misdetect.detectors import load_detector
from misdetect.detectors.protocols import Detector, require
from misdetect.engine.pump import Pump
from misdetect.engine.requests import Case, Detect, Steps
from misdetect.engine.store import Run
from misdetect.errors import BadData, BadSpec, DetectorFailed
from misdetect.picture import Picture
from misdetect.report.figures import save_png
from misdetect.studies.fuzz.pictures import side_by_side
from misdetect.studies.fuzz.replay import find_case, open_campaign, replay_changes
from misdetect.studies.fuzz.rows import Insertion, change_records


def replay(
    run: Annotated[Path, typer.Argument(help="Run directory of fuzz.")],
    case: Annotated[str, typer.Argument(help="Name or number of a case, as fuzz prints it.")],
    detector: Annotated[
        str | None, typer.Option("--detector", help="Another detector; default: the one that the run was made with.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the synthetic image here, as PNG.")] = None,
    json: Json = False,
) -> None:
    """Ask again about one case of a run of fuzz; exit code 1 if what happens now is not what happened then."""
    spec = detector or str(Run.open(run).document.get("identity", {}).get("detector", {}).get("spec"))
    model: Detector = require(load_detector(spec), Detector, "replay", "use a detector that can be asked")
    opened, study = open_campaign(run)
    if tuple(model.names) != study.names:
        raise BadSpec(f"{spec} has other classes than the detector of {run}; their answers cannot be compared.")
    row, before = find_case(opened, case)
    insertion = Insertion.of_row(row)
    picture = study.picture(insertion)
    after = _ask(model, picture)
    changes, same = replay_changes(study, row, before, after)
    written = opened.path / "images" / f"replay-{row['case'].replace('/', '-')}.png"
    save_png(written, side_by_side(study, insertion, before, after, _first(changes, row)))
    if out is not None:
        save_png(out, picture.render())
    present(
        {
            "run": str(run),
            "case": row["case"],
            "detector": spec,
            "background": row["background"],
            "inserted": row["label"],
            "box": list(insertion.box),
            "opacity": insertion.opacity,
            "reproduced": same,
            "changes": [{**record, "object": study.names[record["label"]]} for record in change_records(changes, None)],
            "picture": str(written),
            "settings": study.settings(),
        },
        json,
        _show,
    )
    if not same:
        raise typer.Exit(1)


def _first(changes: list[Any], row: Any) -> Any:
    records = change_records(changes, None) or row["changes"] or [None]
    return records[0]


class _One:
    """A study of one question that is not answered from the cache."""

    name = "replay"
    schema: Any = None

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self.found: Any = None

    def __len__(self) -> int:
        return 1

    def cases(self) -> list[Case]:
        return [Case(0, "replay")]

    def run(self, case: Case) -> Steps:
        self.found = yield Detect(self._picture)
        return []


def _ask(model: Detector, picture: Picture) -> Any:
    study = _One(picture)
    for finished in Pump(model, study).run(study.cases()):
        if finished.error is not None:
            raise DetectorFailed(finished.error)
    if study.found is None:
        raise BadData("the detector's own budget is spent; nothing was asked.")
    return study.found


def _show(console: Console, document: Document) -> None:
    x0, y0, x1, y1 = document["box"]
    console.print(
        f"{document['inserted']} at {x0},{y0} ({x1 - x0}x{y1 - y0}) on {document['background']}: "
        + ("the same happens again" if document["reproduced"] else "something else happens now"),
        style="bold",
    )
    for change in document["changes"]:
        notes = [note for note, on in (("flickers", change["flickers"]), ("forgiven", not change["counts"])) if on]
        console.print(
            f"  {change['type']} {change['object']}, {change['score']:.2f} -> {change['after']:.2f}"
            + (f" ({', '.join(notes)})" if notes else "")
        )
    if not document["changes"]:
        console.print("  nothing changes")
    console.print(f"Picture: {document['picture']}")

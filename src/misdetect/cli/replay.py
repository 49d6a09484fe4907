"""``misdetect replay``: ask a detector again about one case of a run, and say whether the same happens."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from misdetect.cli.shell import Document, Json, present
from misdetect.detections import Detections
from misdetect.detectors import load_detector
from misdetect.engine.pump import Pump
from misdetect.engine.requests import Case, Detect, Steps
from misdetect.errors import BadData, BadSpec, DetectorFailed
from misdetect.picture import Picture
from misdetect.protocols import Detector, require
from misdetect.report.figures import save_png
from misdetect.report.fuzz import side_by_side
from misdetect.studies.fuzz.replay import find_case, open_campaign, replay_changes
from misdetect.studies.fuzz.rows import BOX, Insertion, change_records


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
    opened, study = open_campaign(run)
    row = find_case(opened, case)
    spec = detector or opened.document["identity"].get("detector", {}).get("spec")
    if spec is None:
        raise BadSpec(f"{run} does not say which detector it was made with; name it with --detector.")
    model: Detector = require(load_detector(spec), Detector, "replay", "use a detector that can be asked")
    if tuple(model.names) != study.names:
        raise BadSpec(f"{spec} has other classes than the detector of {run}; their answers cannot be compared.")
    insertion = Insertion.of_row(row)
    picture = study.picture(insertion)
    before, after = _ask(model, [study.sample(insertion.image), picture])
    changes, same = replay_changes(study, row, before, after)
    records = change_records(changes, None)
    written = opened.path / "images" / f"replay-{row['case'].replace('/', '-')}.png"
    minded = [record for record in records if record["counts"]]
    save_png(written, side_by_side(study, insertion, before, after, minded, f"{row['case']}: "))
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
            "changes": [_named(record, study.names) for record in records],
            "picture": str(written),
            "settings": opened.document["identity"]["settings"],
        },
        json,
        _show,
    )
    if not same:
        raise typer.Exit(1)


def _named(record: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A change for people: what the controls would say was not asked."""
    kept = {key: record[key] for key in ("type", "score", "after", "flickers", "counts")}
    became = names[record["became"]] if record["became"] >= 0 else None
    return {**kept, "object": names[record["label"]], "became": became, "box": [record[name] for name in BOX]}


class _Both:
    """A study of one case that is not answered from the cache: a background and its edit."""

    name = "replay"
    schema: Any = None

    def __init__(self, pictures: Sequence[Picture]) -> None:
        self._pictures = pictures
        self.found: list[Detections] = []

    def __len__(self) -> int:
        return 1

    def cases(self) -> list[Case]:
        return [Case(0, "replay")]

    def run(self, case: Case) -> Steps:
        self.found = yield [Detect(picture) for picture in self._pictures]
        return []


def _ask(model: Detector, pictures: Sequence[Picture]) -> list[Detections]:
    """The answers now. The background is asked about too: another detector, or a newer one, sees it otherwise."""
    study = _Both(pictures)
    for finished in Pump(model, study).run(study.cases()):
        if finished.error is not None:
            raise DetectorFailed(finished.error)
    if not study.found:
        raise BadData("the detector's own budget is spent; nothing was asked.")
    return study.found


def _show(console: Console, document: Document) -> None:
    x0, y0, x1, y1 = document["box"]
    console.print(
        f"{document['inserted']} at {x0},{y0} ({x1 - x0}x{y1 - y0}) on {document['background']}: "
        + ("the same happens again" if document["reproduced"] else "something else happens now"),
        style="bold",
        markup=False,
    )
    for change in document["changes"]:
        became = f" as {change['became']}" if change["became"] else ""
        notes = [note for note, on in (("flickers", change["flickers"]), ("forgiven", not change["counts"])) if on]
        console.print(
            f"  {change['type']} {change['object']}{became}, {change['score']:.2f} -> {change['after']:.2f}"
            + (f" ({', '.join(notes)})" if notes else ""),
            markup=False,
        )
    if not document["changes"]:
        console.print("  nothing changes")
    console.print(f"Picture: {document['picture']}", markup=False)

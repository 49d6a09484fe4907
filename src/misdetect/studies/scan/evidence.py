"""The rows of a scan that people look at, and the picture of each position."""

from collections.abc import Sequence
from typing import Any

from misdetect.data.dataset import Dataset
from misdetect.drawing.scenes import Row, Scene, among, box
from misdetect.engine.store import Run
from misdetect.nouns.picture import Pixels
from misdetect.studies.contract import Evidence
from misdetect.studies.ledger import literal
from misdetect.studies.scan.prepare import rebuild
from misdetect.studies.scan.rows import CONTROL, OBJECT

_PAIR = "CAST(split_part(\"case\", '/', 1) AS INTEGER)"
_X, _Y = (f"json_extract_string(evidence, '$.{side}')" for side in "xy")


class ScanStage:
    """Positions of a scan: what the object, or its control, does there."""

    def __init__(self, run: Run, data: Dataset) -> None:
        self._run, self._study = run, rebuild(run, data)
        self._rows: dict[tuple[Any, ...], Row] = {}

    def load(self, keys: Sequence[str] | None = None) -> None:
        asked = None if keys is None else ["/".join(key.split("/")[1:3]) for key in keys]
        place = "concat(pair, '/', x, ',', y)"
        rows = self._run.query(
            f"SELECT pair, condition, x, y, background, objects, new FROM rows WHERE {among(place, asked)} "
            "ORDER BY case_index, row",
            [] if asked is None else [asked],
        ).to_pylist()
        self._rows = {(row["pair"], row["x"], row["y"], row["condition"]): row for row in rows}

    def scene(self, key: str) -> Scene | None:
        number, x, y, condition = _position(key)
        row = self._rows.get((number, x, y, condition))
        if row is None:
            return None
        width, height = self._study.open_pair(number).cutout.size
        before, after = [], []
        for each in row["objects"]:
            kept = each["outcome"] in ("kept", "moved")
            before.append(box(each, each["score"], "kept" if kept else "lost"))
            if kept:  # where it has moved to is not in the rows, so that it is drawn where it was, as moved
                after.append(box(each, each["new_score"], each["outcome"]))
        for each in row["new"]:
            after.append(box(each, each["score"], "own" if each["own"] else "new"))
        inserted = [x, y, x + width, y + height]
        return {"image": row["background"], "before": before, "after": after, "inserted": inserted}

    def pictures(self, key: str) -> tuple[Pixels, Pixels] | None:
        number, x, y, condition = _position(key)
        pair = self._study.open_pair(number)
        return pair.background.image, pair.picture(condition, x, y, self._study.how.seed).render()


def _position(key: str) -> tuple[int, int, int, str]:
    _, pair, place, *control = key.split("/")
    x, _, y = place.partition(",")
    return int(pair), int(x), int(y), CONTROL if control else OBJECT


def scan_scene(pair: int, x: int, y: int, *, control: bool) -> str:
    """The key of one position of a scan."""
    return f"scan/{pair}/{x},{y}" + ("/control" if control else "")


def _transplanted(run: Run) -> str:
    """The class of the object of each pair, as a list in SQL."""
    rows = run.query("SELECT pair, any_value(t_class) AS name FROM rows WHERE t_class IS NOT NULL GROUP BY pair")
    known = {row["pair"]: row["name"] for row in rows.to_pylist()}
    named = (literal(known.get(pair)) for pair in range(max(known, default=-1) + 1))
    return f"CAST([{', '.join(named)}] AS VARCHAR[])[{_PAIR} + 1]"


EVIDENCE = Evidence(
    condition="transplant",
    rank=50,
    scene=f"'scan/' || {_PAIR} || '/' || {_X} || ',' || {_Y} || CASE WHEN control THEN '/control' ELSE '' END",
    by=_transplanted,
    titled="with {by}",
    told="{by} put in",
    stage=ScanStage,
)

"""The insertions that people look at, and the picture of each."""

from collections.abc import Sequence
from typing import Any

from misdetect.data.dataset import Dataset
from misdetect.drawing.scenes import Row, Scene, among, paired
from misdetect.engine.store import Run
from misdetect.nouns.picture import Pixels
from misdetect.studies.contract import Evidence
from misdetect.studies.fuzz.campaign import rebuild
from misdetect.studies.fuzz.rows import Insertion


class FuzzStage:
    """Insertions of a campaign."""

    def __init__(self, run: Run, data: Dataset) -> None:
        self._run, self._bench = run, rebuild(run, data).bench
        self._clean: dict[str, Any] = {}
        self._rows: dict[str, Row] = {}

    def load(self, keys: Sequence[str] | None = None) -> None:
        asked = None if keys is None else [key.removeprefix("fuzz/") for key in keys]
        rows = self._run.query(
            'SELECT "case", image, number, cutout, x, y, width, height, beside, reach, opacity, found FROM rows '
            f"WHERE phase = 'insertion' AND found IS NOT NULL AND {among('rows.case', asked)}",
            [] if asked is None else [asked],
        ).to_pylist()
        self._rows = {f"fuzz/{row['case']}": row for row in rows}
        clean = self._run.query(
            "SELECT image, detections FROM rows WHERE phase = 'clean' AND image IN (SELECT unnest(?))",
            [sorted({row["image"] for row in rows})],
        ).to_pylist()
        self._clean = {row["image"]: row["detections"] for row in clean}

    def scene(self, key: str) -> Scene | None:
        row = self._rows.get(key)
        if row is None:
            return None
        least, box = self._bench.how.score, Insertion.of_row(row).box
        before = [each for each in self._clean.get(row["image"], ()) if each["score"] >= least]
        after = [each for each in row["found"] if each["score"] >= least]
        return {"image": row["image"], **paired(before, after, box), "inserted": list(box)}

    def pictures(self, key: str) -> tuple[Pixels, Pixels] | None:
        insertion = Insertion.of_row(self._rows[key])
        return self._bench.sample(insertion.image).image, self._bench.picture(insertion).render()


EVIDENCE = Evidence(
    condition="insertion",
    rank=60,
    scene="'fuzz/' || \"case\"",
    by=lambda run: "json_extract_string(evidence, '$.inserted')",
    shown="NOT control",  # patches are not drawn
    titled="with {by}",
    told="{by} put in",
    stage=FuzzStage,
)

"""The objects lost in the dark, for people to look at one by one, and the darkened pictures."""

from collections.abc import Sequence

from misdetect.data.dataset import Dataset
from misdetect.drawing.scenes import Row, Scene, paired, places
from misdetect.engine.store import Run
from misdetect.nouns.picture import Pixels
from misdetect.studies.contract import Evidence
from misdetect_darkness.brightness.study import Darkened

_LIGHT = "json_extract_string(evidence, '$.light')"
_DETECTED = """SELECT t.kind, t.image, t.id, t.label, t.x0, t.y0, t.x1, t.y1, NULL AS tide,
    CASE WHEN t.kind = 'object' THEN t.before ELSE t.score END AS score
    FROM rows t WHERE t.kind = 'object' OR t.light = 1"""


class DarkStage:
    """The pictures of a run with their detections. A picture is called ``brightness/IMAGE/LIGHT``."""

    def __init__(self, run: Run, data: Dataset) -> None:
        self._run, self._data, self._place = run, data, places(data)
        self._seen: dict[tuple[str, float], list[Row]] = {}

    def load(self, keys: Sequence[str] | None = None) -> None:
        """Read the detections of these pictures, or of all."""
        images = None if keys is None else [_parts(key)[0] for key in keys]
        asked = "kind = 'detection'" + ("" if images is None else " AND image IN (SELECT unnest(?))")
        self._seen = {}
        for row in self._run.query(f"FROM rows WHERE {asked}", [] if images is None else [images]).to_pylist():
            self._seen.setdefault((row["image"], row["light"]), []).append(row)

    def scene(self, key: str) -> Scene | None:
        """What was detected before and after."""
        image, light = _parts(key)
        before, after = (self._seen.get((image, each), []) for each in (1.0, light))
        return {"image": image, **paired(before, after, None)}

    def pictures(self, key: str) -> tuple[Pixels, Pixels] | None:
        """The image, and the darkened picture."""
        image, light = _parts(key)
        sample = self._data[self._place[image]]
        return sample.image, Darkened(sample, light).render()


def _parts(key: str) -> tuple[str, float]:
    image, _, light = key.removeprefix("brightness/").rpartition("/")
    return image, float(light)


EVIDENCE = Evidence(
    condition="darkened",
    scene=f"'brightness/' || image || '/' || {_LIGHT}",
    by=lambda run: _LIGHT,
    titled="with {by} of the light",
    told="light {by}",
    boxes=_DETECTED,
    stage=DarkStage,
)

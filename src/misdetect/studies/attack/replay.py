"""One case of an attack asked again: does the saved image still do what it did?

The attack itself is not repeated: on another machine gradients differ in their last digits, and with them, after twenty
steps, the image. The image that was saved is what counts.
"""

from typing import Any

from misdetect.data.dataset import Dataset
from misdetect.engine import ask
from misdetect.engine.backend import Asking
from misdetect.engine.store import Run
from misdetect.nouns.detections import Detections
from misdetect.nouns.picture import Picture, Raw
from misdetect.nouns.protocols import Detector, as_white_box
from misdetect.said.errors import BadData, DetectorFailed
from misdetect.studies.attack.plan import CLEAN
from misdetect.studies.attack.prepare import rebuild
from misdetect.studies.attack.rows import pixels_of
from misdetect.studies.conditions import Scene
from misdetect.studies.replay import find

_STORED = "SELECT kind, id, found, png FROM rows WHERE case_index = ? ORDER BY row"


def replay(run: Run, data: Dataset, case: str, detector: Detector) -> dict[str, Any]:
    """Ask ``detector`` about the saved image of ``case``: which objects are found now, and which differ."""
    study = rebuild(run, data)
    if study.how.surrogate is None:
        detector, _ = as_white_box(detector)  # as the run had it
    at = find(study, case, run)
    rows = run.query(_STORED, [at.index]).to_pylist()
    saved = next((row["png"] for row in rows if row["png"] is not None), None)
    sample = study.data[at.content.image]
    if saved is None and at.content.attack != CLEAN:
        raise BadData(
            f"{run.address} has not kept the image of {case!r}; only those of {', '.join(study.kept())} are kept."
        )
    picture: Picture = sample if saved is None else Raw(pixels_of(saved))
    (answer,) = ask(detector, [picture], Asking(cached=False))
    if not isinstance(answer, Detections):
        raise DetectorFailed(f"the detector failed on this case: {answer}")
    scene = Scene.of(sample, study.joined, study.data.names)
    before = {row["id"]: row["found"] for row in rows if row["kind"] == "object"}
    ids = [int(i) for i in scene.truth.ids[scene.counted]] if scene.truth.ids is not None else []
    now = dict(zip(ids, scene.right(answer, study.how).tolist(), strict=True))
    differs = sorted(i for i in before.keys() | now.keys() if before.get(i) != now.get(i))
    return {
        "run": run.address,
        "study": run.study,
        "case": at.id,
        "reproduced": not differs,
        "differs": [str(i) for i in differs],
        "found_before": sum(before.values()),
        "found_now": sum(now.values()),
    }

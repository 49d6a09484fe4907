"""The objects lost under attack that people look at, and the attacked images."""

from collections.abc import Sequence
from functools import lru_cache

from misdetect.data.dataset import Dataset
from misdetect.drawing.scenes import Row, Scene, among, paired, places
from misdetect.engine.store import Run
from misdetect.nouns.boxes import SIDES
from misdetect.nouns.picture import Pixels
from misdetect.studies.attack.adversarial import first_loss, kept_image
from misdetect.studies.attack.document import settings_of
from misdetect.studies.attack.plan import CLEAN, main_attacks
from misdetect.studies.contract import Evidence
from misdetect.studies.ledger import literal

_ATTACK = "json_extract_string(evidence, '$.attack')"


class AttackStage:
    """Attacked images, as far as the run kept them."""

    def __init__(self, run: Run, data: Dataset) -> None:
        self._run, self._data, self._place = run, data, places(data)
        self._boxes: dict[tuple[str, str], list[Row]] = {}
        self._clean = lru_cache(4)(self._open)

    def load(self, keys: Sequence[str] | None = None) -> None:
        asked = None if keys is None else [_attacked(key)[0] for key in keys]
        self._boxes = {}
        for row in self._run.query(
            f"SELECT image, condition, label, score, {', '.join(SIDES)} FROM rows WHERE kind = 'detection' "
            f"AND variant = 'vanilla' AND score >= ? AND {among('image', asked)} ORDER BY case_index, row",
            [settings_of(self._run).score, *([] if asked is None else [asked])],
        ).to_pylist():
            self._boxes.setdefault((row["image"], row["condition"]), []).append(row)

    def _open(self, image: str) -> Pixels:
        return self._data[self._place[image]].image

    def scene(self, key: str) -> Scene | None:
        image, attack = _attacked(key)
        before, after = (self._boxes.get((image, condition), []) for condition in (CLEAN, attack))
        return {"image": image, **paired(before, after, None)}

    def pictures(self, key: str) -> tuple[Pixels, Pixels] | None:
        image, attack = _attacked(key)
        adversarial = kept_image(self._run, image, attack)
        return None if adversarial is None else (self._clean(image), adversarial)


def _attacked(key: str) -> tuple[str, str]:
    image, _, attack = key.removeprefix("attack/").rpartition("/")
    return image, attack


def _main(run: Run) -> str:
    """Not the rungs of the ladder, which are no condition."""
    return f"{_ATTACK} IN ({', '.join(literal(each.name) for each in main_attacks(settings_of(run)))})"


EVIDENCE = Evidence(
    condition="attack",
    rank=70,
    scene=f"'attack/' || image || '/' || {_ATTACK}",
    by=lambda run: _ATTACK,
    titled="attacked: {by}",
    control="attacked: {by}",
    told="attack {by}",
    among=_main,
    first=lambda run: f"{_ATTACK} = {literal(first_loss(run))}",
    stage=AttackStage,
)

"""The study: one case per image and attack. A case looks at the clean image, attacks it, and looks at what was made.

What is evaluated is the image that can be saved: rounded to whole colours, within ε of the clean one. An attack of 20
steps on one image is a case, so that an interrupted run loses no more than the images under way.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from misdetect.data.opened import Opened
from misdetect.engine.requests import Case, Detect, Gradient, Steps, Trace
from misdetect.nouns.detections import Detections
from misdetect.nouns.picture import Pixels, Raw, digest
from misdetect.studies.attack.plan import CLEAN, Attack, from_afar, main_attacks, rungs, transfer_rung
from misdetect.studies.attack.rows import ablation_rows, image_row
from misdetect.studies.attack.settings import AttackSettings
from misdetect.studies.climb import Ball, Climb, Slope, class_aware, climb, uphill
from misdetect.studies.conditions import IMAGE, SCHEMA, Answer, Scene, detection_rows, object_rows, own_columns
from misdetect.studies.joined import JoinedStudy

_BLOCK = 32
"""Images that are attacked together."""


@dataclass(frozen=True)
class Task:
    """What a case is about: the image's index, and the name of the attack."""

    image: int
    attack: str


class AttackStudy(JoinedStudy):
    """Attack a detector with class ``names`` on ``opened``. ``inside``: it can be looked into. ``climbed``: the images
    of the ladder. ``only``: one attack on those images and nothing else, for the ladder's last rung."""

    name = "attack"
    schema: pa.Schema = SCHEMA

    def __init__(
        self,
        opened: Opened,
        names: Sequence[str],
        how: AttackSettings,
        *,
        inside: bool,
        climbed: Sequence[int],
        about: dict[str, Any] | None = None,
        only: Attack | None = None,
    ) -> None:
        super().__init__(opened, names)
        self.how: AttackSettings = how
        self.inside, self.climbed, self._about, self._only = inside, tuple(climbed), dict(about or {}), only

    def settings(self) -> dict[str, Any]:
        """What decides the rows, for ``run.json``."""
        own = {"alpha": self.how.step, "inside": self.inside, "ladder_images": list(self.climbed)}
        return super().settings() | own | self._about

    @cached_property
    def attacks(self) -> dict[str, Attack]:
        """Every attack by name."""
        how = self.how
        return {a.name: a for a in (*main_attacks(how), *rungs(how), transfer_rung(how), *from_afar(how))}

    def tasks(self) -> list[Task]:
        """All cases in order: every image clean and under each attack, then the ladder, then from a distance."""
        if self._only is not None:
            return [Task(image, self._only.name) for image in self.climbed]
        every = range(len(self.data))
        always = [CLEAN, *(attack.name for attack in main_attacks(self.how))]
        found = [Task(image, name) for image in every for name in always]
        found += [Task(image, rung.name) for image in self.climbed for rung in rungs(self.how)]
        return found + [Task(image, attack.name) for image in every for attack in from_afar(self.how)]

    def __len__(self) -> int:
        return len(self.tasks())

    def cases(self) -> Iterator[Case]:
        """One case per image and attack, called ``IMAGE/ATTACK``. They come a block of images at a time and one attack
        after the other, since gradients of one loss share a batch."""
        tasks = self.tasks()
        attacks = list(dict.fromkeys(task.attack for task in tasks))
        order = sorted(enumerate(tasks), key=lambda each: (each[1].image // _BLOCK, attacks.index(each[1].attack)))
        return (Case(i, f"{self.data[task.image].id}/{task.attack.replace(' ', '-')}", task) for i, task in order)

    def kept(self) -> list[str]:
        """Attacks whose images are kept."""
        return [a.name for a in self.attacks.values() if a.thorough] if self.how.keep else ["none"]

    def image_of(self, case: Case) -> str:
        """The image of a case, to name it by if it fails."""
        return str(self.data[case.content.image].id)

    def run(self, case: Case) -> Steps:
        """Look, attack, look again."""
        task: Task = case.content
        scene = Scene.of(self.data[task.image], self.joined, self.data.names)
        own = own_columns(scene, task.attack)
        if task.attack == CLEAN:
            before = Answer.of((yield (Trace if self.inside else Detect)(scene.sample)))
            looked = {"kind": IMAGE}  # so that an image without anything in it is done too
            rows = [looked, *object_rows(scene, before, before, self.how), *detection_rows(scene, before)]
            return [own | row for row in rows]
        attack = self.attacks[task.attack]
        ask = Trace if self.inside and attack.thorough else Detect
        before = Answer.of((yield ask(scene.sample)))
        clean = scene.sample.image
        made, pixels, adversarial = yield from self._attacked(scene, clean, attack, before.found)
        total = yield from self._total(scene, attack, adversarial)
        after = Answer.of((yield ask(Raw(adversarial))))
        row = image_row(made, total, adversarial, clean, pixels, keep=self.how.keep and attack.thorough)
        rows = [row, *object_rows(scene, before, after, self.how)]
        if attack.thorough:
            rows += detection_rows(scene, after)
            if attack.loss is not None and before.inside is not None and after.inside is not None:
                rows += ablation_rows(scene, before.inside, after.inside, self.how)
        return [own | each for each in rows]

    def _attacked(
        self, scene: Scene, clean: Pixels, attack: Attack, before: Detections
    ) -> Generator[Any, Any, tuple[Climb | None, int, Pixels]]:
        """The adversarial image, how it was made, and how many pixels were allowed to change."""
        steep = None
        if attack.where.by_slope:
            _, steep = yield Gradient(clean.astype(np.float32), scene.target, "all")
        mask = attack.where.mask(clean.shape[0], clean.shape[1], scene.truth.boxes, steep)
        ball, pixels = Ball(clean, attack.eps, mask), int(mask.sum())
        if attack.loss is None or not pixels:
            return None, pixels, ball.rounded(ball.noise(self._dice(scene, -1)) if pixels else ball.clean)
        best: tuple[int, Climb | None, Pixels] = (-1, None, clean)
        for start in range(attack.restarts):
            random = start > 0 or attack.random_start
            begin = ball.somewhere(self._dice(scene, start)) if random else ball.clean
            made = yield from climb(ball, begin, _slope(scene, attack), attack.pace)
            adversarial = ball.rounded(made.x)
            lost = 0
            if attack.restarts > 1:
                found: Detections = yield Detect(Raw(adversarial))
                right = scene.right(before, self.how)
                lost = int((right & ~scene.right(found, self.how)).sum())
            if lost > best[0]:
                best = (lost, made, adversarial)
        return best[1], pixels, best[2]

    def _total(self, scene: Scene, attack: Attack, adversarial: Pixels) -> Generator[Any, Any, float | None]:
        """The loss by which MTD chooses between the images of cls and loc."""
        if not attack.thorough or attack.name not in ("cls", "loc") or not {"cls", "loc"} <= set(self.how.targets):
            return None
        loss, _ = yield Gradient(adversarial.astype(np.float32), scene.target, "all")
        return float(loss)

    def _dice(self, scene: Scene, start: int) -> np.random.Generator:
        return np.random.default_rng(int(digest(self.how.seed, scene.sample.id, start), 16))


def _slope(scene: Scene, attack: Attack) -> Slope:
    assert attack.loss is not None
    return class_aware(scene.target) if attack.loss == "cwat" else uphill(scene.target, attack.loss)

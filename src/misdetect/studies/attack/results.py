"""The rows of an attack run, read again. ``mtd`` is made here: for each image what cls or loc left of it, whichever has
the larger total loss."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from misdetect.engine.store import Run
from misdetect.studies.attack.plan import CLEAN, main_attacks
from misdetect.studies.attack.settings import MTD, AttackSettings
from misdetect.studies.conditions_read import Conditions


class Results(Conditions):
    """What ``run`` holds, as far as its cases are done: of the images that all attacks of the table are done with; of
    the images ``among`` only, and in their order, if told."""

    how: AttackSettings

    def __init__(self, run: Run, how: AttackSettings, among: Sequence[str] | None = None) -> None:
        super().__init__(run, how, [CLEAN, *(attack.name for attack in main_attacks(how))], among)

    def on(self, images: Sequence[str]) -> "Results":
        """The same of some ``images`` only."""
        return Results(self.run, self.how, images)

    @cached_property
    def conditions(self) -> list[str]:
        """Those of the table: noise, fgsm, the losses, and mtd where it can be chosen."""
        own = [attack.name for attack in main_attacks(self.how)]
        return [*own, MTD] if {"cls", "loc"} <= set(own) else own

    @cached_property
    def about(self) -> list[dict[str, Any]]:
        """How each image was attacked."""
        found: list[dict[str, Any]] = self.run.query(
            "SELECT image, condition, losses, total, flat, change, pixels FROM rows WHERE kind = 'image' "
            "AND condition <> 'clean' ORDER BY case_index"
        ).to_pylist()
        return found

    @cached_property
    def chosen(self) -> dict[str, str]:
        """MTD's choice for each image: cls or loc, whichever has the larger total loss (cls if both have the same)."""
        total = {(row["image"], row["condition"]): row["total"] for row in self.about if row["total"] is not None}
        return {
            image: "loc" if total[image, "loc"] > total[image, "cls"] else "cls"
            for image in self.images
            if (image, "cls") in total and (image, "loc") in total
        }

    def sources(self, condition: str) -> Mapping[str, str]:
        """``mtd`` picks for each image."""
        return self.chosen if condition == MTD else super().sources(condition)


def attacked_images(run: Run, condition: str, how: AttackSettings) -> Mapping[str, bytes]:
    """The kept adversarial images of ``condition`` as PNG, by image."""
    results = Results(run, how)
    rows = results.rows("image", "png", condition)
    return {image: data for image, data in zip(rows["image"], rows["png"], strict=True) if data is not None}

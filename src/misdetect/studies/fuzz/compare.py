"""Several campaigns side by side: how their rates differ, over the background images that both looked at, drawing the
same images for both.

A campaign goes where failures are likely, so that two of them do not insert the same objects; what they share is the
images.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from misdetect.engine.store import Run
from misdetect.metrics.bootstrap import change, ratios, resamples, with_measured
from misdetect.nouns.boxes import Floats
from misdetect.studies.contract import Document
from misdetect.studies.differences import differences, other_rules, shared
from misdetect.studies.fuzz.document import RATES, tallies
from misdetect.studies.fuzz.results import Campaign
from misdetect.studies.fuzz.settings import FuzzSettings

RULES = ("strategy", "reach", "min_naturalness", "oracle", "iou", "score", "flicker", "count_flicker", "corner", "near",
         "patches", "chance", "sure")  # fmt: skip
"""Settings that decide where objects are inserted, what is a failure, and whose doing it is."""


@dataclass(frozen=True, eq=False)
class Tested:
    """A campaign as it is compared: ``how`` it was made, its ``images``, and the counts ``[K, 5]`` of each."""

    how: FuzzSettings
    images: list[str]
    counts: Floats

    @classmethod
    def of(cls, run: Run) -> "Tested":
        campaign = Campaign.of(run)
        return cls(campaign.how, [row["image"] for row in campaign.clean], tallies(campaign))

    def rates(self, images: list[str], draws: Floats) -> dict[str, Floats]:
        """Each rate ``[R]`` of the ``draws`` ``[R, K]`` of ``images``."""
        place = {image: i for i, image in enumerate(self.images)}
        counts = self.counts[[place[image] for image in images]]
        return {name: scale * ratios(draws, counts[:, a], counts[:, b]) for name, (a, b, scale) in RATES.items()}


def compare(runs: Mapping[str, Run], confidence: float, seed: int) -> Document:
    """``differences`` of every two ``runs``: the rates of the headline."""

    def between(one: Tested, other: Tested) -> Document | str:
        if (why := other_rules(one.how, other.how, RULES)) is not None:
            return why
        images, left_out = shared(one.images, other.images)
        if not images:
            return "have no background in common"
        draws = with_measured(resamples(len(images), seed=seed))
        first, second = one.rates(images, draws), other.rates(images, draws)
        changes = {name: change(first[name], second[name], confidence) for name in RATES}
        return {"images": len(images), "left_out": left_out, **changes}

    return differences({name: Tested.of(run) for name, run in runs.items()}, between)

"""Several campaigns side by side: how their rates differ, over the background images that both looked at, drawing the
same images for both.

A campaign goes where failures are likely, so that two of them do not insert the same objects; what they share is the
images.
"""

from collections.abc import Mapping

from misdetect.engine.store import Run
from misdetect.metrics.bootstrap import change, resamples, with_measured
from misdetect.studies.contract import Document
from misdetect.studies.differences import differences, other_rules, shared
from misdetect.studies.fuzz.document import RATES, rates, tallies
from misdetect.studies.fuzz.results import Campaign

RULES = ("strategy", "reach", "min_naturalness", "oracle", "iou", "score", "flicker", "count_flicker", "corner", "near",
         "patches", "chance", "sure")  # fmt: skip
"""Settings that decide where objects are inserted, what is a failure, and whose doing it is."""


def compare(runs: Mapping[str, Run], confidence: float, seed: int) -> Document:
    """``differences`` of every two ``runs``: the rates of the headline."""

    def between(one: Campaign, other: Campaign) -> Document | str:
        if (why := other_rules(one.how, other.how, RULES)) is not None:
            return why
        images, left_out = shared(list(one.place), list(other.place))
        if not images:
            return "have no background in common"
        draws = with_measured(resamples(len(images), seed=seed))
        first, second = (rates(tallies(each)[[each.place[i] for i in images]], draws) for each in (one, other))
        changes = {name: change(first[name], second[name], confidence) for name in RATES}
        return {"images": len(images), "left_out": left_out, **changes}

    return differences({name: Campaign.of(run) for name, run in runs.items()}, between)

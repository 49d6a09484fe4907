"""Several attack runs side by side: how AP and success differ under each attack that both have, over the images that
both attacked, drawing the same images for both."""

from collections.abc import Mapping

import numpy as np

from misdetect.engine.store import Run
from misdetect.metrics.bootstrap import change, ratios, resamples, with_measured
from misdetect.metrics.columns import TruthColumns
from misdetect.metrics.paired import REPEATS, ap_of_draws
from misdetect.metrics.slices import per_image
from misdetect.nouns.boxes import Floats
from misdetect.studies.attack.document import settings_of
from misdetect.studies.attack.plan import CLEAN
from misdetect.studies.attack.results import Results
from misdetect.studies.contract import Document
from misdetect.studies.differences import differences, other_rules, shared

RULES = ("loc", "score")
"""Settings that decide which objects are found. How strong an attack is may differ: that is what is compared."""


def compare(runs: Mapping[str, Run], confidence: float, seed: int) -> Document:
    """``differences`` of every two ``runs``: AP and AP50 of the clean images, and with success under each attack."""

    def between(one: Results, other: Results) -> Document | str:
        if (why := other_rules(one.how, other.how, RULES)) is not None:
            return why
        images, left_out = shared(one.images, other.images)
        both = [each.on(images) for each in (one, other)]
        if not images or not _same(*(each.truth for each in both)):
            return "did not attack the same objects"
        draws = with_measured(resamples(len(images), REPEATS, seed))
        names = [name for name in one.conditions if name in other.conditions]

        def changes(name: str) -> Document:
            first, second = (_numbers(each, name, draws) for each in both)
            return {key: change(first[key], second[key], confidence) for key in first}

        attacks = {name: changes(name) for name in names}
        return {"images": len(images), "left_out": left_out, CLEAN: changes(CLEAN), "attacks": attacks}

    return differences({name: Results(run, settings_of(run)) for name, run in runs.items()}, between)


def _same(one: TruthColumns, other: TruthColumns) -> bool:
    """Whether these are the same objects: image, class, and box to .01 px."""
    same = len(one) == len(other) and one.names == other.names
    same = same and all(np.array_equal(getattr(one, key), getattr(other, key)) for key in ("image", "label", "crowd"))
    return same and np.allclose(one.boxes, other.boxes, atol=0.01)


def _numbers(results: Results, name: str, draws: Floats) -> dict[str, Floats]:
    """``AP``, ``AP50`` and, under attack, ``success`` ``[R]`` of each of the ``draws`` ``[R, images]``."""
    ap, ap50 = ap_of_draws(results.truth, results.boxes(name).columns, draws)
    found = {"AP": ap, "AP50": ap50}
    if name != CLEAN:
        objects = results.objects(name)
        counts = np.stack([objects.lost, objects.right], axis=1).astype(np.float64)
        lost, right = per_image(counts, objects.image, draws.shape[1]).T
        found["success"] = ratios(draws, lost, right)
    return found

"""What a run says: the share of the objects that is lost at each light, with intervals over images."""

import numpy as np

from misdetect.engine.store import Run
from misdetect.metrics.bootstrap import interval, ratios, resamples
from misdetect.nouns.boxes import Bools, Ints
from misdetect.studies.advice import percent
from misdetect.studies.contract import Document, Headline
from misdetect_darkness.brightness.settings import BrightnessSettings


def settings_of(run: Run) -> BrightnessSettings:
    """How ``run`` was made, and is shown."""
    return BrightnessSettings.of({**run.settings, **run.about["view"]})


def document(run: Run) -> Document:
    """Everything that ``run`` says; shares are of the objects that are found with all light."""
    how = settings_of(run)
    rows = run.query("SELECT image, lost_at FROM rows WHERE kind = 'object' ORDER BY case_index, row").to_pylist()
    found = [row for row in rows if row["lost_at"] != 1]
    image = np.unique([row["image"] for row in found], return_inverse=True)[1].reshape(-1)
    lost_at = np.array([row["lost_at"] for row in found], float)  # NaN: never lost
    lost = lost_share(image, lost_at >= how.needed, how.confidence)
    by_light = {f"{light:g}": lost_share(image, lost_at >= light, how.confidence) for light in how.light}
    return {
        "objects": len(rows),
        "found": len(found),
        "lost": lost[0],
        "by_light": {light: share for light, (share, _) in by_light.items()},
        "intervals": {"lost": lost[1], "by_light": {light: ends for light, (_, ends) in by_light.items()}},
    }


def lost_share(image: Ints, lost: Bools, confidence: float) -> tuple[float | None, list[float] | None]:
    """The share of objects ``[N]`` that are ``lost``, and its interval: had other images been drawn. ``image`` ``[N]``
    tells which one each is on."""
    if not len(lost):
        return None, None
    above, below = np.bincount(image, lost), np.bincount(image)
    low, high = interval(ratios(resamples(len(below)), above, below), confidence)
    return float(lost.mean()), [float(low), float(high)]


def sentences(document: Document) -> list[str]:
    """What was found."""
    if not document["found"]:
        return ["No object is found with all light, so that none can be lost."]
    lost = percent(document["lost"], document["intervals"]["lost"])
    needed = f"{100 * document['settings']['needed']:g} %"
    return [f"With {needed} of the light, {lost} of the objects are lost that are found with all of it."]


def numbers(document: Document) -> dict[str, Headline]:
    """For comparing runs."""
    return {"objects": Headline(document["objects"]), "lost": Headline(document["lost"], document["intervals"]["lost"])}

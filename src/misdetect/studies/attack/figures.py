"""The pictures of an attack run, drawn into its ``images`` folder: the charts of ``plots``, and images before and
after, with what was detected on them and the perturbation between them."""

from functools import partial
from pathlib import Path

import numpy as np

from misdetect.data.dataset import Dataset, Sample
from misdetect.drawing import charts, figures
from misdetect.drawing.larger import shown
from misdetect.drawing.scenes import places
from misdetect.engine.store import Run
from misdetect.nouns.boxes import SIDES, boxes_of
from misdetect.nouns.picture import Pixels
from misdetect.studies.attack import plots
from misdetect.studies.attack.adversarial import kept_image
from misdetect.studies.attack.document import settings_of
from misdetect.studies.attack.plan import CLEAN, main_attacks
from misdetect.studies.attack.settings import AttackSettings
from misdetect.studies.contract import Figures
from misdetect.studies.documents import read_document


def draw(run: Run, data: Dataset, most: int) -> list[Path]:
    """The charts, and for each attack ``most`` images on which it loses most objects. Returns the files."""
    document = read_document(run)
    if not most or not document["attacks"]:
        return []
    folder = run.path / "images"
    drawn = {"attacks.png": plots.attacks, "confusion.png": plots.matrices}
    if document["clsaval"]:
        drawn["clsaval.png"] = plots.ablations
    if document["ladder"] and document["ladder"]["rungs"]:
        drawn["ladder.png"] = plots.ladder
    if document["distance"]:
        drawn["distance.png"] = plots.distance
    made = charts.draw(folder, {name: partial(chart, document) for name, chart in drawn.items()})
    how = settings_of(run)
    place = places(data)
    for attack in main_attacks(how)[2:]:
        for number, image in enumerate(_worst(run, attack.name, most)):
            picture = _before_and_after(run, data[place[image]], attack.name, how)
            if picture is not None:
                made.append(figures.save_png(folder / f"{attack.name}-{number:02d}.png", picture))
    return made


def _worst(run: Run, attack: str, most: int) -> list[str]:
    rows = run.query(
        "SELECT image, count(*) FILTER (\"right\" AND NOT found) AS lost FROM rows WHERE kind = 'object' "
        "AND condition = ? GROUP BY image ORDER BY lost DESC, image LIMIT ?",
        [attack, most],
    ).to_pylist()
    return [row["image"] for row in rows if row["lost"]]


def _before_and_after(run: Run, sample: Sample, attack: str, how: AttackSettings) -> Pixels | None:
    """The clean and the adversarial image with what is reported on them, and the perturbation, amplified."""
    image = sample.id
    adversarial = kept_image(run, image, attack)
    if adversarial is None:
        return None
    change = adversarial.astype(np.float32) - sample.image
    clean, factor = shown(sample)
    change = np.kron(change, np.ones((factor, factor, 1), np.float32))  # each pixel of noise as a square
    after = np.rint(clean + change).clip(0, 255).astype(np.uint8)
    gain = 127 / max(float(np.abs(change).max()), 1)
    amplified = (128 + gain * change).astype(np.uint8)  # 1 to 255
    parts = [
        (f"clean: {image}", _with_detections(run, clean, factor, image, CLEAN, how)),
        (f"change x {gain:.0f}", amplified),
        (f"attacked: {attack}, eps {how.eps:g}", _with_detections(run, after, factor, image, attack, how)),
    ]
    return figures.stacked([figures.titled(picture, title) for title, picture in parts], sideways=True)


def _with_detections(run: Run, large: Pixels, factor: int, image: str, condition: str, how: AttackSettings) -> Pixels:
    """``large``, an image ``factor`` times as large as the detector saw it, with what was reported on it."""
    names = run.about["identity"]["data"]["names"]
    rows = run.query(
        f"SELECT label, score, {', '.join(SIDES)} FROM rows WHERE kind = 'detection' AND variant = 'vanilla' "
        "AND image = ? AND condition = ? AND score >= ? ORDER BY score",
        [image, condition, how.score],
    ).to_pylist()
    captions = [f"{row['label']} {row['score']:.2f}" for row in rows]
    labels = [names.index(row["label"]) for row in rows]
    return figures.with_boxes(large, boxes_of(rows) * factor, captions, labels)


FIGURES = Figures(
    draw,
    captions={
        "attacks": "AP50 under every attack",
        "confusion": "What detections become under attack",
        "clsaval": "AP50 with parts taken from the clean image",
        "ladder": "Is the attack strong enough?",
        "distance": "Attacked from a distance",
    },
    live=("*-[0-9][0-9]",),
)

"""Which attacks a run consists of: those of the table, the rungs of the ladder, and those from a distance.

Pure functions of the settings. Every attack of an image starts from the same random point, so that attacks differ in
what they do and not in their luck.
"""

from dataclasses import dataclass, replace

from misdetect.studies.attack.settings import AttackSettings, Target
from misdetect.studies.attack.where import Where
from misdetect.studies.climb import Pace

CLEAN, NOISE, FGSM, TRANSFER = "clean", "noise", "fgsm", "transfer"
LONGER = 2
"""How many times more steps the ladder's longer attack takes, and how many more starts the one with restarts."""
SHORTER = 4
FAR = 64.0
"""The ε at which hardly anything should be found any more, of 255."""


@dataclass(frozen=True)
class Attack:
    """One way to change an image. ``loss`` is ``None`` for noise. ``thorough``: what happens inside the detector is
    looked at too, and the image is kept; else only what becomes of the objects."""

    name: str
    loss: Target | None
    eps: float
    pace: Pace
    where: Where
    random_start: bool = False
    restarts: int = 1
    thorough: bool = False


def main_attacks(how: AttackSettings) -> list[Attack]:
    """Those that every image gets: noise as control, FGSM, and one per loss."""
    where = Where.parse(how.where)
    noise = Attack(NOISE, None, how.eps, Pace(0, 0.0), where, thorough=True)
    fgsm = Attack(FGSM, how.targets[0], how.eps, Pace(1, how.eps), where, thorough=True)
    pace = Pace(how.steps, how.step, how.momentum, how.decay)
    random = how.random_start
    own = [Attack(t, t, how.eps, pace, where, random, how.restarts, thorough=True) for t in how.targets]
    return [noise, fgsm, *own]


def rungs(how: AttackSettings) -> list[Attack]:
    """What only the ladder's images get: fewer and more steps, restarts, and a large ε over the whole image."""
    if not how.ladder:
        return []
    main = replace(main_attacks(how)[2], thorough=False)
    far = max(FAR, how.eps)
    image = Where("image")
    few, starts = max(2, how.steps // SHORTER), how.restarts + LONGER
    many = max(LONGER * how.steps, few + 1)  # rungs go by their names
    wide = max(how.step, 2 * how.eps / few)  # so that few steps lead from any point of the ball to any other
    return [
        replace(main, name=f"{few} steps", pace=replace(main.pace, steps=few, alpha=wide)),
        replace(main, name=f"{many} steps", pace=replace(main.pace, steps=many)),
        replace(main, name=f"{starts} starts", restarts=starts),
        replace(main, name=f"eps {far:g}", eps=far, pace=replace(main.pace, alpha=far / 4), where=image),
    ]


def transfer_rung(how: AttackSettings) -> Attack:
    """The attack that another detector's gradients lead."""
    return replace(main_attacks(how)[2], name=TRANSFER, thorough=False)


def from_afar(how: AttackSettings) -> list[Attack]:
    """With ``--where outside``: the first loss, from ever further away."""
    where = Where.parse(how.where)
    if how.where != "outside":
        return []
    main = replace(main_attacks(how)[2], thorough=False)
    return [replace(main, name=f"outside:{d}", where=replace(where, distance=d)) for d in how.away]

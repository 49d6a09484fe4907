"""What makes a detector of the zoo robust: the attack on every batch that its training goes on with.

``misdetect.training`` knows that a robust twin is trained under some change of its batches, not which: an attack is a
study's, and studies are built upon training. Recipe and results are in docs/zoo.md.
"""

from misdetect.detectors.zoo.shipped import ZOO
from misdetect.suites.harden.adversarial import Adversarial
from misdetect.training.zoo import recipe_of


def change_of(name: str) -> Adversarial | None:
    """How the batches of the zoo's ``name`` are attacked; ``None`` for all that have no twin.

    PGD on the whole loss within 8 of 255, in two steps of 4 from a random start, on three quarters of each batch
    (paper 5 attacks half of it).
    """
    if name not in ZOO or ZOO[name].twin is None:
        return None
    half = recipe_of(name).precision == "bfloat16"  # where the losses bear it, so do signs of their slopes
    return Adversarial(how="pgd", eps=8.0, alpha=4.0, steps=2, clean=0.25, half=half)

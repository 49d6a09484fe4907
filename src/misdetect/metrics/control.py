"""What controls can tell: would a patch of mere texture have done the same?

A failure has an unknown *chance*: the share of patches (the same shape in the same place, filled from elsewhere in the
photo) that make it too. Each patch that is asked about is one draw, so what is known of the chance is a Beta
distribution. ``Control`` says when enough is known, to ask no further. Functions of counts; nothing is asked here.
"""

from dataclasses import dataclass

from misdetect.metrics.beta import beta_quantile, incomplete_beta

_PRIOR = 0.5
"""Jeffreys' prior, Beta(½, ½): most failures happen with nearly every patch or with hardly any, which it expects."""


@dataclass(frozen=True)
class Control:
    """A failure is the object's doing if its chance is below ``chance`` with a probability of at least ``sure``; ask at
    most ``most`` patches to find out."""

    most: int = 10
    chance: float = 0.3
    sure: float = 0.9

    def below(self, asked: int, failing: int) -> float:
        """Probability that the chance is below ``chance``, where ``failing`` of the patches ``asked`` fail too."""
        return incomplete_beta(_PRIOR + failing, _PRIOR + asked - failing, self.chance)

    @property
    def fewest(self) -> int:
        """How many patches it takes at least to clear a failure; ``most`` where that is never enough."""
        return next((asked for asked in range(1, self.most) if self.below(asked, 0) >= self.sure), self.most)

    def clear(self, asked: int, failing: int) -> bool | None:
        """Whether the failure is the object's doing; ``None`` as long as another patch may tell. It is not where that
        is unlikely (1 - ``sure``), or where even harmless patches only, up to ``most``, would not make it so."""
        below = self.below(asked, failing)
        if below >= self.sure:
            return True
        hopeless = below <= 1 - self.sure or self.below(max(self.most, asked), failing) < self.sure
        return False if hopeless or asked >= self.most else None


def posterior(asked: int, failing: int, confidence: float) -> tuple[float, float, float]:
    """Mean of the chance, and the two ends of the interval that holds it with probability ``confidence``, as much of
    the rest below as above."""
    a, b = _PRIOR + failing, _PRIOR + asked - failing
    tail = (1 - confidence) / 2
    return a / (a + b), beta_quantile(a, b, tail), beta_quantile(a, b, 1 - tail)

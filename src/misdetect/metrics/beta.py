"""The incomplete beta function, and what is read off it: quantiles of Beta and of Student's t, tosses of a coin.

Functions of numbers. The tests compare them with SciPy's.
"""

from functools import lru_cache
from itertools import count
from math import exp, lgamma, log, log1p, sqrt

_TINY = 1e-300
"""Stands for a denominator of 0 (Lentz's method)."""
_LAST_BITS = 3e-16


def incomplete_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b): the probability that a Beta(a, b) is below ``x``; a and b above 0."""
    if not 0 < x < 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # beyond it the fraction converges slowly
        return 1 - _lower(b, a, 1 - x)
    return _lower(a, b, x)


def _lower(a: float, b: float, x: float) -> float:
    front = exp(a * log(x) + b * log1p(-x) + lgamma(a + b) - lgamma(a) - lgamma(b)) / a
    return front / _fraction(a, b, x)


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of I_x (DLMF 8.17.22), evaluated from the front until nothing changes."""
    value = front = 1.0
    back = 0.0
    for step in count(1):
        m = step // 2
        if step % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        back = 1 / (1 + term * back or _TINY)
        front = 1 + term / front or _TINY
        value *= front * back
        if abs(front * back - 1) < _LAST_BITS:
            break
    return value


@lru_cache(maxsize=4096)  # asked about the same few counts again and again
def beta_quantile(a: float, b: float, share: float) -> float:
    """The x below which a Beta(a, b) is with probability ``share``: halved down to neighbouring numbers."""
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        if incomplete_beta(a, b, middle) < share:
            low = middle
        else:
            high = middle
    return high


def student_quantile(share: float, degrees: float) -> float:
    """The t below which Student's t of so many ``degrees`` of freedom is with probability ``share``, above ½."""
    x = beta_quantile(degrees / 2, 0.5, 2 * (1 - share))
    return sqrt(degrees * (1 - x) / x)


def binomial_below(most: int, tosses: int) -> float:
    """The probability of at most ``most`` heads in so many ``tosses`` of a fair coin."""
    return 1.0 if most >= tosses else incomplete_beta(tosses - most, most + 1, 0.5)

"""How numbers are written for a person: in sentences and in tables of terminal and page. What is not known is a dash,
a share stands in percent, and an interval behind its value. LaTeX has forms of its own (``tables``).
"""

from collections.abc import Sequence

UNKNOWN = "–"
Ends = Sequence[float] | None
"""Both ends of an interval; ``None`` where there is none."""


def number(value: float | None, digits: int = 3) -> str:
    """``value`` with so many decimals: ``0.123``."""
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def percent(share: float | None, digits: int = 1) -> str:
    """A share in 0..1: ``12.3 %``."""
    return UNKNOWN if share is None else f"{100 * share:.{digits}f} %"


def between(ends: Ends, digits: int = 0, times: float = 1) -> str:
    """An interval as tables have it, ``9..15``; nothing where there is none."""
    return "" if ends is None else f"{times * ends[0]:.{digits}f}..{times * ends[1]:.{digits}f}"


def within(ends: Ends, digits: int = 3, times: float = 1) -> str:
    """An interval as sentences have it behind its value, `` (9 to 15)``; nothing where there is none."""
    return "" if ends is None else f" ({times * ends[0]:.{digits}f} to {times * ends[1]:.{digits}f})"


def ranged(value: float | None, ends: Ends, times: float = 1) -> str:
    """A value and its interval in one cell of a table: ``12.3 9..15``."""
    return UNKNOWN if value is None else f"{times * value:.1f} {between(ends, 0, times)}".rstrip()

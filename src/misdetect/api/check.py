"""``check``: whether the numbers of a run are beyond a limit, as ``--fail-if`` asks on the command line."""

from collections.abc import Iterable
from typing import Any, Protocol

from misdetect.said import gates
from misdetect.studies.contract import Document


class Documented(Protocol):
    """A run, a checkup, a comparison."""

    @property
    def document(self) -> Any: ...


def check(found: Documented | Document, fail_if: str | Iterable[str]) -> list[gates.Verdict]:
    """Judge ``found`` (what a function of misdetect returned, or its document) by the gates ``fail_if``: one
    ``Verdict`` each, which has ``failed``, ``value``, and ``says`` it in a sentence.

    ``check(run, "AP50 < 0.8")`` has failed where AP50 is below .8. What cannot be judged raises a ``BadGate``.
    """
    return gates.check(found if isinstance(found, dict) else found.document, fail_if)

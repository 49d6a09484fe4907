"""What is wrong with a detector, in plain sentences with numbers, the worst first, each with what to do about it.

Each study reads its own document. A finding is one only where it is certain: its interval excludes what a sound
detector would show. What only follows from another finding does not come before it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from misdetect.studies.contract import Document, Finding
from misdetect.studies.kinds import in_checkup


def findings(documents: Mapping[str, Document]) -> list[dict[str, Any]]:
    """What the ``documents`` of studies, by name, say is wrong: JSON-able, the worst first."""
    found = [
        each
        for kind in in_checkup()
        if kind.name in documents and kind.findings is not None
        for each in kind.findings(documents[kind.name], documents)
    ]
    return [each.document() for each in sorted(found, key=lambda each: (-_weight(each, found), not each.brings))]


def _weight(one: Finding, found: Sequence[Finding]) -> float:
    """What is at stake in ``one``, but no more than in what it follows from."""
    causes = (each.value for each in found if each.kind in one.follows or one.kind in each.brings)
    return min([one.value, *causes])

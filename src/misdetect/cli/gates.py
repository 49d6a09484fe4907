"""``--fail-if`` and ``--junit``: gates for CI, on every verb that presents the document of a study, of a checkup or of
a comparison.

They are read before anything is asked, and judged on the document that is printed, which has them under ``gates``.
"""

import inspect
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from misdetect.cli.junit import junit
from misdetect.cli.shell import Document, Show, annotate, complain, present
from misdetect.kept.files import check_writable, write_atomically
from misdetect.said.gates import Gate, Verdict, parsed

PASSED, FAILED, UNJUDGED = 0, 1, 2
"""Exit codes. What cannot be judged is no pass: a misspelt key would let everything through."""
_GROUP = Group("Gates for CI", sort_key=90)
FailIf = Annotated[
    list[str] | None,
    Parameter(
        name="--fail-if",
        group=_GROUP,
        negative=(),
        consume_multiple=False,
        help="Exit with 1 if this holds of the document, e.g. 'miss_rate > 0.2'; may be given several times.",
    ),
]
JUnit = Annotated[
    Path | None,
    Parameter(
        name="--junit", group=_GROUP, help="Write FILE.xml with a test case per gate, or without gates per study."
    ),
]


def gate_options() -> list[inspect.Parameter]:
    """The options of a verb that has gates; ``Gates.of`` takes them."""
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in (("fail_if", FailIf), ("junit", JUnit))
    ]


@dataclass(frozen=True)
class Gates:
    """What the command line says of gates, and of the JUnit file."""

    gates: Sequence[Gate] = ()
    junit: Path | None = None

    @classmethod
    def of(cls, given: dict[str, Any], *, comparing: bool = False) -> "Gates":
        """Take the gates out of what was ``given``; what cannot be read, or written, is refused before anything is
        asked."""
        gates, path = parsed(given.pop("fail_if", None) or (), comparing=comparing), given.pop("junit", None)
        if path is not None:
            check_writable(path)
        return cls(gates, path)

    def judge(self, document: Document) -> dict[str, Any]:
        """``document`` with what became of the gates."""
        judged = [gate.judge(document).document() for gate in self.gates]
        return {**document, **({"gates": judged} if judged else {})}

    def conclude(self, document: Document, as_json: bool, show: Show) -> int:
        """Present ``document``, with its gates, say which of them failed, and return the exit code."""
        document = document if "gates" in document else self.judge(document)
        verdicts = [Verdict(**each) for each in document.get("gates", ())]
        if self.junit is not None:
            write_atomically(self.junit, junit(document, verdicts))
        present(document, as_json, show)
        for verdict in verdicts:
            if verdict.failed is not False:
                complain(verdict.says)
                if os.environ.get("GITHUB_ACTIONS") == "true":
                    annotate("misdetect", verdict.says)
        if any(verdict.failed is None for verdict in verdicts):
            return UNJUDGED
        return FAILED if any(verdict.failed for verdict in verdicts) else PASSED

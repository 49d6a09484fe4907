"""Every way misdetect refuses or fails, one class per kind.

Each error is one sentence that names the file or argument, what was found and what to do. The command line prints
that sentence (as JSON with ``--json``) and exits with the class's ``exit_code``; a user never sees a traceback.
"""

from typing import ClassVar

from misdetect.said.extras import command


class MisdetectError(Exception):
    """Root of all errors that are meant to be read by the user."""

    exit_code: ClassVar[int] = 2
    kind: ClassVar[str] = "error"

    @classmethod
    def kinds(cls) -> set[str]:
        """The ``kind`` of this class and of every class derived from it."""
        return {cls.kind}.union(*(derived.kinds() for derived in cls.__subclasses__()))


class BadGate(MisdetectError, ValueError):
    """A gate (``--fail-if``) cannot be read or judged: no such key, nothing measured. See docs/ci.md."""

    kind = "bad-gate"


class BadPlugin(MisdetectError):
    """An installed package registers something that cannot be used. The message names the package."""

    kind = "bad-plugin"


class BadArray(MisdetectError, ValueError):
    """An array has the wrong shape, type or values. Compare it with the shape in the message."""

    kind = "bad-array"


class BadSpec(MisdetectError, ValueError):
    """A detector or data spec cannot be read. See ``misdetect detectors`` and ``misdetect data --help``."""

    kind = "bad-spec"


class BadData(MisdetectError, ValueError):
    """A data set's file is broken or contradicts itself. The message names the file and the record."""

    kind = "bad-data"


class NothingToTest(BadData):
    """What a run was to find out cannot be found out here, which only the run itself could tell: nothing is kept of it.
    The message says what to change."""


class BadImage(BadData):
    """An image is missing, unreadable, too large, or outside the data's folder."""

    kind = "bad-image"


class BadWeights(MisdetectError, ValueError):
    """A weights file is refused or does not fit the model it is loaded into."""

    kind = "bad-weights"


class MissingExtra(MisdetectError, ImportError):
    """An optional dependency is not installed. The message names the extra that brings it."""

    kind = "missing-extra"

    @classmethod
    def named(cls, what: str, extra: str, package: str = "misdetect") -> "MissingExtra":
        return cls(f"{what} needs the {extra!r} extra: {command(extra, package)}.")


class LevelTooLow(MisdetectError, TypeError):
    """The detector offers less than the study needs (see the access levels in docs/architecture.md)."""

    kind = "level-too-low"


class RunMismatch(MisdetectError):
    """The run directory holds another run. Choose another ``--out``, or delete it."""

    kind = "run-mismatch"


class RunBusy(MisdetectError):
    """Another process is writing to this run directory. Wait for it, or choose another ``--out``."""

    kind = "run-busy"


class DetectorFailed(MisdetectError, RuntimeError):
    """The detector raised, or returned what a detector may not return. Its cause is in the message."""

    exit_code = 3
    kind = "detector-failed"


class BadCluster(MisdetectError):
    """No cluster answers at the address, or a node of it cannot do the work. The message names the node."""

    kind = "bad-cluster"


class BudgetSpent(MisdetectError):
    """The budget does not allow another query. The run can be resumed with a larger one."""

    exit_code = 0
    kind = "budget-spent"

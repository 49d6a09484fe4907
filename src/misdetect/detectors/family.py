"""What a detector family says of itself. A package declares a ``Family`` for each scheme of detector specs that it
brings, and names it under the entry points ``misdetect.detectors``; importing a declaration imports no runtime."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from misdetect.nouns.spec import Spec
from misdetect.said.extras import command

CODE = "is code and would be run"
SENT = "would be sent images, and the secrets that its spec names"
DOWNLOADED = "would be downloaded"
"""What a spec may ask for that nobody should do because a stranger's file says so."""
TORCH = ("torch", "torchvision", "safetensors")
"""What the extra ``torch`` brings."""


def _nothing(spec: Spec) -> None:
    return None


def _none(path: Path) -> bool:
    return False


def named(*endings: str) -> Callable[[Path], bool]:
    """A family recognises files by what their names end with."""
    return lambda path: path.suffix.lower() in endings and not path.is_dir()


@dataclass(frozen=True)
class Family:
    """A scheme of detector specs: ``what`` it is, the ``level`` that its detectors reach, an ``example``.

    ``loader`` is ``module:function``, called with a ``Spec``. ``needs`` are importable modules, brought by the
    ``extra`` of ``package``. ``reach`` tells what loading a spec would do beyond this machine's own files, as ``CODE``,
    ``SENT`` and ``DOWNLOADED`` say it. ``look`` is ``module:function`` as well, for schemes whose files can be looked
    into: called with a ``Spec``, it returns the document of ``misdetect detectors FILE``, or what makes it of the spec.

    ``recognises`` tells of a path without a scheme whether it is a file or folder of this family, so that the path
    alone is a spec; it imports no runtime either, and what has the right name and is broken, or not there, is for the
    loader to complain of.

    ``trained_later``: its target has weights itself; ``weights=FILE`` are those of a training that began with them.
    ``stored``: it names answers that were given before, and cannot be asked about new images. Families are listed by
    ``place``, those of one place by name.
    """

    what: str
    level: str
    example: str
    loader: str
    needs: tuple[str, ...] = ()
    extra: str | None = None
    package: str = "misdetect"
    reach: Callable[[Spec], str | None] = _nothing
    look: str | None = None
    recognises: Callable[[Path], bool] = _none
    trained_later: bool = False
    stored: bool = False
    place: int = 1000

    @property
    def missing(self) -> tuple[str, ...]:
        """The modules that are not installed."""
        return tuple(module for module in self.needs if find_spec(module) is None)

    @property
    def install(self) -> str | None:
        """The command that installs what is missing, or ``None``."""
        return command(self.extra, self.package) if self.extra and self.missing else None

"""Specs: one string names a detector or a data set, ``scheme:target,option=value,…``.

The target may contain commas; an option starts at a comma followed by ``name=``. Options are typed by whoever reads
them, and one that nobody reads is an error, so that a misspelt option never passes in silence.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

from misdetect.said.errors import BadSpec

T = TypeVar("T", int, float, str, bool)
_OPTION = re.compile(r",(?=[A-Za-z_][\w.-]*=)")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
"""Begins a path of Windows; no scheme has one letter."""
_NUMBER = re.compile(r"[A-Za-z0-9.+-]+")
"""What may be in a number, be it nan: Python also takes underscores, and the digits of every script."""
_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}


@dataclass
class Spec:
    """A parsed spec; ``take`` reads an option, ``finish`` complains about what was not read.

    ``known_names`` are the classes of what it names, where an earlier look has told them: an endpoint need not be asked
    for them again, which would cost a request. ``data_names`` tells the classes of the data that is to be looked at,
    for a file that names none, and the file that holds them, or "". ``counted`` is the file in which a run counts its
    requests where they are ``limited``, so that those are counted too which are made while it is loaded.
    """

    text: str
    scheme: str
    target: str
    options: dict[str, str]
    known_names: tuple[str, ...] | None = None
    data_names: "Callable[[], tuple[tuple[str, ...], str]] | None" = None
    counted: Path | None = None
    limited: bool = False
    _taken: set[str] = field(default_factory=set)

    @classmethod
    def parse(cls, text: str, recognise: "Callable[[str], str | None]" = lambda path: None) -> "Spec":
        """Split ``text``; an address (``http://…``) keeps its scheme in the target. ``recognise`` says of which scheme
        the file or folder of a bare path is; with a scheme, it is not asked."""
        text = text.strip()
        head, rest = split_options(text)
        bare = is_path(head)
        if bare and head and (known := recognise(head)):
            text, head, bare = f"{known}:{text}", f"{known}:{head}", False
        scheme, _, target = head.partition(":")
        if bare or not scheme:
            raise BadSpec(f"Expected a spec such as 'coco:FILE' or 'zoo:yolox'. Got {text!r}.")
        if target.startswith("//"):
            target = head
        options: dict[str, str] = {}
        for item in rest:
            name, _, value = item.partition("=")
            name = name.replace("-", "_")
            if name in options:
                raise BadSpec(f"{text!r} gives the option {name!r} twice.")
            options[name] = value
        return cls(text, scheme.lower(), target, options)

    def take(self, name: str, default: T, *, choices: tuple[str, ...] = ()) -> T:
        """Option ``name`` converted to the type of ``default``, or ``default`` where it is not given."""
        self._taken.add(name)
        if name not in self.options:
            return default
        raw = self.options[name]
        if choices and raw not in choices:
            raise BadSpec(f"{self.text!r}: {name}={raw} is not one of {', '.join(choices)}.")
        if isinstance(default, bool):
            if raw.lower() not in _TRUE | _FALSE:
                raise BadSpec(f"{self.text!r}: {name}={raw} should be yes or no.")
            return raw.lower() in _TRUE
        try:
            if isinstance(default, (int, float)) and not _NUMBER.fullmatch(raw):
                raise ValueError
            return type(default)(raw)
        except ValueError:
            raise BadSpec(f"{self.text!r}: {name}={raw} should be {type(default).__name__}.") from None

    def instead(self, name: str, value: object) -> str:
        """The text of this spec with option ``name`` set to ``value``, whatever it was before."""
        head, rest = split_options(self.text.strip())
        kept = [item for item in rest if item.partition("=")[0].replace("-", "_") != name]
        return ",".join([head, *kept, f"{name}={value}"])

    def finish(self) -> None:
        """Raise if an option was given that nobody took."""
        unknown = sorted(set(self.options) - self._taken)
        if unknown:
            known = ", ".join(sorted(self._taken)) or "none"
            meant = did_you_mean(unknown[0], self._taken)
            raise BadSpec(f"{self.text!r}: unknown option {unknown[0]!r} (known: {known}).{meant}")

    def misspelt(self) -> str | None:
        """The sentence for an option that nobody has read so far, and that looks like one that was looked for in vain:
        what a reader complains of then, it complains of for that reason."""
        missed = self._taken - set(self.options)
        for name in sorted(set(self.options) - self._taken):
            if meant := did_you_mean(name, missed):
                return f"{self.text!r}: unknown option {name!r}.{meant}"
        return None


def is_path(text: str) -> bool:
    """Whether ``text``, a spec without its options, begins with no scheme: it can only be a path."""
    return ":" not in text or _DRIVE.match(text) is not None


def split_options(text: str) -> tuple[str, list[str]]:
    """What stands before the first option, and each option as ``name=value``."""
    head, *options = _OPTION.split(text)
    return head, options


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """ " Did you mean …?" with the one of ``known`` that ``word`` looks like; empty where none does."""
    near = get_close_matches(word, list(known), n=1, cutoff=0.75)
    return f" Did you mean {near[0]!r}?" if near else ""

"""One definition of a setting: its name, type, default, help and limits serve Python, command line, run.json and docs.

A study's settings are a frozen dataclass derived from ``Settings``. The sentence below a field is its help; markers in
its type say what values it takes (``Range``), under which heading ``--help`` shows it (``Heading``), and what it
decides: the rows of a run (most), only how these are shown (``VIEW``), or only how they are got (``RUNNING``, and
``PYTHON`` where the command line has its own way).
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from math import inf
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin, get_type_hints

from misdetect.said.errors import BadSpec


@dataclass(frozen=True)
class Range:
    """Values from ``low`` to ``high``, both included."""

    low: float | None = None
    high: float | None = None

    def holds(self, value: float) -> bool:
        """Whether ``value`` lies within; what is not finite lies nowhere."""
        return (
            abs(value) != inf and (self.low is None or value >= self.low) and (self.high is None or value <= self.high)
        )

    def __str__(self) -> str:
        if self.high is None:
            return f"at least {self.low:g}"
        return f"at most {self.high:g}" if self.low is None else f"from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Heading:
    """The group of options that a setting is shown in."""

    text: str


@dataclass(frozen=True)
class Decides:
    """What a setting decides."""

    what: Literal["rows", "view", "running", "python"]


VIEW, RUNNING, PYTHON = Decides("view"), Decides("running"), Decides("python")

Share = Annotated[float, Range(0, 1)]
Count = Annotated[int, Range(1)]
Number = Annotated[int, Range(0)]


@dataclass(frozen=True)
class Setting:
    """One field of a ``Settings`` class. ``type`` is without its markers."""

    name: str
    type: Any
    default: Any
    help: str
    range: Range | None
    heading: str
    decides: str
    required: bool = False

    @property
    def option(self) -> str:
        """As on the command line; an underscore at the end only keeps a name apart from a word of Python."""
        return "--" + self.name.rstrip("_").replace("_", "-")

    @property
    def is_path(self) -> bool:
        """Whether it names a file or a folder."""
        return Path in _parts(self.type)

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values of a ``Literal``; empty where any value of the type will do."""
        return tuple(c for part in _parts(self.type) if get_origin(part) is Literal for c in get_args(part))

    @property
    def is_list(self) -> bool:
        """Whether it takes several values: in Python a tuple or a list, and anywhere one word with commas."""
        return any(get_origin(part) is tuple for part in _parts(self.type))

    def listed(self, value: Any) -> Any:
        """``value`` of a setting with several values as a tuple, where it is a list or a word with commas."""
        if isinstance(value, list):
            return tuple(value)
        if not isinstance(value, str):
            return value
        parts = [part.strip() for part in value.split(",")]
        if self.type == tuple[str, ...]:
            return tuple(part for part in parts if part)
        if not all(_NUMBER.fullmatch(part) for part in parts):
            return value if len(parts) == 1 else tuple(parts)
        return tuple(int(part) if re.fullmatch(r"[-+]?[0-9]{1,4000}", part) else float(part) for part in parts)

    def check(self, value: Any) -> None:
        """Raise a ``BadSpec`` if ``value`` is not one that this setting takes."""
        if not any(_fits(value, part) for part in _parts(self.type)):
            raise BadSpec(f"{self.name} should be {self.wanted}. Got {value!r}.")
        if self.range is not None and value is not None and not self.range.holds(value):
            raise BadSpec(f"{self.name} should be {self.range}. Got {value!r}.")

    @property
    def wanted(self) -> str:
        """The values it takes, in words."""
        plain = (part for part in _parts(self.type) if get_origin(part) is not Literal and part is not NoneType)
        return " or ".join((*map(str, self.choices), *(_WORDS.get(part, str(part)) for part in plain)))


_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
_WORDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "text",
    Path: "a path",
    tuple[int, int]: "two whole numbers",
    tuple[int, ...]: "whole numbers",
    tuple[float, ...]: "numbers",
    tuple[str, ...]: "several texts",
}


def _fits(value: Any, hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if get_origin(hint) is tuple:
        kinds = get_args(hint)
        each = kinds[:1] * len(value) if isinstance(value, tuple) and kinds[-1] is Ellipsis else kinds
        return isinstance(value, tuple) and len(value) == len(each) and all(map(_fits, value, each))
    if hint in (int, float) and isinstance(value, bool):
        return False
    if get_origin(hint) is not None:  # a function
        return callable(value)
    return isinstance(value, {float: (int, float), Path: (str, Path)}.get(hint, hint))


def _parts(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Base of all settings: checked when made, as a JSON-able ``document`` and back (``of``)."""

    def __post_init__(self) -> None:
        self.take_lists()
        for setting in settings_of(type(self)):
            setting.check(getattr(self, setting.name))

    def take_lists(self) -> None:
        """Make tuples of lists and of words with commas; for a class that looks at its values before they are
        checked."""
        for setting in settings_of(type(self)):
            if setting.is_list:
                object.__setattr__(self, setting.name, setting.listed(getattr(self, setting.name)))

    def document(self, decides: str = "rows") -> dict[str, Any]:
        """The settings that decide ``decides``, as ``run.json`` has them."""
        return {s.name: _plain(getattr(self, s.name)) for s in settings_of(type(self)) if s.decides == decides}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The settings that a ``document`` names; what it does not name has its default."""
        known = {s.name: s for s in settings_of(cls)}
        given = {name: value for name, value in document.items() if name in known}
        return cls(**{name: tuple(v) if isinstance(v, list) else v for name, v in given.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value


_known: dict[type, tuple[Setting, ...]] = {}


def settings_of(kind: type[Settings]) -> tuple[Setting, ...]:
    """Every setting of ``kind``, in the order of its fields."""
    if kind not in _known:
        _known[kind] = _read(kind)
    return _known[kind]


def _read(kind: type[Settings]) -> tuple[Setting, ...]:
    hints, helps = get_type_hints(kind, include_extras=True), dict(_helps(kind))
    found = []
    for field in fields(kind):
        hint, markers = _unmarked(hints[field.name])
        default = field.default if field.default is not MISSING else None
        found.append(
            Setting(
                field.name,
                hint,
                default,
                helps.get(field.name, ""),
                next((m for m in markers if isinstance(m, Range)), None),
                next((m.text for m in markers if isinstance(m, Heading)), ""),
                next((m.what for m in markers if isinstance(m, Decides)), "rows"),
                required=field.default is MISSING,
            )
        )
    return tuple(found)


def _unmarked(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """``hint`` without its markers, which may also stand inside a union, and the markers."""
    markers: tuple[Any, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *found = get_args(hint)
        markers = tuple(found)
    parts = [_unmarked(part) if get_origin(part) is Annotated else (part, ()) for part in _parts(hint)]
    if len(parts) > 1:
        hint = Union[tuple(part for part, _ in parts)]  # noqa: UP007 - made at run time
    elif get_origin(parts[0][0]) is not None or parts[0][1]:
        hint = parts[0][0]
    return hint, (*markers, *(marker for _, inner in parts for marker in inner))


def _helps(kind: type) -> Iterator[tuple[str, str]]:
    """The string below each field, base classes first."""
    for each in reversed(kind.__mro__):
        if not is_dataclass(each):
            continue
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        assert isinstance(body, ast.ClassDef)
        for field, below in zip(body.body, body.body[1:], strict=False):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    yield name, " ".join(text.split())

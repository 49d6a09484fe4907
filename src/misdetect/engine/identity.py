"""What identifies a run: study, settings, detector and data. It is made here, so that no caller can pass less.

Two runs with the same identity have the same rows, so one may go on where the other stopped. A detector is known by its
``fingerprint``; one without is known by the code that defines it and by what it holds; where that cannot be hashed, it
is known only as long as the process lives.
"""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from misdetect.nouns.open_names import OpenNames
from misdetect.nouns.picture import digest
from misdetect.nouns.protocols import Trainable

_MARK = "_misdetect_known_by"
_DEPTH = 6


class Known(Protocol):
    """Data that says what it is: a ``Dataset``, or what a training learns from."""

    @property
    def spec(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def names(self) -> Sequence[str]: ...
    def __len__(self) -> int: ...


def identity(name: str, settings: Mapping[str, Any], detector: Any, data: Known) -> dict[str, Any]:
    """The JSON-able identity of a run of study ``name`` with ``settings``."""
    return {
        "study": name,
        "settings": dict(settings),
        "detector": {
            "spec": getattr(detector, "spec", None),
            "fingerprint": getattr(detector, "fingerprint", None) or known_by(detector),
            "names": list(detector.names),
            **({"open_names": True} if isinstance(detector.names, OpenNames) else {}),
        },
        "data": {
            "spec": data.spec,
            "fingerprint": data.fingerprint,
            "names": list(data.names),
            "images": len(data),
            "limit": getattr(data, "limited_to", None),
            "part": getattr(data, "part", None),
        },
    }


def known_by(detector: object) -> str:
    """Code and content of a detector that has no fingerprint of its own, as they were when it was first looked at: an
    object stays the same one, whatever it counts while it works."""
    found: str | None = getattr(detector, _MARK, None)
    if found is None:
        found = f"code {_code_of(type(detector))}"
        try:
            found += f", holds {digest(_content(getattr(detector, '__dict__', {}), 0))}"
        except TypeError:
            if getattr(detector, "spec", None) is None:  # else the spec says what it is made from
                found += f", this object only ({uuid4().hex})"
        with suppress(AttributeError):  # an object with slots: known by what it holds at each time
            setattr(detector, _MARK, found)
    if isinstance(detector, Trainable):  # training makes another one of it, though the object stays
        found += f", weights {digest(_content(detector.state(), 0))}"
    return found


def _code_of(kind: type) -> str:
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    try:
        return f"{kind.__qualname__} {digest(Path(file).read_bytes()) if file else ''}"
    except OSError:
        return kind.__qualname__


def _content(value: Any, depth: int) -> Any:
    """What can be hashed of what a detector holds; a ``TypeError`` where something cannot."""
    if depth > _DEPTH:
        raise TypeError("nested too deeply")
    if hasattr(value, "state_dict"):  # a torch module
        return {name: _content(tensor, depth + 1) for name, tensor in value.state_dict().items()}
    if hasattr(value, "detach"):  # a tensor
        return value.detach().float().cpu().numpy()
    if isinstance(value, Mapping):
        return {str(key): _content(each, depth + 1) for key, each in value.items() if key != _MARK}
    if isinstance(value, (list, tuple)):
        return [_content(each, depth + 1) for each in value]
    return str(value) if isinstance(value, (Path, OpenNames)) else value

"""``labels=FILE``: what the data's classes are called by the detector, where no rule can know it.

A JSON or YAML object ``{"data's name": "detector's name"}``, or lines ``data's name = detector's name``.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from misdetect.data.faults import Malformed
from misdetect.data.untrusted import parse, parse_yaml, read_bytes
from misdetect.nouns.labels import plain_name

_LARGEST = 4 << 20


def read_renaming(path: Path, names: Sequence[str]) -> dict[str, str]:
    """The new name of each of the data's ``names`` that the file ``path`` mentions."""
    data = read_bytes(path, what="a file that names classes", largest=_LARGEST)
    read: Callable[[bytes, Path], Any] = {".json": parse, ".yaml": parse_yaml, ".yml": parse_yaml}.get(
        path.suffix.lower(), _lines
    )
    pairs = read(data, path)
    if not isinstance(pairs, dict) or not all(
        isinstance(each, str) and each for pair in pairs.items() for each in pair
    ):
        raise Malformed(f'{path}: expected an object of names, such as {{"sofa": "couch"}}.')
    spelt = {plain_name(name): name for name in reversed(names)}
    unknown = [name for name in pairs if plain_name(name) not in spelt]
    if unknown:
        raise Malformed(f"{path}: {unknown[0]!r} is no class of the data (it has {', '.join(names[:6])}, …).")
    return {spelt[plain_name(name)]: new for name, new in pairs.items()}


def _lines(data: bytes, path: Path) -> dict[str, Any]:
    try:
        lines = [line.strip() for line in data.decode("utf-8-sig").splitlines()]
    except ValueError:
        raise Malformed(f"{path} is not UTF-8 text.") from None
    pairs = [line.split("=", 1) for line in lines if line and not line.startswith("#")]
    if wrong := next((pair[0] for pair in pairs if len(pair) < 2), None):
        raise Malformed(f"{path}: expected lines such as 'sofa = couch'. Got {wrong!r}.")
    return {old.strip(): new.strip() for old, new in pairs}

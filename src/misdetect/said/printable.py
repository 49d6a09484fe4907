"""Words of strangers on a terminal: what would move its cursor, colour it or turn text around is written out instead.

A class may be called ``\\x1b[2J``, a file may hold a line break; printed as they are, they could clear the screen or
forge a line of ours. Files keep such names as they are: JSON and Parquet have no cursor.
"""

import re
from collections.abc import Mapping
from typing import Any

_ACTS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, those that change the direction of writing, line separators, and halves of characters."""


def printable(text: str) -> str:
    """``text`` with what a terminal would act on written as in Python: ``\\x1b``, ``\\n``."""
    return _ACTS.sub(lambda found: ascii(found[0])[1:-1], text)


def printable_values(value: Any) -> Any:
    """A document (mappings, lists and plain values in each other) with all its text ``printable``."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {printable_values(key): printable_values(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [printable_values(each) for each in value]
    return value


_FOLDERS = re.compile(r"(?<![\w.~/\\-])(?:~|[A-Za-z]:)?(?:[/\\][^/\\\s,;=\"'<>]+)+[/\\](?=[^/\\\s])")
"""The folders of an absolute path; an address (``//``) is none."""


def without_folders(value: Any) -> Any:
    """A document, or a text, with every absolute path as the name of its file alone: what is sent on tells nobody where
    things lie on somebody's machine."""
    if isinstance(value, str):
        return _FOLDERS.sub("", value)
    if isinstance(value, Mapping):
        return {key: without_folders(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_folders(each) for each in value]
    return value


def shortened(text: str, most: int) -> str:
    """``text`` without its middle where it is longer than ``most`` characters."""
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-(most // 2) :]}"

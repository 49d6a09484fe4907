"""Files that a stranger may have written: their bytes, and JSON, YAML and XML in them, in bounded time and memory.

What a parser would accept and everybody later would stumble over is refused here: text that is no Unicode, whole
numbers of thousands of digits, YAML or XML that refers to itself, nesting without end. Nothing here knows what a file
means.
"""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from xml.parsers import expat

import yaml

from misdetect.data.faults import Malformed
from misdetect.kept.files import LARGEST, read_regular
from misdetect.said.errors import MisdetectError

_MAX_YAML: Final = 1 << 20
_MAX_DEPTH: Final = 64
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is ten times as fast
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf(inity)?)", re.ASCII | re.IGNORECASE)
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_bytes(path: Path, *, what: str, largest: int = LARGEST) -> bytes:
    """The bytes of a file that the user named."""
    try:
        return read_regular(path, largest)
    except FileNotFoundError:
        raise Malformed(f"{path} does not exist; expected {what}.") from None
    except (OSError, ValueError) as error:  # a name may hold what no file's name may
        why = error.strerror if isinstance(error, OSError) else error
        raise Malformed(f"{path} cannot be read ({why}); expected {what}.") from error


def read_json(path: Path, *, what: str) -> tuple[Any, bytes]:
    """The parsed JSON file and its bytes; every way in which it is not JSON is ``Malformed``."""
    data = read_bytes(path, what=what)
    return parse(data, path), data


def parse(data: bytes, path: Path) -> Any:
    """JSON from untrusted bytes."""
    try:
        content = json.loads(data)
    except RecursionError:
        raise Malformed(f"{path} is not valid JSON that anybody needs: it is nested too deeply.") from None
    except ValueError as error:  # also a number of thousands of digits, or text that is not UTF-8
        raise Malformed(f"{path} is not valid JSON: {error}.") from None
    # a surrogate is written as \ud800, or as bytes that start with ED: hardly a file needs the closer look
    if b"\\u" in data or b"\xed" in data:
        _refuse_oddities(content, path)
    return content


def parse_yaml(data: bytes, path: Path) -> Any:
    """YAML from untrusted bytes. Aliases let a short file stand for an endless one; no list of classes needs them."""
    if len(data) > _MAX_YAML:
        raise Malformed(f"{path} has {len(data)} bytes; expected a short yaml.")
    depth = 0
    try:
        for event in yaml.parse(data, Loader=_Loader):
            if isinstance(event, yaml.AliasEvent):
                raise Malformed(f"{path} uses yaml aliases (*name), which it does not need; write them out.")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _MAX_DEPTH:
                raise Malformed(f"{path} is not valid yaml: it is nested too deeply.")
        content = yaml.load(data, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError, TypeError, AttributeError) as error:  # PyYAML's own slips too
        if isinstance(error, Malformed):
            raise
        raise Malformed(f"{path} is not valid yaml: {(str(error).splitlines() or ['no reason given'])[0]}.") from None
    _refuse_oddities(content, path)
    return content


def parse_xml(
    data: bytes,
    path: Path,
    *,
    largest: int,
    what: str,
    each: Callable[[ElementTree.Element], None] | None = None,
) -> ElementTree.Element:
    """The root element of untrusted XML; document types (and with them entities) and deep nesting are refused.

    With ``each``, every child of the root is handed over when it is complete, and then emptied: a file of many images
    never stands in memory as a whole tree.
    """
    if len(data) > largest:
        raise Malformed(f"{path} has {len(data)} bytes; expected {what}, of at most {largest}.")
    parser, builder = expat.ParserCreate(), ElementTree.TreeBuilder()
    depth = 0

    def refuse(*_: object) -> None:
        raise Malformed(f"{path} declares a document type, which annotations do not need; remove the <!DOCTYPE …>.")

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _MAX_DEPTH:
            raise Malformed(f"{path} is nested too deeply to be an annotation.")
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        element = builder.end(tag)
        if depth == 1 and each is not None:
            each(element)
            element.clear()

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, LookupError, ValueError) as error:
        if isinstance(error, MisdetectError):
            raise
        raise Malformed(f"{path} is not valid XML: {error}.") from None
    return builder.close()


def parse_number(text: str) -> float:
    """The number that ``text`` is in every language; a ``ValueError`` for what only Python takes for one (``1_0``)."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text!r:.60} is not a number")
    return float(text)


def _refuse_oddities(content: Any, path: Path) -> None:
    """Refuse text that is no Unicode, and whole numbers of more than 300 digits, anywhere in ``content``."""
    left = [content]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += [*value, *value.values()]
        elif isinstance(value, (list, tuple, set)):
            left += value
        elif isinstance(value, str) and _SURROGATE.search(value):
            raise Malformed(f"{path} holds text that is not valid Unicode: {value!r:.60}.")
        elif type(value) is int and value.bit_length() > 1000:
            raise Malformed(f"{path} holds a whole number of {value.bit_length()} bits.")

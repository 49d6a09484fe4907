"""Files that hold networks: a hash, what a file that cannot be read seems to be, what a runtime says of it."""

import hashlib
from pathlib import Path

from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadSpec


def file_of(spec: Spec) -> Path:
    """The file that is the target of ``spec``."""
    path = Path(spec.target)
    if not path.is_file():
        raise BadSpec(f"{spec.text!r}: there is no file {spec.target!r}.")
    return path


def file_hash(path: Path) -> str:
    """A hash of the bytes of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


_MARKS = (
    (b"PK\x03\x04", "it is a zip archive that is cut off, or of something else"),
    (b"\x89HDF", "it is an HDF5 file, such as Keras writes"),
    (b"<", "it is XML of something else"),
    (b"{", "it is JSON"),
    (b"\x80", "it is a pickle"),
)
_HEAD = 512


def kind_of_file(path: Path) -> str:
    """What a file that cannot be read as what it should be seems to be, by its first bytes."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if not head:
        return "it is empty"
    if head[4:8] == b"TFL3":
        return "it is a TensorFlow Lite file"
    if head[:1] == b"\x08" and any(word in head for word in (b"pytorch", b"onnx", b"graph", b"Conv")):
        return "it looks like an ONNX file"
    for mark, what in _MARKS:
        if head.startswith(mark):
            return what
    if all(byte >= 32 or byte in b"\t\r\n" for byte in head):
        return "it is text"
    return f"its first bytes are {head[:4].hex(' ')}"


def first_line(error: BaseException) -> str:
    """What a runtime says first of its failure, as a sentence."""
    return _sentence(error, 0)


def last_line(error: BaseException) -> str:
    """What a runtime says last of its failure, as a sentence."""
    return _sentence(error, -1)


def _sentence(error: BaseException, line: int) -> str:
    lines = str(error).strip().splitlines()
    return lines[line].strip().rstrip(".!") + "." if lines else f"{type(error).__name__}."

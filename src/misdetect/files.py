"""Writing files so that a crash, a kill or a full disk leaves the old one or the new one, nothing between."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from misdetect.errors import BadSpec


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path``: after a crash there is the old file or the new one, nothing between."""
    with whole_file(path) as file:
        file.write(data)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which becomes ``path`` when the block ends and vanishes when it fails."""
    if path.exists() and not path.is_file():
        raise BadSpec(f"{path} is no regular file, and only those are written; choose another name.")
    temporary = path.with_name(f".{path.name}.writing")
    try:
        with open(temporary, "wb") as file:
            yield file
        move_into_place(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.errno and str(error.filename or temporary) == str(temporary):
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from None  # a failed write names none
        raise


def move_into_place(temporary: Path, path: Path) -> None:
    """Rename ``temporary``, a finished file beside ``path``, to ``path``, synced first: no crash leaves half."""
    with open(temporary, "rb+") as file:
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

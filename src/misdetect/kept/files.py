"""Reading regular files only, and writing so that a crash, a kill or a full disk leaves the old one or the new one.

Where a file is named, a stranger may have put a pipe that never ends, a device, or a file of terabytes. A file in the
mirror of a store (``mirror``) is written to the store first, and read from there where it is not here yet.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from misdetect.kept.mirror import fetch, is_wanted, mirror_of
from misdetect.kept.remote import as_url
from misdetect.kept.system import open_plainly, open_to_read, replace, sync_folder, unlink
from misdetect.said.errors import BadSpec

LARGEST = 16 << 30
"""Bytes of the largest file that is read into memory."""


def open_regular(path: Path | str, largest: int = LARGEST) -> BufferedReader:
    """A regular file of at most ``largest`` bytes, opened for reading; an ``OSError`` that says what else it is."""
    file = open(open_to_read(path), "rb")  # noqa: SIM115
    try:
        about = os.fstat(file.fileno())
        if about.st_size > largest:
            raise OSError(errno.EFBIG, f"it has {about.st_size} bytes, and at most {largest} are read", str(path))
        if not is_wanted(Path(path), about):
            return file
    except BaseException:
        file.close()
        raise
    file.close()  # Windows replaces no open file
    fetch(Path(path))
    return open(open_plainly(path, os.O_RDONLY), "rb")


def read_regular(path: Path | str, largest: int = LARGEST) -> bytes:
    """The bytes of a regular file; an ``OSError`` where it is none, or has more than ``largest`` of them."""
    with open_regular(path, largest) as file:
        return file.read()


def check_local(path: Path) -> None:
    """Refuse the address of a store where only a local path will do."""
    if (url := as_url(path)) is not None:
        raise BadSpec(f"{url} cannot be written by this: only runs go to a store; name a local path, and copy it.")


def check_writable(path: Path) -> None:
    """Refuse, before anything is computed, a path where no file can be written: no folder, or no regular file there."""
    check_local(path)
    if not path.parent.is_dir():
        raise BadSpec(f"{path} cannot be written: there is no folder {path.parent}.")
    try:
        regular = stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:  # links in a circle, a name that no file can have
        raise BadSpec(f"{path} cannot be written: {getattr(error, 'strerror', error)}.") from None
    if not regular:
        raise BadSpec(f"{path} is no regular file, and only those are written; choose another name.")


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path``: after a crash there is the old file or the new one, nothing between."""
    with whole_file(path) as file:
        file.write(data)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which becomes ``path`` when the block ends and vanishes when it fails."""
    check_writable(path)
    temporary = path.with_name(f".{path.name}.writing")
    try:
        with open(temporary, "wb", opener=open_plainly) as file:
            yield file
        mirror = mirror_of(path)
        if mirror is not None:
            mirror.publish(Path(os.path.abspath(path)), temporary.read_bytes())
        move_into_place(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.errno and str(error.filename or temporary) == str(temporary):
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from None  # a failed write names none
        raise


def remove(path: Path) -> None:
    """Remove a file, if there is one: from its store first, where it is in a mirror."""
    mirror = mirror_of(path)
    if mirror is not None:
        mirror.remove(Path(os.path.abspath(path)))
    unlink(path)


def move(path: Path, target: Path) -> None:
    """Rename a file, or whatever else is there; in a store it is written anew and then removed."""
    mirror = mirror_of(path)
    if mirror is not None and path.is_file():
        mirror.publish(Path(os.path.abspath(target)), path.read_bytes())
        mirror.remove(Path(os.path.abspath(path)))
    replace(path, target)


def move_into_place(temporary: Path, path: Path) -> None:
    """Rename ``temporary``, a finished file beside ``path``, to ``path``, synced first: no crash leaves half."""
    with open(temporary, "rb+") as file:
        os.fsync(file.fileno())
    replace(temporary, path)
    sync_folder(path.parent)

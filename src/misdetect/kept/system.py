"""What systems differ in: opening a file itself, locks, names, renaming and removing what others have open.

A lock is held by an open file and ends with its process, however that ends (``kill -9`` too). It is ``flock`` where
there is one. Windows locks bytes instead, against everybody's reading and writing: here one byte, far behind the end of
whatever is locked. No library does this for the file that holds the count of a budget, which is locked for every query:
filelock waits 50 ms between tries and wants a file of its own, portalocker wants pywin32.
"""

import contextlib
import errno
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

try:
    from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, flock  # type: ignore[attr-defined, unused-ignore]
except ImportError:  # Windows
    from msvcrt import LK_NBLCK, LK_UNLCK, locking  # type: ignore[attr-defined, unused-ignore]

    _HAS_FLOCK = False
else:
    _HAS_FLOCK = True

WINDOWS = os.name == "nt"
_NO_LINK: int | None = getattr(os, "O_NOFOLLOW", None)
_NO_WAITING: int | None = getattr(os, "O_NONBLOCK", None)
_FOLDER: int | None = getattr(os, "O_DIRECTORY", None)
_BYTES: int = getattr(os, "O_BINARY", 0)
"""On Windows: line ends stay as they are."""
_FORBIDDEN = re.compile(r'[\x00-\x1f<>:"/\\|?*]')
_RESERVED = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *(\..*)?", re.IGNORECASE | re.DOTALL)
"""Devices, whatever their ending: ``nul.png`` is one too."""
_AT = 1 << 30
_PAUSE = 0.001
"""Seconds between two tries to get a lock, where the system does not wait for it by itself."""
_PATIENCE = 2.0
"""Seconds to wait on Windows for those who have a file open for a moment: another process, a search for viruses."""


def open_plainly(path: Path | str, flags: int, mode: int = 0o666) -> int:
    """Open a file, not what a link in a stranger's folder points to, and without waiting for the reader of a pipe."""
    if _NO_LINK is None or _NO_WAITING is None:  # nobody can look and open at once: a link made in between is followed
        with contextlib.suppress(FileNotFoundError):
            found = os.lstat(path)
            if stat.S_ISLNK(found.st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            _refuse_strange(found, path)
    return os.open(path, flags | (_NO_LINK or 0) | (_NO_WAITING or 0) | _BYTES, mode)


def open_to_read(path: Path | str) -> int:
    """Open a regular file, or what a link to one leads to; an ``OSError`` that says what else it is."""
    if _NO_WAITING is None:  # a pipe would be waited for, and a folder could not be told from a file that is forbidden
        _refuse_strange(os.stat(path), path)
    number = os.open(path, os.O_RDONLY | (_NO_WAITING or 0) | _BYTES)
    try:
        _refuse_strange(os.fstat(number), path)
    except OSError:
        os.close(number)
        raise
    return number


def _refuse_strange(found: os.stat_result, path: Path | str) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))


def lock(file: int, *, shared: bool = False, wait: bool = True) -> bool:
    """Lock an open file: for all who want it ``shared`` (on Windows for one of them), or for one alone. Whether it was
    free; with ``wait`` it is waited for. Another opening of the same file counts as another one, in one process too."""
    if _HAS_FLOCK:
        how = LOCK_SH if shared else LOCK_EX
        try:
            flock(file, how if wait else how | LOCK_NB)
        except BlockingIOError:
            return False
        return True
    while not _lock_byte(file):
        if not wait:
            return False
        time.sleep(_PAUSE)
    return True


def _lock_byte(file: int) -> bool:
    os.lseek(file, _AT, os.SEEK_SET)
    try:
        locking(file, LK_NBLCK, 1)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            raise
        return False
    return True


def unlock(file: int) -> None:
    """Free a file that was locked."""
    if _HAS_FLOCK:
        flock(file, LOCK_UN)
    else:
        os.lseek(file, _AT, os.SEEK_SET)
        locking(file, LK_UNLCK, 1)


@contextlib.contextmanager
def locked(file: int, *, shared: bool = False) -> Iterator[None]:
    """The lock of an open file, waited for."""
    lock(file, shared=shared)
    try:
        yield
    finally:
        unlock(file)


def read_first(file: int, count: int) -> bytes:
    """The first ``count`` bytes of an open file."""
    if hasattr(os, "pread"):
        return os.pread(file, count, 0)  # type: ignore[attr-defined, no-any-return, unused-ignore]
    os.lseek(file, 0, os.SEEK_SET)
    return os.read(file, count)


def write_first(file: int, data: bytes) -> None:
    """Write ``data`` at the beginning of an open file."""
    if hasattr(os, "pwrite"):
        os.pwrite(file, data, 0)  # type: ignore[attr-defined, unused-ignore]
    else:
        os.lseek(file, 0, os.SEEK_SET)
        os.write(file, data)


class LockFile:
    """The file ``path``, made where there is none, and its lock; a ``BlockingIOError`` where somebody else has it. Of a
    ``folder`` that is there it is the lock of the folder itself; on Windows that of a file beside it."""

    def __init__(self, path: Path, *, folder: bool = False) -> None:
        flags, self.path, self._stays = os.O_RDWR | os.O_CREAT, path, False
        if folder and _HAS_FLOCK and _FOLDER is not None:
            flags, self._stays = os.O_RDONLY | _FOLDER, True
        elif folder:
            self.path = path.with_name(f"{path.name}.lock")
        while True:
            self._file: int | None = open_plainly(self.path, flags)
            try:
                if not lock(self._file, wait=False):
                    raise BlockingIOError(errno.EWOULDBLOCK, "it is locked", str(path))
                if os.fstat(self._file).st_nlink:
                    return
            except BaseException:
                self.release()
                raise
            self.release()  # whoever had it has removed it

    def release(self, *, remove: bool = False) -> None:
        """Let others have it; with ``remove`` the file goes too, not a folder."""
        if self._file is None:
            return
        file, self._file = self._file, None
        remove = remove and not self._stays
        try:
            if remove and _HAS_FLOCK:  # while it is locked: who opened it before then sees that it is gone
                self.path.unlink(missing_ok=True)
        finally:
            os.close(file)
        if remove and not _HAS_FLOCK:  # an open file cannot be removed there, so it stays where another has opened it
            with contextlib.suppress(PermissionError, FileNotFoundError):
                self.path.unlink()


def replace(path: Path, target: Path) -> None:
    """Rename ``path``, also where something is at ``target``; on Windows those who read that are waited for."""
    _patiently(lambda: os.replace(path, target))


def unlink(path: Path) -> None:
    """Remove a file, if there is one; on Windows those who read it are waited for."""
    _patiently(lambda: path.unlink(missing_ok=True))


def _patiently(change: Callable[[], None]) -> None:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return change()
        except PermissionError:
            if not WINDOWS or time.monotonic() > until:
                raise
        time.sleep(10 * _PAUSE)


def portable_name(name: str) -> str:
    """``name`` as every system takes it for a file or folder: Windows knows several characters, words and ends that
    none may have."""
    plain = _FORBIDDEN.sub("_", name)
    plain = plain.rstrip(". ").ljust(len(plain), "_")
    return f"_{plain}" if not plain or _RESERVED.fullmatch(plain) else plain


def sync_folder(path: Path) -> None:
    """Put the names in a folder onto the disk. Windows opens no folders; its file system keeps a journal of names."""
    if _FOLDER is None:
        return
    folder = os.open(path, os.O_RDONLY | _FOLDER)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

"""What misdetect needs of ``msvcrt``, by means of Unix."""

import errno
import fcntl
import os

LK_UNLCK, LK_NBLCK = 0, 2
_locked = {}


def locking(file, mode, count):
    """Bytes from the file's position on, of this opening of it: the whole file does as well here."""
    at = os.lseek(file, 0, os.SEEK_CUR), count
    if mode == LK_UNLCK:
        if _locked.pop(file, None) != at:
            raise OSError(errno.EACCES, "these bytes are not locked")
        fcntl.flock(file, fcntl.LOCK_UN)
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PermissionError(errno.EACCES, "Permission denied") from None
    _locked[file] = at

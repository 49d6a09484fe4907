"""Python with the names that it has on Windows only: whoever has this folder on the PYTHONPATH, workers too, lacks what
Unix has besides, locks files by ``msvcrt``, and can neither remove nor replace a file that it has open itself."""

import errno
import os
import signal
import sys

GONE = {
    os: (
        *("O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK", "O_CLOEXEC", "O_SYNC", "fork", "forkpty", "geteuid"),
        *("getgid", "getegid", "sysconf", "sched_getaffinity", "pread", "pwrite", "fchmod", "fchown", "chown"),
        *("getpgid", "killpg", "setsid", "statvfs", "mkfifo", "posix_fadvise", "openpty"),
    ),
    signal: ("SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM", "pthread_sigmask", "setitimer", "alarm", "sigwait", "pause"),
}
_OPEN = "/proc/self/fd"


def _refusing(change):
    """``change``, of files, as Windows does it: not while this process has one of them open."""

    def refusing(*paths, **how):
        for path in paths:
            place = os.path.realpath(path) if not os.path.islink(path) else os.path.abspath(path)
            for number in os.listdir(_OPEN):
                try:
                    opened = os.readlink(f"{_OPEN}/{number}")
                except OSError:
                    continue
                if opened == place or opened.startswith(f"{place}/"):
                    raise PermissionError(errno.EACCES, "it is open", os.fspath(path))
        return change(*paths, **how)

    return refusing


import asyncio  # noqa: E402, F401 -- it is made for the system that it is on, and needs fcntl here
import subprocess  # noqa: E402, F401

import pretended_msvcrt  # noqa: E402, F401

for module, names in GONE.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
sys.modules["msvcrt"] = sys.modules.pop("pretended_msvcrt")
if os.path.isdir(_OPEN):
    for name in ("remove", "unlink", "rename", "replace"):
        setattr(os, name, _refusing(getattr(os, name)))

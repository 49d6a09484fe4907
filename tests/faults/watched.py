"""A command whose every file operation is seen before it is done, by the kernel's own account (Linux, seccomp).

System calls that change files wait until this process has looked at them: those of Python, of SQLite, Arrow and every
other library, of threads, and of the worker processes that the command starts. So a test can strike before operation
number *n*: kill whoever is about to do it, send a signal, or let it fail with an error such as a full disk.
"""

import ctypes
import fcntl
import os
import platform
import select
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

_FD, _PATH, _AT = "fd", "path", "at"
"""Which file a call is about: an open file, a path, or a path below an open folder."""
_CALLS = {
    # name: (number on x86-64, on arm64, kind, place of what names the file, place of the flags that make it a change)
    "write": (1, 64, _FD, 0, None),
    "open": (2, None, _PATH, 0, 1),
    "pwrite": (18, 68, _FD, 0, None),
    "writev": (20, 66, _FD, 0, None),
    "sendfile": (40, 71, _FD, 0, None),
    "fsync": (74, 82, _FD, 0, None),
    "fdatasync": (75, 83, _FD, 0, None),
    "truncate": (76, 45, _PATH, 0, None),
    "ftruncate": (77, 46, _FD, 0, None),
    "rename": (82, None, _PATH, 1, None),
    "mkdir": (83, None, _PATH, 0, None),
    "rmdir": (84, None, _PATH, 0, None),
    "creat": (85, None, _PATH, 0, None),
    "link": (86, None, _PATH, 1, None),
    "unlink": (87, None, _PATH, 0, None),
    "symlink": (88, None, _PATH, 1, None),
    "chmod": (90, None, _PATH, 0, None),
    "fchmod": (91, 52, _FD, 0, None),
    "openat": (257, 56, _AT, 0, 2),
    "mkdirat": (258, 34, _AT, 0, None),
    "unlinkat": (263, 35, _AT, 0, None),
    "renameat": (264, 38, _AT, 2, None),
    "linkat": (265, 37, _AT, 2, None),
    "fchmodat": (268, 53, _AT, 0, None),
    "fallocate": (285, 47, _FD, 0, None),
    "pwritev": (295, 70, _FD, 0, None),
    "renameat2": (316, 276, _AT, 2, None),
    "copy_file_range": (326, 285, _FD, 2, None),
}
_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_MACHINES = {"x86_64": (0, 0xC000003E, 317), "aarch64": (1, 0xC00000B7, 277)}
"""Which column of ``_CALLS``, what the kernel calls the machine, and the number of seccomp(2)."""
_ALLOW, _ASK = 0x7FFF0000, 0x7FC00000
_RECEIVE, _SEND, _GO_ON = 0xC0502100, 0xC0182101, 1
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_libc = ctypes.CDLL(None, use_errno=True)


class _Step(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("yes", ctypes.c_ubyte), ("no", ctypes.c_ubyte), ("k", ctypes.c_uint)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.POINTER(_Step))]


def can_watch() -> bool:
    """Whether this machine can do it: Linux 5.5 or later, which lets a process be told of another's system calls."""
    try:
        release = tuple(int(part) for part in platform.release().split(".")[:2])
        asked = Path("/proc/sys/kernel/seccomp/actions_avail").read_text(encoding="utf-8").split()
        return platform.machine() in _MACHINES and release >= (5, 5) and "user_notif" in asked
    except (OSError, ValueError):
        return False


@dataclass(frozen=True)
class Operation:
    """A file operation that is about to be done: ``number`` (from 1), by whom, what, and on which path."""

    number: int
    pid: int
    name: str
    path: str
    main: bool


@dataclass
class Ended:
    """How a command ended: its exit code (minus the signal), what it said, which operations there were, whether it or
    a process of its had to be ended because nothing happened any more."""

    code: int
    out: str
    err: str
    operations: list[Operation] = field(default_factory=list)
    hung: bool = False
    seconds: float = 0.0


Strike = Callable[[Operation], "int | None"]
"""Called before each operation. What it returns comes of it: ``None``, it is done; a signal's number, negative, that
signal is sent to whoever was about to do it (``-SIGKILL``: and it is not done); an error number, it fails with that."""


def run_watched(
    body: Callable[[], None], root: Path, strike: Strike | None = None, *, folder: Path, patience: float = 90
) -> Ended:
    """Run ``body`` in a child of this process, and ``strike`` before each operation below ``root``. Returns when the
    child and everything it started are gone. What it prints is kept below ``folder``."""
    said = [folder / "stdout", folder / "stderr"]
    ours, theirs = socket.socketpair()
    sys.stdout.flush()
    sys.stderr.flush()
    started = time.monotonic()
    child = os.fork()
    if not child:
        ours.close()
        _be_watched(body, theirs, said)
    theirs.close()
    _, (listener,), _, _ = socket.recv_fds(ours, 1, 1)
    ours.close()
    ended = Ended(0, "", "")
    try:
        _attend(listener, child, os.path.abspath(root), strike, ended, patience)
    finally:
        os.close(listener)
    ended.code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    ended.out, ended.err = (path.read_text(errors="replace") for path in said)
    ended.seconds = time.monotonic() - started
    return ended


def _be_watched(body: Callable[[], None], parent: socket.socket, said: list[Path]) -> None:
    """The child: a session of its own, its output in files, its system calls announced."""
    code = 70
    try:
        os.setsid()
        for number, path in enumerate(said, start=1):
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(file, number)
            os.close(file)
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - the child's own until it ends
        sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = sys.__stderr__ = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        listener = _announce()
        socket.send_fds(parent, [b"."], [listener])
        os.close(listener)
        parent.close()
        body()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _announce() -> int:
    """Have the calls of this process and of all it starts announced; the file that they are announced on."""
    column, machine, seccomp = _MACHINES[platform.machine()]
    low = 0 if sys.byteorder == "little" else 4
    steps = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, machine), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, 0)]
    for numbers in _CALLS.values():
        number, flags = numbers[column], numbers[4]
        if number is None:
            continue
        if flags is None:
            steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ASK)]
        else:
            steps += [(_EQUAL, 0, 4, number), (_LOAD, 0, 0, 16 + 8 * flags + low), (_ANY_BIT, 0, 1, _CHANGES)]
            steps += [(_RETURN, 0, 0, _ASK), (_RETURN, 0, 0, _ALLOW)]
    steps.append((_RETURN, 0, 0, _ALLOW))
    program = _Program(len(steps), (_Step * len(steps))(*(_Step(*step) for step in steps)))
    _libc.prctl(38, 1, 0, 0, 0)  # no new privileges: what a filter asks of those who are not root
    listener = _libc.syscall(seccomp, 1, 8, ctypes.byref(program))
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return int(listener)


def _attend(listener: int, child: int, root: str, strike: Strike | None, ended: Ended, patience: float) -> None:
    """Answer announcements until nobody is left who could make one."""
    names = {numbers[_MACHINES[platform.machine()][0]]: name for name, numbers in _CALLS.items()}
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    last = time.monotonic()
    while True:
        ready = poll.poll(1000)
        if not ready:
            if time.monotonic() - last > patience:
                ended.hung = True
                _end_session(child)
            continue
        if ready[0][1] & select.POLLHUP:
            return
        asked = bytearray(80)
        try:
            fcntl.ioctl(listener, _RECEIVE, asked)
        except OSError:  # who asked is gone
            continue
        identity, task, _, number, _, _ = struct.unpack_from("=QIIiIQ", asked)
        error = 0
        path = _path_of(task, names[number], struct.unpack_from("=6Q", asked, 32))
        if path is not None and (path == root or path.startswith(root + os.sep)):
            last = time.monotonic()
            pid = _process_of(task)
            operation = Operation(len(ended.operations) + 1, pid, names[number], path, pid == child)
            ended.operations.append(operation)
            error = (strike(operation) if strike is not None else None) or 0
            if error < 0:
                os.kill(pid, -error)
                if error == -signal.SIGKILL:
                    continue
                error = 0
        answer = struct.pack("=QqiI", identity, 0, -error, 0 if error else _GO_ON)
        try:
            fcntl.ioctl(listener, _SEND, answer)
        except OSError:  # it was killed meanwhile
            continue


def _path_of(task: int, name: str, arguments: tuple[int, ...]) -> str | None:
    """The file that a call is about; ``None`` where who made it is gone, or for what is no path."""
    _, _, kind, place, _ = _CALLS[name]
    try:
        if kind == _FD:
            return os.readlink(f"/proc/{task}/fd/{_signed(arguments[place])}")
        below = _signed(arguments[place]) if kind == _AT else -100
        path = _text(task, arguments[place + (kind == _AT)])
        folder = os.readlink(f"/proc/{task}/cwd" if below == -100 else f"/proc/{task}/fd/{below}")
        return os.path.normpath(os.path.join(folder, path))
    except (OSError, ValueError):
        return None


def _signed(value: int) -> int:
    return ctypes.c_int(value & 0xFFFFFFFF).value


def _text(task: int, address: int) -> str:
    with open(f"/proc/{task}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        data = memory.read(4096 - address % 4096)
        if b"\0" not in data:
            data += memory.read(4096)
    return os.fsdecode(data.partition(b"\0")[0])


def _process_of(task: int) -> int:
    """The process of a thread."""
    with open(f"/proc/{task}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Tgid:"))


def _end_session(leader: int) -> None:
    """Kill everything in the session of ``leader``: nothing of a command that hangs is left behind."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getsid(int(entry.name)) == leader:
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                continue

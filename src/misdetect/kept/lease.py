"""``Lease``: who may write to a folder in object storage, where there is no lock that ends with its process.

The holder's object under ``NAME/.lease/`` is written anew every few seconds; the highest number counts. The next number
is made by a write that the store refuses to all but the first, so two never hold it. Ages are told by the store's clock
alone: whoever asks writes an object too and compares the two. The holder's own clock says until when it may write.
"""

import json
import os
import socket
import threading
import time
from contextlib import suppress
from typing import Any
from uuid import uuid4

from misdetect.kept.remote import Entry, Remote
from misdetect.said.errors import MisdetectError, RunBusy

SECONDS = 60.0
"""After which a holder that is not heard of has lost its lease."""
_BEAT = 4
"""How often in that time it is heard of."""
FOLDER = ".lease"


class Lease:
    """The right to write below ``name`` of ``remote``, held until ``release``. ``holder`` is the same for all sittings
    of which only one can be alive: the next takes over at once from one that was killed."""

    def __init__(self, remote: Remote, name: str, holder: str) -> None:
        self._remote, self._folder, self._where = remote, f"{name}/{FOLDER}", f"{remote.url}/{name}"
        self._said = {"holder": holder, "host": socket.gethostname(), "pid": os.getpid(), "sitting": uuid4().hex}
        self._lost: str | None = None
        self._end = threading.Event()
        self._until = time.monotonic() + SECONDS
        self._number = self._take(holder)
        self._thread = threading.Thread(target=self._beat, name="misdetect-lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise unless it is still held: called before anything is written."""
        if self._lost is None and time.monotonic() > self._until:
            self._lost = "its store was not reached in time"
        if self._lost is not None:
            raise RunBusy(f"{self._where} is not this process's to write any more ({self._lost}); run it again.")

    def release(self) -> None:
        """Let others write."""
        self._end.set()
        self._thread.join()
        with suppress(MisdetectError):  # it ends by itself
            if self._lost is None:
                self._remote.write(self._object(self._number), self._text(released=True))

    def _object(self, number: int) -> str:
        return f"{self._folder}/{number:09d}"

    def _text(self, released: bool = False) -> bytes:
        return json.dumps({**self._said, "released": released}).encode()

    def _entries(self) -> dict[int, Entry]:
        found = self._remote.entries(self._folder)
        named = {name.rpartition("/")[2]: entry for name, entry in found.items()}
        return {int(name): entry for name, entry in named.items() if name.isdecimal()}

    def _take(self, holder: str) -> int:
        found = self._entries()
        last = max(found, default=0)
        if last:
            self._refuse_held(last, found[last], holder)
        if not self._remote.create(self._object(last + 1), self._text()):
            raise self._busy("another process, which was quicker")
        now = self._entries()
        if max(now, default=0) != last + 1:  # the list that was gone by was an old one
            self._remote.remove([self._object(last + 1)])
            raise self._busy("another process, which was quicker")
        self._remote.remove(self._object(number) for number in now if number <= last)
        return last + 1

    def _refuse_held(self, last: int, entry: Entry, holder: str) -> None:
        said = _read(self._remote.read(self._object(last)))
        if said.get("released") or said.get("holder") == holder:
            return
        age = self._now() - entry.written
        if age <= SECONDS:
            who = f"process {said.get('pid')} on {said.get('host')}"
            raise self._busy(f"{who}, last heard of {age:.0f} s ago; {SECONDS:.0f} s after the last time it is free")

    def _now(self) -> float:
        """By the clock of the store."""
        asking = f"{self._folder}/asking-{uuid4().hex}"
        self._remote.write(asking, b"")
        try:
            return max((entry.written for entry in self._remote.entries(asking).values()), default=0.0)
        finally:
            self._remote.remove([asking])

    def _busy(self, by: str) -> RunBusy:
        return RunBusy(f"{self._where} is being written by {by}; wait for it, or choose another --out.")

    def _beat(self) -> None:
        while not self._end.wait(SECONDS / _BEAT):
            began = time.monotonic()
            with suppress(MisdetectError):  # tried again; ``check`` knows how long it has been
                if max(self._entries(), default=0) != self._number:
                    self._lost = "another process has taken it over"
                    return
                self._remote.write(self._object(self._number), self._text())
                self._until = began + SECONDS


def _read(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}

"""A worker on a cluster: an actor that runs the same pump as a local worker and talks to the parent by calls.

What it shares with the parent are words and objects, no files: it asks the parent for what may be spent and for the
journal. Nothing here imports Ray before an actor runs; ``cluster`` is the parent's side.
"""

import io
import os
import pickle
import queue
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from misdetect.data.opened import Opened
from misdetect.data.shipped import Manifest, Parcel
from misdetect.engine.backend import Asking
from misdetect.engine.installed import CODE, code, versions
from misdetect.engine.line import Message, work
from misdetect.engine.pump import Pump
from misdetect.engine.requests import Case, Study
from misdetect.nouns.detections import Detections
from misdetect.said.errors import BadCluster, BudgetSpent, MisdetectError

ASK = "ask"
"""A message with a question to the parent: ``(number, what, content)``, answered by a call of ``answer``."""
LOST = "lost"
"""A message: an object that should be in the cluster's store is not."""
TAKE, GRANT, RECALL, KEEP = "take", "grant", "recall", "keep"
"""What may be asked: all or none of n queries, up to n queries, answers by their keys, to keep answers."""

Ask = Callable[[str, Any], Any]


@dataclass(frozen=True)
class Payload:
    """What an actor works with. ``packed`` is the study, the maker of its detector and how it is asked, pickled; data
    that travels is left out of it, and is in ``manifests``. ``seen``: fingerprint of the data and key of its first
    image, as the parent sees them; ``folder`` and ``path`` are where the parent looks for files and for code."""

    packed: bytes
    manifests: tuple[Manifest, ...]
    seen: tuple[str, str | None]
    folder: str
    path: tuple[str, ...]
    limited: bool
    counted_in: Path | None
    journalled: bool


class Packer(pickle.Pickler):
    """Pickles a study; data that it opens is handed to ``leave``, which says how it is called, or ``None``."""

    def __init__(self, file: io.BytesIO, leave: Callable[[Opened], int | None]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._leave = leave

    def persistent_id(self, thing: Any) -> Any:
        return self._leave(thing) if isinstance(thing, Opened) else None


class _Unpacker(pickle.Unpickler):
    """Reads what a ``Packer`` wrote; the parent's words are trusted, as everything on a cluster is."""

    def __init__(self, packed: bytes, opened: Sequence[Opened]) -> None:
        super().__init__(io.BytesIO(packed))
        self._opened = opened

    def persistent_load(self, number: Any) -> Any:
        return self._opened[number]


class _Purse:
    """A budget as an actor sees it: the parent has the count, and is asked each time."""

    def __init__(self, ask: Ask, path: Path | None) -> None:
        self._ask, self.path = ask, path

    def grant(self, n: int) -> int:
        """Count up to ``n`` queries, and say how many of them are allowed."""
        return int(self._ask(GRANT, n))

    def take(self, n: int = 1) -> None:
        """Count ``n`` queries, all or none of them: ``BudgetSpent`` where they are not allowed."""
        refused = self._ask(TAKE, n)
        if refused is not None:
            raise BudgetSpent(refused)


class _DistantJournal:
    """The run's journal as an actor sees it."""

    problem: str | None = None

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def get(self, keys: Iterable[str]) -> dict[str, Detections]:
        """What is known of ``keys``."""
        wanted = list(keys)
        return dict(self._ask(RECALL, wanted)) if wanted else {}

    def put(self, found: Mapping[str, Detections], *, at_once: bool = False) -> None:
        """Keep ``found``: it is on the parent's disk when this returns."""
        if found:
            self._ask(KEEP, dict(found))

    def close(self) -> None:
        """The parent closes it."""


class _Words:
    """What comes in and goes out, as a ``Channel``."""

    def __init__(self) -> None:
        self.incoming: queue.SimpleQueue[list[Case]] = queue.SimpleQueue()
        self.outgoing: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._asked: dict[int, Future[Any]] = {}
        self._questions = 0
        self._lock = threading.Lock()

    def poll(self) -> bool:
        return not self.incoming.empty()

    def recv(self) -> list[Case]:
        return self.incoming.get()

    def send(self, message: Message, /) -> None:
        self.outgoing.put(message)

    def ask(self, what: str, content: Any) -> Any:
        """The parent's answer, waited for by whichever thread asks."""
        answer: Future[Any] = Future()
        with self._lock:
            number = self._questions = self._questions + 1
            self._asked[number] = answer
        self.send((ASK, (number, what, content)))
        return answer.result()

    def answer(self, number: int, value: Any) -> None:
        with self._lock:
            asked = self._asked.pop(number)
        asked.set_result(value)


class Actor:
    """A worker; ``objects`` are references to its ``Payload`` and to the parcels of data, ``expected`` the versions
    that the parent has. ``talk`` waits until it has something to say, at most until the next sign of life."""

    def __init__(self, objects: Sequence[Any], expected: Mapping[str, str]) -> None:
        self._objects, self._expected = objects, expected
        self._words = _Words()
        threading.Thread(target=self._body, daemon=True).start()
        # when Ray ends this process, Python would wait for a detector that waits for a parent who is gone; what
        # concurrent.futures registers in the same way, and waits with, is called later
        threading._register_atexit(os._exit, 0)  # type: ignore[attr-defined]

    def talk(self) -> list[Message]:
        """What it has said since it was last asked."""
        said = [self._words.outgoing.get()]
        while not self._words.outgoing.empty():
            said.append(self._words.outgoing.get())
        return said

    def hand(self, cases: list[Case]) -> None:
        """Take ``cases``; an empty list: no more."""
        self._words.incoming.put(cases)

    def answer(self, number: int, value: Any) -> None:
        """The answer to a question."""
        self._words.answer(number, value)

    def _body(self) -> None:
        work(self._words, self._pump)

    def _pump(self) -> Pump:
        node = node_name()
        try:
            _check_versions(self._expected, {**versions(), CODE: code()})
            payload: Payload = self._fetch(0)
            _be_at_home(payload)
            try:
                study, make, asking = self._unpacked(payload)
            except (ImportError, AttributeError, TypeError, EOFError) as error:
                raise BadCluster(f"what this run needs cannot be loaded there ({error}).") from None
            _look(study, payload.seen)
            detector = make()
        except BadCluster as error:
            raise BadCluster(f"node {node}: {error}") from None
        except MisdetectError as error:
            raise BadCluster(f"node {node}: {error} (what is named by a path must be there on every node.)") from None
        grants = _Purse(self._words.ask, payload.counted_in) if payload.limited else None
        journal = _DistantJournal(self._words.ask) if payload.journalled else None
        return asking.pump(detector, study, grants, journal)

    def _unpacked(self, payload: Payload) -> tuple[Study, Callable[[], Any], Asking]:
        opened = [Opened(manifest.open(self._parcel)) for manifest in payload.manifests]
        found: tuple[Study, Callable[[], Any], Asking] = _Unpacker(payload.packed, opened).load()
        return found

    def _parcel(self, number: int) -> Parcel:
        parcel: Parcel = self._fetch(1 + number)
        return parcel

    def _fetch(self, number: int) -> Any:
        import ray

        try:
            return ray.get(self._objects[number])
        except ray.exceptions.RayError as error:
            self._words.send((LOST, str(error).partition("\n")[0]))
            raise ConnectionResetError("an object was lost") from error


def node_name() -> str:
    """What this node is called in messages: host name, address, and the beginning of Ray's own name for it."""
    import ray

    context = ray.get_runtime_context()
    return f"{socket.gethostname()} ({ray.util.get_node_ip_address()}, {context.get_node_id()[:8]})"


def _check_versions(expected: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Refuse to give rows that other versions would not give. What is installed on one side only is not used, or is
    missed when it is."""
    other = [(name, there, found[name]) for name, there in expected.items() if found.get(name, there) != there]
    if other:
        told = ", ".join(f"{name} {here} (here {there})" for name, there, here in other)
        raise BadCluster(f"it has {told}; rows could differ, so install the same versions on every node.")


def _be_at_home(payload: Payload) -> None:
    """Look for files and code where the parent does, as far as there is such a place."""
    if os.path.isdir(payload.folder):
        os.chdir(payload.folder)
    sys.path.extend(place for place in payload.path if place not in sys.path and os.path.isdir(place))


def _look(study: Study, seen: tuple[str, str | None]) -> None:
    """Make sure that the data is the parent's, before every case fails for want of it."""
    fingerprint, first = seen
    try:
        data = study.data
        same = data.fingerprint == fingerprint and (first is None or data[0].key == first)
    except MisdetectError as error:
        raise BadCluster(f"{error} --ship-data sends the images there.") from None
    if not same:
        raise BadCluster(f"{data.spec} is not the same data there; --ship-data sends it.")

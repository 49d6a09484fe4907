"""Actors of a Ray cluster on the same cases, each with its own detector.

The conversation is that of local workers; a seat here is an actor (``actor``), whose words are the result of a call
that is always under way. Study, detector maker and data that travels are put into the object store once. The parent is
the only one who writes: it also counts the budget and keeps the journal, and actors ask it.
"""

import contextlib
import io
import logging
import math
import os
import pickle
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from misdetect.data.opened import Opened
from misdetect.data.shipped import Manifest, has_files, ship
from misdetect.engine.actor import ASK, GRANT, KEEP, LOST, RECALL, TAKE, Actor, Packer, Payload
from misdetect.engine.backend import Asking, Cluster
from misdetect.engine.conversation import Conversation, Lost, Seat
from misdetect.engine.installed import CODE, code, versions
from misdetect.engine.line import Message
from misdetect.engine.requests import Case, Finished, Study, UnderWay
from misdetect.kept.system import WINDOWS
from misdetect.said.errors import BadCluster, BudgetSpent, DetectorFailed, MisdetectError, MissingExtra

_ANSWERS = 5.0
"""Seconds in which a cluster has to take a connection."""
_CLIENT = "ray://"
"""Begins the address of a cluster's client server, for a machine that is not one of its own."""
_SETTINGS = b"\4"
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + _SETTINGS + b"\0" * 5
"""How HTTP/2 begins, which Ray speaks: the preface and a frame of no settings. The answer is such a frame too."""
_AT_ONCE = 3
"""Calls that an actor serves at a time: one that waits for its words, cases, and an answer."""


_connected: list[str] = []
"""Addresses that this program's connection was made by."""


class _Desk:
    """Answers what actors ask the parent: the only one who can reach the files of budget and journal."""

    def __init__(self, asking: Asking) -> None:
        self._budget, self._journal = asking.budget, asking.open_journal()

    def answer(self, what: str, content: Any) -> Any:
        """The answer to a question; see ``actor``."""
        if what == GRANT:
            assert self._budget is not None
            return self._budget.grant(content)
        if what == TAKE:
            assert self._budget is not None
            try:
                return self._budget.take(content)
            except BudgetSpent as refused:
                return str(refused)
        assert self._journal is not None
        if what == RECALL:
            return self._journal.get(content)
        assert what == KEEP
        return self._journal.put(content, at_once=True)

    def close(self) -> None:
        """Nothing more is asked."""
        if self._journal is not None:
            self._journal.close()


class _ActorSeat(Seat):
    """An actor. ``call`` is the one that its next words come by; ``lost`` is called where an object was."""

    def __init__(self, actor: Any, desk: _Desk, lost: Callable[[], None]) -> None:
        super().__init__()
        self._actor, self._desk, self._lost = actor, desk, lost
        self.call = actor.talk.remote()

    def send(self, cases: list[Case]) -> None:
        self._actor.hand.remote(cases)  # where it is gone, its words tell

    def hear(self) -> Sequence[Message]:
        import ray

        try:
            said: list[Message] = ray.get(self.call)
        except ray.exceptions.RayError as error:
            raise Lost(_reason(error)) from None
        self.call = self._actor.talk.remote()
        heard = []
        for kind, content in said:
            if kind == ASK:
                number, what, asked = content
                self._actor.answer.remote(number, self._desk.answer(what, asked))
            elif kind == LOST:
                self._lost()
                raise Lost(content)
            else:
                heard.append((kind, content))
        return heard

    def gone(self) -> str | None:
        return None  # its call ends then

    def end(self) -> None:
        import ray

        with contextlib.suppress(ray.exceptions.RayError, ValueError):
            ray.kill(self._actor)


def _reason(error: Exception) -> str:
    """What Ray says of a lost actor, in one line; a node where nothing can be loaded is refused."""
    text = str(error)
    if "ModuleNotFoundError" in text or "ImportError" in text:
        missing = next(line for line in text.splitlines() if "ModuleNotFoundError" in line or "ImportError" in line)
        where = next((line.strip() for line in text.splitlines() if "ip=" in line), "")
        raise BadCluster(f"a node cannot load misdetect ({missing.strip()}; {where}): install it on every node.")
    if "its node has died" in text:
        return "its node was lost"
    return "its process ended" if "actor" in type(error).__name__.lower() else text.partition("\n")[0][:200]


def _in_a_line(error: Exception) -> str:
    """What Ray says: its first line, and the last one where that only announces a traceback."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"{lines[0]} {lines[-1].strip()}" if lines[0].endswith(":") and len(lines) > 1 else lines[0]


class RayWorkers(Conversation):
    """``count`` actors on ``cluster`` (``None``: as many as it has room for)."""

    def __init__(self, count: int | None, cluster: Cluster, make_detector: Callable[[], Any], asking: Asking) -> None:
        self._ray = connect(cluster.address)
        super().__init__(_count(self._ray, count, cluster), make_detector, asking)
        self._cluster = cluster
        self._desk = _Desk(asking)
        self._objects: list[Any] = []
        threads = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        self._actor = self._ray.remote(
            num_cpus=cluster.cpus,
            num_gpus=cluster.gpus,
            max_concurrency=_AT_ONCE,
            max_restarts=0,
            runtime_env={"env_vars": threads},
        )(Actor)

    def run(self, study: Study, cases: Iterable[Case | None]) -> Iterator[Finished | UnderWay]:
        """As ``Backend.run``."""
        try:
            yield from super().run(study, cases)
        finally:
            self._objects = []
            self._desk.close()

    def _start(self, study: Study) -> Seat:
        if not self._objects:
            self._objects = self._put(study)
        return _ActorSeat(
            self._actor.remote(self._objects, {**versions(), CODE: code()}), self._desk, self._objects.clear
        )

    def _ready(self, seats: Sequence[Any], seconds: float) -> Sequence[Seat]:
        calls = [seat.call for seat in seats]
        try:
            self._ray.wait(calls, num_returns=1, timeout=seconds)
            heard, _ = self._ray.wait(calls, num_returns=len(calls), timeout=0)
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            raise BadCluster(f"the cluster is gone ({_reason(error)}); the same command goes on elsewhere.") from None
        ready = set(heard)
        return [seat for seat in seats if seat.call in ready]

    def _put(self, study: Study) -> list[Any]:
        """References to a ``Payload`` of ``study``, and to the parcels of data that travels."""
        parcels: list[Any] = []
        manifests: list[Manifest] = []

        def leave(opened: Opened) -> int | None:
            if not self._cluster.ship or not (has_files(opened.data) or opened.in_memory):
                return None
            first = len(parcels)
            made = ship(opened.data, lambda parcel: parcels.append(self._ray.put(parcel)))
            manifests.append(made.moved(first))
            return len(manifests) - 1

        packed = io.BytesIO()
        asking = replace(self._asking, budget=None, journal=None)
        try:
            Packer(packed, leave).dump((study, self._make, asking))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise DetectorFailed(f"this detector or study cannot be sent to a cluster ({error}).") from None
        budget = self._asking.budget
        payload = Payload(
            packed.getvalue(),
            tuple(manifests),
            _seen(study),
            _home(),
            tuple(os.path.abspath(place) for place in sys.path),
            limited=budget is not None,
            counted_in=None if budget is None else budget.path,
            journalled=self._asking.journal is not None,
        )
        return [self._ray.put(payload), *parcels]


def _home() -> str:
    """Where relative paths begin."""
    return os.getcwd()


def _seen(study: Study) -> tuple[str, str | None]:
    try:
        return study.data.fingerprint, study.data[0].key
    except MisdetectError:
        return study.data.fingerprint, None


def _count(ray: Any, wanted: int | None, cluster: Cluster) -> int:
    """How many actors: as many as ``wanted``, or as there is room for. One must fit on a node, or none ever starts."""
    needs = {"CPU": cluster.cpus, "GPU": cluster.gpus}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]

    def fit(resources: Any) -> float:
        return min((resources.get(name, 0) // need for name, need in needs.items() if need), default=math.inf)

    room = sum(min(fit(node), 256) for node in nodes)
    if not room:
        most = ", ".join(f"{node.get('CPU', 0):g} CPUs and {node.get('GPU', 0):g} GPUs" for node in nodes)
        raise BadCluster(
            f"no node of the cluster has room for a worker of {cluster.cpus:g} CPUs and {cluster.gpus:g} GPUs (they "
            f"have {most}); ask for less (--cpus-per-worker, --gpus-per-worker)."
        )
    return wanted or max(1, int(min(room, fit(ray.available_resources()) or 1, 256)))


def connect(address: str | None) -> Any:
    """The module ``ray``, connected to the cluster at ``address`` (``None``: as Ray decides). A connection that the
    program has already is used; one that is made here stays until the program ends."""
    if WINDOWS:
        raise BadCluster("a Ray cluster can be used from Linux and macOS only; on Windows use --workers N.")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # a lost actor is noticed by its words
    try:
        import ray
    except ImportError:
        raise MissingExtra.named("--cluster ray", "ray") from None
    if ray.is_initialized():
        here = ray.get_runtime_context().gcs_address
        if address not in (None, "auto", "local", here, *_connected):
            raise BadCluster(f"this program is connected to the Ray cluster at {here} already, not to {address}.")
        return ray
    _connected.clear()
    wanted = address or os.environ.get("RAY_ADDRESS")
    _refuse_silent(wanted)
    heeded = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    started = {} if wanted else {"include_dashboard": False}
    try:
        with warnings.catch_warnings(action="ignore"):  # what there is to say is in the error
            ray.init(address=address, log_to_driver=False, configure_logging=False, **started)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        where = f"at {wanted}" if wanted else "on this machine"
        raise BadCluster(f"no Ray cluster can be used {where}: {_in_a_line(error)}") from None
    finally:  # Ray takes SIGTERM for itself
        if threading.current_thread() is threading.main_thread():
            for number, handler in heeded.items():
                signal.signal(number, handler)
    _mute(ray)
    _connected.extend([] if wanted is None else [wanted])
    return ray


def _mute(ray: Any) -> None:
    """Ray prints on its own what it notices of lost workers; the result says it in this project's words."""
    with contextlib.suppress(AttributeError):  # no part of its interface: another version may not have it
        ray._private.worker.print_to_stdstream = lambda *_, **__: None


def _refuse_silent(address: str | None) -> None:
    """Ray would try for a long time to reach an address where nothing is."""
    host, _, port = (address or "").removeprefix(_CLIENT).rpartition(":")
    if address in (None, "", "auto", "local"):
        return
    if not host or not port.isdigit():
        raise BadCluster(
            f"expected the address of a Ray cluster as HOST:PORT, {_CLIENT}HOST:PORT, auto or local. Got {address!r}."
        )
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _ANSWERS) as line:
            if not os.environ.get("RAY_USE_TLS"):
                line.sendall(_HELLO)
                if line.recv(9)[3:4] != _SETTINGS:
                    raise OSError("something else listens there")
    except (OSError, OverflowError) as error:
        raise BadCluster(f"there is no Ray cluster at {address}: {error}.") from None

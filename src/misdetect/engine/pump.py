"""The pump: runs many cases at once against one detector.

It advances the generators of cases, gathers what they ask into batches, answers from memory and cache where it can,
charges the budget for the rest, renders a batch while the detector works on the one before, checks what comes back, and
resumes the generators. Cases are independent of each other, so their rows do not depend on how they were batched.
"""

import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Event
from time import perf_counter
from typing import Any, Protocol

from misdetect.engine.boundary import (
    check_batch,
    check_candidates,
    check_detections,
    check_gradient,
    classes_of,
    recalled,
)
from misdetect.engine.cache import Cache
from misdetect.engine.requests import Answer, Case, Detect, Finished, Gradient, Request, Steps, Study, Trace, UnderWay
from misdetect.nouns.detections import Detections
from misdetect.nouns.picture import digest
from misdetect.nouns.protocols import Loss
from misdetect.said.errors import BudgetSpent, DetectorFailed, MisdetectError

_REMEMBERED = 4096
"""Answers kept in memory, for detectors whose predictions may not be cached on disk."""
_RETRIES = 1
"""How often a single image is asked again after the detector failed on it."""
_CALL_BYTES = 32 << 20
"""Pixels of one call beyond the detector's own batch: large photos are not hoarded."""
_LAST_CALL = 0.5
"""Seconds for which a detector's last call is waited for when the run is interrupted."""
_SWITCH = 1e-4
"""Seconds after which a thread that draws and compares gives way to one that talks to the detector: the latter wants
the interpreter often and briefly, and the detector idles while it waits."""


class CaseSource(Protocol):
    """Where cases come from; ``next`` may say "not yet" with ``None`` unless asked to block."""

    def next(self, block: bool) -> Case | None:
        """The next case; raises ``StopIteration`` when there are no more."""
        ...


class Grants(Protocol):
    """What may be spent: a ``Budget``, or whoever asks one elsewhere."""

    def grant(self, n: int) -> int:
        """Count up to ``n`` queries, and say how many of them are allowed."""
        ...


class Journal(Protocol):
    """Where answers that cost something are kept: a ``Cache``, or whoever asks one elsewhere."""

    problem: str | None

    def get(self, keys: Iterable[str]) -> dict[str, Detections]:
        """What is known of ``keys``."""
        ...

    def put(self, found: Mapping[str, Detections], *, at_once: bool = False) -> None:
        """Keep ``found``; ``at_once``: it is on disk when this returns."""
        ...

    def close(self) -> None:
        """Nothing more is asked."""
        ...


class _Listed:
    def __init__(self, cases: Iterable[Case | None]) -> None:
        self._cases = iter(cases)

    def next(self, block: bool) -> Case | None:
        return next(self._cases)


@dataclass(eq=False)
class _Active:
    """A case under way: ``answers[i]`` is filled until none is ``missing``; ``answered`` counts all its questions."""

    case: Case
    steps: Steps
    single: bool = True
    answers: list[Any] = field(default_factory=list)
    missing: int = 0
    answered: int = 0


Kind = tuple[type, Loss | None]
"""What goes into one call together: questions of one type, gradients of one loss."""


def _kind(request: Request) -> Kind:
    return type(request), request.loss if isinstance(request, Gradient) else None


@dataclass(eq=False)
class _Ask:
    """A distinct question and everyone who waits for its answer."""

    request: Request
    key: str | None
    waiting: list[tuple[_Active, int]]


@dataclass(eq=False)
class _Flight:
    """A batch on its way to the detector; its thread leaves the answers and their cost in ``result``. It tells by
    itself how far it is: an interruption may strike before anybody knows its future."""

    asks: list[_Ask]
    images: list[Any]
    result: tuple[list[Any], "Counter[str]"] | None = None
    begun: bool = False
    over: Event = field(default_factory=Event)


class _Inline(Executor):
    """Does what it is given at once, in the same thread."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        done.set_result(work(*arguments, **named))
        return done


class Pump:
    """Runs cases of ``study`` against ``detector``; iterate ``run(cases)`` for what is finished.

    ``stats`` counts: ``queries`` (sent to the detector), ``cached``, ``shared`` (identical questions asked once),
    ``retried``, ``clipped`` (boxes cut to the image) and ``detector_seconds``. ``spent``: the budget ended it.

    ``cache`` remembers answers for later runs and may forget them; ``journal`` is the run's own and holds each answer
    that cost something on disk before it is used, so that an interrupted run does not pay for it twice. ``inline``: the
    detector is called in the thread that iterates: nothing is drawn meanwhile, no answer waits for a thread to wake.
    """

    def __init__(
        self,
        detector: Any,
        study: Study,
        *,
        batch_size: int | None = None,
        cache: Cache | None = None,
        journal: Journal | None = None,
        budget: Grants | None = None,
        inline: bool = False,
    ) -> None:
        self.detector, self.study, self.cache, self.journal = detector, study, cache, journal
        self._inline = inline
        if hasattr(detector, "budget"):  # an endpoint: no answer that was paid for waits for the others of its batch
            batch_size = 1
        self.batch_size = max(1, batch_size or getattr(detector, "batch_size", 8))
        # handing over costs both threads time: a detector that divides a call into batches itself is called less often
        self._per_call = max(self.batch_size, 0 if batch_size else int(getattr(detector, "images_per_call", 0)))
        self.stats: Counter[str] = Counter()
        self.spent = False
        # an endpoint pays for its retries too, so it charges the budget itself, attempt by attempt
        self.budget: Grants | None = None if hasattr(detector, "budget") else budget
        if budget is not None and hasattr(detector, "budget"):
            detector.budget = budget
        self._told = hasattr(study, "answered")
        self._fingerprint = getattr(detector, "fingerprint", None)
        self._concurrency = max(1, int(getattr(detector, "concurrency", 1)))
        self._max_active = 4 * self._per_call * (self._concurrency + 1)
        self._pending: dict[str, _Ask] = {}
        self._queues: dict[Kind, deque[_Ask]] = {}
        self._calls: dict[int, float] = {}
        self._remembered: OrderedDict[str, Detections] = OrderedDict()
        self._active: set[_Active] = set()
        self._ready: deque[tuple[_Active, Any]] = deque()

    def run(self, cases: Iterable[Case | None] | CaseSource) -> Iterator[Finished | UnderWay]:
        """Yield each case as it finishes, and how far it is where the study wants to know. Stops early, with ``spent``
        set, when the budget is used up."""
        source: CaseSource = cases if hasattr(cases, "next") else _Listed(cases)  # type: ignore[assignment]
        in_flight: dict[Future[None], _Flight] = {}
        flights: list[_Flight] = []  # known before they start, so that an interruption loses none
        exhausted = interrupted = False
        interval = sys.getswitchinterval()
        executor = _Inline() if self._inline else ThreadPoolExecutor(self._concurrency, thread_name_prefix="detector")
        executor.submit(int).result()  # interrupted while it starts a thread, the executor would never wait for it
        try:
            sys.setswitchinterval(min(interval, _SWITCH))
            while True:
                while self._ready:
                    yield from self._advance(*self._ready.popleft())
                more = not exhausted and len(self._active) < self._max_active
                if more and not self.spent and not self._backlog():
                    try:
                        case = source.next(block=not self._active)
                    except StopIteration:
                        exhausted, more = True, False
                    else:
                        if case is not None:
                            yield from self._start(case)
                            continue
                        more = False  # until something is answered: better a small batch than an idle detector
                if len(in_flight) <= self._concurrency:
                    batch = self._next_batch(more, flights)
                    if batch is None and not in_flight:
                        batch = self._next_batch(False, flights)
                    if batch is not None:
                        asks, images = self._prepare(batch)
                        if asks:
                            self.stats["queries"] += len(asks)
                            flights.append(_Flight(asks, images))
                            in_flight[executor.submit(self._call, flights[-1])] = flights[-1]
                        continue
                if in_flight:
                    done, _ = wait(in_flight, return_when=FIRST_COMPLETED)
                    for future in done:
                        future.result()
                        flight = in_flight.pop(future)
                        self._receive(flight)
                        flights.remove(flight)
                elif not self._ready and (self.spent or exhausted):
                    return
        except BaseException as error:
            if flights and hasattr(self.detector, "close"):  # an endpoint may take minutes to answer: hang up
                self.detector.close()
            interrupted = not isinstance(error, Exception)
            raise
        finally:
            sys.setswitchinterval(interval)
            executor.shutdown(wait=not interrupted, cancel_futures=True)
            ends = perf_counter() + _LAST_CALL
            for flight in flights:  # answers that came too late for their case still go into the cache
                if flight.begun:
                    flight.over.wait(max(0.0, ends - perf_counter()))
                self._receive(flight)
            for kept in (self.cache, self.journal):
                if kept is not None:
                    kept.close()

    def _backlog(self) -> bool:
        """Whether enough is asked already to keep the detector busy."""
        return any(len(queue) >= 2 * self._most(kind) for kind, queue in self._queues.items())

    def _most(self, kind: Kind) -> int:
        """Questions of a ``kind`` in one call; the insides of a detector are large, so those go by its own batches."""
        return self._per_call if kind[0] is Detect else self.batch_size

    def longest_call(self) -> float:
        """Seconds for which the detector has been at the question that it has been at longest; 0 if it is idle."""
        return perf_counter() - min(list(self._calls.values()), default=perf_counter())

    # Cases.

    def _start(self, case: Case) -> Iterator[Finished | UnderWay]:
        active = _Active(case, self.study.run(case))
        self._active.add(active)
        yield from self._advance(active, None)

    def _advance(self, active: _Active, answer: Any) -> Iterator[Finished | UnderWay]:
        """Resume a case with ``answer`` (an exception is raised inside it) and take down what it asks next."""
        try:
            asks = active.steps.throw(answer) if isinstance(answer, Exception) else active.steps.send(answer)
        except StopIteration as stop:
            self._active.discard(active)
            yield Finished(active.case, list(stop.value or ()))
            return
        except MisdetectError as error:
            self._active.discard(active)
            yield Finished(active.case, [], f"{error.kind}: {error}")
            return
        active.answered += len(active.answers)
        if self._told and active.answered:
            yield UnderWay(active.case, active.answered)
        active.single = isinstance(asks, (Detect, Trace, Gradient))
        requests: Sequence[Request] = [asks] if active.single else list(asks)  # type: ignore[list-item, arg-type]
        active.answers = [None] * len(requests)
        active.missing = len(requests)
        if not requests:
            self._ready.append((active, []))
        for slot, request in enumerate(requests):
            self._ask(request, active, slot, last=answer is None or self._told)

    def _ask(self, request: Request, active: _Active, slot: int, last: bool) -> None:
        """Take down a question. Those of a case that is under way come before the first ones of others: what is begun
        is finished, and who plans by its outcome has not long to wait. Who plans by each answer gets them in turn: then
        every question is the ``last``."""
        key = None
        if not isinstance(request, Gradient):
            try:
                key = digest(self._fingerprint, type(request).__name__, request.picture.key)
            except MisdetectError as error:  # the photo behind the picture cannot be read
                self._answer(active, slot, error)
                return
            if key in self._remembered:
                self._remembered.move_to_end(key)
                self.stats["shared"] += 1
                self._answer(active, slot, self._remembered[key])
                return
            if key in self._pending:
                self.stats["shared"] += 1
                self._pending[key].waiting.append((active, slot))
                return
        ask = _Ask(request, key, [(active, slot)])
        if key is not None:
            self._pending[key] = ask
        queue = self._queues.setdefault(_kind(request), deque())
        (queue.append if last else queue.appendleft)(ask)

    def _answer(self, active: _Active, slot: int, answer: Answer | Exception) -> None:
        active.answers[slot] = answer
        active.missing -= 1
        if active.missing == 0:
            failed = next((a for a in active.answers if isinstance(a, Exception)), None)
            self._ready.append((active, failed or (active.answers[0] if active.single else active.answers)))

    def _settle(self, ask: _Ask, answer: Answer | Exception) -> None:
        if ask.key is not None:
            self._pending.pop(ask.key, None)
            if isinstance(answer, Detections) and answer.masks is None:  # masks would fill the memory
                self._remembered[ask.key] = answer
                if len(self._remembered) > _REMEMBERED:
                    self._remembered.popitem(last=False)
        for active, slot in ask.waiting:
            self._answer(active, slot, answer)

    # Batches.

    def _next_batch(self, fill: bool, flights: list[_Flight]) -> list[_Ask] | None:
        """The next batch; with ``fill`` only a full one, and never a part of one while those ``flights`` bring the rest
        of it. Questions the cache can answer do not take a place in it."""
        if not self._queues:
            return None
        kind, queue = max(self._queues.items(), key=lambda item: len(item[1]) / self._most(item[0]))
        most = self._most(kind)
        if not queue or (fill and len(queue) < most):
            return None
        away = sum(len(flight.asks) for flight in flights if _kind(flight.asks[0].request) == kind)
        if self._concurrency == 1 and away and away + len(queue) <= most:
            return None  # else those who ask step by step would stay in two halves for ever
        batch: list[_Ask] = []
        while queue and len(batch) < most:
            drawn = [queue.popleft() for _ in range(min(most - len(batch), len(queue)))]
            known = self._known(drawn) if kind[0] is Detect else {}
            for ask in drawn:
                if ask.key in known:
                    self.stats["cached"] += 1
                    self._settle(ask, known[ask.key])
                else:
                    batch.append(ask)
        return batch

    def _known(self, asks: list[_Ask]) -> dict[str, Detections]:
        """What earlier runs, and earlier sittings of this one, were told; checked as if it were told now."""
        pictures = {ask.key: ask.request.picture for ask in asks if ask.key and not isinstance(ask.request, Gradient)}
        known = {} if self.journal is None else self.journal.get(pictures)
        if self.cache is not None and self._fingerprint:
            known |= self.cache.get([key for key in pictures if key not in known])
        classes = classes_of(self.detector.names)
        checked = {key: recalled(told, pictures[key], classes) for key, told in known.items()}
        return {key: told for key, told in checked.items() if told is not None}

    def _prepare(self, batch: list[_Ask]) -> tuple[list[_Ask], list[Any]]:
        """Render and charge ``batch``: what may really be sent, and its images."""
        images: list[Any] = []
        asks: list[_Ask] = []
        for i, ask in enumerate(batch):
            if len(images) >= self.batch_size and sum(image.nbytes for image in images) > _CALL_BYTES:
                self._queues[Detect, None].extendleft(reversed(batch[i:]))
                break
            try:
                images.append(ask.request if isinstance(ask.request, Gradient) else ask.request.picture.render())
                asks.append(ask)
            except MisdetectError as error:
                self._settle(ask, error)
        if self.budget is not None and asks:
            allowed = self.budget.grant(len(asks))
            self.spent = self.spent or allowed < len(asks)
            asks, images = asks[:allowed], images[:allowed]
        return asks, images

    def _call(self, flight: _Flight) -> None:
        """Runs in the detector's thread: one answer or one exception per image, and what it cost."""
        flight.begun = True
        try:
            self._ask_detector(flight)
        finally:
            flight.over.set()

    def _ask_detector(self, flight: _Flight) -> None:
        asks, images = flight.asks, flight.images
        cost: Counter[str] = Counter()
        started = self._calls[id(flight)] = perf_counter()
        answers = self._try(asks, images)
        if isinstance(answers, Exception):  # find out which image it is, and spare the others
            answers = [self._retry(ask, image, answers, cost) for ask, image in zip(asks, images, strict=True)]
        if self.journal is not None:  # here and now: the thread that hands answers out may be busy
            told = zip(asks, images, answers, strict=True)
            checked = [(ask.key, self._check(ask.request, image, answer, Counter())) for ask, image, answer in told]
            self.journal.put({key: a for key, a in checked if key and isinstance(a, Detections)}, at_once=True)
        del self._calls[id(flight)]
        cost["detector_seconds"] = perf_counter() - started  # type: ignore[assignment]
        flight.result = answers, cost

    def _retry(self, ask: _Ask, image: Any, failure: Exception, cost: Counter[str]) -> Any:
        for _ in range(_RETRIES):
            if self.budget is not None and not self.budget.grant(1):
                return BudgetSpent("the budget is spent.")
            cost["retried"] += 1
            answer = self._try([ask], [image])
            if not isinstance(answer, Exception):
                return answer[0]
            failure = answer
        return failure

    def _try(self, asks: list[_Ask], images: list[Any]) -> "list[Any] | Exception":
        ask: dict[type, Callable[[list[Any]], Any]] = {
            Detect: lambda batch: self._look("detect", asks, batch),
            Trace: lambda batch: self._look("trace", asks, batch),
            Gradient: self._gradient,
        }
        try:
            return list(check_batch(ask[type(asks[0].request)](images), len(images)))
        except MisdetectError as error:
            return error
        except (Exception, SystemExit) as error:  # whatever a stranger's detector may raise
            return DetectorFailed(f"the detector raised {type(error).__name__}: {str(error)[:300]}")

    def _look(self, method: str, asks: list[_Ask], images: list[Any]) -> Any:
        """A detector that offers ``detect_pictures`` or ``trace_pictures`` is given the descriptions of the edits too:
        the glass box, which must know what was pasted, or one that recomputes only what changed."""
        described = getattr(self.detector, f"{method}_pictures", None)
        if described is None:
            return getattr(self.detector, method)(images)
        return described([ask.request.picture for ask in asks if not isinstance(ask.request, Gradient)], images)

    def _gradient(self, requests: list[Gradient]) -> list[Any]:
        """All of one loss: they share a call."""
        values, slopes = self.detector.gradient(
            [request.pixels for request in requests], [request.truth for request in requests], requests[0].loss
        )
        return list(zip(values, slopes, strict=True))

    def _receive(self, flight: _Flight) -> None:
        """Check what the detector said and hand it to those who asked."""
        if flight.result is None:  # never started
            return
        answers, cost = flight.result
        self.stats.update(cost)
        checked: list[tuple[_Ask, Answer | Exception]] = []
        for ask, image, answer in zip(flight.asks, flight.images, answers, strict=True):
            if isinstance(answer, BudgetSpent):  # the case stays open: a larger budget resumes it
                self.spent = True
                self.stats["queries"] -= self.budget is None  # an endpoint did not send it
            else:
                checked.append((ask, self._check(ask.request, image, answer, self.stats)))
        fresh = {ask.key: answer for ask, answer in checked if ask.key and isinstance(answer, Detections)}
        if self.cache is not None and self._fingerprint:
            self.cache.put(fresh)
        for ask, answer in checked:
            self._settle(ask, answer)

    def _check(self, request: Request, image: Any, answer: Any, counts: "Counter[str]") -> Answer | Exception:
        """``answer`` as it may be used, or why it may not; boxes that were cut are counted in ``counts``."""
        if isinstance(answer, Exception):
            return answer if isinstance(answer, MisdetectError) else DetectorFailed(f"the detector failed: {answer}")
        try:
            if isinstance(request, Detect):
                classes = classes_of(self.detector.names)
                detections, cut = check_detections(answer, image.shape[0], image.shape[1], classes)
                counts["clipped"] += cut
                return detections
            if isinstance(request, Trace):
                return check_candidates(answer, len(self.detector.names))
            return check_gradient(answer, image.pixels)
        except DetectorFailed as error:
            return error

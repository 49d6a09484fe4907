"""Workers in simulated time: the parent's own conversation with seats whose clock is made up, so that how busy a study
keeps a number of workers is a number, the same on every machine and under every load.

A worker is a queue in front of one detector that takes ``seconds`` per question; what it asks for and when is what a
pump with batches of one does. Everything else (planning, pictures, answers) is real and takes no time.
"""

import heapq
from collections import deque
from itertools import count

from misdetect.engine.backend import Asking
from misdetect.engine.boundary import check_detections
from misdetect.engine.conversation import Conversation, Seat
from misdetect.engine.requests import Detect, Finished, Trace, UnderWay

_ACTIVE = 8
"""Cases that a pump with batches of one has under way."""
_QUEUED = 2
"""Questions that keep its detector busy."""


class SimulatedSeat(Seat):
    """One worker; ``world`` has the clock."""

    def __init__(self, world) -> None:
        super().__init__()
        self.world = world
        self.said = []
        self.cases, self.asks = deque(), deque()
        self.told = hasattr(world.study, "answered")
        self.active, self.busy, self.over, self.asked_for_more = 0, False, False, False
        self.go_on()

    def send(self, cases):
        self.cases.extend(cases)
        self.over, self.asked_for_more = not cases, False
        self.go_on()

    def hear(self):
        said, self.said = self.said, []
        return said

    def gone(self):
        return None

    def end(self):
        pass

    def say(self, *message):
        self.said.append(message)

    def go_on(self):
        """Start what can be started, ask the next question, and tell the parent what is wanted."""
        while self.cases and self.active < _ACTIVE and len(self.asks) < _QUEUED:
            case = self.cases.popleft()
            self.active += 1
            self.advance(case, self.world.study.run(case), None)
        if self.asks and not self.busy:
            self.busy = True
            self.world.later(self, *self.asks.popleft())
        if self.over and not self.active:
            self.say("end", ({"queries": 0}, False, ()))
        elif not self.over and len(self.asks) < _QUEUED and not self.cases and not self.asked_for_more:
            self.asked_for_more = True
            self.say("hungry", 1)

    def advance(self, case, steps, answer, answered=0):
        try:
            asks = steps.send(answer)
        except StopIteration as stop:
            self.active -= 1
            self.say("cases", [Finished(case, list(stop.value or ()))])
            return
        if self.told and answered:
            self.say("cases", [UnderWay(case, answered)])
        single = isinstance(asks, Detect | Trace)
        requests = [asks] if single else list(asks)
        answers, left = [None] * len(requests), [len(requests)]

        def receive(slot, value):
            answers[slot] = value
            left[0] -= 1
            if not left[0]:
                self.advance(case, steps, answers[0] if single else answers, answered + len(requests))

        if not requests:
            self.advance(case, steps, [])
        for slot, request in enumerate(requests):
            (self.asks.append if self.told or not answered else self.asks.appendleft)((request, slot, receive))


class Simulated(Conversation):
    """``count`` workers of ``seconds`` per question, whose answers ``detector`` gives at once."""

    def __init__(self, count_, detector, seconds=0.05, delay=0.0) -> None:
        super().__init__(count_, lambda: detector, Asking(cached=False))
        self.detector, self.seconds, self.delay = detector, seconds, delay
        self.now, self.asked, self.study = 0.0, 0, None
        self._events, self._order, self._known = [], count(), {}

    def idle(self):
        """Share of the workers' time in which they had nothing to do."""
        return 1 - self.asked * self.seconds / (self._count * self.now)

    def later(self, seat, request, slot, answered):
        """``seat`` begins with a question; it has the answer after a while."""
        self.asked += 1
        heapq.heappush(self._events, (self.now + self.seconds, next(self._order), seat, request, slot, answered))

    def _start(self, study):
        self.study = study
        return SimulatedSeat(self)

    def _ready(self, seats, seconds):
        """Let time pass until somebody has something to say."""
        while not any(seat.said for seat in seats):
            self.now, _, seat, request, slot, answered = heapq.heappop(self._events)
            seat.busy = False
            answered(slot, self._answer(request.picture))
            seat.go_on()
        return [seat for seat in seats if seat.said]

    def _answer(self, picture):
        if picture.key not in self._known:
            image = picture.render()
            look = getattr(self.detector, "detect_pictures", None)
            (found,) = self.detector.detect([image]) if look is None else look([picture], [image])
            self._known[picture.key], _ = check_detections(found, *image.shape[:2], len(self.detector.names))
        return self._known[picture.key]

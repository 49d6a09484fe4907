"""The desk: what reaches the detector when many ask, or one asks faster than it answers."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest

from misdetect.app import desk as desks
from misdetect.app.desk import Desk, Dropped, Overrun
from misdetect.engine.requests import Detect
from misdetect.nouns.detections import Detections
from misdetect.nouns.picture import Raw
from misdetect.said.errors import BadData, DetectorFailed


class Held:
    """A detector that answers when it is let, and remembers the images (by the value of their pixels) it was shown."""

    names = ("thing",)

    def __init__(self):
        self.seen, self.began, self.go = [], Event(), Event()

    def detect(self, images):
        (image,) = images
        self.seen.append(int(image[0, 0, 0]))
        self.began.set()
        assert self.go.wait(20), "nobody let it answer"
        if self.seen[-1] == 13:
            raise RuntimeError("thirteen")
        return [Detections([[0, 0, 4, 4]], [self.seen[-1] / 100], [0])]


@pytest.fixture
def held():
    return Held()


@pytest.fixture
def desk(held):
    opened = Desk(held)
    yield opened
    held.go.set()
    opened.close()


@pytest.fixture
def people(held):
    with ThreadPoolExecutor(8) as pool:
        yield pool
        held.go.set()


def question(value):
    return [Detect(Raw(np.full((8, 8, 3), value, dtype=np.uint8)))]


def score(answers):
    return round(float(answers[0].scores[0]) * 100)


def waits(desk, asker):
    """Wait until the newest question of ``asker`` waits at the desk."""
    with desk._changed:
        assert desk._changed.wait_for(lambda: asker in desk._waiting, 20)


def test_of_one_asker_only_the_newest_question_is_computed(desk, held, people):
    first = people.submit(desk.ask, "a", question(1))
    assert held.began.wait(20)
    older = []
    for value in (2, 3, 4):
        older.append(people.submit(desk.ask, "a", question(value)))
        waits(desk, "a")
    newest = people.submit(desk.ask, "a", question(5))
    for each in older:  # answered at once, while the detector is still at the first
        assert isinstance(each.exception(20), Dropped)
    held.go.set()
    assert (score(first.result(20)), score(newest.result(20))) == (1, 5)
    assert held.seen == [1, 5]


def test_askers_take_turns_in_the_order_they_came(desk, held, people):
    first = people.submit(desk.ask, "a", question(1))
    assert held.began.wait(20)
    others = []
    for asker, value in (("b", 2), ("c", 3), ("a", 4)):
        others.append(people.submit(desk.ask, asker, question(value)))
        waits(desk, asker)
    held.go.set()
    assert [score(each.result(20)) for each in (first, *others)] == [1, 2, 3, 4]
    assert held.seen == [1, 2, 3, 4]


def test_what_comes_late_is_not_newer(desk, held, people):
    first = people.submit(desk.ask, "a", question(1), 1)
    assert held.began.wait(20)
    newest = people.submit(desk.ask, "a", question(3), 3)
    waits(desk, "a")
    with pytest.raises(Dropped):
        desk.ask("a", question(2), 2)
    held.go.set()
    assert (score(first.result(20)), score(newest.result(20))) == (1, 3)
    assert held.seen == [1, 3]


def test_whoever_asks_often_keeps_its_place(desk, held, people):
    first = people.submit(desk.ask, "a", question(1))
    assert held.began.wait(20)
    dropped = people.submit(desk.ask, "b", question(2))
    waits(desk, "b")
    other = people.submit(desk.ask, "c", question(3))
    waits(desk, "c")
    newest = people.submit(desk.ask, "b", question(4))
    assert isinstance(dropped.exception(20), Dropped)
    held.go.set()
    assert [score(each.result(20)) for each in (first, newest, other)] == [1, 4, 3]
    assert held.seen == [1, 4, 3]


def test_a_detector_that_fails_costs_its_own_question_only(desk, held):
    held.go.set()
    with pytest.raises(DetectorFailed, match="RuntimeError: thirteen"):
        desk.ask("a", question(13))
    assert score(desk.ask("a", question(7))) == 7


def test_the_same_picture_is_asked_about_once(desk, held):
    held.go.set()
    assert [score(desk.ask("a", question(value))) for value in (1, 2, 1)] == [1, 2, 1]
    assert held.seen == [1, 2]


def test_whoever_waits_is_told_when_it_closes(desk, held, people):
    people.submit(desk.ask, "a", question(1))
    assert held.began.wait(20)
    waiting = people.submit(desk.ask, "b", question(2))
    waits(desk, "b")
    desk.close()
    assert "closed" in str(waiting.exception(20))
    held.go.set()
    with pytest.raises(BadData, match="closed"):
        desk.ask("c", question(3))


def test_whoever_goes_away_is_not_asked_for(desk, held, people):
    first = people.submit(desk.ask, "a", question(1))
    assert held.began.wait(20)
    gone = desk.asked("b", question(2))
    assert gone.cancel()
    held.go.set()
    assert score(first.result(20)) == 1
    assert score(desk.ask("c", question(3))) == 3
    assert held.seen == [1, 3]


def test_a_budget_of_the_detector_ends_it(held):
    held.limits = {"queries": 2, "usd": None, "price": 0.0}
    held.go.set()
    desk = Desk(held)
    assert [score(desk.ask("a", question(value))) for value in (1, 2)] == [1, 2]
    with pytest.raises(BadData, match="budget is spent"):
        desk.ask("a", question(3))
    assert held.seen == [1, 2]


def test_no_more_wait_than_may(desk, held, people, monkeypatch):
    monkeypatch.setattr(desks, "_MOST", 1)
    people.submit(desk.ask, "a", question(1))
    assert held.began.wait(20)
    people.submit(desk.ask, "b", question(2))
    waits(desk, "b")
    with pytest.raises(Overrun, match="try again"):
        desk.ask("c", question(3))

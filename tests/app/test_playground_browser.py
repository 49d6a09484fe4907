"""The playground in a real browser, as a person uses it: with the mouse, the keyboard and fingers, on a wide screen and
on a phone, in two tabs, and with a detector that is slow or fails."""

from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic, sleep
from urllib.parse import parse_qsl

import numpy as np
import pytest
import uvicorn
from playground_parts import application

import misdetect as md
from misdetect.app.playground import Playground
from misdetect.data.memory import from_pairs
from misdetect.detectors import load_detector

WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
DATA = "rooms:val,count=12"
SHY = f"glassbox:vanish-near/distance=10,data={DATA}"
EVIL = "<img src=x onerror='window.hurt=1'>"
START = "photo=0&object=0&x=4&y=4&width=17&height=26"


@contextmanager
def served(playground):
    """``playground`` at an address of its own; what was asked is in ``asked`` of the application."""
    guarded = application(playground)
    server = uvicorn.Server(uvicorn.Config(guarded, port=0, log_level="error", lifespan="off"))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    until = monotonic() + 20
    while not server.started and monotonic() < until:
        sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    guarded.address, guarded.stop = f"http://127.0.0.1:{port}/playground", lambda: _end(server, thread)
    try:
        yield guarded
    finally:
        playground.close()
        guarded.stop()


def _end(server, thread):
    server.should_exit = server.force_exit = True
    thread.join(20)


@pytest.fixture(scope="module")
def shy(tmp_path_factory):
    """A playground whose detector loses what an object comes near."""
    return Playground(load_detector(SHY), DATA, keep=tmp_path_factory.mktemp("browser") / "kept")


@pytest.fixture(scope="module")
def web(shy):
    with served(shy) as made:
        yield made


class Tab:
    """A page in a browser, and what it complained about."""

    def __init__(self, context, web, hash_=START):
        self.complaints, self.web = [], web
        self.page = context.new_page()
        self.page.set_default_timeout(20_000)
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type != "log" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(f"{web.address}#{hash_}")
        self.page.wait_for_selector("html[data-ready]", state="attached")

    def settle(self):
        """Wait until the control of the newest edit is shown too."""
        self.page.wait_for_selector("md-playground[data-settled]", state="attached")
        return self

    @property
    def edit(self):
        """The edit that the address names."""
        found = dict(parse_qsl(self.page.url.partition("#")[2]))
        numbers = {name: int(found[name]) for name in ("photo", "object", "x", "y", "width", "height")}
        return numbers | {"opacity": float(found["opacity"]), "flip": found["flip"] == "true"}

    def count(self, state, where=".work"):
        return self.page.locator(f"{where} .found .box.{state}").count()

    def centre(self, selector=".work .object .edge"):
        box = self.page.locator(selector).bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def scale(self):
        """Pixels of the screen per pixel of the photo."""
        return self.page.locator(".work .below").bounding_box()["width"] / 128

    def drag(self, dx, dy, steps=12, grip=False, lift=True):
        """Drag the object (or its corner) by so many pixels of the photo."""
        x, y = self.centre(".work .grip" if grip else ".work .object .edge")
        by = self.scale()
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        self.page.mouse.move(x + dx * by, y + dy * by, steps=steps)
        if lift:
            self.page.mouse.up()

    def expected(self, playground):
        """What the playground says of the edit in the address."""
        table = playground.table
        return table.answer("test", table.insertion(self.edit))

    def wide(self):
        """How far the page reaches beyond its window, in pixels."""
        return self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


@pytest.fixture
def contexts(browser):
    made = []

    def new(**how):
        made.append(browser.new_context(**{"viewport": WIDE, **how}))
        return made[-1]

    yield new
    for each in made:
        each.close()


@pytest.fixture
def tab(contexts, web):
    return Tab(contexts(), web).settle()


def lossy_spot(playground, photo=0, width=17, height=26):
    """Where an object of that size loses something that it does not touch."""
    table = playground.table
    for y in range(0, 100, 6):
        for x in range(0, 108, 6):
            edit = {"photo": photo, "object": 0, "x": x, "y": y, "width": width, "height": height}
            changes = table.answer("test", table.insertion(edit))["changes"]
            if changes and all(change["covered"] == 0 for change in changes):
                return edit
    raise AssertionError("nothing is lost anywhere")


def test_detections_change_while_an_object_is_dragged(tab, shy, web):
    before = tab.edit
    spot = lossy_spot(shy)
    asked = len(web.asked)
    tab.drag(spot["x"] - before["x"], spot["y"] - before["y"], steps=25, lift=False)
    tab.page.wait_for_selector(".work .found .box.lost", state="attached")  # the mouse is still down
    assert sum(path.endswith("/ask") for path, _ in web.asked[asked:]) >= 1
    tab.page.mouse.up()
    tab.settle()
    assert abs(tab.edit["x"] - spot["x"]) <= 1
    assert abs(tab.edit["y"] - spot["y"]) <= 1
    answer = tab.expected(shy)
    for state in ("kept", "lost", "new", "own"):
        assert tab.count(state) == sum(box[6] == state for box in answer["boxes"])
    assert tab.page.locator(".changes li").count() == len(answer["changes"]) > 0
    assert tab.page.locator(".textured .object .thing").get_attribute("href").startswith("/playground/picture/control?")
    assert tab.complaints == []


@pytest.mark.heavy
def test_lines_tell_what_became_of_a_box(tab, shy):
    spot = lossy_spot(shy)
    tab.drag(spot["x"] - tab.edit["x"], spot["y"] - tab.edit["y"])
    tab.settle()
    style = "node => [getComputedStyle(node).strokeDasharray, parseFloat(getComputedStyle(node).strokeWidth)]"
    lost, kept = (
        tab.page.locator(f".work .found .box.{state} .line").first.evaluate(style) for state in ("lost", "kept")
    )
    assert (lost[0] != "none", kept[0]) == (True, "none"), "lost is dashed"
    assert kept[1] < lost[1], "kept is thin"


@pytest.mark.heavy
def test_the_corner_resizes_and_nothing_leaves_the_photo(tab):
    before = tab.edit
    tab.drag(12, 18, grip=True)
    tab.settle()
    after = tab.edit
    assert (after["x"], after["y"]) == (before["x"], before["y"])
    assert after["width"] > before["width"] + 6
    assert after["width"] / after["height"] == pytest.approx(before["width"] / before["height"], rel=0.06)
    tab.drag(400, 400)
    tab.settle()
    assert (tab.edit["x"] + after["width"], tab.edit["y"] + after["height"]) == (128, 128)
    assert tab.complaints == []


@pytest.mark.heavy
def test_size_opacity_and_mirror(tab, shy):
    page = tab.page
    page.get_by_label("Size", exact=True).focus()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    page.get_by_label("Opacity", exact=True).focus()
    for _ in range(40):
        page.keyboard.press("ArrowLeft")
    page.get_by_role("button", name="Mirror").click()
    tab.settle()
    edit = tab.edit
    assert (edit["opacity"], edit["flip"]) == (0.6, True)
    assert edit["width"] == pytest.approx(17 * 10**0.1, abs=1)
    insertion = shy.table.insertion(edit)
    assert insertion.opacity == 0.6
    assert insertion.cutout == shy.table.objects
    exact = page.locator(".work .exact").get_attribute("href")
    assert "flip=true" in exact
    assert "opacity=0.6" in exact


@pytest.mark.heavy
def test_the_keyboard_does_all_of_it(tab):
    tab.page.locator(".work .object").focus()
    before = tab.edit
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "Shift+ArrowDown", "f"):
        tab.page.keyboard.press(key)
    tab.settle()
    after = tab.edit
    assert (after["x"] - before["x"], after["y"] - before["y"], after["flip"]) == (2, 9, True)
    tab.page.keyboard.press("+")
    tab.settle()
    assert tab.edit["width"] == 19
    tab.page.keyboard.press("-")
    tab.settle()
    assert tab.edit["width"] == 17


@pytest.mark.heavy
def test_a_click_puts_the_object_there(tab):
    box = tab.page.locator(".work .below").bounding_box()
    tab.page.mouse.click(box["x"] + 0.7 * box["width"], box["y"] + 0.6 * box["height"])
    tab.settle()
    assert tab.edit["x"] + 8.5 == pytest.approx(0.7 * 128, abs=1.5)
    assert tab.edit["y"] + 13 == pytest.approx(0.6 * 128, abs=1.5)


@pytest.mark.heavy
def test_an_address_can_be_sent_on_and_back_goes_back(tab, contexts, web):
    tab.drag(30, 30)
    tab.settle()
    edit, address = tab.edit, tab.page.url
    other = Tab(contexts(), web, address.partition("#")[2]).settle()
    assert other.edit == edit
    tab.page.locator(".pick[data-number='3']").first.click()
    tab.page.wait_for_url("**#photo=3&**")
    tab.settle()
    assert tab.edit["photo"] == 3
    tab.page.go_back()
    tab.page.wait_for_url("**#photo=0&**")
    tab.settle()
    assert tab.edit == edit


@pytest.mark.heavy
def test_two_tabs_do_not_meddle(contexts, shy, web):
    context = contexts()
    spot = lossy_spot(shy)
    one, other = Tab(context, web).settle(), Tab(context, web, START.replace("photo=0", "photo=5")).settle()
    for tab in (one, other, one):
        tab.page.bring_to_front()
        tab.drag((spot["x"] - tab.edit["x"]) / 2, (spot["y"] - tab.edit["y"]) / 2)
    for tab in (one, other):
        tab.settle()
        answer = tab.expected(shy)
        assert tab.count("lost") == sum(box[6] == "lost" for box in answer["boxes"])
        assert tab.count("kept") == sum(box[6] == "kept" for box in answer["boxes"])
        assert tab.complaints == []
    assert (one.edit["photo"], other.edit["photo"]) == (0, 5)


@pytest.mark.heavy
def test_it_can_be_made_as_small_as_a_phone(tab, shy):
    tab.page.set_viewport_size(PHONE)
    assert tab.wide() == 0
    spot = lossy_spot(shy)
    tab.drag(spot["x"] - tab.edit["x"], spot["y"] - tab.edit["y"])
    tab.settle()
    assert abs(tab.edit["x"] - spot["x"]) <= 1
    assert tab.count("lost") == sum(box[6] == "lost" for box in tab.expected(shy)["boxes"]) > 0
    stage, control = (tab.page.locator(f"{where} svg.stage").bounding_box() for where in (".work", ".textured"))
    assert control["y"] > stage["y"] + stage["height"], "one below the other"


@pytest.mark.heavy
def test_a_finger_drags_too(contexts, web):
    phone = Tab(contexts(viewport=PHONE, has_touch=True, is_mobile=True), web).settle()
    before = phone.edit
    x, y = phone.centre()
    by = phone.scale()
    finger = phone.page.context.new_cdp_session(phone.page)

    def touch(kind, *points):
        finger.send(
            "Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": px, "y": py} for px, py in points]}
        )

    touch("touchStart", (x, y))
    for i in range(1, 11):
        touch("touchMove", (x + 4 * i * by, y + 3 * i * by))
    touch("touchEnd")
    phone.settle()
    assert (phone.edit["x"] - before["x"], phone.edit["y"] - before["y"]) == (40, 30)
    assert phone.page.evaluate("scrollY") == 0, "the page stays"
    assert phone.complaints == []


@pytest.mark.heavy
def test_a_failure_is_found_saved_and_replayed(tab, shy):
    tab.drag(40, 40)
    tab.settle()
    tab.page.get_by_role("button", name="Find a failure").click()
    tab.page.wait_for_selector(".tried.hit", state="attached")
    tab.settle()
    assert "object's doing" in tab.page.locator(".progress").inner_text()
    assert tab.count("lost") > 0
    tab.page.get_by_role("button", name="Save as a case").click()
    command = tab.page.locator(".saved code").inner_text()
    assert command.startswith("misdetect replay ")
    run, case = command.split()[2:]
    found = md.open(run).replay(case)
    assert found["reproduced"] is True
    assert found["box"][:2] == [tab.edit["x"], tab.edit["y"]]


@pytest.mark.heavy
def test_the_inside_is_shown_and_taken_away(tab, shy):
    tab.page.get_by_role("button", name="Look inside").click()
    tab.page.wait_for_selector(".look-inside tbody tr")
    rows = tab.page.locator(".look-inside tbody tr")
    assert rows.count() == tab.page.locator(".work .candidate").count() > 0
    rows.first.hover()
    assert tab.page.locator(".work .candidate.lit").count() == 1
    tab.drag(5, 5)
    tab.settle()
    assert tab.page.locator(".look-inside").is_hidden()
    assert tab.page.locator(".work .candidate").count() == 0


class Slow:
    """A detector that answers when it is let, and counts the images that it was shown."""

    names = ("cup",)

    def __init__(self):
        self.shown, self.go = 0, Event()
        self.go.set()

    def detect(self, images):
        self.shown += len(images)
        self.go.wait(20)
        return [([[90, 90, 120, 120]], [0.9], [0])] * len(images)


@pytest.mark.heavy
def test_stale_questions_are_dropped_and_not_queued(contexts):
    slow = Slow()
    with served(Playground(slow, DATA)) as web:
        tab = Tab(contexts(), web).settle()
        slow.go.clear()
        before = slow.shown
        asked = len(web.asked)
        x, y = tab.centre()
        tab.page.mouse.move(x, y)
        tab.page.mouse.down()
        for i in range(20):
            tab.page.mouse.move(x + 10 * i, y + 5 * i)
            tab.page.wait_for_timeout(40)
        tab.page.mouse.up()
        tab.page.wait_for_timeout(200)
        answered = sum(path.endswith("/ask") for path, _ in web.asked[asked:])
        assert slow.shown == before + 1, "the detector is still at the first"
        slow.go.set()
        tab.settle()
        assert answered >= 5, "those in between are answered at once"
        assert slow.shown == before + 3, "the first, the newest, and its control"
        assert tab.complaints == []


@pytest.mark.heavy
def test_a_search_can_be_stopped(contexts):
    """One that would go on for 80 questions."""
    shown = []

    def detect(images):
        shown.extend(images)
        sleep(0.05)
        return [([[90, 90, 120, 120]], [0.9], [0])] * len(images)

    with served(Playground(load_detector(detect, names=["cup"]), DATA)) as web:
        tab = Tab(contexts(), web).settle()
        tab.page.get_by_role("button", name="Find a failure").click()
        tab.page.wait_for_selector(".tried", state="attached")
        tab.page.get_by_role("button", name="Stop").click()
        tab.page.get_by_role("button", name="Find a failure").wait_for()
        assert tab.page.locator(".progress").inner_text() == "Stopped."
        tab.page.wait_for_timeout(500)
        asked = len(shown)
        tab.page.wait_for_timeout(500)
        assert len(shown) == asked < 80
        assert tab.complaints == []


@pytest.mark.heavy
def test_a_detector_that_fails_is_a_sentence_on_the_page(contexts):
    broken = Event()

    def detect(images):
        if broken.is_set():
            raise RuntimeError(f"out of order {EVIL}")
        return [([[90, 90, 120, 120]], [0.9], [0])] * len(images)

    with served(Playground(load_detector(detect, names=["cup"]), DATA)) as web:
        tab = Tab(contexts(), web).settle()
        broken.set()
        tab.drag(20, 10)
        tab.page.wait_for_selector(".trouble")
        assert "out of order <img" in tab.page.locator(".trouble").inner_text()
        broken.clear()
        tab.drag(10, 10)
        tab.settle()
        assert tab.page.locator(".trouble").is_hidden()
        assert tab.count("kept") == 1
        assert tab.page.evaluate("window.hurt") is None
        web.stop()
        tab.drag(-10, 10)
        tab.page.wait_for_selector(".trouble")
        assert "does not answer" in tab.page.locator(".trouble").inner_text()


def test_names_are_text_and_nothing_is_written_without_leave(contexts):
    photo = np.full((64, 80, 3), 90, np.uint8)
    mask = np.zeros((1, 64, 80), bool)
    mask[0, 10:40, 10:40] = True
    data = from_pairs([(photo, {"boxes": [[10, 10, 40, 40]], "labels": [0], "masks": mask})] * 2, [EVIL])
    detector = load_detector(lambda images: [([[2, 2, 30, 30]], [0.9], [0])] * len(images), names=[EVIL])
    with served(Playground(detector, data)) as web:
        tab = Tab(contexts(), web, "").settle()
        assert EVIL in tab.page.locator(".work figcaption").inner_text()
        assert EVIL in " ".join(tab.page.locator("select option").all_inner_texts())
        assert tab.page.get_by_role("button", name="Save (needs --write)").is_disabled()
        assert tab.page.get_by_role("button", name="Look inside").count() == 0
        assert tab.page.evaluate("window.hurt") is None
        assert tab.complaints == []

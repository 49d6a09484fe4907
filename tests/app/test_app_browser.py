"""The served page in a real browser, as a person uses it: filters, search, scrolling, the evidence, the back button, a
phone, two tabs, a server that goes away and comes back, a run that grows. Without chromium these are skipped."""

import json
import re
import shutil
from urllib.parse import quote, unquote

import pytest
from served import EVIL, Asked, free_port, hostile_run, serving, start

from misdetect.engine.parts import part_files

WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
FAILURES = {"failure": [True], "again": [False]}


class Opened:
    """A tab with the page at ``address``, and what it complained about."""

    def __init__(self, tab, address):
        self.tab, self.address, self.complaints = tab, address, []
        tab.set_default_timeout(15_000)
        tab.on("console", lambda said: self.complaints.append(said.text) if said.type != "log" else None)
        tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.open()

    def open(self, wanted=None):
        self.tab.goto("about:blank")
        self.tab.goto(self.address + ("" if wanted is None else "/#rows=" + quote(json.dumps(wanted))))
        self.tab.wait_for_selector("html[data-ready]")

    def shows(self, count):
        """Wait until the gallery says that there are so many rows."""
        said = "Nothing" if count == 0 else rf"^{count:,} rows?\b"
        self.tab.wait_for_function(
            "said => new RegExp(said).test(document.querySelector('md-gallery .total').textContent)", arg=said
        )
        self.tab.wait_for_selector("md-gallery[aria-busy=false]")
        if count:
            self.tab.wait_for_selector(".slot .card")

    @property
    def filter(self):
        return json.loads(unquote(self.tab.url.partition("#rows=")[2]))

    def choose(self, column, word):
        self.tab.wait_for_selector("md-gallery[aria-busy=false]")
        select = self.tab.locator(f'md-gallery select[data-column="{column}"]')
        label = next(each for each in select.locator("option").all_inner_texts() if each.startswith(f"{word} ("))
        select.select_option(label=label)
        return int(re.search(r"\(([\d,]+)\)$", label)[1].replace(",", ""))


@pytest.fixture
def open_page(browser):
    contexts = []

    def opened(address, viewport=WIDE, **how):
        contexts.append(browser.new_context(viewport=viewport, **how))
        return Opened(contexts[-1].new_page(), address)

    yield opened
    for each in contexts:
        each.close()


@pytest.fixture
def shown(open_page, address, asked):
    found = open_page(address)
    found.shows(asked.rows(FAILURES)["total"])
    return found


def test_it_opens_without_a_complaint_and_asks_nobody_else(open_page, address):
    requests = []
    page = open_page(address)
    page.tab.on("request", lambda request: requests.append(request.url))
    page.open()
    page.tab.locator("footer").scroll_into_view_if_needed()
    page.tab.wait_for_timeout(300)
    for chart in page.tab.locator("[data-chart]").all():
        assert chart.locator("svg, table").count() > 0
    assert page.complaints == []
    assert all(url.startswith((address, "data:")) for url in requests)
    assert page.tab.evaluate("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')") == "refused"


def test_filters_lead_there_and_the_back_button_back(shown, asked):
    for column, word in (("study", "explain"), ("label", "chair"), ("outcome", "missed")):
        promised = shown.choose(column, word)
        shown.shows(promised)
    wanted = {"failure": [True], "study": ["explain"], "label": ["chair"], "outcome": ["missed"]}
    assert shown.filter == wanted
    assert asked.rows(wanted)["total"] == promised > 0
    shown.tab.go_back()
    shown.shows(asked.rows({"failure": [True], "study": ["explain"], "label": ["chair"]})["total"])
    shown.tab.go_back()
    shown.tab.go_back()
    shown.shows(asked.rows(FAILURES)["total"])


@pytest.mark.heavy
def test_one_request_counts_all_facets(shown):
    requests = []
    shown.tab.on("request", lambda request: requests.append(request.url))
    shown.choose("label", "chair")
    shown.tab.wait_for_selector('select[data-column="label"].set')
    assert sum("/api/facets" in url for url in requests) == 1


@pytest.mark.heavy
def test_words_scores_and_orders(shown, asked):
    shown.tab.get_by_label("search").fill("chair 000003")
    wanted = {**FAILURES, "search": "chair 000003"}
    shown.shows(asked.rows(wanted)["total"])
    assert shown.filter == wanted
    shown.tab.get_by_label("search").fill("")
    shown.shows(asked.rows(FAILURES)["total"])
    shown.tab.locator("md-gallery .reset, md-gallery .chip").first.click()
    shown.tab.get_by_label("lowest score").fill("0.9")
    shown.tab.get_by_label("lowest score").press("Enter")
    shown.tab.wait_for_function("() => location.hash.includes('scores')")
    shown.shows(asked.rows(shown.filter)["total"])
    shown.tab.get_by_label("order").select_option("largest")
    shown.tab.wait_for_function("() => location.hash.includes('largest')")
    shown.shows(asked.rows(shown.filter)["total"])
    first = asked.rows(shown.filter)["rows"][0]
    shown.tab.wait_for_selector(f'.slot[data-at="0"] .card[data-index="{first["index"]}"]')


@pytest.mark.heavy
def test_an_address_can_be_sent_on(open_page, address, asked):
    wanted = {"study": ["score"], "outcome": ["extra", "missed"], "sort": "surest"}
    page = open_page(address)
    page.open(wanted)
    page.shows(asked.rows(wanted)["total"])
    assert page.tab.get_by_label("order").input_value() == "surest"


@pytest.mark.heavy
def test_of_many_rows_only_those_in_sight_are_in_the_page(shown, asked):
    shown.tab.locator("md-gallery .chip", has_text="failures only").click()
    shown.tab.locator("md-gallery .chip", has_text="each once").click()
    total = asked.rows({})["total"]
    assert total > 150
    shown.shows(total)
    seen = set()
    box = shown.tab.locator(".endless")
    for _ in range(200):
        seen |= {int(each) for each in shown.tab.evaluate(
            "[...document.querySelectorAll('.slot:not(.blank)')].map(node => Number(node.dataset.at))")}  # fmt: skip
        assert shown.tab.locator(".slot").count() < 60
        if max(seen) == total - 1:
            break
        box.evaluate(
            "node => new Promise((done) => { node.scrollBy(0, node.clientHeight * 0.8);"
            "requestAnimationFrame(() => requestAnimationFrame(done)); })"
        )
        shown.tab.wait_for_function("() => document.querySelectorAll('.slot.blank').length === 0")
    assert seen == set(range(total)), "every row was shown"
    last = asked.rows({}, total - 1, 1)["rows"][0]
    assert shown.tab.locator(f'.slot[data-at="{total - 1}"] .card').get_attribute("data-index") == str(last["index"])


@pytest.mark.heavy
def test_a_mark_of_a_chart_leads_to_its_rows(shown, asked):
    bars = next(chart for chart in asked.json("/api/meta")["charts"].values() if chart["kind"] == "bars")
    mark = max(bars["marks"], key=lambda each: each["value"])
    shown.tab.locator(f'md-bars [aria-label^="{mark["name"]}:"]').first.click()
    shown.shows(mark["value"])
    assert shown.filter == mark["filter"]


@pytest.mark.heavy
def test_the_evidence_steps_and_shows_detectors_side_by_side(open_page, address, asked):
    wanted = {"study": ["explain"], "outcome": ["missed"], "others": ["find it"]}
    found = asked.rows(wanted)
    assert found["total"] > 1
    page = open_page(address)
    page.open(wanted)
    page.shows(found["total"])
    page.tab.locator('.slot[data-at="0"] .card').click()
    dialog = page.tab.locator("dialog")
    assert dialog.locator(".replay").inner_text() == found["rows"][0]["replay"]
    pair = dialog.locator(".pair figure")
    assert pair.count() == 2
    assert [each.locator(".badge").inner_text() for each in pair.all()] == ["missed", "found"]
    assert pair.nth(1).locator("image").count() == 1
    page.tab.keyboard.press("ArrowRight")
    page.tab.wait_for_function("said => document.querySelector('dialog').innerText.includes(said)",
                               arg=found["rows"][1]["replay"])  # fmt: skip
    page.tab.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert page.complaints == []


@pytest.mark.heavy
def test_edited_pictures_are_drawn_where_they_belong(open_page, address, asked):
    page = open_page(address)
    page.open({"study": ["fuzz"]})
    page.shows(asked.rows({"study": ["fuzz"]})["total"])
    page.tab.locator('.slot[data-at="0"] .card').click()
    page.tab.wait_for_selector("dialog[open] .replay")
    images = page.tab.locator("dialog .pictures svg.photo").nth(1).locator("image")
    assert images.count() == 2, "the photo, and what was put in on top"
    address_ = images.nth(1).get_attribute("href")
    assert page.tab.evaluate("async a => (await createImageBitmap(await (await fetch(a)).blob())).width", address_) > 0


@pytest.mark.heavy
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.heavy)])
def test_on_a_phone_nothing_scrolls_sideways(open_page, address, scheme):
    page = open_page(address, PHONE, color_scheme=scheme, has_touch=True)
    beyond = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.tab.evaluate(beyond) <= 0
    page.tab.locator(".slot .card").first.tap()
    page.tab.wait_for_selector("dialog[open] svg.photo")
    assert page.tab.locator("dialog").evaluate("node => node.scrollWidth - node.clientWidth") <= 0
    page.tab.keyboard.press("Escape")
    page.tab.set_viewport_size({"width": 844, "height": 390})
    page.tab.wait_for_function("() => document.querySelectorAll('.slot').length > 2")
    assert page.tab.evaluate(beyond) <= 0


@pytest.mark.heavy
def test_a_note_of_one_tab_is_seen_in_another(open_page, runs, tmp_path):
    shutil.copytree(runs / "explain", tmp_path / "run")
    with serving([tmp_path / "run"], write=True) as address:
        one, other = open_page(address), open_page(address)
        one.tab.locator('.slot[data-at="0"] .card').click()
        one.tab.get_by_label("tags").fill("night, <b>dark</b>")
        one.tab.get_by_label("note").fill("look <script>at</script> this")
        one.tab.get_by_role("button", name="save").click()
        one.tab.wait_for_selector("dialog .notes [role=status]:has-text('saved')")
        one.tab.keyboard.press("Escape")
        one.tab.wait_for_selector(".slot .tag:has-text('night')")
        other.open()
        assert other.choose("tag", "<b>dark</b>") == 1
        other.shows(1)
        other.tab.locator(".slot .card").click()
        assert other.tab.get_by_label("note").input_value() == "look <script>at</script> this"
        assert one.complaints == other.complaints == []


@pytest.mark.heavy
def test_names_that_are_markup_stay_text(open_page, tmp_path):
    with serving([hostile_run(tmp_path)], write=True) as address:
        page = open_page(address)
        for name in EVIL[:2]:
            page.open({"label": [name]})
            page.tab.locator(".slot .card").first.click()
            assert name in page.tab.locator("dialog h2").inner_text()
            assert name in page.tab.locator(".slot .caption").first.inner_text()
        assert page.tab.evaluate("window.hurt") is None
        assert page.tab.locator("img[onerror], main b > b").count() == 0
        assert page.complaints == []


MILLION = """async () => {
    const { Endless } = await import("/front/endless.js");
    const asked = window.asked = [];
    const list = window.list = new Endless({
        ask: async (offset, limit) => {
            asked.push(offset);
            return { total: 1000000, rows: [...Array(limit).keys()].map((i) => ({ index: offset + i })) };
        },
        card: async (row) => {
            const node = document.createElement("button");
            return Object.assign(node, { textContent: `row ${row.index}`, className: "card" });
        },
        failed: (error) => { throw error; },
    });
    document.querySelector("main").replaceChildren(list.node);
    return list.start();
}"""


@pytest.mark.heavy
def test_a_million_rows_scroll_to_the_last(shown):
    assert shown.tab.evaluate(MILLION) == 1_000_000
    shown.tab.wait_for_selector("text=row 0")
    box = shown.tab.locator(".endless")
    box.evaluate("node => { node.scrollTop = node.scrollHeight; }")
    shown.tab.wait_for_selector('.slot[data-at="999999"]:has-text("row 999999")')
    assert shown.tab.locator(".slot").count() < 60
    box.evaluate("node => { node.scrollTop = node.scrollHeight / 2; }")
    shown.tab.wait_for_function("() => /^row (49|50)/.test(document.querySelector('.slot .card')?.textContent)")
    before = seen(shown.tab)
    box.hover()
    shown.tab.mouse.wheel(0, 300)
    shown.tab.wait_for_timeout(400)
    after = seen(shown.tab)
    assert after & before, "the wheel moves by what it says, and not by thousands of rows"
    assert after != before
    assert len(shown.tab.evaluate("asked")) < 20, "what is passed by is not asked for"


def seen(tab):
    return set(tab.evaluate("[...document.querySelectorAll('.slot')].map(node => Number(node.dataset.at))"))


@pytest.mark.heavy
def test_without_write_there_is_nothing_to_save(shown):
    shown.tab.locator('.slot[data-at="0"] .card').click()
    shown.tab.wait_for_selector("dialog[open] .replay")
    assert shown.tab.locator("dialog .notes").count() == 0


@pytest.mark.heavy
def test_a_server_that_is_killed_is_told_and_one_that_is_back_is_used(open_page, runs):
    port = free_port()
    process, said = start(runs / "explain", "--port", port)
    page = open_page(said["address"].rstrip("/"))
    process.kill()
    process.wait(20)
    page.tab.wait_for_selector("md-state .problem:has-text('does not answer')")
    page.tab.locator('md-gallery select[data-column="label"]').select_option(index=1)
    page.tab.wait_for_function(
        "() => document.querySelector('md-gallery .total').textContent.includes('does not answer')"
    )
    process, said = start(runs / "explain", "--port", port)
    try:
        page.tab.wait_for_selector("md-state .problem", state="detached")
        page.tab.locator('md-gallery select[data-column="label"]').select_option(index=0)
        page.shows(Asked(said["address"]).rows(FAILURES)["total"])
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.heavy
def test_a_run_that_grows_is_told_and_shown(open_page, runs, tmp_path):
    shutil.copytree(runs / "explain", tmp_path / "run")
    late = part_files(tmp_path / "run" / "parts")[3:]
    for part in late:
        part.rename(tmp_path / part.name)
    with serving([tmp_path / "run"]) as address:
        page, asked = open_page(address), Asked(address)
        before = asked.rows(FAILURES)["total"]
        page.shows(before)
        for part in late:
            (tmp_path / part.name).rename(part)
        page.tab.get_by_role("button", name=re.compile("show all")).click()
        page.tab.wait_for_selector("html[data-ready]")
        after = asked.rows(FAILURES)["total"]
        assert after > before
        page.shows(after)
        assert page.complaints == []

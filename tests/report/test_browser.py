"""A report in a real browser, opened from ``file://`` as someone who was sent it does: with the mouse and the keyboard,
on a wide screen and on a phone. Without chromium these tests are skipped, with the reason."""

import pytest
from browsed import EVIL, PHONE, WIDE


def test_it_opens_from_a_file_without_a_complaint_and_asks_for_nothing(open_page, page):
    shown = open_page(page.path)
    for chart in shown.tab.locator("[data-chart]").all():
        assert chart.locator("svg, table").count() > 0
    shown.tab.locator("footer").scroll_into_view_if_needed()
    assert shown.complaints == []
    assert [url for url in shown.requests if not url.startswith("data:")] == [page.path.as_uri()]


@pytest.mark.heavy
def test_it_begins_with_failures_each_once(open_page, page):
    shown = open_page(page.path)
    expected = [row for row in page.rows if row["failure"] and not row["again"]]
    assert shown.total == len(expected) > 20
    assert shown.tab.locator("md-gallery .card").count() == 24
    shown.tab.locator("md-gallery .more").click()
    shown.settle()
    assert shown.tab.locator("md-gallery .card").count() == min(48, len(expected))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("column", ["study", "label", "outcome", "tide", "mechanism", "size", "by"])
def test_filters_show_what_they_count(open_page, page, column):
    shown = open_page(page.path)
    value = next(row[column] for row in page.rows if row["failure"] and not row["again"] and row[column] is not None)
    promised = shown.choose(column, value)
    wanted = {"failure": [True], column: [value]} | ({} if column == "study" else {"again": [False]})
    assert promised == shown.total == len(page.behind(wanted)) > 0
    shown.tab.go_back()
    shown.settle()
    assert shown.total == len(page.behind({"failure": [True], "again": [False]}))


@pytest.mark.heavy
def test_filters_join_and_can_be_taken_away(open_page, page):
    shown = open_page(page.path)
    shown.choose("study", "explain")
    mechanism = next(row["mechanism"] for row in page.rows if row["study"] == "explain" and row["mechanism"])
    shown.choose("mechanism", mechanism)
    both = {"failure": [True], "study": ["explain"], "mechanism": [mechanism]}
    assert shown.total == len(page.behind(both))
    shown.tab.locator("md-gallery .chip", has_text="study").click()
    shown.settle()
    assert shown.total == len(page.behind({"failure": [True], "mechanism": [mechanism]}))


@pytest.mark.heavy
def test_words_scores_and_orders(open_page, page):
    shown = open_page(page.path)
    shown.tab.get_by_label("search").fill("CUP missed")
    shown.tab.wait_for_function("() => location.hash.includes('search')")
    shown.settle()
    failures = page.behind({"failure": [True], "again": [False]})
    assert shown.total == sum(row["label"] == "cup" and row["outcome"] == "missed" for row in failures) > 0
    shown.tab.goto(page.path.as_uri() + "#rows=%7B%22scores%22%3A%5B0.5%2C0.9%5D%2C%22sort%22%3A%22surest%22%7D")
    shown.settle()
    between = sorted(row["score"] for row in page.rows if row["score"] is not None and 0.5 <= row["score"] <= 0.9)
    assert shown.total == len(between) > 0
    first = int(shown.tab.locator("md-gallery .card").first.get_attribute("data-index"))
    assert page.rows[first]["score"] == between[-1]
    shown.tab.get_by_label("order").select_option("smallest")
    shown.settle()
    first = page.rows[int(shown.tab.locator("md-gallery .card").first.get_attribute("data-index"))]
    areas = [(row["x1"] - row["x0"]) * (row["y1"] - row["y0"]) for row in page.rows if row["score"] in between]
    assert (first["x1"] - first["x0"]) * (first["y1"] - first["y0"]) == min(areas)


@pytest.mark.heavy
def test_a_cell_of_the_matrix_shows_its_objects(open_page, page):
    matrix = next(chart for chart in page.charts("matrix") if chart["title"] == "What objects became")
    cell = max((c for line in matrix["cells"] for c in line if c and not c["right"]), key=lambda c: c["value"])
    shown = open_page(page.path)
    shown.tab.locator(f'md-matrix [data-cell="{cell["name"]}"]').first.click()
    shown.settle()
    assert shown.filter == cell["filter"]
    assert shown.total == cell["value"]
    assert shown.tab.locator("md-gallery").bounding_box()["y"] < WIDE["height"], "one is led there"
    shown.tab.get_by_role("button", name="back to where you came from").click()
    assert shown.tab.evaluate("document.activeElement.dataset.cell") == cell["name"]


@pytest.mark.heavy
def test_a_square_of_a_map_shows_that_case(open_page, page):
    (heat,) = page.charts("heat")
    changed = {row["scene"] for row in page.rows if row["study"] == "scan" and not row["control"]}
    scenes = [cell[3] for each in heat["maps"] for layer in each["layers"] for cell in layer["cells"]]
    scene = next(scene for scene in scenes if scene in changed)
    shown = open_page(page.path)
    shown.tab.locator(f'md-heat [data-scene="{scene}"]').click()
    shown.settle()
    behind = page.behind({"scene": [scene]})
    assert shown.total == len(behind)
    shown.tab.locator("md-gallery .card").first.click()
    assert behind[0]["replay"] in shown.tab.locator("dialog .replay").inner_text()
    assert shown.tab.locator("dialog svg.photo").count() == 2, "before and after"
    assert shown.tab.locator("dialog svg.photo").nth(1).locator("image").count() == 2, "the photo and what was put in"


@pytest.mark.heavy
def test_bars_bands_and_numbers_of_tables_lead_to_their_rows(open_page, page):
    shown = open_page(page.path)
    for kind in ("bars", "flow"):
        chart = page.charts(kind)[0]
        mark = max(chart["marks" if kind == "bars" else "links"], key=lambda each: each["value"])
        name = mark.get("name") or f"{mark['left']} → {mark['right']}"
        shown.tab.locator(f'md-{kind} [data-mark^="{name}:"]').first.press("Enter")
        shown.settle()
        assert shown.total == mark["value"]
    table = next(chart for chart in page.charts("table") if chart["title"] == "By class")
    line = table["rows"][0]
    row = shown.tab.locator("md-table tr", has=shown.tab.get_by_role("rowheader", name=line[0]["value"])).first
    row.locator('td[data-name="objects"] button').click()
    shown.settle()
    assert shown.total == line[1]["value"]


@pytest.mark.heavy
def test_a_point_of_a_curve_shows_the_errors_at_that_threshold(open_page, page):
    shown = open_page(page.path)
    curves = shown.tab.locator("md-curves")
    curves.get_by_role("tab", name="F1").click()
    drawing = curves.locator("svg.curves")
    drawing.scroll_into_view_if_needed()
    box = drawing.bounding_box()
    drawing.click(position={"x": box["width"] * 0.6, "y": box["height"] * 0.3})
    shown.settle()
    score = shown.filter["wrong_at"]
    own = [row for row in page.rows if row["study"] == "score"]
    wrong = [row for row in own if ((row["score"] or 0) >= score) == (row["object"] is None)]
    assert shown.total == len(wrong) > 0


@pytest.mark.heavy
def test_the_keyboard_opens_the_evidence_and_closes_it(open_page, page):
    shown = open_page(page.path)
    first = shown.tab.locator("md-gallery .card").first
    first.focus()
    shown.tab.keyboard.press("Enter")
    dialog = shown.tab.locator("dialog")
    assert dialog.is_visible()
    row = next(row for row in page.rows if row["failure"] and not row["again"])
    said = dialog.inner_text()
    assert row["replay"] in said
    assert row["label"] in said
    title = dialog.locator("h2").inner_text()
    shown.tab.keyboard.press("ArrowRight")
    shown.settle()
    assert dialog.locator("h2").inner_text() != title
    shown.tab.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert first.evaluate("node => node === document.activeElement"), "where one was"


def test_the_evidence_of_a_miss_shows_candidates_truth_and_the_object_elsewhere(open_page, page):
    row = next(row for row in page.rows if row["study"] == "explain" and row["outcome"] == "missed"
               and row["evidence"] and row["evidence"]["top_labels"])  # fmt: skip
    shown = open_page(page.path)
    shown.choose("study", "explain")
    shown.choose("outcome", "missed")
    shown.choose("mechanism", row["mechanism"])
    shown.tab.locator("md-gallery .card").first.click()
    dialog = shown.tab.locator("dialog")
    assert dialog.locator(".scores > div").count() == len(row["evidence"]["top_labels"])
    assert dialog.locator(".box.refined").count() == 1
    assert dialog.get_by_role("heading", name="The truth in this image").is_visible()
    dialog.locator(".elsewhere button").first.click()
    shown.settle()
    assert "explain" not in dialog.locator("h2").inner_text().partition("—")[2].partition(",")[0]


@pytest.mark.heavy
def test_a_finding_leads_to_its_failures(open_page, page):
    shown = open_page(page.path)
    button = shown.tab.locator("ol.findings button[data-behind]").first
    wanted = page.meta["findings"][int(button.get_attribute("data-behind"))]["filter"]
    button.click()
    shown.settle()
    assert shown.filter == wanted
    assert shown.total == len(page.behind(wanted)) > 0


@pytest.mark.heavy
def test_arrows_go_from_square_to_square(open_page, page):
    """Of a map only one square is on the way of the Tab key."""
    shown = open_page(page.path)
    drawing = shown.tab.locator("md-heat svg.map").first
    assert drawing.locator('[tabindex="0"]').count() == 1
    drawing.locator('[tabindex="0"]').focus()
    before = shown.tab.evaluate("document.activeElement.dataset.scene")
    shown.tab.keyboard.press("ArrowRight")
    after = shown.tab.evaluate("document.activeElement.dataset.scene")
    (x, y), (x1, y1) = (map(int, scene.split("/")[2].split(",")) for scene in (before, after))
    assert (x1 - x, y1 - y) == (page.charts("heat")[0]["step"], 0)
    shown.tab.keyboard.press("Enter")
    shown.settle()
    assert shown.filter == {"scene": [after]}


@pytest.mark.heavy
def test_names_of_boxes_stay_inside_the_picture(open_page, page):
    shown = open_page(page.path)
    outside = shown.tab.evaluate(
        """() => [...document.querySelectorAll(".card svg.photo")].flatMap((photo) => {
            const room = photo.getBoundingClientRect();
            return [...photo.querySelectorAll(".focus text")].map((text) => text.getBoundingClientRect())
              .filter((box) => box.left < room.left - 3 || box.right > room.right + 3);
        }).length"""
    )
    assert outside == 0


@pytest.mark.heavy
def test_boxes_can_be_switched_off(open_page, page):
    shown = open_page(page.path)
    kept = shown.tab.locator(".card .box.kept:not(.focus)").first
    assert kept.is_visible()
    shown.tab.locator("md-gallery md-switches label", has_text="kept").locator("input").uncheck()
    assert not kept.is_visible()
    truth = shown.tab.locator(".card .box.truth").first
    assert not truth.is_visible()
    shown.tab.locator("md-gallery md-switches label", has_text="truth").locator("input").check()
    assert truth.is_visible()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_nothing_scrolls_sideways(open_page, page, viewport, scheme):
    shown = open_page(page.path, viewport=viewport, scheme=scheme)
    assert shown.wide() <= 0
    inner = "[...document.querySelectorAll('.scroll, .canvas')].map(node => node.scrollWidth - node.clientWidth)"
    assert max(shown.tab.evaluate(inner)) <= 0, "nor inside a chart"
    shown.tab.locator("md-gallery .card").first.click()
    shown.settle()
    assert shown.tab.locator("dialog").evaluate("node => node.scrollWidth - node.clientWidth") <= 0
    dark = shown.tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    assert dark == (scheme == "dark")


def test_names_that_are_markup_stay_text(open_page, hostile):
    shown = open_page(hostile.path)
    assert shown.complaints == []
    for name in EVIL[:2]:
        shown.choose("label", name)
        assert name in shown.tab.locator("md-gallery .card .caption").first.inner_text()
        shown.tab.locator("md-gallery .card").first.click()
        assert name in shown.tab.locator("dialog h2").inner_text()
        shown.tab.keyboard.press("Escape")
        shown.tab.locator("md-gallery .reset").first.click()
        shown.settle()
    assert shown.tab.evaluate("window.hurt") is None
    assert shown.tab.locator("img[onerror]").count() == 0
    assert [url for url in shown.requests if not url.startswith("data:")] == [hostile.path.as_uri()]


def test_script_in_the_page_cannot_reach_the_network(open_page, page):
    """Even if it were someone else's: the policy forbids it."""
    shown = open_page(page.path)
    assert shown.tab.evaluate("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')") == "refused"
    assert any("Content Security Policy" in said for said in shown.complaints)


@pytest.mark.heavy
def test_an_address_with_a_broken_filter_shows_the_failures(open_page, page):
    shown = open_page(page.path)
    shown.tab.goto(page.path.as_uri() + '#rows=%7B"nothing":1')
    shown.tab.reload()
    shown.tab.wait_for_selector("html[data-ready]")
    assert shown.total == len(page.behind({"failure": [True], "again": [False]}))
    assert shown.complaints == []

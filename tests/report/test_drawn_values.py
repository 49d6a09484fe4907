"""What a browser draws are the values of the charts: lengths, places and numbers are read off the drawing; and a report
that everybody can use, by axe's rules. Without chromium these tests are skipped."""

import copy
import json
import os
import re
from pathlib import Path

import pytest
from browsed import PHONE, WIDE

BARS = """node => [...node.querySelectorAll("svg.bars > g")].map(each => {
  const bar = each.querySelector(".bar");
  const whisker = each.querySelector(".whisker")?.getAttribute("d");
  const reach = whisker?.match(/M([\\d.e+-]+) [^H]*H([\\d.e+-]+)/) ?? [];
  return { long: Number(bar.getAttribute("width")), from: Number(bar.getAttribute("x")),
    ends: reach.slice(1).map(Number),
    said: each.querySelector("title").textContent, chosen: each.classList.contains("chosen") };
})"""
"""Of each bar its length, where it and its interval begin and end, and its title."""


def check_bars(chart, drawn):
    """Bars are as long as their numbers, to one scale, and say them; intervals lie where they are."""
    marks = chart["marks"]
    assert len(drawn) == len(marks) > 0
    scales = [bar["long"] / mark["value"] for bar, mark in zip(drawn, marks, strict=True) if bar["long"] > 2]
    for bar, mark in zip(drawn, marks, strict=True):
        number = {"percent": f"{100 * mark['value']:.1f} %", "score": f"{mark['value']:.3f}",
                  "points": f"{mark['value']:.1f}"}.get(chart.get("form"), f"{mark['value']:,}")  # fmt: skip
        assert bar["said"].replace("\u00a0", " ").startswith(f"{mark['name']}: {number}"), bar["said"]
        assert bar["chosen"] == bool(mark.get("chosen"))
        if scales:
            assert bar["long"] == pytest.approx(max(mark["value"] * scales[0], 1), rel=1e-3, abs=0.5)
        if mark.get("ends") and scales:
            expected = [bar["from"] + scales[0] * end for end in mark["ends"]]
            assert bar["ends"] == pytest.approx(expected, abs=1), mark["name"]


def bars_of(shown, page):
    """Every chart of bars of the page, and what is drawn of it."""
    for name, chart in page.meta["charts"].items():
        if chart["kind"] == "bars":
            yield chart, shown.tab.locator(f'[data-chart="{name}"]').evaluate(BARS)
    for i, each in enumerate(page.meta["findings"]):
        if each["chart"] is not None:
            yield each["chart"], shown.tab.locator(f'[data-finding="{i}"]').evaluate(BARS)


def test_bars_are_their_values_and_a_wrong_number_is_noticed(open_page, page):
    found = list(bars_of(open_page(page.path), page))
    assert len(found) > 8
    for chart, drawn in found:
        check_bars(chart, drawn)
    for chart, drawn in found:
        for i, mark in enumerate(chart["marks"]):
            if mark["value"]:
                broken = copy.deepcopy(chart)
                broken["marks"][i]["value"] *= 1.2
                with pytest.raises(AssertionError):
                    check_bars(broken, drawn)
                break


MATRIX = """node => [...node.querySelectorAll("[data-cell]")].map(each => [each.dataset.cell,
  each.querySelector("text")?.textContent ?? "", each.querySelector(".cell").classList.contains("right")])"""


def check_matrix(matrix, drawn):
    cells = {cell["name"]: cell for line in matrix["cells"] for cell in line if cell is not None}
    assert len(drawn) == len(cells)
    for name, text, right in drawn:
        value = cells[name]["value"]
        number = f"{value:,.0f}" if value == int(value) else f"{value:.1f}"
        assert text == (number if value else ""), name
        assert right == cells[name]["right"]


def test_cells_of_every_matrix_are_its_values(open_page, page):
    shown = open_page(page.path)
    looked = 0
    for name, chart in page.meta["charts"].items():
        if chart["kind"] != "matrix":
            continue
        place = shown.tab.locator(f'[data-chart="{name}"]')
        for i, view in enumerate(chart.get("views", [chart])):
            if "views" in chart:
                place.locator("select").select_option(str(i))
            drawn = place.evaluate(MATRIX)
            check_matrix(view, drawn)
            broken = copy.deepcopy(view)
            next(c for line in broken["cells"] for c in line if c and c["value"])["value"] += 1
            with pytest.raises(AssertionError):
                check_matrix(broken, drawn)
            looked += 1
    assert looked >= 5, "the confusion's two, and those of the attack"


LINES = {"kind": "lines", "title": "t", "about": "a", "across": "x", "up": "y",
         "series": [
    {"name": "lost", "points": [[0, 0.5], [16, 0.25], [32, 1.0]], "band": [[0, 0.25, 0.75], [32, 0.5, 1.0]]},
    {"name": "here", "points": [[8, 0.5]]}]}  # fmt: skip
SHARES = {"kind": "shares", "title": "t", "about": "a", "across": "share", "names": ["in", "out"],
          "tones": ["good", None], "rows": [{"name": "all", "parts": [0.75, 0.25]},
                                            {"name": "bell", "parts": [0.5, 0.5]}]}  # fmt: skip
PLACES = {"kind": "places", "title": "t", "about": "a", "names": ["bell", "lock"], "panels": [
    {"title": "likely", "ellipses": [["bell", 0.25, 0.5, 0.75, 0.7]], "boxes": []},
    {"title": "1 seen", "ellipses": [], "boxes": [["lock", 0.1, 0.2, 0.4, 0.6]]}]}  # fmt: skip


def drawn_alone(shown, spec, read):
    """What ``read`` sees of ``spec``, drawn by itself, 600 pixels wide."""
    return shown.tab.evaluate(
        f"""async ([spec]) => {{
            const chart = document.createElement(`md-${{spec.kind}}`);
            const place = document.createElement("div");
            place.style.width = "600px";
            document.querySelector("main").append(place);
            place.append(chart);
            chart.start(spec, null, {{}}, () => {{}});
            await new Promise(done => setTimeout(done, 300));
            return ({read})(chart);
        }}""",
        [spec],
    )


def test_lines_shares_and_places_are_their_values(open_page, page):
    shown = open_page(page.path)
    path, band, dot, grid = drawn_alone(shown, LINES, """node => [
        node.querySelector("path.line").getAttribute("d"), node.querySelector("path.area").getAttribute("d"),
        ["cx", "cy"].map(name => Number(node.querySelector("circle").getAttribute(name))),
        [...node.querySelectorAll("path.grid")].map(each => each.getAttribute("d"))]""")  # fmt: skip
    (left, bottom), (right, top) = ends(grid)

    def values(text):
        points = re.findall(r"[ML]([\d.]+) ([\d.]+)", text)
        return [(32 * (float(x) - left) / (right - left), (bottom - float(y)) / (bottom - top)) for x, y in points]

    assert flat(values(path)) == pytest.approx(flat(LINES["series"][0]["points"]), abs=0.05)
    assert flat(values(band)) == pytest.approx([0, 0.25, 32, 0.5, 32, 1.0, 0, 0.75], abs=0.05)
    assert flat(values("M{} {}".format(*dot))) == pytest.approx([8, 0.5], abs=0.05)
    parts = drawn_alone(shown, SHARES, """node => [...node.querySelectorAll("g")].map(each =>
        [Number(each.querySelector("rect").getAttribute("width")),
         each.querySelector("title").textContent])""")  # fmt: skip
    whole = parts[0][0] + parts[1][0]
    assert [wide / whole for wide, _ in parts] == pytest.approx([0.75, 0.25, 0.5, 0.5])
    said = [text.replace("\u00a0", " ") for _, text in parts]
    assert said == ["all: in 75.0 %", "all: out 25.0 %", "bell: in 50.0 %", "bell: out 50.0 %"]
    ellipse, box = drawn_alone(shown, PLACES, """node => [
        ["cx", "cy", "rx", "ry"].map(name => node.querySelector("ellipse").getAttribute(name) / 300),
        ["x", "y", "width", "height"].map(name => node.querySelector("rect.frame").getAttribute(name) / 300),
        ]""")  # fmt: skip
    assert ellipse == pytest.approx([0.5, 0.6, 0.25, 0.1])
    assert box == pytest.approx([0.1, 0.2, 0.3, 0.4])


def ends(grid):
    """The corners of a plot, of its lines: where 0 and the most lie."""
    across = [list(map(float, re.match(r"M([\d.]+) ([\d.]+)H([\d.]+)", line).groups())) for line in grid if "H" in line]
    return (across[0][0], across[0][1]), (across[-1][2], across[-1][1])


def flat(points):
    return [value for point in points for value in point]


def test_beside_a_finding_are_its_pictures_and_they_lead_to_their_rows(open_page, page):
    shown = open_page(page.path)
    looked = 0
    for i, each in enumerate(page.meta["findings"]):
        behind = page.behind(each["filter"]) if each["filter"] else []
        thumbs = shown.tab.locator(f'[data-finding="{i}"] .thumb')
        assert thumbs.count() == min(3, len(behind))
        indices = {page.rows.index(row) for row in behind}
        assert {int(n) for n in thumbs.evaluate_all("all => all.map(n => n.dataset.index)")} <= indices
        looked += thumbs.count()
    assert looked > 5
    i, each = next((i, each) for i, each in enumerate(page.meta["findings"]) if each["filter"])
    shown.tab.locator(f'a[data-behind="{i}"]').press("Enter")
    shown.settle()
    assert (shown.filter, shown.total) == (each["filter"], len(page.behind(each["filter"])))
    thumb = shown.tab.locator(f'[data-finding="{i}"] .thumb').first
    thumb.press("Enter")
    shown.settle()
    row = page.rows[int(thumb.get_attribute("data-index"))]
    title = shown.tab.locator("dialog h2").inner_text()
    assert row["image"] in title
    assert row["label"] in title
    shown.tab.keyboard.press("Escape")
    assert shown.complaints == []


@pytest.mark.heavy
def test_on_paper_there_are_findings_charts_and_some_pictures_and_no_controls(open_page, page):
    shown = open_page(page.path, scheme="dark")
    shown.tab.emulate_media(media="print")
    shown.tab.set_viewport_size({"width": 690, "height": 1000})
    shown.settle()
    assert shown.tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    visible = "all => all.filter(each => each.checkVisibility()).length"
    for controls in ("nav", ".facets", ".tools", ".more", ".tabs", "ol.findings button[data-behind]", "summary"):
        assert shown.tab.locator(controls).evaluate_all(visible) == 0, controls
    assert shown.tab.locator("md-gallery .card").evaluate_all(visible) == 12
    assert shown.tab.locator("ol.findings > li").evaluate_all(visible) == len(page.meta["findings"])
    assert shown.tab.locator("svg.chart").evaluate_all(visible) > 10
    assert shown.wide() <= 0
    assert len(shown.tab.pdf(format="A4")) > 100_000


AXE = "MISDETECT_AXE"
"""Names axe-core's axe.min.js (``npm pack axe-core``)."""


@pytest.mark.heavy
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_axe_finds_nothing_serious(open_page, page, viewport, scheme):
    """Of the page, of the evidence of a row, and of the page with its folded parts open."""
    if not os.environ.get(AXE):
        pytest.skip(f"{AXE} does not name axe-core's axe.min.js.")
    script = Path(os.environ[AXE]).read_text(encoding="utf-8")
    shown = open_page(page.path, viewport=viewport, scheme=scheme)
    assert serious(shown, script) == []
    shown.tab.locator("md-gallery .card").first.click()
    shown.settle()
    assert serious(shown, script) == []
    shown.tab.keyboard.press("Escape")
    shown.tab.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert serious(shown, script) == []


def serious(shown, script):
    """What axe calls serious or critical. Asked through the debugger: the page's policy lets in no other script."""
    session = shown.tab.context.new_cdp_session(shown.tab)
    rules = "axe.run(document, {resultTypes: ['violations']}).then(found => JSON.stringify(found.violations))"
    found = session.send("Runtime.evaluate", {"expression": f"{script};{rules}", "awaitPromise": True})
    violations = json.loads(found["result"]["value"])
    return [
        (each["id"], each["nodes"][0]["target"], each["nodes"][0]["failureSummary"])
        for each in violations
        if each["impact"] in ("serious", "critical")
    ]

"""The numbers of a report are those of the ledger: recomputed from it here, by SQL or by naive code."""

import html
import json
import re

import cv2
import numpy as np
import pytest

import misdetect as md
from misdetect.drawing.inline import json_block, policy, script, style
from misdetect.report.album import LONGEST, Album
from misdetect.report.page import top_findings, words_block
from misdetect.said.glossary import WORDS

CLEAN, EDITED = ("score", "explain", "confusion"), ("scan", "fuzz", "attack")


def counted(checked, study, sql):
    """The answer of ``sql`` over the ledger of one run, as rows."""
    return md.ledger(checked.runs[study], sql).to_pylist()


def check_marks(page):
    """Behind every mark of every chart are as many rows as it says."""
    marks = page.marks()
    assert len(marks) > 50
    for name, value, wanted in marks:
        assert len(page.behind(wanted)) == value, name


def test_behind_every_mark_are_as_many_rows_as_it_says(page):
    check_marks(page)


@pytest.mark.parametrize("kind", ["bars", "flow", "matrix", "table"])
def test_a_wrong_number_is_noticed(checked, page, kind):
    from page_parts import Page

    broken = Page(checked.report)
    chart = broken.charts(kind)[0]
    if kind == "matrix":
        cell = next(cell for line in chart["cells"] for cell in line if cell and cell["value"])
    elif kind == "table":
        cell = next(c for line in chart["rows"] for c in line if c["filter"] and isinstance(c["value"], int))
    else:
        cell = chart["marks" if kind == "bars" else "links"][0]
    cell["value"] += 1
    with pytest.raises(AssertionError):
        check_marks(broken)


def test_rows_are_those_of_the_ledger(checked, page):
    for study in CLEAN:
        asked = counted(
            checked, study, "SELECT outcome, count(*) AS n FROM ledger WHERE outcome <> 'ignored' GROUP BY 1"
        )
        assert {each["outcome"]: each["n"] for each in asked} == count(page, study, "outcome")
    changed = "outcome NOT IN ('found', 'ignored') AND condition <> 'clean'"
    asked = counted(checked, "scan", f"SELECT control, count(*) AS n FROM ledger WHERE {changed} GROUP BY 1")
    assert {each["control"]: each["n"] for each in asked} == count(page, "scan", "control")
    asked = counted(
        checked, "fuzz", f"SELECT harm, count(*) AS n FROM ledger WHERE {changed} AND NOT control GROUP BY 1"
    )
    assert {each["harm"]: each["n"] for each in asked} == count(page, "fuzz", "harm")
    attacks = set(checked.document["studies"]["attack"]["attacks"])
    asked = counted(checked, "attack", f"SELECT evidence->>'attack' AS by, count(*) AS n FROM ledger WHERE {changed} "
                    "GROUP BY 1")  # fmt: skip
    assert {each["by"]: each["n"] for each in asked if each["by"] in attacks} == count(page, "attack", "by")


def count(page, study, column):
    found = {}
    for row in page.rows:
        if row["study"] == study:
            found[row[column]] = found.get(row[column], 0) + 1
    return found


def test_mechanisms_flow_and_matrix_are_those_of_the_documents(checked, page):
    studies = checked.document["studies"]
    bars = next(chart for chart in page.charts("bars") if chart["title"].startswith("Mechanisms"))
    assert {mark["name"]: mark["value"] for mark in bars["marks"]} == studies["explain"]["mechanisms"]
    (flow,) = page.charts("flow")
    assert [[link["left"], link["right"], link["value"]] for link in flow["links"]] == studies["explain"]["sankey"]
    (matrix,) = page.charts("matrix")
    became = [[cell["value"] for cell in line] for line in matrix["cells"][:-1]]
    assert became == studies["confusion"]["became"]
    assert [cell["value"] for cell in matrix["cells"][-1] if cell] == studies["confusion"]["counts"][-1][:-1]
    objects = counted(checked, "confusion", "SELECT count(*) AS n FROM ledger WHERE object IS NOT NULL")[0]["n"]
    assert sum(map(sum, became)) == objects


def test_the_curves_integrate_to_the_ap50_of_every_class(page, checked):
    """COCO's: precision made falling, at 101 recalls."""
    (curves,) = page.charts("curves")
    document = checked.document["studies"]["score"]
    classes = [series for series in curves["series"] if series["label"] is not None]
    assert len(classes) >= 8
    for series in classes:
        right, wrong = np.array(series["right"]), np.array(series["wrong"])
        recall, precision = right / series["objects"], right / (right + wrong)
        reached = [precision[recall >= r].max(initial=0) for r in np.linspace(0, 1, 101)]
        assert np.mean(reached) == pytest.approx(document["by_class"][series["name"]]["AP50"], abs=1e-6), series["name"]
    assert (
        sum(series["objects"] for series in classes) == curves["series"][0]["objects"] == document["counts"]["objects"]
    )


def test_behind_a_point_of_a_curve_are_its_errors(page):
    """Objects that no detection of that score finds, and detections of that score that find none."""
    (curves,) = page.charts("curves")
    for series in curves["series"]:
        own = [row for row in page.rows if row["study"] == "score" and series["label"] in (None, row["label"])]
        for score, right, wrong in list(zip(series["scores"], series["right"], series["wrong"], strict=True))[::7]:
            lost = [row for row in own if row["object"] is not None and not (row["score"] or 0) >= score]
            false = [row for row in own if row["object"] is None and row["score"] >= score]
            assert (len(lost), len(false)) == (series["objects"] - right, wrong), (series["name"], score)


def test_squares_of_a_map_are_the_scans_positions(checked, page):
    (heat,) = page.charts("heat")
    rows = checked.runs["scan"].query("SELECT pair, condition, x, y, score, background FROM rows").to_pylist()
    known = {f"scan/{r['pair']}/{r['x']},{r['y']}{'/control' if r['condition'] == 'control' else ''}": r for r in rows}
    seen = set()
    for each in heat["maps"]:
        for layer in each["layers"]:
            for x, y, value, scene in layer["cells"]:
                row = known[scene]
                assert (row["x"], row["y"], row["background"]) == (x, y, each["image"])
                assert row["score"] == pytest.approx(value, abs=6e-4)
                seen.add(scene)
    assert len(seen) > 50
    assert {row["scene"] for row in page.rows if row["study"] == "scan"} <= set(known)


def test_what_is_drawn_tells_the_story_of_its_row(page):
    """What a row calls lost is dashed before and not drawn as kept after; what it calls extra is drawn as new."""
    told = 0
    for row in page.rows:
        scene = page.meta["scenes"].get(row["scene"])
        if row["study"] not in ("scan", "fuzz") or scene is None or row["flicker"]:
            continue
        box = [round(row[side], 1) for side in ("x0", "y0", "x1", "y1")]
        before, after = ({tuple(b[:4]): b[6] for b in scene[side]} for side in ("before", "after"))
        if row["outcome"] == "missed":
            assert near(before, box) == "lost", row["scene"]
            assert near(after, box) != "kept"
            told += 1
        elif row["outcome"] == "extra":
            assert near(after, box) in ("new", "own"), row["scene"]
            told += 1
    assert told > 10


def near(boxes, box):
    return next((state for each, state in boxes.items() if np.abs(np.subtract(each, box)).max() <= 0.11), None)


def test_every_picture_is_there_once_and_is_the_photo(checked, page):
    records = page.meta["images"]
    used = {record["picture"] for record in records.values() if record.get("picture")}
    used |= {scene["patch"][0] for scene in page.meta["scenes"].values() if "patch" in scene}
    assert used == set(page.pictures)
    assert len(set(page.pictures.values())) == len(page.pictures)
    data = {sample.id: sample for sample in md.load_data("rooms:val,count=16")}
    name = next(name for name, record in records.items() if record.get("picture"))
    shown = decoded(page.pictures[records[name]["picture"]])
    assert shown.shape == data[name].image.shape
    assert np.abs(shown.astype(float) - data[name].image).mean() < 6


def decoded(address):
    import base64

    raw = np.frombuffer(base64.b64decode(address.partition(",")[2]), np.uint8)
    return cv2.imdecode(raw, cv2.IMREAD_COLOR)[:, :, ::-1]


def test_a_patch_lies_where_the_edit_is_and_a_photo_is_kept_once():
    generator = np.random.default_rng(1)
    image = np.full((300, 400, 3), 90, np.uint8)
    edited = image.copy()
    edited[120:160, 200:230] = generator.integers(150, 255, 3)
    album = Album(1_000_000)
    assert album.photo(image) == album.photo(image.copy())
    assert len(album.pictures) == 1
    patch = album.patch(image, edited)
    assert (patch.x, patch.y) == (198, 118)
    assert (patch.x + patch.width, patch.y + patch.height) == (233, 163)
    assert decoded(album.pictures[patch.key]).shape == (45, 35, 3)
    assert album.patch(image, image) is None
    assert album.patch(image, edited[:200]) is None


def test_a_large_photo_is_made_smaller_and_its_patch_stays_in_place():
    image = np.full((1200, 1600, 3), 90, np.uint8)
    edited = image.copy()
    edited[600:700, 800:1000] = 255
    album = Album(10_000_000)
    assert max(decoded(album.pictures[album.photo(image)]).shape) == LONGEST
    patch = album.patch(image, edited)
    assert patch.x <= 800 <= 1000 <= patch.x + patch.width
    assert patch.y <= 600 <= 700 <= patch.y + patch.height
    assert patch.width < 230
    assert patch.height < 130


def test_an_album_that_is_full_takes_nothing_more():
    generator = np.random.default_rng(2)
    noise = generator.integers(0, 255, (4, 200, 200, 3)).astype(np.uint8)
    album = Album(60_000)
    keys = [album.photo(image) for image in noise]
    assert keys[0] is not None
    assert keys[-1] is None
    assert album.full
    assert sum(map(len, album.pictures.values())) <= 60_000
    assert album.photo(noise[0]) == keys[0], "it is there already"


def test_the_modules_are_joined_in_order_and_no_name_is_taken_twice():
    names = re.findall(r"^(?:export )?(?:async )?(?:function|class|const|let) (\w+)", script(), re.MULTILINE)
    assert len(names) == len(set(names)) > 30
    assert not re.search(r"^(import|export) ", script(), re.MULTILINE)
    for used, made in (("extends Chart", "class Chart"), ("EmbeddedSource(", "class EmbeddedSource")):
        assert script().index(made) < script().index(used)
    assert "innerHTML" not in script()
    assert "</" not in script()
    assert "url(" not in style()


def test_data_cannot_leave_its_block():
    evil = {"a": "</script><script>x</script>", "b": "<!--", "c": "\u2028", "d": [None, 1.5, "é"]}
    block = json_block("x", evil)
    assert block.count("<") == 2
    assert json.loads(block.partition(">")[2].rpartition("<")[0]) == evil
    with pytest.raises(ValueError, match="Out of range"):
        json_block("x", float("nan"))


def test_the_policy_forbids_the_network():
    assert "default-src 'none'" in policy()
    assert "unsafe" not in policy()
    assert "http" not in policy()


def test_without_findings_the_page_says_so():
    assert "Nothing is wrong that these studies could find" in top_findings([])
    finding = {"sentence": "<b> is lost", "advice": "a & b", "study": "scan"}
    shown = top_findings([finding] * 7)
    assert shown.count("<li>") == 5
    assert "&lt;b&gt; is lost" in shown
    assert "a &amp; b" in shown


def test_settings_and_hashes_are_told(checked, page):
    footer = page.html[page.html.index("<footer>") : page.html.index("</footer>")]
    for run in checked.runs.values():
        assert run.directory.about["id"] in footer
    assert checked.document["data"]["fingerprint"] in footer


@pytest.mark.heavy
def test_what_does_not_fit_is_left_out_and_told(checked, page, tmp_path, monkeypatch):
    from page_parts import Page

    from misdetect.report import embedded
    from misdetect.report import page as pages
    from misdetect.suites.checkup.page import checkup_page

    monkeypatch.setattr(pages, "PICTURES", 60_000)
    monkeypatch.setattr(embedded, "MOST", 400)
    small = Page(checkup_page(checked.runs, checked.document, tmp_path / "small.html", 1))
    assert sum(map(len, small.pictures.values())) <= 60_000
    assert any(not record.get("picture") for record in small.meta["images"].values())
    assert len(small.rows) == 400 < len(page.rows)
    assert f"{len(page.rows) - 400:,} rows of the lowest scores are left out" in small.html
    failures = sum(row["failure"] for row in page.rows)
    assert sum(row["failure"] for row in small.rows) == min(failures, 400), "failures go last"


def test_names_from_data_are_never_markup(hostile):
    from conftest import EVIL

    assert hostile.html.count("<script") == 3
    for name in EVIL[:2]:
        assert name not in hostile.html
    assert {row["label"] for row in hostile.rows} >= set(EVIL[:2])


def test_a_run_of_data_that_is_gone_is_shown_without_photos(tmp_path):
    image = np.zeros((32, 32, 3), dtype=np.uint8)
    detector = md.load_detector(lambda images: [([], [], []) for _ in images], names=["cup"])
    kept = md.explain(detector, [(image, {"boxes": [[2, 2, 20, 20]], "labels": ["cup"]})], out=tmp_path / "run")
    text = md.open(kept.path).report(tmp_path / "page.html").read_text()
    assert "Photos are lacking" in text
    assert "data:image" not in text


def test_a_page_explains_the_words_that_it_uses(page):
    told = dict(re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", page.html.partition('<details class="words">')[2]))
    for word in ("discarded", "control", "harm"):
        assert html.unescape(told[word]) == WORDS[word]
    assert words_block("nothing of ours") == ""

"""The pieces of a page: figures embedded at their size, charts in their places, what is said of runs and settings."""

import base64
import re
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
import verify_toys
from explain_runs import write
from page_parts import Page

import misdetect as md
from misdetect.drawing.figures import save_png
from misdetect.drawing.inline import packed_block
from misdetect.report import page as pages
from misdetect.report.album import Album, webp
from misdetect.studies.kinds import kind_of


def drawing(path, width, shade=0):
    """A chart: a line on white."""
    image = np.full((60, width, 3), 255, np.uint8)
    image[20:24, 10:-10] = shade
    return save_png(path, image)


def photo(path, width=200):
    """What PNG cannot make small."""
    rough = np.random.default_rng(0).integers(0, 256, (12, width // 10, 3)).astype(np.uint8)
    image = cv2.resize(rough, (width, 120), interpolation=cv2.INTER_CUBIC)
    return save_png(path, image)


def embedded(html):
    """Of each figure its place, name, media type and bytes."""
    found = re.findall(r'<div class="(\w+)"><figure class="figure"><img alt="([^"]*)" src="data:image/(\w+);base64,'
                       r'([^"]*)"><figcaption>([^<]*)</figcaption>', html)  # fmt: skip
    assert all(alt == said for _, alt, _, _, said in found)
    return [(place, name, kind, base64.b64decode(data)) for place, name, kind, data, _ in found]


@pytest.mark.parametrize(
    ("width", "place", "shown"), [(800, "half", 800), (1000, "half", 1000), (1001, "wide", 1001), (1240, "wide", 1240)]
)
def test_a_chart_is_embedded_as_it_is_and_takes_the_width_it_needs(tmp_path, width, place, shown):
    path = drawing(tmp_path / "ladder.png", width)
    assert embedded(pages.figures([path], set(), [10**9], {"ladder": "Is the attack strong enough?"})) == [
        (place, "Is the attack strong enough?", "png", path.read_bytes())
    ]


def test_a_wide_chart_is_made_smaller_and_a_photo_webp(tmp_path):
    paths = [drawing(tmp_path / "a.png", 2800), photo(tmp_path / "<b>.png"), tmp_path / "tables.md"]
    (chart, picture) = embedded(pages.figures(paths, set(), [10**9]))
    small = cv2.imdecode(np.frombuffer(chart[3], np.uint8), cv2.IMREAD_COLOR)
    assert (chart[0], chart[2], small.shape) == ("wide", "png", (27, 1240, 3))
    again = cv2.imdecode(np.frombuffer(picture[3], np.uint8), cv2.IMREAD_COLOR)
    assert picture[:3] == ("half", "&lt;b&gt;", "webp")
    assert again.shape == (120, 200, 3)
    assert np.abs(again.astype(int) - cv2.imread(str(paths[1]))).mean() < 6
    assert len(picture[3]) < paths[1].stat().st_size / 2
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no image")
    assert embedded(pages.figures([broken], set(), [10**9])) == [("half", "broken", "png", b"no image")]


def test_a_figure_is_embedded_once_and_as_long_as_there_is_room(tmp_path):
    paths = [drawing(tmp_path / f"{name}.png", 400, shade) for name, shade in (("a", 0), ("b", 0), ("c", 9), ("d", 90))]
    size = [4 * -(-path.stat().st_size // 3) for path in paths]  # as base64
    room, seen = [size[0] + size[2]], set()
    assert [name for _, name, _, _ in embedded(pages.figures(paths, seen, room))] == ["a", "c"], "b is a again"
    assert room[0] == -size[3]
    assert pages.figures(paths[:1], seen, [10**9]) == ""
    assert pages.figures(paths[:1], set(), [size[0] - 1]) == ""


@pytest.mark.parametrize(
    ("kind", "columns", "place"),
    [("matrix", 18, "half"), ("matrix", 19, "wide"), ("table", 6, "half"), ("table", 7, "wide"), ("heat", 0, "wide"),
     ("bars", 99, "half")],
)  # fmt: skip
def test_a_chart_with_many_columns_takes_the_whole_width(kind, columns, place):
    chart = {"kind": kind, "columns": ["c"] * columns}
    named = pages.named_charts("score", [{"kind": "flow"}, chart])
    assert pages.chart_places(named) == (
        f'<div data-chart="score-0" class="half"></div><div data-chart="score-1" class="{place}"></div>'
    )


def test_figures_that_the_page_has_as_charts_are_left_out():
    names = ("confusion", "confusions", "cell-1-a-b", "pair-00-maps", "cls-00", "ladder")
    drawn = [Path(f"{name}.png") for name in names]

    def left(study, **more):
        asked = []
        run = SimpleNamespace(document={"study": study, **more}, figures=lambda most: asked.append(most) or drawn)
        return [path.stem for path in pages._figures(run, 3)], asked

    assert left("explain") == left("fuzz") == ([], []), "nothing is even drawn"
    assert left("scan", interference=[]) == ([], [])
    assert left("scan", interference=[1])[0] == ["confusion", "confusions", "cell-1-a-b", "cls-00", "ladder"]
    assert left("confusion") == left("attack") == ([], [])
    assert left("verify", hallucinations=0) == ([], []), "its other figures are charts"
    assert left("verify", hallucinations=1) == ([path.stem for path in drawn], [3])


def test_settings_are_in_order_and_only_text():
    shown = pages.settings_table({"b": "<x>", "a": 0.5})
    assert re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td></tr>", shown) == [("a", "0.5"), ("b", "&quot;&lt;x&gt;&quot;")]


@pytest.mark.parametrize(
    ("scores", "reported"),
    [({"explain": 0.5, "confusion": 0.25}, 0.5), ({"confusion": 0.25, "scan": 0.9}, 0.25), ({"scan": 0.9}, 0.3),
     ({"explain": None, "confusion": 0.25}, 0.25), ({"explain": 0.0}, 0.0)],
)  # fmt: skip
def test_a_detection_is_reported_from_the_score_on_that_explain_has(scores, reported):
    runs = {study: SimpleNamespace(document={"settings": {"score": score}}) for study, score in scores.items()}
    assert pages._reported(runs) == reported


@pytest.fixture(scope="module")
def explained(tmp_path_factory):
    """A run of three images: an object found, one missed, three missed."""
    fates = [[None], ["proposal"], ["background", "background", "classification"]]
    return md.open(write(tmp_path_factory.mktemp("runs") / "run", fates, score=0.4))


def test_the_page_of_a_run_says_what_it_is_of(explained, tmp_path):
    shown = Page(explained.report(tmp_path / "page.html"))
    assert "<h1>explain: one on made</h1>" in shown.html
    links = re.findall(r'<a href="#(\w+)">([^<]*)</a>', shown.html[: shown.html.index("<main>")])
    assert links == [("studies", "Study by study"), ("failures", "Failures"), ("explain", "explain")]
    overview = re.search(r'<td><a href="#explain">explain</a></td><td>(.*?)</td>', shown.html)
    assert overview[1] == explained.sentences[0]
    assert shown.meta["reported"] == 0.4
    assert sorted(row["outcome"] for row in shown.rows) == ["found"] + ["missed"] * 4
    assert list(shown.meta["charts"]) == ["explain-0", "explain-1", "explain-2"]
    assert shown.html.count("data-chart=") == 3
    assert "rows of the lowest scores" not in shown.html
    assert "Photos are lacking: " in shown.html
    assert "not run:" not in shown.html
    footer = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", shown.html))
    assert (footer["detector"], footer["images"], footer["run"]) == ("zoo:one", "3", explained.directory.about["id"])
    assert footer["detector settings"] == "{}"


def test_a_page_of_several_runs_says_what_was_not_run(explained, tmp_path):
    path = pages.report_page(tmp_path / "p.html", "t", {"explain": explained}, skipped=[{"study": "<s>", "why": "<w>"}])
    text = path.read_text()
    assert '<tr class="skipped"><td>&lt;s&gt;</td><td>not run: &lt;w&gt;</td></tr>' in text
    assert "What is wrong" not in text
    none = pages.report_page(tmp_path / "p.html", "t", {"explain": explained}, findings=[]).read_text()
    assert "Nothing is wrong" in none
    empty = md.open(write(tmp_path / "empty", [[]]))
    assert "There is nothing to look at one by one." in pages.run_page(empty, tmp_path / "e.html", 0).read_text()


def test_pictures_have_what_the_rest_leaves_of_a_page(explained, tmp_path, monkeypatch):
    """Without pictures there is no room at all."""
    rooms = []
    monkeypatch.setattr(pages, "Album", lambda room: rooms.append(room) or Album(room))
    page = Page(explained.report(tmp_path / "a.html"))
    without = len(page.path.read_text()) - len(packed_block("report-data", page.meta))
    monkeypatch.setattr(pages, "LARGEST", 1_000_000)
    explained.report(tmp_path / "b.html")
    pages.run_page(explained, tmp_path / "c.html", 0)
    assert rooms[0] == pytest.approx(5_000_000 - pages._BOXES - without, abs=300), "but for the frame of the blocks"
    assert rooms[0] - rooms[1] == 4_000_000
    assert rooms[2] == 0


def test_figures_are_on_the_page_of_a_finished_run_whose_photos_are_there(tmp_path):
    """Those that it does not have as charts: of a verification the strips of what was hallucinated. With ``most`` 0
    none is drawn."""
    answers = [([verify_toys.BOXES[1]], [0.8], [1]), *[([], [], [])] * 3]
    run = md.verify(verify_toys.Told(answers), verify_toys.data(), cache=False, score=0.25, out=tmp_path / "run")
    (row,) = [row for row in run.rows().to_pylist() if row["kind"] == "hallucination"]
    shown = embedded(pages.run_page(run, tmp_path / "a.html", 1).read_text())
    assert [name for _, name, _, _ in shown] == [kind_of("verify").figures.captions[row["cause"]]]
    assert embedded(pages.run_page(run, tmp_path / "b.html", 0).read_text()) == []
    document = {**run.document, "finished": False}
    unfinished = SimpleNamespace(
        directory=run.directory, document=document, data=run.data, sentences=[], figures=run.figures
    )
    assert embedded(pages.run_page(unfinished, tmp_path / "c.html", 1).read_text()) == []


def test_a_figure_that_webp_hardly_makes_smaller_stays_as_it_is(tmp_path):
    image = (85 * np.random.default_rng(0).integers(0, 4, (120, 200, 1))).astype(np.uint8).repeat(3, axis=2)
    path = save_png(tmp_path / "a.png", image)
    photo = webp(image, 80)
    assert 0.5 < len(photo) / path.stat().st_size < 1, "noise of four shades"
    assert embedded(pages.figures([path], set(), [10**9]))[0][2:] == ("png", path.read_bytes())

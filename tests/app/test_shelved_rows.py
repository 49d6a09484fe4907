"""The rows of a server against those of a page, which are made by another way, row by row in Python."""

import json
import random
import shutil
import time
from collections import Counter
from itertools import pairwise

import pytest

from misdetect.app.shelf import Shelf
from misdetect.app.store import FACETS, Edition, Store, _parsed
from misdetect.app.wanted import ORDERS, Wanted
from misdetect.engine.about import read_about, write_about
from misdetect.engine.parts import part_files
from misdetect.report.embedded import COLUMNS, counted, matches, page_rows
from misdetect.report.views import charts_of
from misdetect.said.errors import BadData, BadSpec
from misdetect.studies.documents import read_document


@pytest.fixture(scope="module")
def one(runs):
    """The runs of one detector: as a server has them, and as a page."""
    shelf = Shelf([runs / name for name in ("explain", "detect", "score")])
    edition = Edition(shelf)
    rows, left_out = page_rows({each.study: each.run for each in shelf.runs}, shelf.reported(shelf.runs[0]))
    assert left_out == 0
    yield edition, rows
    edition.close()


def several(edition, wanted):
    total = edition.total(Wanted(wanted))
    return [row for start in range(0, total, 100) for row in edition.some(Wanted(wanted), start, 100)]


def told(row):
    """A row as something that can be counted; the page has its numbers unrounded."""
    values = {name: row[name] for name in COLUMNS if name != "replay"}
    return json.dumps({n: round(v, 4) if isinstance(v, float) else v for n, v in values.items()}, sort_keys=True)


def test_it_has_the_rows_of_a_page(one):
    edition, rows = one
    found = several(edition, {})
    assert len(found) == len(rows) > 100
    assert Counter(map(told, found)) == Counter(map(told, rows))


@pytest.mark.parametrize("study", ["scan", "fuzz"])
def test_rows_of_edited_pictures_are_those_of_a_page(runs, study):
    shelf = Shelf([runs / study])
    edition = Edition(shelf)
    rows, _ = page_rows({study: shelf.runs[0].run}, shelf.reported(shelf.runs[0]))
    assert rows
    assert Counter(map(told, several(edition, {}))) == Counter(map(told, rows))


def test_what_is_asked_again_is_the_image_of_a_score(asked, runs):
    (row, *_) = asked.rows({"study": ["score"]})["rows"]
    assert row["replay"] == f"misdetect replay {runs / 'detect'} {row['image']}"


def some_filters(rows, count=120):
    rng = random.Random(0)
    names = [*FACETS[1:-1], "failure", "again", "image", "object", "became", "harm", "scene"]
    for _ in range(count):
        wanted = {}
        for name in rng.sample(names, rng.randint(0, 4)):
            wanted[name] = [rng.choice(rows)[name] for _ in range(rng.randint(1, 2))]
        if rng.random() < 0.3:
            wanted["wrong_at"] = round(rng.random(), 2)
        yield wanted


def test_filters_and_facets_count_what_a_loop_counts(one):
    edition, rows = one
    rows = [{**row, "score": None if row["score"] is None else round(row["score"], 4)} for row in rows]
    seen = 0
    for wanted in some_filters(rows):
        behind = [row for row in rows if matches(row, wanted)]
        seen += len(behind)
        assert edition.total(Wanted.parse(json.dumps(wanted))) == len(behind), wanted
        facets = edition.facets(Wanted(wanted))
        for column in ("study", "label", "outcome", "mechanism", "size"):
            gone = (column, "again") if column == "study" else (column,)
            others = {name: values for name, values in wanted.items() if name not in gone}
            expected = Counter(row[column] for row in rows if row[column] is not None and matches(row, others))
            assert dict(facets[column]) == expected, (wanted, column)
    assert seen > 1000


def test_words_scores_and_nothing(one):
    edition, rows = one
    searched = ("image", "label", "became", "mechanism", "reason", "by", "study", "tide", "outcome")
    for text in ("chair", "CHAIR missed", "000003", "nothing of the kind", "'; DROP TABLE page; --", "%", "back gro"):

        def has(row, text=text):
            said = [edition.words["detector"][0], *(str(row[name] or "").lower() for name in searched)]
            return all(any(word in each for each in said) for word in text.lower().split())

        assert edition.total(Wanted({"search": text})) == sum(map(has, rows)), text
    between = [row for row in rows if row["score"] is not None and 0.5 <= round(row["score"], 4) <= 0.95]
    assert edition.total(Wanted({"scores": [0.5, 0.95]})) == len(between)
    assert edition.total(Wanted({"label": ["no such class"]})) == 0
    assert edition.total(Wanted({"label": []})) == 0
    assert edition.total(Wanted({"image": ["' OR true --"]})) == 0


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_shows_every_row_once(one, order):
    edition, rows = one
    found = several(edition, {"sort": order})
    assert len({row["index"] for row in found}) == len(found) == len(rows)
    area = [(row["x1"] - row["x0"]) * (row["y1"] - row["y0"]) for row in found]
    score = [-1.0 if row["score"] is None else row["score"] for row in found]
    key = {"surest": [-s for s in score], "faintest": score, "largest": [-a for a in area], "smallest": area}.get(order)
    if key is None:  # failures first, then the rest, and what is told again last in each
        key = [2 * (not row["failure"]) + row["again"] for row in found]
    assert all(a <= b + 1e-2 for a, b in pairwise(key))


def test_charts_of_rows_in_a_database_are_those_of_a_page(one):
    edition, rows = one
    for each in edition.shelf.runs:
        if each.study in ("explain", "score"):
            document = read_document(each.run)
            made = [charts_of(each.study, each.run, document, how, None) for how in (
                edition.counted(each), counted(rows, each.study))]  # fmt: skip
            assert made[0] == made[1]
            assert made[0]


def test_other_detectors_are_compared_object_by_object(runs):
    edition = Edition(Shelf([runs / "explain", runs / "other"]))
    found = [row for row in several(edition, {}) if row["object"] is not None]
    outcomes = {(row["detector"], row["image"], row["object"]): row["outcome"] for row in found}
    detectors = {row["detector"] for row in found}
    assert len(detectors) == 2
    seen = Counter()
    for row in found:
        (other,) = detectors - {row["detector"]}
        expected = "find it" if outcomes[other, row["image"], row["object"]] == "found" else "miss it too"
        assert row["others"] == expected
        seen[row["outcome"], expected] += 1
    assert seen["missed", "find it"] > 0
    assert seen["found", "miss it too"] == seen["missed", "find it"]


def test_two_detectors_of_one_name_are_told_apart_by_their_folders(runs, tmp_path):
    for name in ("before", "after"):
        shutil.copytree(runs / "explain", tmp_path / name)
    assert {each.detector.rpartition(" ")[2] for each in Shelf([tmp_path]).runs} == {"(before)", "(after)"}


def test_a_run_that_grows_is_noticed(runs, tmp_path):
    whole = Edition(Shelf([runs / "explain"])).rows
    shutil.copytree(runs / "explain", tmp_path / "run")
    late = part_files(tmp_path / "run" / "parts")[4:]
    for part in late:
        part.rename(tmp_path / part.name)
    about = read_about(tmp_path / "run")
    write_about(tmp_path / "run", about | {"cases": None})
    store = Store(Shelf([tmp_path / "run"]))
    before = store.edition.rows
    assert 0 < before < whole
    assert store.look() == 1
    for part in late:
        (tmp_path / part.name).rename(part)
    write_about(tmp_path / "run", about)
    settled(store)
    assert (store.version, store.edition.rows) == (2, whole)
    assert store.shelf.runs[0].run.finished, "how many cases there are is known only now"


def settled(store):
    """Wait until the store has looked again and built what it has seen."""
    until = time.monotonic() + 60
    version = store.version
    while store.look() == version and time.monotonic() < until:
        time.sleep(0.05)


def test_a_run_without_rows_yet_and_a_damaged_one_are_no_obstacle(runs, tmp_path):
    for name in ("empty", "damaged"):
        shutil.copytree(runs / "explain", tmp_path / name)
    for part in part_files(tmp_path / "empty" / "parts"):
        part.unlink()
    part_files(tmp_path / "damaged" / "parts")[0].write_bytes(b"PAR1 no more")
    shelf = Shelf([tmp_path / "empty", tmp_path / "damaged", runs / "other"])
    assert len(shelf.runs) == 2
    assert "damaged" in shelf.problems[0]
    assert Edition(shelf).rows == Edition(Shelf([runs / "other"])).rows
    assert Edition(Shelf([tmp_path / "empty"])).total(Wanted({"label": ["chair"], "search": "x"})) == 0


@pytest.mark.parametrize(("text", "value"), [
    (None, None), ('{"a": 1.5}', {"a": 1.5}), ('{"a": NaN, "b": -Infinity}', {"a": None, "b": None}), ("{", None),
    ("[" * 100_000, None),
])  # fmt: skip
def test_evidence_of_a_stranger_is_json_or_nothing(text, value):
    assert _parsed(text) == value


@pytest.mark.parametrize("name", ["absent", "file", "bare"])
def test_what_is_no_run_is_a_sentence(tmp_path, name):
    (tmp_path / "file").write_text("")
    (tmp_path / "bare").mkdir()
    with pytest.raises(BadData, match=name):
        Shelf([tmp_path / name])


@pytest.mark.parametrize("text", [
    "[]", "{", "1", '{"nope": ["x"]}', '{"label": "chair"}', '{"label": [1]}', '{"failure": ["yes"]}',
    '{"object": [true]}',
    '{"object": [1e3]}',
    '{"wrong_at": "x"}', '{"wrong_at": NaN}', '{"scores": [0]}',
    '{"sort": "place; DROP TABLE page"}',
    '{"search": 5}', '{"label": [["x"]]}', '{"object": [99999999999999999999999]}', "[" * 5000,
    '{"label": [' + ",".join(['"x"'] * 300) + "]}", '{"search": "' + "x" * 30000 + '"}',
])  # fmt: skip
def test_a_filter_that_is_none_is_refused(text):
    with pytest.raises(BadSpec):
        Wanted.parse(text)

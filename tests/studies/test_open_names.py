"""Detectors whose classes nobody knows beforehand: words are found again in rows, whoever met them first."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from open_reader import Reader, decoded_words, drawn, written

import misdetect as md
from misdetect.engine.boundary import check_detections
from misdetect.engine.cache import encode
from misdetect.nouns.detections import Detections
from misdetect.nouns.labels import Joined, joining
from misdetect.nouns.open_names import OpenNames, is_word, names_in
from misdetect.said.errors import BadArray, DetectorFailed, LevelTooLow
from misdetect.studies.coco_results import coco_results
from misdetect.studies.replay import replay

SPEC = f"python:{Path(__file__).with_name('open_reader.py')}:Reader"
WORDS = st.text(st.characters(categories=["L", "N", "P", "Zs"], exclude_characters="\u00a0"), min_size=1, max_size=12)
WORDS = WORDS.filter(str.isprintable)


@given(WORDS, WORDS)
def test_a_number_is_of_one_word(one: str, other: str) -> None:
    names = OpenNames()
    assert names[names.index(one)] == one
    assert (names.index(one) == OpenNames().index(other)) == (one == other)
    assert is_word(np.array([names.index(one)])).all()


@pytest.mark.parametrize("word", ["", "two\nlines", "\x1b[2J", "a" * 1001, None, 7])
def test_what_is_no_word_is_refused(word: Any) -> None:
    with pytest.raises(BadArray, match="printable word"):
        OpenNames().index(word)


def test_as_a_list_they_are_empty() -> None:
    assert (list(OpenNames()), len(OpenNames())) == ([], 0)
    with pytest.raises(IndexError):
        OpenNames()[3]
    assert isinstance(names_in({"names": [], "open_names": True}), OpenNames)
    assert names_in({"names": ["a"]}) == ("a",)


@given(st.lists(WORDS, max_size=4))
def test_words_of_a_reader_become_labels(words: list[str]) -> None:
    boxes, scores = [[1, 2, 5, 6]] * len(words), [0.5] * len(words)
    told, _ = check_detections((boxes, scores, words), 20, 20, None)
    assert [OpenNames()[label] for label in told.labels] == words
    assert check_detections({"boxes": boxes, "scores": scores, "labels": words}, 20, 20, None)[0] == told
    assert check_detections(told, 20, 20, None)[0] == told  # numbers of words that were heard


def test_numbers_that_are_no_words_are_refused() -> None:
    with pytest.raises(DetectorFailed, match="words"):
        check_detections(([[1, 2, 5, 6]], [0.5], [3]), 20, 20, None)
    with pytest.raises(DetectorFailed, match="numbers"):  # words of a detector that lists its classes
        check_detections(([[1, 2, 5, 6]], [0.5], ["EXIT"]), 20, 20, 2)


def test_a_stored_answer_is_understood_where_its_words_were_never_heard() -> None:
    names = OpenNames()
    found = Detections([[1, 2, 5, 6]] * 2, [0.5, 0.5], [names.index("only here"), names.index("and there")])
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        assert fresh.submit(decoded_words, encode(found)).result() == ["only here", "and there"]


@given(st.lists(WORDS, unique=True, min_size=1, max_size=5), WORDS)
def test_data_is_joined_by_the_exact_text(words: list[str], other: str) -> None:
    assume(other not in words)
    names = OpenNames()
    joined = Joined.of(names, words, "", "")
    assert [names[label] for label in joined.to_detector] == words
    labels = np.array([names.index(word) for word in [*reversed(words), other]])
    assert joined.in_data(labels).tolist() == [*reversed(range(len(words))), -1]
    assert joining(names, words)["only_data"] == []


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("open") / "signs")


@pytest.fixture(scope="module")
def scanned(data: str, tmp_path_factory: pytest.TempPathFactory) -> md.Run:
    out = tmp_path_factory.mktemp("scan") / "run"
    return md.scan(SPEC, data, pairs=2, step=8, out=out, cache=False)


def rows_of(run: md.Run) -> list[dict[str, Any]]:
    return run.directory.query("SELECT * FROM rows ORDER BY case_index, row").to_pylist()


def test_a_scan_shows_words_that_are_lost_and_changed(scanned: md.Run) -> None:
    """Against the letters that the pasted object leaves, cell by cell."""
    seen = set()
    for row in rows_of(scanned):
        for thing in row["objects"]:
            assert thing["label"] in ("EXIT", "SALE")
            if thing["outcome"] == "renamed":
                assert set(thing["new_label"]) < set(thing["label"])
                seen.add("renamed")
            elif thing["coverage"] == 0:
                assert thing["outcome"] == "kept"
    assert "renamed" in seen
    assert scanned.document["joining"]["joined"] == 3
    assert scanned.directory.about["identity"]["detector"]["open_names"] is True


def test_workers_that_meet_other_words_first_write_the_same_rows(scanned: md.Run, data: str, tmp_path: Path) -> None:
    again = md.scan(SPEC, data, pairs=2, step=8, out=tmp_path / "run", cache=False, workers=2)
    assert rows_of(again) == rows_of(scanned)


def test_a_case_is_replayed_and_the_ledger_has_the_words(scanned: md.Run, data: str) -> None:
    case = next(row["case"] for row in rows_of(scanned) if any(o["outcome"] == "renamed" for o in row["objects"]))
    assert replay(scanned.directory, md.load_data(data), case, md.load_detector(SPEC))["reproduced"]
    became = set(md.ledger([scanned]).column("became").to_pylist()) - {None}
    assert became
    assert all(set(word) < set("EXIT") or set(word) < set("SALE") for word in became)


def test_pictures_of_a_scan_name_words(scanned: md.Run) -> None:
    assert [path.name for path in scanned.figures(1)][:1] == ["pair-00-maps.png"]


def test_detect_writes_what_the_data_has(tmp_path: Path) -> None:
    class Hasty(Reader):
        def read(self, image):
            boxes, scores, words = super().read(image)
            return [*boxes, [1, 1, 4, 4]], [*scores, 0.7], [*words, "exit"]

    signs = drawn()
    run = md.detect(Hasty(), signs, out=tmp_path / "run", cache=False)
    assert run.document["detections"] == 9
    names = dict(zip(signs.category_ids, signs.names, strict=True))
    told = [names[record["category_id"]] for record in coco_results(run.directory, signs)]
    assert told == ["EXIT", "SALE"] * 3  # "exit" is another word
    assert len(list(coco_results(run.directory, signs.renamed({})))) == 6


def test_explain_finds_no_word_missing(tmp_path: Path) -> None:
    run = md.explain(Reader(), drawn(), out=tmp_path / "run", cache=False)
    missed = {
        row["label"] for row in run.directory.query("SELECT label FROM rows WHERE mechanism IS NOT NULL").to_pylist()
    }
    assert missed == {"ball"}


@pytest.mark.parametrize("study", ["fuzz", "attack", "confusion", "verify"])
def test_studies_that_need_a_list_say_so(tmp_path: Path, study: str) -> None:
    with pytest.raises(LevelTooLow, match=r"known beforehand.*open: use scan"):
        getattr(md, study)(Reader(), drawn(), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.heavy
def test_a_real_reader_reads_another_word_far_from_an_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paper 1, Fig. 4. Against the reader asked by itself, as it comes, about a paste made here: no pixel of the line
    or near it is another, and yet it is read otherwise."""
    rapidocr = pytest.importorskip("rapidocr")
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples")
    import ocr

    rooms = md.load_data(list(ocr.notices(2)))
    images = {sample.id: sample for sample in rooms}
    run = md.scan(ocr.Reader(), rooms, pairs=2, step=170, control=False, out=tmp_path / "run", pictures=0, cache=False)
    seen = [(row, thing) for row in rows_of(run) for thing in row["objects"] if thing["score"] >= 0.6]
    for row, thing in seen:
        written = [rooms.names[label] for label in images[row["background"]].truth.labels]
        assert (thing["right"] is True) == (thing["label"] in written)
    renamed = [(row, thing) for row, thing in seen if thing["outcome"] == "renamed" and thing["new_score"] >= 0.6]
    far = [(row, thing) for row, thing in renamed if thing["distance"] > 60]
    assert far
    asked = rapidocr.RapidOCR()
    for row, thing in far[:3]:
        background, source = images[row["background"]], images[row["source"]]
        mask = source.truth.masks[source.truth.ids.tolist().index(row["annotation"])]
        ys, xs = np.nonzero(mask)
        edited = background.image.copy()
        edited[ys - ys.min() + row["y"], xs - xs.min() + row["x"]] = source.image[ys, xs]
        x0, y0, x1, y1 = (int(thing[side]) for side in ("x0", "y0", "x1", "y1"))
        near = slice(max(y0 - 40, 0), y1 + 40), slice(max(x0 - 40, 0), x1 + 40)
        assert (edited[near] == background.image[near]).all()
        before, after = (asked(image[:, :, ::-1].copy()).txts for image in (background.image, edited))
        assert thing["label"] in before
        assert thing["new_label"] in after
        assert thing["label"] not in after

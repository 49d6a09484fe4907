"""Which rows of a ledger a page has, in which order, and which of them are failures: on ledgers written by hand."""

from itertools import count
from types import SimpleNamespace

import pyarrow as pa
import pytest

from misdetect.engine.store import new_database
from misdetect.report import embedded
from misdetect.report.embedded import as_columns, counted, in_order, matches, page_rows, wrong_at
from misdetect.studies.attack import evidence as attack_evidence
from misdetect.studies.attack.settings import AttackSettings
from misdetect.studies.kinds import REPORTED
from misdetect.studies.ledger import COLUMNS

NUMBER = count()
TYPES = {"VARCHAR": pa.string(), "BIGINT": pa.int64(), "BOOLEAN": pa.bool_(), "DOUBLE": pa.float64()}
PAIRS = pa.table({"pair": [12, 1], "name": ["vase", "bed"]})


def row(study, outcome, case=None, **more):
    """A row of a ledger: what is not said is harmful, of one image and class, on a box of 10 by 10."""
    insertion = study == "fuzz"
    known = {
        "study": study, "outcome": outcome, "case": case or f"c{next(NUMBER)}", "image": "i0", "label": "cup",
        "condition": "insertion" if insertion else "clean", "control": False, "harm": "harmful",
        "x0": 0.0, "y0": 0.0, "x1": 10.0, "y1": 10.0, "evidence": '{"inserted": "bowl"}' if insertion else None,
        "replay": f"replay {case}", "score": 0.5 if outcome == "extra" else None,
    }  # fmt: skip
    return dict.fromkeys(COLUMNS) | known | more


@pytest.fixture
def page_of(monkeypatch):
    """``page_of(rows, most)``: the rows that a page has of these, a run per study, and how many it leaves out."""

    def made(rows, most=100):
        schema = pa.schema([(name, TYPES[kind]) for name, kind in COLUMNS.items()])

        def query(runs, sql):
            ledger = pa.Table.from_pylist([each for each in rows if each["study"] == runs[0].study], schema=schema)
            with new_database() as database:
                return database.register("ledger", ledger).sql(sql).to_arrow_table()

        monkeypatch.setattr(embedded, "query", query)
        monkeypatch.setattr(embedded, "ledger", lambda runs: query(runs, "FROM ledger"))
        monkeypatch.setattr(embedded, "MOST", most)
        studies = dict.fromkeys(r["study"] for r in rows)
        return page_rows({study: SimpleNamespace(study=study, query=lambda sql: PAIRS) for study in studies})

    return made


def test_a_page_has_clean_images_and_what_changes_on_edited_ones(page_of):
    kept = [
        row("explain", "found", harm="harmless"), row("explain", "missed", object=1), row("score", "extra"),
        row("fuzz", "missed"), row("fuzz", "extra"), row("fuzz", "moved", flicker=True),
    ]  # fmt: skip
    left = [
        row("explain", "ignored"), row("explain", None), row("explain", "missed", x0=None),
        row("explain", "missed", condition="potential"), row("fuzz", "found"), row("fuzz", "missed", control=True),
        row("fuzz", "missed", condition="clean"),
    ]  # fmt: skip
    rows, left_out = page_of([each for pair in zip(kept, left, strict=False) for each in pair] + left[len(kept) :])
    assert {each["case"] for each in rows} == {each["case"] for each in kept}
    assert left_out == 0
    shown = {each["case"]: each for each in rows}
    assert [shown[each["case"]]["by"] for each in kept] == [None] * 3 + ["bowl"] * 3
    assert [shown[each["case"]]["scene"] for each in kept] == [
        *["clean/i0"] * 3, *(f"fuzz/{each['case']}" for each in kept[3:])
    ]  # fmt: skip


def test_scans_are_told_by_what_was_transplanted_and_attacks_by_name_without_the_ladder(page_of, monkeypatch):
    monkeypatch.setattr(attack_evidence, "settings_of", lambda run: AttackSettings())
    rows, _ = page_of(
        [
            row("scan", "missed", "12/5", condition="object", evidence='{"x": 8, "y": 16}'),
            row("scan", "missed", "1/6", condition="control", control=True, evidence='{"x": 0, "y": 4}'),
            row("attack", "missed", "a", condition="attack", evidence='{"attack": "cls"}'),
            row("attack", "missed", "b", condition="attack", evidence='{"attack": "cls at 3"}'),
        ]
    )
    assert {each["case"]: (each["by"], each["scene"]) for each in rows} == {
        "12/5": ("vase", "scan/12/8,16"), "1/6": ("bed", "scan/1/0,4/control"), "a": ("cls", "attack/i0/cls")
    }  # fmt: skip


def test_what_harms_and_is_neither_flicker_nor_the_controls_is_a_failure(page_of):
    failing = [
        row("explain", "missed", object=1), row("score", "extra", score=REPORTED),
        row("score", "missed", object=2, score=0.1), row("fuzz", "missed", flicker=False, attributable=True),
        row("fuzz", "extra", score=0.1),
    ]  # fmt: skip
    fine = [
        row("explain", "found", object=3), row("explain", "missed", object=4, harm="unknown"),
        row("score", "extra", score=REPORTED - 0.01), row("fuzz", "missed", flicker=True),
        row("fuzz", "missed", attributable=False), row("fuzz", "missed", harm="improvement"),
    ]  # fmt: skip
    rows, _ = page_of(failing + fine)
    assert {each["case"] for each in rows if each["failure"]} == {each["case"] for each in failing}
    assert len(rows) == len(failing + fine)


def test_a_failure_that_two_studies_tell_of_is_told_again_by_the_later(page_of):
    """One object, or where there is none one place on the pixel grid and class of one image."""
    box = {"x0": 20.4, "y0": 20.4, "x1": 40.4, "y1": 40.4}
    rows, _ = page_of(
        [
            row("confusion", "extra", "same place", **box), row("score", "extra", "first", **box | {"x0": 20.1}),
            row("confusion", "missed", "same object", object=7), row("explain", "missed", "object", object=7),
            row("confusion", "extra", "other class", label="bowl", **box), row("score", "missed", "zero", object=0),
            row("confusion", "extra", "other image", image="i1", **box), row("confusion", "missed", "0", object=0),
            row("score", "found", "no failure", object=7), row("fuzz", "missed", "edited", object=7),
        ]
    )  # fmt: skip
    assert {each["case"] for each in rows if each["again"]} == {"same place", "same object", "0"}
    assert {each["case"] for each in rows[-4:]} == {"same place", "same object", "0", "no failure"}
    assert not rows[-1]["failure"], "what is told again is still before what is no failure"


@pytest.mark.parametrize(
    ("x1", "size"), [(31.9, "small"), (32.0, "medium"), (95.9, "medium"), (96.0, "large"), (-32.0, "small")]
)
def test_sizes_are_cocos(page_of, x1, size):
    (found,), _ = page_of([row("explain", "missed", object=1, x1=x1, y1=abs(x1))])
    assert found["size"] == size


def test_the_worst_of_each_kind_come_first_in_turns(page_of):
    rows, _ = page_of(
        [
            row("explain", "missed", "small", object=1, x0=100.0, x1=110.0, y0=100.0, y1=110.0),
            row("explain", "missed", "large", object=2, y1=40.0),
            row("explain", "missed", "middle", object=3, x1=20.0, y1=15.0),
            row("score", "extra", "sure", score=0.9), row("score", "extra", "unsure", score=0.4, x0=5.0, x1=90.0),
            row("fuzz", "missed", "was unsure", score_before=0.5, x1=80.0),
            row("fuzz", "missed", "was sure", score_before=0.75),
            row("explain", "found", "right", object=4, harm="harmless"),
        ]
    )  # fmt: skip
    names = [each["case"] for each in rows]
    assert [set(names[:3]), set(names[3:6]), *names[6:]] == [
        {"large", "sure", "was sure"}, {"middle", "unsure", "was unsure"}, "small", "right"
    ]  # fmt: skip
    assert [each["case"] for each in in_order(rows[::-1])][6:] == names[6:]


def test_what_does_not_fit_is_what_matters_least(page_of):
    given = [
        row("score", "found", "right, surest", object=1, score=0.95, harm="harmless"),
        row("score", "missed", "nothing", object=2, harm="harmless"),
        row("score", "extra", "faint", score=0.2), row("score", "extra", "failure", score=0.5),
        row("score", "missed", "lost", object=3), row("score", "extra", "fainter", score=0.1),
        row("score", "missed", "seen faintly", object=4, score=0.2),
    ]  # fmt: skip
    order = ["seen faintly", "lost", "failure", "nothing", "right, surest", "faint", "fainter"]
    for most in range(1, 8):
        rows, left_out = page_of(given, most)
        assert {each["case"] for each in rows} == set(order[:most])
        assert left_out == 7 - most


def test_of_a_score_the_image_is_asked_again(page_of):
    detected = row("detect", None, "d", replay="ask i0")
    rows, _ = page_of([detected, row("score", "missed", "s", object=1), row("explain", "missed", "e", object=2)])
    assert {each["case"]: each["replay"] for each in rows} == {"s": "ask i0", "e": "replay e"}


def test_columns_of_a_page_are_the_rows_again():
    rows = [dict.fromkeys(embedded.COLUMNS) | each for each in (
        {"study": "score", "label": "cup", "x0": 1.23456, "object": 3, "failure": True},
        {"study": "score", "label": None, "x0": None, "object": None, "failure": False},
        {"study": "scan", "label": "bowl", "x0": 2.0, "object": 0, "failure": False},
    )]  # fmt: skip
    found = as_columns(rows)
    assert list(found) == list(embedded.COLUMNS)
    assert found["study"] == {"words": ["score", "scan"], "codes": [0, 0, 1]}
    assert found["label"] == {"words": ["cup", "bowl"], "codes": [0, -1, 1]}
    assert (found["x0"], found["object"], found["failure"]) == ([1.2346, None, 2.0], [3, None, 0], [True, False, False])


def test_rows_are_counted_by_what_they_share_and_scores_on_four_digits():
    rows = [{"study": "score", "score": score, "label": label} for score, label in (
        (0.50001, "cup"), (0.49999, "cup"), (None, "cup"), (0.5, "bowl"), (0.5001, "cup")
    )] + [{"study": "fuzz", "score": 0.5, "label": "cup"}]  # fmt: skip
    count_of = counted(rows, "score")
    assert dict(count_of("label", "score")) == {("cup", 0.5): 2, ("cup", None): 1, ("bowl", 0.5): 1, ("cup", 0.5001): 1}
    assert dict(count_of("label")) == {("cup",): 4, ("bowl",): 1}


@pytest.mark.parametrize(
    ("outcome", "score", "wrong"),
    [("extra", 0.5, True), ("extra", 0.6, True), ("extra", 0.4, False), ("found", 0.5, False), ("found", 0.4, True),
     ("missed", None, True), ("extra", None, False)],
)  # fmt: skip
def test_an_error_at_a_threshold(outcome, score, wrong):
    each = {"outcome": outcome, "score": score, "label": "cup"}
    assert wrong_at(each, 0.5) is wrong
    assert matches(each, {"wrong_at": 0.5, "label": ["cup", "bowl"]}) is wrong
    assert not matches(each, {"wrong_at": 0.5, "label": ["bowl"]})

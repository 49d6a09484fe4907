"""Repaired or not: every object and every wrong detection has one fate, and flicker is none."""

from collections import Counter

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.studies.conditions import SCHEMA
from misdetect.suites.harden.repair import Rules, Unit, repaired, units

RULES = Rules(loc=0.5, score=0.3, flicker=0.05)


class Rows:
    """As much of a run as is read: rows that can be queried."""

    def __init__(self, rows: list[dict]) -> None:
        schema = pa.schema([("case", pa.string()), ("case_index", pa.int64()), ("row", pa.int64()), *SCHEMA])
        numbered = [{"row": i, "case_index": 0, **row} for i, row in enumerate(rows)]
        self.table = pa.Table.from_pylist(numbered, schema=schema)

    def query(self, sql: str) -> pa.Table:
        with duckdb.connect() as database:
            database.register("rows", self.table)
            return database.sql(sql).to_arrow_table()


def thing(image: str, number: int, score: float, case: str = "clean", **more) -> dict:
    own = {"case": f"{image}/{case}", "image": image, "condition": case.partition("-")[0], "kind": "object"}
    place = {"x0": 10.0 * number, "y0": 0.0, "x1": 10.0 * number + 8, "y1": 8.0}
    return own | {"id": number, "label": "cup", "score": score, "found": score >= RULES.score} | place | more


def detection(image: str, number: float, score: float, case: str = "clean", label: str = "cup") -> dict:
    found = thing(image, 0, score, case)
    place = {"x0": 10.0 * number, "x1": 10.0 * number + 8}
    return found | place | {"kind": "detection", "variant": "vanilla", "id": None, "found": None, "label": label}


def fates(before: list[dict], after: list[dict], *conditions: str) -> Counter:
    found = units(Rows(before), Rows(after), conditions or ("clean",), RULES)
    return Counter(unit.fate(RULES.flicker) for unit in found)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("before", "after", "fate"),
    [
        (0.1, 0.5, "fixed"),
        (0.1, 0.34, "still"),  # found, but by a hair
        (0.1, 0.2, "still"),
        (0.26, 0.9, "shaky"),  # lost by a hair before
        (0.32, 0.0, "shaky"),  # found by a hair before
        (0.36, 0.29, "broken"),
        (0.9, 0.31, "fine"),
        (0.9, 0.9, "fine"),
    ],
)
def test_the_fate_of_one_object(before: float, after: float, fate: str) -> None:
    assert fates([thing("a", 1, before)], [thing("a", 1, after)]) == {fate: 1}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("before", "after", "fate"),
    [
        (0.9, None, "fixed"),
        (0.9, 0.26, "still"),  # fainter is not gone
        (0.9, 0.4, "still"),
        (None, 0.3, "broken"),
        (0.27, 0.9, "shaky"),
        (None, 0.27, "fine"),
    ],
)
def test_the_fate_of_a_wrong_detection(before: float | None, after: float | None, fate: str) -> None:
    sides = [[thing("a", 9, 0.9)] + ([] if s is None else [detection("a", 2, s)]) for s in (before, after)]
    assert fates(*sides) == Counter(["fine"]) + Counter([fate])


def test_a_right_detection_is_no_wrong_one() -> None:
    rows = [thing("a", 2, 0.9), detection("a", 2, 0.9), detection("a", 2.1, 0.8)]  # one of them twice
    assert fates([thing("a", 2, 0.9)], rows) == {"fine": 1}
    other = [thing("a", 2, 0.9), detection("a", 2, 0.9, label="lamp")]
    assert fates([thing("a", 2, 0.9)], other) == {"fine": 1, "broken": 1}


def test_what_the_annotations_leave_open_is_no_wrong_detection() -> None:
    absent = thing("a", 2, 0.0, kind="ignored", reason="absent", found=None)
    crowd = thing("a", 5, 0.0, kind="ignored", reason="crowd", found=None, x0=0.0, x1=500.0, y1=100.0)
    for open_ in (absent, crowd):
        assert fates([open_], [open_, detection("a", 2, 0.9)]) == {}


def test_an_object_that_many_edits_lose_is_one_and_fixed_only_if_all_find_it() -> None:
    cases = [f"insertion-{i}" for i in range(3)]
    before = [thing("a", 1, score, case) for score, case in zip((0.1, 0.0, 0.9), cases, strict=True)]

    def after(*scores: float) -> Counter:
        return fates(before, [thing("a", 1, s, c) for s, c in zip(scores, cases, strict=True)], "insertion")

    assert after(0.9, 0.9, 0.9) == {"fixed": 1}
    assert after(0.9, 0.2, 0.9) == {"still": 1}
    assert after(0.9, 0.9, 0.1) == {"still": 1}  # it still fails, elsewhere


def test_a_wrong_detection_that_many_edits_show_is_one() -> None:
    before = [detection("a", 2 + i / 10, 0.9, f"insertion-{i}") for i in range(3)]
    blank = [thing("a", 9, 0.9, f"insertion-{i}") for i in range(3)]
    assert fates([*before, *blank], blank, "insertion") == {"fixed": 1, "fine": 1}


def test_conditions_and_cases_that_only_one_run_has_are_left_out() -> None:
    before = [thing("a", 1, 0.1), thing("a", 1, 0.1, "noise"), thing("b", 1, 0.1)]
    assert fates(before, [thing("a", 1, 0.9), thing("a", 1, 0.9, "noise")]) == {"fixed": 1}


def test_counts_by_type_and_mechanism_and_shares() -> None:
    before = [
        thing("a", 1, 0.0, mechanism="proposal"),
        thing("a", 2, 0.0, mechanism="background", became="lamp"),
        thing("b", 1, 0.9),
        thing("b", 2, 0.9),
    ]
    after = [
        thing("a", 1, 0.9),
        thing("a", 2, 0.1, mechanism="interclass", became="lamp"),
        thing("b", 1, 0.1, mechanism="discarded"),
        thing("b", 2, 0.9),
        detection("b", 7, 0.8),
    ]
    found = units(Rows(before), Rows(after), ("clean",), RULES)
    told = repaired(found, RULES, 0.9, 0)
    assert told["fixed"] == {"count": 1, "by_type": {"missed": 1}, "by_mechanism": {"proposal": 1}}
    assert told["still"] == {"count": 1, "by_type": {"renamed": 1}, "by_mechanism": {"background": 1}}
    assert told["broken"] == {"count": 2, "by_type": {"extra": 1, "missed": 1}, "by_mechanism": {"discarded": 1}}
    assert (told["failed"], told["fine"], told["shaky"]) == (2, 1, 0)
    assert told["repaired"] == 0.5
    assert told["broke"] == pytest.approx(2 / 3)
    assert told["net"] == pytest.approx(-1 / 5)
    low, high = told["intervals"]["net"]
    assert low <= told["net"] <= high


def test_nothing_to_compare_has_no_shares() -> None:
    told = repaired([], RULES, 0.9, 0)
    assert (told["repaired"], told["broke"], told["net"], told["failed"]) == (None, None, None, 0)


def naive(pairs: list[tuple[float, float]], flicker: float) -> str:
    """Written from the definition, one edit at a time."""
    was_lost = was_shaky = newly = False
    all_found = True
    for before, after in pairs:
        if before < -flicker:
            was_lost = True
            all_found = all_found and after >= flicker
        elif before < flicker:
            was_shaky = True
        elif after < 0:
            newly = True
    if was_lost and all_found and not newly:
        return "fixed"
    if was_lost:
        return "still"
    if newly:
        return "broken"
    return "shaky" if was_shaky else "fine"


margin = st.floats(-1, 1).map(lambda x: round(x, 3))


@given(st.lists(st.tuples(margin, margin), min_size=1, max_size=5))
def test_fates_agree_with_a_naive_reading(pairs: list[tuple[float, float]]) -> None:
    before, after = (tuple(pair[i] for pair in pairs) for i in (0, 1))
    assert Unit("a", "clean", "missed", None, before, after).fate(0.05) == naive(pairs, 0.05)


@given(st.lists(st.tuples(st.sampled_from("abc"), margin, margin), min_size=1, max_size=30))
def test_every_unit_is_counted_once(given_: list[tuple[str, float, float]]) -> None:
    found = [Unit(image, "clean", "missed", None, (before,), (after,)) for image, before, after in given_]
    told = repaired(found, RULES, 0.9, 0)
    assert told["failed"] + told["broken"]["count"] + told["fine"] + told["shaky"] == len(found)
    if told["repaired"] is not None:
        assert np.isclose(told["repaired"] * told["failed"], told["fixed"]["count"])

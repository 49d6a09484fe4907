"""The papers' tables: every number of a document in its row and column, in the paper's unit."""

import pytest

from misdetect.report.latex import latex
from misdetect.said.errors import BadData
from misdetect.studies.kinds import kind_of

WHO = {"detector": "zoo:x", "data": "rooms:val"}
NAME = "zoo:x on rooms:val"


def rows(study, *documents):
    """The head and the rows of each table, as cells."""
    return [[list(table.head), *map(list, table.rows)] for table in kind_of(study).tables(documents)]


def test_transplants_have_a_table_for_each_kind_of_position_with_the_control_below():
    keys = ("affected", "class_agnostic", "occlusion_20", "no_occlusion")
    rates = {key: {"0.5": 10.0 * i + 1.25, "0.9": None} for i, key in enumerate(keys)}
    ends = {key: {"0.5": [10.0 * i, 10.0 * i + 2]} for i, key in enumerate(keys)}
    null = {key: {"0.5": 0.5, "0.9": 1.0} for key in keys}
    known = {key: {"0.5": None, "0.9": [0.25, 2.0]} for key in keys}
    document = {**WHO, **rates, "intervals": ends | {"null_control": known}, "null_control": null}
    bare = {**WHO, "detector": None, "intervals": {key: {} for key in keys}, "null_control": None}
    bare |= {key: {"0.5": each["0.5"]} for key, each in rates.items()}  # it was asked for less
    assert rows("scan", document, bare) == [
        [
            ["", "0.5", "0.9"],
            [NAME, f"{10 * i + 1.25:.1f} [{10 * i}.0, {10 * i + 2}.0]", "--"],
            ["  null control", "0.5", "1.0 [0.2, 2.0]"],
            ["a detector on rooms:val", f"{10 * i + 1.25:.1f}", "--"],
        ]
        for i in range(4)
    ]


def test_parts_are_verified_with_and_without_localisation():
    none = {"present_recall": None, "missing_recall": None, "f_vv": None}
    part = {"present_recall": 0.9375, "missing_recall": 0.125, "f_vv": 0.75,
            "intervals": none | {"f_vv": [0.5, 0.875]}}  # fmt: skip
    other = {"present_recall": 1.0, "missing_recall": None, "f_vv": 0.0625, "intervals": none}
    document = {**WHO, "with_localisation": part, "without_localisation": other}
    assert rows("verify", document) == [
        [
            ["", "present recall", "missing recall", "F_vv"],
            [f"{NAME}, with localisation", "0.938", "0.125", "0.750 [0.500, 0.875]"],
            [f"{NAME}, without localisation", "1.000", "--", "0.062"],
        ]
    ]


def test_mechanisms_are_percents_of_the_misses_and_the_rate_of_the_objects():
    first = {**WHO, "missed": 8, "miss_rate": 0.125, "mechanisms": {"proposal": 6, "background": 2},
             "intervals": {"miss_rate": [0.0625, 0.25], "shares": {"proposal": [0.5, 1.0]}}}  # fmt: skip
    second = {**WHO, "missed": 4, "miss_rate": 0.5, "mechanisms": {"unknown": 4},
              "intervals": {"miss_rate": None, "shares": None}}  # fmt: skip
    none = {**WHO, "missed": 0, "miss_rate": None, "mechanisms": {}, "intervals": {"miss_rate": None, "shares": None}}
    assert rows("explain", first, second, none) == [
        [
            ["", "FNR", "proposal", "background", "unknown"],
            [NAME, "12.5 [6.2, 25.0]", "75.0 [50.0, 100.0]", "25.0", "0.0"],
            [NAME, "50.0", "0.0", "0.0", "100.0"],
            [NAME, "--", "--", "--", "--"],
        ]
    ]


def test_insertions_fill_four_tables():
    first = {"synthetic_images": 40, "detected_objects": 31, "images_causing_failures": 5,
             "share_causing_failures": 0.125, "usd": 1.256}  # fmt: skip
    tables = {"1": first, "3": {"inserted": 4, "relocated": 3, "relocated_unique": 1},
              "4": {"inserted": 62.55, "relocated": None}}  # fmt: skip
    document = {**WHO, "tables": tables, "attributable": 7, "harm": {"harmful": 6}, "harmful_per_1000": 15.25,
                "intervals": {"harmful_per_1000": [2.0, 30.5]}}  # fmt: skip
    free = document | {"tables": tables | {"1": first | {"usd": None, "share_causing_failures": None}}}
    overview, breakdown, naturalness, caused = rows("fuzz", document, free)
    assert overview[1:] == [[NAME, "40", "31", "5", "12.5", "1.26"], [NAME, "40", "31", "5", "--", "--"]]
    assert overview[0] == [
        "", "synthetic images", "detected objects", "images causing failures", "percent", "USD"
    ]  # fmt: skip
    assert breakdown[:2] == [["", "inserted object", "relocated object", "unique of these"], [NAME, "4", "3", "1"]]
    assert naturalness[:2] == [["", "inserted object", "relocated object"], [NAME, "62.5", "--"]]
    assert caused[:2] == [
        ["", "attributable", "harmful", "harmful per 1,000 queries"], [NAME, "7", "6", "15.2 [2.0, 30.5]"]
    ]  # fmt: skip


def test_attacks_are_rows_below_the_clean_images():
    clean = {"AP": 0.5, "AP50": 0.75, "success": None, "intervals": {}}
    attack = {"AP": 0.125, "AP50": 0.25, "success": 0.625, "intervals": {"AP": [0.0625, 0.25], "success": [0.5, 0.75]}}
    document = {**WHO, "study": "attack", "clean": clean, "attacks": {"cls": attack},
                "settings": {"eps": 8.0, "steps": 20}}  # fmt: skip
    assert rows("attack", document) == [
        [
            ["attack", "AP", "AP50", "objects lost, percent"],
            ["clean", "0.500", "0.750", "--"],
            ["cls", "0.125 [0.062, 0.250]", "0.250", "62.5 [50.0, 75.0]"],
        ]
    ]
    text = latex([document])
    assert r"\caption{zoo:x on rooms:val: AP under attack, eps 8 of 255, 20 steps.}" in text
    assert r"\begin{tabular}{lrrr}" in text
    assert r"cls & 0.125 [0.062, 0.250] & 0.250 & 62.5 [50.0, 75.0] \\" in text


def test_scores_are_cocos_numbers_and_tides_errors():
    document = {**WHO, "ap": {"AP": 0.5, "APs": None}, "tide": {"Cls": 1.255, "Loc": 12.0}}
    assert rows("score", document, document | {"ap": {"AP": 0.25}}) == [
        [["", "AP", "APs"], [NAME, "0.500", "--"], [NAME, "0.250", "--"]],
        [["", "Cls", "Loc"], [NAME, "1.25", "12.00"], [NAME, "1.25", "12.00"]],
    ]


def test_a_study_without_a_table_is_refused():
    with pytest.raises(BadData, match="no table that a run of detect fills; those of scan, verify"):
        latex([{"study": "detect"}])

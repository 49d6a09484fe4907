"""The glossary explains what people meet, in one sentence each; and no word of ours is still called as it was."""

import re

import pytest

from misdetect.metrics.diagnosis import REASONS
from misdetect.metrics.mechanisms import MECHANISMS
from misdetect.nouns.protocols import LEVELS
from misdetect.said.glossary import COLUMNS, KEYS, SETTINGS, VALUES, WORDS, told_of_option, told_of_query, used
from misdetect.studies.ledger import OUTCOMES


def test_every_gloss_is_one_short_sentence():
    for word, gloss in WORDS.items():
        assert gloss.endswith("."), word
        assert len(gloss) < 130, word
        assert not re.search(r"[.] [A-Z]", gloss), f"{word}: one sentence"


def test_what_a_newcomer_meets_is_explained():
    met = {*MECHANISMS, *(name for name, _ in LEVELS), *OUTCOMES} - {"found", "ignored"}
    met |= {
        "detection",
        "object",
        "ground truth",
        "IoU",
        "AP",
        "miss",
        "ghost",
        "control",
        "adaptive",
        "S",
        "harm",
        "F_vv",
    }
    assert met | {"DCM", "R_idx", "R_all", "run", "case", "ledger", "document", "gate"} <= set(WORDS)


def test_words_are_found_where_they_stand_alone():
    assert set(used("3 ghosts; IoU 0.5")) == {"ghost", "IoU"}
    assert not used("ghostly Mismatched maps")
    assert "S" not in used("SSD")


def test_nothing_of_ours_has_an_old_name():
    old = {*KEYS, *SETTINGS, *COLUMNS}
    assert not old & {*KEYS.values(), *SETTINGS.values(), *COLUMNS.values(), *MECHANISMS, *REASONS}
    assert not old & set(WORDS)
    assert set(VALUES["mechanism"].values()) <= set(MECHANISMS)


@pytest.mark.parametrize(
    ("option", "new"), [("--null", "--control"), ("--no-null", "--no-control"), ("--null=true", "--control")]
)
def test_an_old_option_is_told_its_name(run, option, new):
    code, _, err = run("scan", "--detector", "zoo:ssd", "--data", "rooms:val", option)
    assert code == 2
    assert err.startswith(f"misdetect: {option.partition('=')[0]!r} is called {new!r} since")
    assert told_of_option("--nulls") is None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT null FROM ledger",
        "SELECT control FROM ledger WHERE label = 'calibration'",
        "SELECT mechanism FROM ledger WHERE mechanism = 'discarded' AND object IS NOT NULL",
    ],
)
def test_a_query_that_means_something_else_is_left_alone(sql):
    assert told_of_query(sql) is None


def test_words_that_are_not_expected_are_told_in_a_sentence(run):
    code, _, err = run("data", "rooms:val,count=1", "surplus", "two words")
    assert code == 2
    assert err.startswith("misdetect: misdetect data does not expect surplus 'two words' here; ")

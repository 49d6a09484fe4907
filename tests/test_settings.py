"""Settings: one definition for Python, command line, run.json and docs; wrong values are one sentence."""

from dataclasses import dataclass
from typing import Annotated, Literal

import pytest

from misdetect.cli.options import options
from misdetect.nouns.settings import RUNNING, VIEW, Count, Heading, Range, Settings, Share, settings_of
from misdetect.said.errors import BadSpec
from misdetect.studies.kinds import kind_of, names


@dataclass(frozen=True, kw_only=True)
class Toy(Settings):
    """A toy."""

    score: Annotated[Share, Heading("Rules")] = 0.5
    """What counts
    as a detection."""
    way: Literal["one", "two"] = "one"
    """How."""
    most: Count | None = None
    """How many."""
    taus: tuple[float, ...] = (0.3, 0.5)
    """Where."""
    pictures: Annotated[int, RUNNING, Range(0)] = 3
    """Drawn."""
    confidence: Annotated[float, VIEW, Range(0.01, 0.999)] = 0.9
    """Of intervals."""


@dataclass(frozen=True, kw_only=True)
class Derived(Toy):
    """More of it."""

    more: bool = False
    """And more."""


def test_a_setting_is_its_field():
    score, way, most, taus, pictures, _ = settings_of(Toy)
    assert (score.help, score.heading, score.default) == ("What counts as a detection.", "Rules", 0.5)
    assert (score.range.low, score.range.high, most.range.low) == (0, 1, 1)
    assert (way.choices, way.option) == (("one", "two"), "--way")
    assert [s.decides for s in (score, pictures, settings_of(Toy)[-1])] == ["rows", "running", "view"]
    assert taus.type == tuple[float, ...]
    assert [s.name for s in settings_of(Derived)] == [s.name for s in settings_of(Toy)] + ["more"]
    assert settings_of(Derived)[0].help == score.help


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"score": 1.5}, "score should be from 0 to 1. Got 1.5."),
        ({"score": float("nan")}, "score should be from 0 to 1"),
        ({"score": "high"}, "score should be a number. Got 'high'."),
        ({"score": None}, "score should be a number"),
        ({"score": True}, "score should be a number"),
        ({"way": "three"}, "way should be one or two. Got 'three'."),
        ({"most": 0}, "most should be at least 1. Got 0."),
        ({"most": 2.5}, "most should be a whole number"),
        ({"taus": ("a",)}, "taus should be numbers"),
        ({"confidence": 90}, "confidence should be from 0.01 to 0.999"),
    ],
)
def test_a_wrong_value_is_one_sentence(wrong, says):
    with pytest.raises(BadSpec) as error:
        Toy(**wrong)
    assert says in str(error.value)


def test_documents_round_trip_and_are_divided_by_what_they_decide():
    toy = Toy(score=0.25, most=4, taus=(0.1,), confidence=0.5)
    rows, view = toy.document(), toy.document("view")
    assert rows == {"score": 0.25, "way": "one", "most": 4, "taus": [0.1]}
    assert view == {"confidence": 0.5}
    assert Toy.of({**rows, **view, "of another version": 1}) == toy


def test_options_say_what_settings_say():
    found = {option.name: option for option in options(Toy)}
    assert list(found) == [s.name for s in settings_of(Toy)]
    assert found["taus"].default == "0.3,0.5"


@pytest.mark.parametrize("given", ["0.1, 1", [0.1, 1], (0.1, 1)])
def test_several_values_are_a_list_a_tuple_or_a_word_with_commas(given):
    assert Toy(taus=given).taus == (0.1, 1)
    assert Derived.of({"taus": given}).taus == (0.1, 1)


def test_a_number_of_more_digits_than_python_reads_is_infinite():
    assert Toy(taus="9" * 5_000).taus == (float("inf"),)


@pytest.mark.parametrize("given", ["a", "0.1,a", ["a"], [[0.1]], 0.1])
def test_what_is_no_list_of_numbers_is_refused(given):
    with pytest.raises(BadSpec, match="taus should be numbers"):
        Toy(taus=given)


@pytest.mark.parametrize("name", [name for name in names() if name != "training"])  # a recipe has no options
def test_every_setting_of_every_study_is_explained_and_grouped(name):
    for setting in settings_of(kind_of(name).settings):
        assert setting.help.endswith("."), f"{name}: {setting.name} says what it is"
        assert setting.heading or setting.decides == "python", f"{name}: {setting.name} has a place in --help"
        setting.check(setting.default)

"""The cause of a hallucination, case by case: what was taken away by the edit that ends it with the largest loss."""

import pytest

from misdetect.metrics.causes import cause_of

KEEPS = {"covered": 0.8, "moved": 0.8, "patched": 0.8, "control": 0.8}


@pytest.mark.parametrize(
    ("after", "stayed", "expected"),
    [
        ({}, None, ("none", "steady")),
        ({"covered": 0.1}, None, ("context", "gone")),
        ({"patched": 0.0}, 0.0, ("appearance", "gone")),
        ({"moved": 0.2}, 0.1, ("position", "gone")),
        ({"moved": 0.0}, 0.9, ("position", "stays")),
        ({"covered": 0.3, "patched": 0.1}, None, ("appearance", "gone")),
        ({"covered": 0.0, "patched": 0.1, "moved": 0.2}, None, ("context", "gone")),
        ({"covered": 0.0, "patched": 0.0, "moved": 0.0}, None, ("position", "gone")),
        ({"covered": 0.0, "control": 0.2}, None, ("none", "fragile")),
        ({"covered": 0.49, "control": None}, None, ("context", "gone")),
        ({"covered": None, "patched": None, "moved": None}, None, ("none", "untested")),
        ({"patched": None}, None, ("none", "untested")),
        ({"patched": None, "covered": 0.1}, None, ("context", "gone")),
        ({"flipped": 0.0}, None, ("none", "steady")),
    ],
)
def test_what_it_hangs_on(after, stayed, expected):
    assert cause_of(0.8, KEEPS | after, stayed, 0.5) == expected


def test_the_threshold_is_what_ends_it():
    assert cause_of(0.8, KEEPS | {"covered": 0.5}, None, 0.5) == ("none", "steady")
    assert cause_of(0.8, KEEPS | {"covered": 0.5}, None, 0.6)[0] == "context"

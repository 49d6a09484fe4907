"""How numbers are written: what is not known is a dash, and an interval stands behind its value."""

from misdetect.drawing.words import between, number, percent, ranged, within


def test_what_is_not_known_is_a_dash():
    assert {number(None), percent(None), ranged(None, None), ranged(None, (0, 1))} == {"–"}


def test_nothing_is_said_of_an_interval_that_there_is_not():
    assert (between(None), within(None), ranged(12.34, None)) == ("", "", "12.3")


def test_a_share_is_in_percent_and_so_is_its_interval_where_asked():
    assert percent(0.1234) + within((0.09, 0.151), 0, 100) == "12.3 % (9 to 15)"
    assert ranged(0.1234, (0.09, 0.151), 100) == "12.3 9..15"
    assert (number(0.1234), percent(0.1234, 0), between((-0.5, 0.25), 3)) == ("0.123", "12 %", "-0.500..0.250")

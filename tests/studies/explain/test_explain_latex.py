"""Paper 3's Tables I and II: every number of a document in its row and column."""

from written_tables import NAME, WHO, rows


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

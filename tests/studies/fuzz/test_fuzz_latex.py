"""Paper 4's Tables 1, 3 and 4: every number of a document in its row and column."""

from written_tables import NAME, WHO, rows


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

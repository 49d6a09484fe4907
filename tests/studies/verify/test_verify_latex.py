"""Paper 2's Table 1: every number of a document in its row and column."""

from written_tables import NAME, WHO, rows


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

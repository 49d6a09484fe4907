"""Paper 1's Table I: every number of a document in its row and column."""

from written_tables import NAME, WHO, rows


def test_transplants_have_a_table_for_each_kind_of_position_with_the_control_below():
    keys = ("affected", "class_agnostic", "occlusion_20", "no_occlusion")
    rates = {key: {"0.5": 10.0 * i + 1.25, "0.9": None} for i, key in enumerate(keys)}
    ends = {key: {"0.5": [10.0 * i, 10.0 * i + 2]} for i, key in enumerate(keys)}
    null = {key: {"0.5": 0.5, "0.9": 1.0} for key in keys}
    known = {key: {"0.5": None, "0.9": [0.25, 2.0]} for key in keys}
    document = {**WHO, **rates, "intervals": ends | {"control": known}, "control": null}
    bare = {**WHO, "detector": None, "intervals": {key: {} for key in keys}, "control": None}
    bare |= {key: {"0.5": each["0.5"]} for key, each in rates.items()}  # it was asked for less
    assert rows("scan", document, bare) == [
        [
            ["", "0.5", "0.9"],
            [NAME, f"{10 * i + 1.25:.1f} [{10 * i}.0, {10 * i + 2}.0]", "--"],
            ["  control", "0.5", "1.0 [0.2, 2.0]"],
            ["a detector on rooms:val", f"{10 * i + 1.25:.1f}", "--"],
        ]
        for i in range(4)
    ]

"""COCO's numbers and TIDE's errors: every number of a document in its row and column."""

from written_tables import NAME, WHO, rows


def test_scores_are_cocos_numbers_and_tides_errors():
    document = {**WHO, "ap": {"AP": 0.5, "APs": None}, "tide": {"Cls": 1.255, "Loc": 12.0}}
    assert rows("score", document, document | {"ap": {"AP": 0.25}}) == [
        [["", "AP", "APs"], [NAME, "0.500", "--"], [NAME, "0.250", "--"]],
        [["", "Cls", "Loc"], [NAME, "1.25", "12.00"], [NAME, "1.25", "12.00"]],
    ]

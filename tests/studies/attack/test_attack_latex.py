"""Paper 5's AP under attack: every number of a document in its row and column."""

from written_tables import WHO, rows

from misdetect.report.latex import latex


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

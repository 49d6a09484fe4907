"""What stands behind a finding of each study: the rows it is of, and the bar that says its number."""

from misdetect.studies.kinds import kind_of


def told(study, kind, document):
    """Its rows, and its bars: each name with its value, its interval, and whether the finding is about it."""
    found = kind_of(study).behind({"kind": kind, "study": study}, document)
    marks = [] if found.chart is None else found.chart["marks"]
    return found, {mark["name"]: (mark["value"], mark.get("ends"), bool(mark.get("chosen"))) for mark in marks}


def test_a_mechanism_is_its_misses():
    document = {"objects": 50, "mechanisms": {"proposal": 2, "discarded": 10}, "settings": {"score": 0.25},
                "intervals": {"rates": {"discarded": [0.1, 0.3]}}, "potential": None}  # fmt: skip
    found, bars = told("explain", "discarded", document)
    assert found.rows == {"study": ["explain"], "outcome": ["missed"], "mechanism": ["discarded"]}
    assert bars == {"proposal": (0.04, None, False), "discarded": (0.2, [0.1, 0.3], True)}
    assert "10 of 50 objects, at score ≥ 0.25" in found.sure
    assert found.gain == "20.0 % of the objects, which would be found"
    document["potential"] = {"discarded": {"AP50_gain": 0.1}}
    assert told("explain", "discarded", document)[0].gain == "", "the advice says what it is worth"


def test_a_type_of_error_is_its_wrong_detections():
    tide = {"Cls": 1.0, "Loc": 8.25, "Both": 0.5, "Dupe": 0.0, "Bkg": 2.0, "Miss": 3.0}
    document = {"tide": tide, "intervals": {"tide": {"Loc": [4.0, 11.0]}},
                "counts": {"Loc": 58, "detections": 261, "images": 16}}  # fmt: skip
    found, bars = told("score", "Loc", document)
    assert found.rows == {"study": ["score"], "outcome": ["extra"], "tide": ["Loc"]}
    assert {name: value for name, (value, _, _) in bars.items()} == tide
    assert [(name, ends) for name, (_, ends, chosen) in bars.items() if chosen] == [("Loc", [4.0, 11.0])]
    assert (found.sure, found.gain) == ("58 of 261 detections at any score, on 16 images", "8.2 points of AP50")


def test_a_foreign_object_stands_beside_its_control():
    harm = {"object": 12.5, "control": 7.5, "difference": 5.0,
            "intervals": {"object": [10.0, 15.0], "control": None, "difference": [2.0, 8.0]}}  # fmt: skip
    found, bars = told("scan", "insertion", {"harm": harm, "positions": 1200})
    assert found.rows == {"study": ["scan"], "harm": ["harmful"], "flicker": [False], "control": [False]}
    assert bars == {"object": (0.125, [0.1, 0.15], True), "control": (0.075, None, False)}
    assert (found.sure, found.gain) == ("1,200 positions, each also with a control", "")


def test_insertions_are_their_harm():
    document = {"harm": {"harmful": 3, "harmless": 1, "unknown": 0}, "insertions": 40, "backgrounds": 8,
                "harmful_per_1000": 12.5}  # fmt: skip
    found, bars = told("fuzz", "insertion", document)
    assert found.rows["harm"] == ["harmful"]
    assert bars == {"harmful": (3, None, True), "harmless": (1, None, False)}
    assert found.sure.startswith("40 insertions into 8 images")


def test_missing_parts_stand_beside_present_ones():
    row = {"present_recall": 0.9, "missing_recall": 0.1, "missing_found": 4, "missing": 40,
           "intervals": {"present_recall": [0.8, 1.0], "missing_recall": None}}  # fmt: skip
    found, bars = told("verify", "missing-part", {"with_localisation": row, "images": 9})
    assert found.rows == {"study": ["verify"], "outcome": ["extra"]}
    assert bars == {"present parts reported": (0.9, [0.8, 1.0], False), "missing parts reported": (0.1, None, True)}
    assert (found.sure, found.gain) == ("4 of 40 missing parts, on 9 images", "4 false reports fewer")


def test_wiring_is_before_and_after_and_has_no_rows():
    findings = [{"change": "swap", "before": 0.1, "after": 0.6}, {"change": "cap", "kind": "cap"}]
    document = {"findings": findings, "images": 24}
    found, bars = told("doctor", "swap", document)
    assert found.rows == {}
    assert bars == {"as it is": (0.1, None, False), "with the change": (0.6, None, True)}
    assert (found.sure, found.gain) == ("measured on 24 images", "0.50 of AP")
    suspected, bars = told("doctor", "cap", document)
    assert (suspected.chart, suspected.gain, bars) == (None, "", {})

"""Each study's finding says the numbers of its document, and is none where the interval includes no effect."""

import pytest

from misdetect.report.findings import findings


def scan(low):
    return {"harm": {"object": 12.0, "difference": 4.0, "intervals": {"difference": [low, 7.0]}}}


def fuzz(low):
    return {
        "harm": {"harmful": 9},
        "queries": 600,
        "harmful_per_1000": 15.0,
        "intervals": {"harmful_per_1000": [low, 22.0]},
        "distinct": [
            {"harm": "improvement", "type": "missed", "label": "cat", "image": "a.png"},
            {"harm": "harmful", "type": "renamed", "label": "cup", "image": "b.png"},
        ],
    }


def verify(low):
    row = {"missing_recall": 0.59, "intervals": {"missing_recall": [low, 0.83]}}
    return {"with_localisation": row, "best_threshold": {"with_localisation": {"score": 0.76}}}


DOCUMENTS = {
    "scan": (scan, ["12.0 % of positions", "4.0 points (1 to 7)"], 0.04, [0.01, 0.07], 1.0),
    "fuzz": (fuzz, ["9 detections", "15 per 1,000", "renamed cup on b.png"], 0.015, [0.008, 0.022], 8.0),
    "verify": (verify, ["59.0 % (56 to 83)"], 0.59, [0.56, 0.83], 0.56),
}


@pytest.mark.parametrize("study", DOCUMENTS)
def test_a_finding_has_the_numbers_of_its_document(study):
    make, said, value, interval, low = DOCUMENTS[study]
    (found,) = findings({study: make(low)})
    assert all(words in found["sentence"] for words in said), found["sentence"]
    assert found["value"] == pytest.approx(value)
    assert found["interval"] == pytest.approx(interval)
    assert found["study"] == study
    assert findings({study: make(0.0)}) == [], "what may be no effect is no finding"


def test_the_threshold_that_suits_best_is_the_advice():
    assert "to 0.76" in findings({"verify": verify(0.2)})[0]["advice"]


def attack(ap50, low=0.1, high=0.9):
    return {"AP50": ap50, "intervals": {"fall": [low, high]}}


def tide(**points):
    """A score document: of each type of error its points, and the ends of their interval."""
    return {
        "tide": {name: each[0] for name, each in points.items()},
        "intervals": {"tide": {name: list(each[1:]) or None for name, each in points.items()}},
    }


def test_the_strongest_attack_counts_and_noise_stands_beside_it():
    attacks = {"noise": attack(0.85), "fgsm": attack(0.01), "cls": attack(0.1, 0.7, 0.85), "loc": attack(0.3)}
    document = {"clean": {"AP50": 0.9}, "attacks": attacks, "settings": {"eps": 8.0}}
    (found,) = findings({"attack": document})
    assert "AP50 from 0.90 to 0.10 (attack on cls), a fall of 0.80 (0.70 to 0.85)" in found["sentence"]
    assert found["interval"] == pytest.approx((0.014, 0.017))
    assert "noise of that size: 0.85" in found["sentence"]
    assert found["value"] == pytest.approx(0.02 * 0.8)
    assert findings({"attack": document | {"attacks": {"noise": attack(0.1)}}}) == []
    attacks["cls"]["intervals"]["fall"] = [0.0, 0.85]
    assert findings({"attack": document}) == [], "what may be no effect is no finding"


def test_a_mistake_of_wiring_comes_before_what_may_follow_from_it():
    wiring = {
        "findings": [{"change": "BGR", "before": 0.2, "after": 0.3, "interval": [0.05, 0.2], "fix": "colour=bgr"}]
    }
    found = findings({"doctor": wiring, "verify": verify(0.2)})
    assert [each["study"] for each in found] == ["doctor", "verify"]
    assert "AP rises from 0.20 to 0.30" in found[0]["sentence"]
    assert found[0]["advice"] == "colour=bgr"


def test_where_a_mechanism_strikes_most_is_said_if_it_is_certain():
    piece = {"mechanism": "background", "attribute": "size", "value": "small", "rate": 0.8, "rate_outside": 0.6}
    document = {
        "objects": 200,
        "mechanisms": {"background": 30},
        "tide": {},
        "intervals": {"rates": {"background": [0.11, 0.2]}},
        "slices": [piece | {"certain": False, "value": "large"}, piece | {"certain": True}],
    }
    (found,) = findings({"explain": document})
    assert found["sentence"].startswith("15.0 % (11 to 20) of the objects are missed")
    assert found["sentence"].endswith(
        "(30 of 200). Hit hardest: objects below 32 px (80 % against 60 % of the others)."
    )


def test_points_of_ap50_by_type_are_findings_from_one_point_on():
    known = tide(Cls=(1.0, 0.5, 1.5), Loc=(0.99, 0.5, 1.5), Both=(None,), Bkg=(5.25, 3.0, 7.5), Dupe=(9.0, 0.0, 20.0))
    found = findings({"score": known})
    assert [each["value"] for each in found] == pytest.approx([0.0525, 0.01])
    assert found[0]["sentence"] == "Boxes where nothing is annotated cost 5.2 points of AP50 (3.0 to 7.5)."
    assert found[1]["sentence"] == "Right boxes with the wrong class cost 1.0 points of AP50 (0.5 to 1.5)."
    assert [each["interval"] for each in found] == [pytest.approx((0.03, 0.075)), pytest.approx((0.005, 0.015))]
    assert [each["kind"] for each in found] == ["Bkg", "Cls"]
    assert findings({"score": {"tide": {"Bkg": 5.25}}}) == [], "without an interval nothing is certain"


@pytest.mark.parametrize(("before", "after"), [(None, 0.4), (0.4, None), (None, None)])
def test_what_was_not_measured_is_only_suspicious(before, after):
    each = {"change": "the same answer for all images.", "before": before, "after": after, "fix": "look at the input"}
    (found,) = findings({"doctor": {"findings": [each]}})
    assert found["sentence"] == "The wiring is suspicious: the same answer for all images."
    assert (found["value"], found["interval"], found["advice"]) == (1.0, None, "look at the input")


@pytest.mark.parametrize(("before", "after", "value"), [(0.2, 0.3, 0.6), (0.1, 0.9, 1.0)])
def test_wiring_weighs_more_than_its_gain(before, after, value):
    each = {"change": "BGR", "before": before, "after": after, "interval": [0.05, 0.2], "fix": "colour=bgr"}
    (found,) = findings({"doctor": {"findings": [each]}})
    assert found["value"] == pytest.approx(value)
    assert found["interval"] == (0.05, 0.2)


def explain(count, objects=200, ends=(0.001, 0.2)):
    rates = {"rates": {} if ends is None else {"background": list(ends)}}
    return {"objects": objects, "mechanisms": {"background": count}, "tide": {}, "intervals": rates, "slices": []}


@pytest.mark.parametrize(
    ("study", "document", "count"),
    [
        ("explain", explain(2), 1),
        ("explain", explain(1), 0),
        ("explain", explain(30, ends=(0.0, 0.2)), 0),
        ("explain", explain(30, ends=None), 0),
        ("explain", explain(0, objects=0), 0),
        ("scan", {"harm": None}, 0),
        ("scan", {"harm": {"object": 2.0, "difference": None, "intervals": {"difference": None}}}, 0),
        ("scan", {"harm": {"object": 2.0, "difference": 2.0, "intervals": {"difference": None}}}, 0),
        ("scan", {"harm": {"object": 2.0, "difference": 1.0, "intervals": {"difference": [0.5, 2.0]}}}, 1),
        ("scan", {"harm": {"object": 2.0, "difference": 0.9, "intervals": {"difference": [0.5, 2.0]}}}, 0),
        ("fuzz", fuzz(8.0) | {"queries": 0}, 0),
        ("fuzz", fuzz(8.0) | {"harm": {"harmful": 0}}, 0),
        ("verify", {"with_localisation": {"missing_recall": None, "intervals": {"missing_recall": None}}}, 0),
        ("verify", {"with_localisation": {"missing_recall": 0.5, "intervals": {"missing_recall": None}}}, 0),
        ("verify", {"with_localisation": {"missing_recall": 0.009, "intervals": {"missing_recall": [0.001, 1]}}}, 0),
        ("attack", {"clean": {"AP50": None}, "attacks": {"cls": attack(0.1)}}, 0),
        ("attack", {"clean": {"AP50": 0.015}, "attacks": {"cls": attack(0.01)}}, 0),
    ],
)
def test_what_is_small_uncertain_or_unknown_is_no_finding(study, document, count):
    assert len(findings({study: document})) == count


def test_an_effect_of_exactly_the_least_is_a_finding():
    least = {"missing_recall": 0.01, "intervals": {"missing_recall": [0.005, 0.02]}}
    unknown = {"with_localisation": least, "best_threshold": {"with_localisation": {"score": None}}}
    (found,) = findings({"verify": unknown})
    assert found["advice"] == "Raise the score threshold."
    (found,) = findings(
        {"attack": {"clean": {"AP50": 0.01}, "attacks": {"loc": attack(0.0, 0.005, 0.02)}, "settings": {"eps": 4}}}
    )
    assert "at most 4 of 255" in found["sentence"]
    assert "noise" not in found["sentence"]
    assert found["interval"] == pytest.approx((0.0001, 0.0004))


def test_breaks_weigh_at_most_all_and_without_an_interval_nothing():
    document = fuzz(8.0) | {"harmful_per_1000": 1500.0, "distinct": []}
    (found,) = findings({"fuzz": document})
    assert found["value"] == 1.0
    assert found["sentence"].endswith("1500 per 1,000 questions.")
    assert findings({"fuzz": document | {"intervals": {}}}) == []


def test_what_follows_from_another_finding_does_not_come_before_it():
    """Boxes that fit badly since better ones are suppressed; a cap that doctor suspects, and what it can have cost."""
    explain = {
        "objects": 100,
        "mechanisms": {"discarded": 30, "background": 5},
        "reasons": {"discarded": {"suppressed": 28, "cap": 2}},
        "intervals": {"rates": {"discarded": [0.2, 0.4], "background": [0.02, 0.1]}},
        "tide": {"Loc": 29, "Miss": 4},
        "sankey": [["Loc", "discarded", 28], ["Loc", "background", 1], ["Miss", "background", 4]],
        "slices": [],
    }
    score = {"tide": {"Loc": 60.0, "Bkg": 20.0}, "intervals": {"tide": {"Loc": [50.0, 70.0], "Bkg": [10.0, 30.0]}}}
    doctor = {"findings": [{"change": "a cap cuts", "kind": "cap", "before": 0.4, "after": None, "fix": "raise it"}]}
    harm = {"object": 70.0, "difference": 70.0, "intervals": {"difference": [50.0, 90.0]}}
    scan = {"harm": harm, "mechanisms": {"uncovered": {"discarded": 9, "background": 1}}}
    assert [each["study"] for each in findings({"scan": scan, "explain": explain})] == ["explain", "scan", "explain"]
    scan["mechanisms"]["uncovered"]["background"] = 99
    assert [each["study"] for each in findings({"scan": scan, "explain": explain})] == ["scan", "explain", "explain"]
    found = findings({"doctor": doctor, "score": score, "explain": explain})
    told = [(each["kind"], pytest.approx(each["value"])) for each in found]
    assert told == [("discarded", 0.3), ("Loc", 0.6), ("Bkg", 0.2), ("background", 0.05), ("cap", 0.02)]
    assert "a worse one suppressed it" in found[0]["sentence"]
    dark = explain | {"mechanisms": {"unknown": 35}, "reasons": {"discarded": {}}, "sankey": [["Loc", "unknown", 35]]}
    found = findings({"doctor": doctor, "score": score, "explain": dark})
    assert [(each["kind"], each["value"]) for each in found] == [("Loc", 0.6), ("cap", 0.35), ("Bkg", 0.2)]


def explained(**more):
    return {
        "objects": 200,
        "mechanisms": {"discarded": 20},
        "tide": {},
        "reasons": {"discarded": {"suppressed": 10, "cap": 10}},
        "intervals": {"rates": {"discarded": [0.09, 0.11]}},
        "slices": [{"mechanism": "discarded", "certain": True, "attribute": "size", "value": "small", "rate": 0.5,
                    "rate_outside": 0.02}],
        **more,
    }  # fmt: skip


def test_a_reason_is_named_where_it_stands_for_more_than_half():
    (found,) = findings({"explain": explained()})
    assert "a right box was there and lost" in found["sentence"]
    (found,) = findings({"explain": explained(reasons={"discarded": {"suppressed": 9, "cap": 11}})})
    assert "the cap on detections cut it off" in found["sentence"]


def test_shares_are_told_as_finely_as_they_are_known():
    (found,) = findings({"explain": explained()})
    assert found["sentence"].startswith("10.0 % (9 to 11) of the objects are missed")
    assert found["sentence"].endswith("(20 of 200). Hit hardest: objects below 32 px (50 % against 2 % of the others).")
    (found,) = findings({"explain": explained(intervals={"rates": {"discarded": [0.095, 0.105]}})})
    assert found["sentence"].startswith("10.0 % (9.5 to 10.5) of")


@pytest.mark.parametrize(
    ("causes", "says"),
    [
        ({"context": {"interval": [0.51, 0.9]}}, " Most hang on the parts around them."),
        ({"context": {"interval": [0.5, 0.9]}}, ""),
        ({"context": {"interval": None}}, ""),
        ({"other": {"interval": [0.9, 1.0]}}, ""),
    ],
)
def test_what_hallucinations_hang_on_is_said_where_it_is_certain(causes, says):
    (found,) = findings({"verify": verify(0.56) | {"causes": causes}})
    assert found["sentence"].endswith(f"are reported as present.{says}")


def test_a_limit_that_is_only_suspected_costs_what_it_can_have_cost():
    doctor = {"findings": [{"change": "a cap cuts", "kind": "cap", "before": 0.4, "after": None, "fix": "raise it"}]}
    worth = {each["kind"]: each["value"] for each in findings({"doctor": doctor, "explain": explained()})}
    assert worth["cap"] == pytest.approx(10 / 200)
    worth = {each["kind"]: each["value"] for each in findings({"doctor": doctor})}
    assert worth["cap"] == 1.0
    none = explained(objects=0)
    assert [each["value"] for each in findings({"doctor": doctor, "explain": none})] == [1.0]
    nothing = explained(reasons={"discarded": {}}, mechanisms={})
    assert [each["value"] for each in findings({"doctor": doctor, "explain": nothing})] == [0.01]


def typical(name, groups, sizes=(0, 0, 20), **more):
    """An explain document with 20 misses by one mechanism, and what is typical of them."""
    known = dict(zip(("small", "medium", "large"), sizes, strict=True))
    of = {"groups": groups, "sizes": known, "images": ["a.jpg", "b.jpg"], "half": [0.15, 7]}
    rates = {name: [0.09, 0.11]}
    return explained(mechanisms={name: 20}, slices=[], intervals={"rates": rates}, typical={name: of}, **more)


COUCHES = [["couch", "medium", 12, 63], ["cat", "large", 2, 9], ["dog", "large", 1, 3]]


def test_what_most_misses_are_is_named_and_advice_says_which_threshold_and_photos():
    (found,) = findings({"explain": typical("background", COUCHES)})
    assert found["sentence"].endswith("Most often: couch of 32 to 96 px (12) and cat above 96 px (2).")
    assert found["advice"] == (
        "A score threshold of 0.15 reports up to 7 of them. For the others, train on more photos with couch of 32 to "
        "96 px and cat above 96 px, as in a.jpg and b.jpg."
    )


def test_small_objects_want_a_larger_input_and_others_a_look_at_their_boxes():
    (found,) = findings({"explain": typical("regressor", COUCHES, (11, 9, 0))})
    assert found["advice"].endswith("tiles: 11 of these 20 are below 32 px.")
    (found,) = findings({"explain": typical("regressor", COUCHES, (10, 10, 0))})
    assert found["advice"] == "See whether the annotated boxes fit tightly, first in a.jpg and b.jpg."


def test_confused_classes_are_named_and_the_gain_is_said():
    more = {"confusions": [["cat", "dog", 3]], "potential": {"interclass": {"AP50_gain": 0.125}}}
    (found,) = findings({"explain": typical("interclass", COUCHES, **more)})
    assert "tell cat from dog (3);" in found["advice"]
    assert found["advice"].endswith("worth up to 12 points of AP50.")


def test_errors_by_type_name_their_classes_and_photos():
    counts = {"cat": 3, "dog": 9, "cow": 0}
    document = tide(Bkg=(5.0, 3.0, 7.0)) | {
        "by_class": {name: {"counts": {"Bkg": n}} for name, n in counts.items()},
        "worst_images": [{"image": "7.jpg"}],
    }
    (found,) = findings({"score": document})
    assert "annotations of dog and cat are missing, first in 7.jpg" in found["advice"]


def test_what_cannot_be_seen_from_outside_is_said_and_how_to_open_it():
    (found,) = findings({"explain": typical("unknown", COUCHES)})
    assert found["sentence"].startswith(
        "10.0 % (9 to 11) of the objects are missed because of something that boxes alone"
    )
    assert "'onnx-torch'" in found["advice"]
    assert found["kind"] == "unknown"

"""Gates as values: what can be written, where a key is found, what fails, and what cannot be judged."""

import json
from math import inf, nextafter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from misdetect.said.errors import BadGate
from misdetect.said.gates import LIMITS, Gate, check

STUDY = {
    "study": "explain",
    "miss_rate": 0.25,
    "missed": None,
    "finished": True,
    "done": 4,
    "affected": {"0.3": 5.0, "0.5": 12.5},
    "ap": {"AP50": 0.75},
    "by_class": {"dining table": {"AP50": 0.1}, "a]b.c": {"AP50": 0.2}},
    "with": {"f_vv": 0.9, "intervals": {"f_vv": [0.8, 0.95]}},
    "without": {"f_vv": 0.8},
    "curve": [[0.1, 0.2], [0.3, 0.4]],
    "findings": [{"value": 0.5}, {"value": 0.1}],
    "intervals": {"miss_rate": [0.2, 0.31], "affected": {"0.5": [10.0, 15.0]}},
    "settings": {"score": 0.3},
}
OTHER = {"study": "score", "miss_rate": 0.5, "ap": {"AP50": 0.6, "AP75": 0.3}}
CHECKUP = {
    "studies": {"explain": STUDY, "score": OTHER},
    "findings": [],
    "skipped": [{"study": "verify", "why": "no part has a state."}],
}


def judged(text, document=STUDY):
    return Gate.parse(text).judge(document)


@pytest.mark.parametrize(
    ("text", "key", "sign", "bound"),
    [
        ("miss_rate > 0.2", ("miss_rate",), ">", 0.2),
        (" AP50<.8 ", ("AP50",), "<", 0.8),
        ("scan.affected[0.5] >= 1e1", ("scan", "affected", "0.5"), ">=", 10),
        ("by_class[dining table].AP50 <= -1.", ("by_class", "dining table", "AP50"), "<=", -1),
        ("by_class['a]b'][ x ].AP == +2", ("by_class", "a]b", "x", "AP"), "==", 2),
        ('by_class["it\'s"] != 3', ("by_class", "it's"), "!=", 3),
        ("AP falls by 0.01", ("AP",), "falls", 0.01),
        ("discarded rises", ("discarded",), "rises", 0),
        ("no-occlusion[.5] falls", ("no-occlusion", ".5"), "falls", 0),
        ("Fußgänger.AP > 0", ("Fußgänger", "AP"), ">", 0),
        ("any", ("findings",), ">", 0),
    ],
)
def test_what_can_be_written(text, key, sign, bound):
    gate = Gate.parse(text)
    assert (gate.key, gate.sign, gate.bound) == (key, sign, bound)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "miss_rate",
        "> 0.2",
        "miss_rate = 0.2",
        "miss_rate > ",
        "miss_rate > many",
        "miss_rate > 0.2 and more",
        "miss_rate > 1e999",
        "miss_rate > 0x10",
        "miss_rate > nan",
        "0.2 < miss_rate < 0.3",
        ".miss_rate > 1",
        "a..b > 1",
        "a.[b] > 1",
        "a[b > 1",
        "a b > 1",
        "AP falls by",
        "AP falls by 1 %",
        "AP falls by -0.1",
        "AP sinks by 0.1",
        "__import__('os').system('true') > 0",
        "miss_rate > 0.2\x00",
    ],
)
def test_what_cannot_be_read_is_refused(text):
    with pytest.raises(BadGate, match=r"the gate .* (cannot be read|should name)"):
        Gate.parse(text)


@given(st.text(max_size=30))
def test_no_text_does_anything_but_parse_or_be_refused(text):
    try:
        gate = Gate.parse(text)
    except BadGate:
        return
    assert gate.key
    assert gate.judge(STUDY).gate == text


@pytest.mark.parametrize("sign", LIMITS)
@pytest.mark.parametrize("bound", [0.24, 0.25, 0.26])
def test_a_limit_is_what_it_says(sign, bound):
    less, more = bound == 0.26, bound == 0.24
    same = not less and not more
    expected = {"<": less, ">": more, "<=": less or same, ">=": more or same, "==": same, "!=": not same}
    assert judged(f"miss_rate {sign} {bound}").failed == expected[sign]


@pytest.mark.parametrize(
    ("text", "key", "value", "interval"),
    [
        ("miss_rate > 0", "miss_rate", 0.25, [0.2, 0.31]),
        ("affected[0.5] > 0", "affected[0.5]", 12.5, [10, 15]),
        ("affected[.50] > 0", "affected[0.5]", 12.5, [10, 15]),
        ("AP50 > 0", "ap.AP50", 0.75, None),
        ("ap.AP50 > 0", "ap.AP50", 0.75, None),
        ("with.f_vv > 0", "with.f_vv", 0.9, [0.8, 0.95]),
        ("without.f_vv > 0", "without.f_vv", 0.8, None),
        ("by_class[dining table].AP50 > 0", "by_class[dining table].AP50", 0.1, None),
        ("dining.AP50 > 0", None, None, None),
        ("by_class['a]b.c'].AP50 > 0", 'by_class["a]b.c"].AP50', 0.2, None),
        ("finished < 1", "finished", 1, None),
        ("findings > 3", "findings", 2, None),
        ("any", "findings", 2, None),
        ("findings[1].value > 0", "findings[1].value", 0.1, None),
        ("findings[-1].value > 0", "findings[-1].value", 0.1, None),
        ("curve[1][0] > 0", "curve[1][0]", 0.3, None),
        ("intervals.miss_rate[1] > 0.3", "intervals.miss_rate[1]", 0.31, None),
        ("settings.score > 0", "settings.score", 0.3, None),
    ],
)
def test_a_key_is_found_nearest_to_the_top(text, key, value, interval):
    found = judged(text)
    assert (found.key, found.value, found.interval) == (key, value, interval)
    if key is not None:
        assert Gate.parse(f"{key} > 0").judge(STUDY).key == key, "what is said can be written"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("mis_rate > 0", "there is no mis_rate; near it is miss_rate."),
        ("ap50 > 0", "there is no ap50; near it is ap.AP50."),
        ("affected[0.4] > 0", "near it is affected[0.5] or affected[0.3]"),
        ("qqqqqq > 0", "there is miss_rate, finished, done"),
        ("f_vv > 0", "it could be with.f_vv or without.f_vv; say which."),
        ("missed > 0", "missed was not measured."),
        ("affected > 0", "affected holds several: 0.3, 0.5."),
        ("curve > 0", "curve is a list of 2; name one, as in curve[0]."),
        ("curve[9] > 0", "there is no curve[9]"),
        ("study == 3", "study is no number."),
        ("score > 0", "there is no score"),
        ("miss_rate.deeper > 0", "there is no miss_rate.deeper"),
        ("AP50 falls", "it asks how runs differ"),
    ],
)
def test_what_cannot_be_judged_has_not_passed(text, says):
    found = judged(text)
    assert (found.failed, found.value) == (None, None)
    assert says in found.says
    assert found.says.count("\n") == 0


def test_what_failed_is_said_with_its_number_and_interval():
    assert judged("miss_rate > 0.2").says == "the gate 'miss_rate > 0.2' failed: miss_rate is 0.25 (0.2 to 0.31)."
    assert judged("miss_rate > 0.3").says == "miss_rate is 0.25 (0.2 to 0.31)."


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("explain.miss_rate > 0", "explain.miss_rate", 0.25),
        ("score.AP50 > 0", "score.ap.AP50", 0.6),
        ("AP75 > 0", "score.ap.AP75", 0.3),
        ("affected[0.5] > 0", "explain.affected[0.5]", 12.5),
        ("studies.score.miss_rate > 0", "studies.score.miss_rate", 0.5),
        ("findings > 0", "findings", 0),
        ("explain.findings > 0", "explain.findings", 2),
        ("skipped > 0", "skipped", 1),
    ],
)
def test_of_a_checkup_the_study_comes_first_or_only_one_has_it(text, key, value):
    found = judged(text, CHECKUP)
    assert (found.key, found.value) == (key, value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("miss_rate > 0", "it could be explain.miss_rate or score.miss_rate; say which."),
        ("verify.f_vv < 1", "verify was not run: no part has a state."),
        ("score.ap51 < 1", "there is no score.ap51; near it is score.ap.AP75 or score.ap.AP50."),
        ("score > 1", "score is a study; name one of its numbers"),
        ("mis_rate > 1", "near it is explain.miss_rate"),
    ],
)
def test_of_a_checkup_what_is_not_there_is_said(text, says):
    found = judged(text, CHECKUP)
    assert found.failed is None
    assert says in found.says


names = st.text(st.characters(exclude_characters="\"'", codec="utf-8"), min_size=1, max_size=6)
trees = st.recursive(
    st.integers(-9, 9), lambda inner: st.dictionaries(names, inner, max_size=3) | st.lists(inner, max_size=3)
)


def leaves(node, path=()):
    if isinstance(node, int):
        yield path, node
    for name, inner in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from leaves(inner, (*path, str(name)))


@given(st.dictionaries(names, trees, max_size=4))
def test_every_number_is_found_by_its_full_key(document):
    """Names that numbers could stand for, or that mean something here, are others' tests."""
    assume("studies" not in document)
    for path, value in leaves(document):
        if any(name != name.strip() or name.replace(".", "").isnumeric() for name in path[:1]):
            continue
        head, *rest = path
        if any(letter in head for letter in " .[]<>=!") or any(not letter.isprintable() for letter in "".join(path)):
            continue
        found = Gate.parse(head + "".join(f'["{name}"]' for name in rest) + " > 0").judge(document)
        assert (found.value, found.failed) == (value, value > 0)


def compared(**changes):
    runs = [{"name": name} for name in ("old", "new", "newer")]
    return {"differing_settings": [], "runs": runs, "differences": list(changes["differences"])}


def change(low, high):
    return {"difference": (low + high) / 2, "interval": [low, high], "certain": not low <= 0 <= high}


def pair(first, second, low, high):
    tree = {"AP": change(low, high), "mechanisms": {"discarded": {"rate": change(-high, -low), "share": None}}}
    return {"first": first, "second": second, "same_images": True, "objects": 7, **tree}


@pytest.mark.parametrize(
    ("low", "high", "text", "failed"),
    [
        (-0.05, -0.01, "AP falls", True),
        (-0.05, 0.01, "AP falls", False),
        (-0.05, 0.0, "AP falls", False),
        (-0.05, -0.011, "AP falls by 0.01", True),
        (-0.05, -0.009, "AP falls by 0.01", False),
        (0.02, 0.04, "AP falls", False),
        (0.02, 0.04, "AP rises", True),
        (0.02, 0.04, "AP rises by 0.03", False),
        (-0.05, -0.01, "discarded rises", True),
        (-0.05, -0.01, "discarded falls", False),
        (-0.05, -0.01, "mechanisms.discarded.rate rises by .02", False),
    ],
)
def test_a_change_fails_only_where_the_interval_is_sure(low, high, text, failed):
    document = compared(differences=[pair("old", "new", low, high)])
    found = Gate.parse(text).judge(document)
    assert found.failed is failed
    assert found.value == pytest.approx((low + high) / 2 * (-1 if "discarded" in text else 1))
    assert ("failed" in found.says) == failed
    assert check(document, text) == [found]


def test_the_end_of_the_interval_decides_to_the_last_bit():
    document = compared(differences=[pair("old", "new", -0.5, -0.25)])
    assert not Gate.parse("AP falls by 0.25").judge(document).failed
    assert Gate.parse(f"AP falls by {nextafter(0.25, -inf)!r}").judge(document).failed


def test_every_run_is_held_against_the_first_and_the_surest_is_told():
    document = compared(
        differences=[
            pair("old", "new", -0.02, 0.01),
            pair("old", "newer", -0.05, -0.03),
            pair("new", "newer", -0.9, -0.8),
        ]
    )
    found = Gate.parse("AP falls").judge(document)
    assert found.failed
    assert "AP of newer changes by -0.04 (-0.05 to -0.03)" in found.says
    assert not Gate.parse("AP falls by 0.1").judge(document).failed, "two later runs are not held against each other"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("AR falls", "AR has no paired interval; there is AP, mechanisms.discarded."),
        ("objects falls", "objects has no paired interval"),
        ("share rises", "was not measured"),
    ],
)
def test_a_change_without_an_interval_cannot_be_judged(text, says):
    found = Gate.parse(text).judge(compared(differences=[pair("old", "new", -1, 1)]))
    assert found.failed is None
    assert says in found.says


def test_runs_that_are_not_paired_cannot_be_judged():
    document = {**compared(differences=[]), "why_not_paired": ["old and new did not score the same objects"]}
    assert "did not score the same objects" in Gate.parse("AP falls").judge(document).says
    with pytest.raises(BadGate, match="did not score the same objects"):
        check(document, "AP falls")


def test_in_python_all_gates_are_judged_and_none_passes_unjudged():
    first, second = check(STUDY, ["miss_rate > 0.2", "done < 3"])
    assert (first.failed, second.failed) == (True, False)
    assert set(json.loads(json.dumps(first.document()))) == {"gate", "key", "value", "interval", "failed", "says"}
    for wrong in ("missed > 0", "mis_rate > 0", "AP falls", "nonsense"):
        with pytest.raises(BadGate):
            check(STUDY, wrong)

"""The claims of the papers are data, and docs/papers.md is made of them and of the result files: nothing in it may say
what no result file says, and no comparison may come out the same whatever is measured."""

import json
import re
import shlex
from itertools import chain

import numpy as np
import pytest
from cyclopts import CycloptsError
from papers.catalogue import FOLDER, ROOT, SIZES, Catalogue
from papers.figures import listed
from papers.page import page
from papers.runs import Places, is_answered, run_missing
from papers.verdicts import CONFIRMED, REFUTED, UNCLEAR, Measured, Results, conditions, judge, never, together

from misdetect.cli import app

CATALOGUE = Catalogue()
EVERY = [*CATALOGUE.claims(), *CATALOGUE.findings]
TESTED = [claim for claim in EVERY if not claim.why]
RESULTS = sorted((FOLDER / "results").glob("*.json"))
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
PLACES = Places(ROOT / "runs" / "papers", FOLDER / "results", ROOT.parent / "shared" / "fixtures")
_TOLD = re.compile(r"(?<![\w.])(−?\d+\.\d+) \((−?\d+\.\d+) to (−?\d+\.\d+)\)")
_FAR = 1e4


def named(claims):
    return {"argvalues": claims, "ids": [claim.id for claim in claims]}


def test_there_are_enough_claims_of_every_paper_and_few_that_cannot_be_tested():
    claims = CATALOGUE.claims()
    assert len(claims) >= 40
    assert len({claim.id for claim in claims}) == len(claims)
    assert [paper.number for paper in CATALOGUE.papers] == [1, 2, 3, 4, 5]
    for paper in CATALOGUE.papers:
        assert len(paper.claims) >= 5
        assert all(claim.id.split(".")[0] == str(paper.number) for claim in paper.claims)
    assert sum(bool(claim.why) for claim in claims) <= len(claims) / 8
    assert len(CATALOGUE.findings) == 3


@pytest.mark.parametrize("claim", **named(TESTED))
def test_a_claim_says_what_confirms_it_and_asks_runs_that_there_are(claim):
    assert all((claim.section, claim.confirms, claim.refutes, claim.subjects, claim.holds))
    asked = {(run, name) for paper in CATALOGUE.papers for run, said in paper.runs.items() for name in said["subjects"]}
    for _, numbers, _ in claim.parts():
        for number in numbers.values():
            for subject in claim.subjects:
                own = number.get("subject", "{subject}").replace("{subject}", subject)
                assert (number["run"], own) in asked
            assert ("key" in number) != ("query" in number)


@pytest.mark.parametrize("claim", **named([claim for claim in CATALOGUE.claims() if not claim.why]))
def test_something_stands_beside_a_claim_or_it_says_why_not(claim):
    assert bool(claim.beside) != bool(claim.alone)
    if claim.alone:
        assert f"Nothing stands beside it: {claim.alone}." in PAGE
    else:
        assert claim.beside["says"]
        assert claim.beside.get("numbers") or claim.beside.get("text")
        assert claim.beside["says"] in PAGE


@pytest.mark.sampled(1)
@pytest.mark.parametrize("size", SIZES)
def test_every_command_is_one_that_misdetect_takes(size):
    questions = CATALOGUE.questions(size)
    assert len(questions) > 40
    for question in questions:
        words = shlex.split(question.command.replace("{fixtures}", "folder").replace("{lessons}", "run"))
        assert not [word for word in words if "{" in word], question.command
        app.parse_args([*words, "--out", "run", "--json"], exit_on_error=False, print_error=False)


def test_a_command_with_an_option_that_does_not_exist_is_told_from_one_that_does():
    words = shlex.split("scan --detector zoo:ssd --data rooms:val --pears 3")
    with pytest.raises(CycloptsError, match="pears"):
        app.parse_args(words, exit_on_error=False, print_error=False)


@pytest.mark.parametrize("claim", **named(TESTED))
def test_other_numbers_would_give_another_verdict(claim):
    """Of every comparison: it can be confirmed, and each number in it can refute it."""
    for _, numbers, holds in claim.parts():
        if not holds:
            continue
        numbers = {**claim.numbers, **numbers}
        asked = [condition for text in holds for condition in conditions(text)]
        values = dict.fromkeys(numbers, 0.0)
        for _ in range(50):  # move the first number of whatever fails until nothing does
            for condition in asked:
                sure = sum(times * (1.0 if name is None else values[name]) for name, times in condition.terms)
                name, times = next(term for term in condition.terms if term.name is not None and term.times)
                if sure <= 0:
                    values[name] += (1e-3 - sure) / times
        exact = {name: Measured(value, value, value) for name, value in values.items()}
        assert together(holds, exact) == CONFIRMED
        used = {name for condition in asked for name, times in condition.terms if name is not None and times}
        assert used <= set(numbers)
        for name in used:
            wrong = [exact | {name: Measured(far, far, far)} for far in (-_FAR, _FAR)]
            assert REFUTED in [together(holds, each) for each in wrong]
            wide = exact | {name: Measured(values[name], -_FAR, _FAR)}
            assert together(holds, wide) == UNCLEAR
            assert together(holds, exact | {name: Measured(values[name], None, None)}) == UNCLEAR
            assert together(holds, exact | {name: None}) is None


def test_the_interval_of_a_difference_is_that_of_independent_numbers():
    draws = np.random.default_rng(0).normal([30.0, 10.0], [3.0, 1.0], size=(200_000, 2))
    ends = np.quantile(draws, [0.05, 0.95], axis=0)
    low = np.quantile(draws[:, 0] - 2 * draws[:, 1], 0.05)
    numbers = {name: Measured(mean, *ends[:, i]) for i, (name, mean) in enumerate((("a", 30.0), ("b", 10.0)))}
    assert together([f"a - 2 * b > {low - 0.05}"], numbers) == CONFIRMED
    assert together([f"a - 2 * b > {low + 0.05}"], numbers) == UNCLEAR


@pytest.mark.parametrize("text", ["a", "a == 1", "a * b > 0", "f(a) > 0", "a <= 2", "__import__('os') > 0"])
def test_a_comparison_that_is_not_linear_is_refused(text):
    with pytest.raises(ValueError, match=r"compares nothing|expected < or >|no sum of numbers"):
        conditions(text)


def test_what_never_happened_on_few_images_might_happen():
    assert never(0.0, 10, 100.0) == pytest.approx((0, 100 * (1 - 0.05**0.1)))
    assert never(1.0, 10, 1.0) == pytest.approx((0.05**0.1, 1))
    assert never(0.0, 10, 1.0, signed=True) == pytest.approx((0.05**0.1 - 1, 1 - 0.05**0.1))


@pytest.mark.parametrize("path", RESULTS, ids=[path.stem for path in RESULTS])
def test_a_result_file_is_of_a_command_of_today_and_names_no_machine(path):
    text = path.read_text(encoding="utf-8")
    found = json.loads(text)
    (question,) = [each for each in CATALOGUE.questions(found["size"]) if each.name == path.stem]
    assert found["command"] == question.command
    assert is_answered(question, PLACES, CATALOGUE)
    assert not re.search(r"/(work|tmp|home|root|Users)/", text)
    assert len(text) < 200_000


def test_the_page_is_what_the_claims_and_the_results_say():
    """``make papers ARGS=--page`` writes it again."""
    results = Results(FOLDER / "results")
    assert page(CATALOGUE, results, listed(CATALOGUE, results, PLACES)) == PAGE


def test_every_number_of_ours_on_the_page_is_in_a_result_file():
    """Read by another way than the page does: plain steps into the files."""
    known = set(chain.from_iterable(told(json.loads(path.read_text(encoding="utf-8"))) for path in RESULTS))
    said = [match.groups() for match in _TOLD.finditer(PAGE)]
    assert len(said) > 300
    assert [each for each in said if each not in known] == []


def told(found):
    """All numbers of a result with their intervals, as three texts, in percent and as they are."""
    for each in filter(None, found["queries"].values()):
        yield _texts(each["value"], *each["interval"], 1)
    document = found["document"]
    counts = (document["settings"].get("pairs"), *(document.get(name) for name in ("backgrounds", "images", "cases")))
    images = next((count for count in counts if count), 1)
    whole = 100 if found["command"].startswith("scan") else 1
    for value, (low, high) in _with_intervals(document, ()):
        wider = [never(value, images, whole, signed=signed) for signed in (False, True)] if low == high else []
        for start, end in ((low, high), *wider):
            yield _texts(value, start, end, 1)
            yield _texts(value, start, end, 3)
            yield _texts(100 * value, 100 * start, 100 * end, 1)


def _with_intervals(node, above):
    """Numbers with an interval under ``intervals`` beside them or beside what they stand in, or as ``interval``."""
    for name, value in node.items():
        if isinstance(value, dict):
            yield from _with_intervals(value, ((node, name), *above))
        elif isinstance(value, (int, float)):
            path = (name,)
            for parent, own in ((node, None), *above):
                path = path if own is None else (own, *path)
                ends = parent.get("intervals")
                for step in path:
                    ends = ends.get(step) if isinstance(ends, dict) else None
                if isinstance(ends, list) and None not in ends:
                    yield value, ends
            if isinstance(node.get("interval"), list) and None not in node["interval"]:
                yield value, node["interval"]


def _texts(value, low, high, digits):
    said = [f"{number:.{digits}f}" for number in (value, low, high)]
    return tuple("0.0" if text == "-0.0" else text.replace("-", "−") for text in said)


def test_a_changed_result_changes_the_verdict_on_the_page(tmp_path):
    """One number made wrong on purpose: another verdict, and the page is no longer what it was."""
    claim = next(c for c in CATALOGUE.claims() if c.id == "2.2")
    for path in RESULTS:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert [each.verdict for each in judge(claim, Results(tmp_path))] == [CONFIRMED]
    broken = tmp_path / "parts-retinanet-bikes.json"
    found = json.loads(broken.read_text())
    found["document"]["with_localisation"]["missing_recall"] = 0.01
    found["document"]["with_localisation"]["intervals"]["missing_recall"] = [0.0, 0.02]
    broken.write_text(json.dumps(found))
    assert [each.verdict for each in judge(claim, Results(tmp_path))] == [REFUTED]
    results = Results(tmp_path)
    assert page(CATALOGUE, results, listed(CATALOGUE, results, PLACES)) != PAGE


def test_photos_that_are_not_there_are_said_and_nothing_is_run(tmp_path, capsys):
    places = Places(tmp_path / "runs", tmp_path / "results", tmp_path / "nowhere")
    assert run_missing(CATALOGUE, "quick", places, ["scan-yolox-nano"]) == []
    assert capsys.readouterr().out == f"scan-yolox-nano: not run, {tmp_path / 'nowhere'} is not there\n"
    assert not (tmp_path / "runs").exists()


@pytest.mark.heavy
def test_what_is_missing_is_run_once_and_what_fails_is_said(tmp_path):
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "subjects.yaml").write_text(
        "ssd: {detector: 'zoo:ssd', data: 'rooms:val', called: SSD}\n"
        "none: {detector: 'zoo:none', data: 'rooms:val', called: none}\n"
    )
    (folder / "findings.yaml").write_text("[]")
    (folder / "1-small.yaml").write_text(
        """
paper: 1
short: small
title: small
runs:
  explain:
    command: explain --detector {detector} --data {data} --limit {n}
    subjects: [ssd, none]
    quick: {n: 3}
    full: {n: 4}
queries:
  missed: >-
    SELECT image, count(*) FILTER (NOT found) AS above, count(*) AS below
    FROM rows WHERE kind = 'object' GROUP BY image
claims:
- {id: 1.1, section: a, claim: b, paper: c, confirms: d, refutes: e, subjects: [ssd], holds: missed > 0,
   numbers: {missed: {run: explain, query: missed}}}
"""
    )
    small, places = Catalogue(folder), Places(tmp_path / "runs", tmp_path / "results", tmp_path)
    failed = run_missing(small, "quick", places)
    assert [each.partition(": ")[0] for each in failed] == ["explain-none"]
    assert "zoo:none" in failed[0]
    path = tmp_path / "results" / "explain-ssd.json"
    found = json.loads(path.read_text())
    assert found["size"] == "quick"
    assert found["queries"]["missed()"]["below"] == found["document"]["objects"]
    written = path.stat().st_mtime_ns
    assert run_missing(small, "quick", places, ["explain-ssd"]) == []
    assert path.stat().st_mtime_ns == written
    assert run_missing(small, "full", places, ["explain-ssd"]) == []
    assert json.loads(path.read_text())["size"] == "full"
    assert run_missing(small, "quick", places, ["explain-ssd"]) == []
    assert json.loads(path.read_text())["size"] == "full"

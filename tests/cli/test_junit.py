"""The JUnit file and GitHub's annotations: read back by other parsers, with names that would break them."""

import json
import re
from xml.etree import ElementTree

import pytest
from explain_runs import fates, write
from test_contract import GLASS, listing

from misdetect.cli.junit import junit
from misdetect.cli.shell import annotate
from misdetect.said.gates import Gate

NASTY = """by_class['<b> & "x"'].AP > 0"""


@pytest.fixture(scope="module")
def explained(tmp_path_factory):
    return write(tmp_path_factory.mktemp("junit") / "run", fates(30, 0))


def cases(path):
    """Test cases by name: the tag of what is in each, and its text."""
    root = ElementTree.parse(path).getroot()  # noqa: S314 - our own file
    (suite,) = root
    assert (root.tag, suite.tag) == ("testsuites", "testsuite")
    found = {}
    for case in suite:
        assert case.tag == "testcase"
        (inner,) = case if len(case) else [None]
        found[case.get("classname"), case.get("name")] = (
            (None, None) if inner is None else (inner.tag, inner.get("message") or inner.text)
        )
        assert inner is None or inner.get("message") in (None, inner.text), "GitLab shows the text, Jenkins the message"
    counts = {key: int(suite.get(key)) for key in ("tests", "failures", "errors", "skipped")}
    tags = [tag for tag, _ in found.values()]
    assert counts == {
        "tests": len(suite),
        "failures": tags.count("failure"),
        "errors": tags.count("error"),
        "skipped": tags.count("skipped"),
    }
    return found


def test_a_case_per_gate(run, explained, tmp_path):
    out = tmp_path / "gates.xml"
    gates = ["miss_rate > 0", "miss_rate > 2", "mis_rate > 0", NASTY]
    options = [word for gate in gates for word in ("--fail-if", gate)]
    code, said, err = run("show", explained, *options, "--junit", out, "--json")
    assert code == 2
    judged = {each["gate"]: each["says"] for each in json.loads(said)["gates"]}
    name = "misdetect.explain"
    assert cases(out) == {
        (name, gates[0]): ("failure", judged[gates[0]]),
        (name, gates[1]): ("system-out", judged[gates[1]]),
        (name, gates[2]): ("error", judged[gates[2]]),
        (name, gates[3]): ("error", judged[gates[3]]),
    }
    assert judged[gates[0]] in err
    assert listing(tmp_path) == ["gates.xml"], "nothing else is left"


def test_without_gates_a_case_per_study(run, explained, tmp_path):
    out = tmp_path / "study.xml"
    assert run("show", explained, "--junit", out)[0] == 0
    assert cases(out) == {("misdetect.explain", "explain"): (None, None)}
    half = write(tmp_path / "half", fates(10, 0), cases=30)
    assert run("show", half, "--junit", out)[0] == 0
    assert cases(out) == {("misdetect.explain", "explain"): ("skipped", "10 of 30 cases done")}


@pytest.mark.heavy
def test_of_a_checkup_and_of_a_comparison(run, explained, tmp_path):
    out = tmp_path / "checkup.xml"
    checkup = ["checkup", *GLASS, "--minutes", "0.1", "--pictures", "0", "--out", tmp_path / "out", "--json"]
    code, said, _ = run(*checkup, "--junit", out)
    assert code == 0
    document, found = json.loads(said), cases(out)
    finished = {name for (group, name), (tag, _) in found.items() if tag is None and group == "misdetect.checkup"}
    assert finished == set(document["studies"]) > {"explain", "scan"}
    assert {name: why for (_, name), (tag, why) in found.items() if tag == "skipped"} == {
        each["study"]: each["why"] for each in document["skipped"]
    }
    other = write(tmp_path / "other", fates(30, 1))
    assert run("compare", explained, other, "--junit", out, "--fail-if", "miss_rate falls by 0.9")[0] == 0
    assert list(cases(out)) == [("misdetect.compare.explain", "miss_rate falls by 0.9")]
    assert run("compare", explained, other, "--junit", out)[0] == 0
    assert cases(out) == {("misdetect.compare.explain", "compare.explain"): (None, None)}


@pytest.mark.parametrize("where", ["absent/out.xml", "."])
def test_where_nothing_can_be_written_is_refused_before_anything_is_asked(run, world, tmp_path, where):
    before = listing(tmp_path)
    code, out, err = run(*world.detect(tmp_path / "out.json"), "--junit", tmp_path / where)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert listing(tmp_path) == before


def test_an_error_writes_no_report(run, world, tmp_path):
    world.behave(fails_at=0)
    code, _, _ = run(*world.detect(tmp_path / "out.json"), "--junit", tmp_path / "out.xml")
    assert code == 3
    assert not (tmp_path / "out.xml").exists()


def test_characters_that_xml_cannot_hold_are_written_out():
    document = {"study": "explain", "by_class": {"a\x1b\x00\ufffe\uffff\ud800\n": {"AP": 0.5}}}
    gate = Gate("any text \x08 ]]> &amp;", ("by_class", next(iter(document["by_class"])), "AP"), ">", 0)
    verdict = gate.judge(document)
    assert verdict.failed
    (suite,) = ElementTree.fromstring(junit(document, [verdict]))  # noqa: S314 - our own
    (case,) = suite
    assert case.get("name") == "any text \\x08 ]]> &amp;"
    assert "a\\x1b\\x00\\ufffe\\uffff\\ud800\\n" in case[0].text


def test_what_is_no_study_has_a_case_too():
    (suite,) = ElementTree.fromstring(junit({"configurations": {}, "skipped": []}, []))  # noqa: S314 - our own
    assert [case.get("classname") for case in suite] == ["misdetect.harden"]


def unescaped(line):
    """A line as GitHub's runner reads it: the command, its properties, the message."""
    found = re.fullmatch(r"::(\w+) ([^:]*)::(.*)", line)
    decode = [("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")]
    properties, message = found[2], found[3]
    values = dict(each.split("=", 1) for each in properties.split(","))
    for code, letter in decode:
        values = {key: value.replace(code, letter) for key, value in values.items()}
        if letter not in ":,":
            message = message.replace(code, letter)
    return found[1], values, message


@pytest.mark.parametrize("message", ["100 % of a:b, c", "%0A stays", "::error::forged"])
def test_annotations_are_escaped_as_github_reads_them(capsys, message):
    annotate("a: b, 5 %", message)
    (line,) = capsys.readouterr().err.splitlines()
    assert unescaped(line) == ("error", {"title": "a: b, 5 %"}, message)


def test_no_message_has_two_lines(capsys):
    annotate("x\n::error::y", "one\r\n::error::two")
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(("value", "lines"), [("true", 2), ("false", 0), (None, 0)])
def test_on_github_every_gate_that_did_not_pass_is_annotated(run, explained, monkeypatch, value, lines):
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    if value is not None:
        monkeypatch.setenv("GITHUB_ACTIONS", value)
    gates = ("--fail-if", "miss_rate > 0", "--fail-if", "miss_rate > 2", "--fail-if", "mis_rate > 0")
    code, out, err = run("show", explained, *gates, "--json")
    assert code == 2
    says = [each["says"] for each in json.loads(out)["gates"] if each["failed"] is not False]
    annotated = [unescaped(line)[2] for line in err.splitlines() if line.startswith("::")]
    assert annotated == says[:lines]
    assert len(err.splitlines()) == 2 + lines

"""What is said on stderr: with ``--quiet`` nothing but errors, and without a terminal a line every half a minute."""

import json

import pytest
from explain_runs import fates, write

import misdetect as md
from misdetect.cli import VERBS, shell


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(shell, "time", found)
    return found


@pytest.mark.sampled(7)
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_can_be_quiet(run, verb):
    assert "--quiet" in run(verb, "--help")[1]


@pytest.mark.heavy
def test_notes_are_left_out_and_the_result_stays(run, tmp_path):
    few = [image[:1] for image in fates(30, 0)]
    both = [write(tmp_path / "all", fates(30, 0)), write(tmp_path / "few", few)]
    code, said, err = run("compare", *both, "--json")
    assert code == 0
    assert err.startswith("note: ")
    assert run("compare", *both, "--json", "--quiet") == (0, said, "")
    drawn = run("compare", *both)
    assert run("compare", *both, "--quiet") == (0, drawn[1], "")


def test_warnings_are_left_out_and_errors_are_not(run, world, tmp_path):
    world.behave(fails_at=100)
    loud = run(*world.detect(tmp_path / "loud.json"))
    assert "cases failed" in loud[2]
    quiet = run(*world.detect(tmp_path / "quiet.json"), "--quiet", "--no-cache")
    assert (quiet[0], quiet[2]) == (loud[0], "")
    world.behave(fails_at=0)
    code, _, err = run(*world.detect(tmp_path / "none.json"), "--quiet", "--no-cache")
    assert code == 3
    assert err.startswith("misdetect: ")
    assert run("nonsense", "--quiet")[2].startswith("misdetect: ")
    gate = ["show", write(tmp_path / "run", fates(5, 0)), "--quiet", "--fail-if", "done > 0"]
    assert run(*gate)[2].startswith("misdetect: the gate")


def test_quiet_ends_with_the_command(run, world, tmp_path):
    run("detectors", "--quiet")
    world.behave(fails_at=100)
    assert "cases failed" in run(*world.detect(tmp_path / "out.json"))[2]


def test_without_a_terminal_there_is_a_line_every_half_a_minute(clock, capsys):
    with shell.watching("scan") as report:
        for second in range(100):
            clock.now = float(second)
            report(second, 100, {"queries": 2 * second, "cached": 1})
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "scan: 30 of 100 cases, 60 asked, 1 from cache",
        "scan: 60 of 100 cases, 120 asked, 1 from cache",
        "scan: 90 of 100 cases, 180 asked, 1 from cache",
    ]


def test_the_line_says_of_what_and_of_which_study(clock, capsys):
    with shell.watching("checkup") as report:
        clock.now = 31.0
        report(5, 0, {"of": "queries", "queries": 5, "study": "fuzz"})
    assert capsys.readouterr().err == "checkup, fuzz: 5 queries, 5 asked, 0 from cache\n"


def test_quiet_says_no_line_either(clock, capsys):
    with shell.hushed(True), shell.watching("scan") as report:
        clock.now = 31.0
        report(5, 10, {})
    assert capsys.readouterr().err == ""


def test_a_study_reports_while_it_runs(run, world, tmp_path, monkeypatch):
    """With no seconds between lines, one for each case that is finished; stdout stays one document."""
    monkeypatch.setattr(shell, "EVERY", 0.0)
    code, out, err = run(*world.detect(tmp_path / "out.json"), "--json")
    assert code == 0
    json.loads(out)
    lines = [line for line in err.splitlines() if line.startswith("detect: ")]
    assert lines[-1].startswith("detect: 6 of 6 cases, ")


@pytest.mark.heavy
def test_a_checkup_tells_of_which_study_it_is():
    told = set()
    data = "rooms:val,size=96,count=6"
    md.checkup(
        f"glassbox:none,data={data}",
        data,
        minutes=0.1,
        pictures=0,
        progress=lambda done, total, counts: told.add(counts["study"]),
    )
    assert told >= {"detect", "explain", "scan", "fuzz"}

"""``--fail-if`` on the command line: exit codes, one sentence per gate, the document, and what is refused when."""

import json

import pytest
from explain_runs import fates, write
from test_contract import GLASS, commands, listing, runs  # noqa: F401 - fixtures

import misdetect as md
from misdetect.cli import VERBS
from misdetect.said.errors import BadGate
from misdetect.studies.kinds import names

GATED = sorted({*VERBS} & {*names(), "checkup", "compare", "show"})


@pytest.fixture(scope="module")
def explained(tmp_path_factory):
    """A run of explain, and the share of its objects that are missed."""
    images = fates(30, 0)
    missed = [why is not None for image in images for why in image]
    return write(tmp_path_factory.mktemp("gates") / "run", images), sum(missed) / len(missed)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("verb", GATED)
def test_every_study_has_gates(run, verb):
    said = run(verb, "--help")[1]
    assert "--fail-if" in said
    assert "--junit" in said


@pytest.mark.sampled(6)
@pytest.mark.parametrize("verb", GATED)
def test_a_gate_that_cannot_be_read_is_refused_before_anything_is_asked(run, commands, verb, world, tmp_path):  # noqa: F811
    before = listing(tmp_path)
    code, out, err = run(*commands[verb], "--fail-if", "AP50 = 0.8")
    assert (code, out) == (2, "")
    assert err.startswith("misdetect: the gate 'AP50 = 0.8' cannot be read")
    assert err.count("\n") == 1
    assert listing(tmp_path) == before
    assert world.asked == 0
    if verb != "compare":
        code, out, err = run(*commands[verb], "--fail-if", "AP falls by 0.01", "--json")
        assert (code, err) == (2, "")
        assert "give it to misdetect compare" in json.loads(out)["error"]["message"]
        assert listing(tmp_path) == before


@pytest.mark.parametrize(("off", "code"), [(-1e-6, 1), (1e-6, 0)])
def test_the_number_decides_the_exit_code(run, explained, off, code):
    path, rate = explained
    gate = f"miss_rate > {rate + off:.12f}"
    ended, out, err = run("show", path, "--fail-if", gate, "--json")
    document = json.loads(out)
    (judged,) = document["gates"]
    assert (ended, judged["failed"], judged["value"]) == (code, bool(code), pytest.approx(rate))
    assert judged["interval"] == document["intervals"]["miss_rate"]
    assert err.count("\n") == code
    assert not code or f"miss_rate is {rate:.6g} (" in err
    ended, drawn, said = run("show", path, "--fail-if", gate)
    assert (ended, said) == (code, err)
    assert drawn == run("show", path)[1], "the result is shown all the same"


def test_without_gates_the_document_is_as_ever(run, explained):
    assert "gates" not in json.loads(run("show", explained[0], "--json")[1])


def test_several_gates_each_say_their_sentence_and_the_worst_decides(run, explained):
    path, _ = explained
    passes, fails, wrong = "objects < 1", "miss_rate > 0", "mis_rate > 0"

    def ended(*gates):
        options = [word for gate in gates for word in ("--fail-if", gate)]
        code, out, err = run("show", path, *options, "--json")
        assert [each["gate"] for each in json.loads(out)["gates"]] == list(gates)
        return code, err.splitlines()

    assert ended(passes) == (0, [])
    assert ended(passes, fails)[0] == 1
    code, said = ended(fails, wrong, passes)
    assert code == 2, "what cannot be judged is no pass, and no mere failure"
    assert [line.split(":")[1].strip() for line in said] == [
        f"the gate '{fails}' failed",
        f"the gate '{wrong}' cannot be judged",
    ]
    assert said[1].endswith("near it is miss_rate.")


@pytest.mark.heavy
def test_on_a_study_on_detect_and_on_score(run, world, tmp_path):
    scan = ["scan", *GLASS, "--pairs", "1", "--step", "40", "--pictures", "0", "--out", tmp_path / "scan"]
    assert run(*scan, "--fail-if", "affected[0.5] > -1", "--fail-if", "positions < 1")[0] == 1
    assert run(*scan, "--fail-if", "affected[0.5] > 100")[0] == 0
    out = tmp_path / "out.json"
    code, said, err = run(*world.detect(out), "--fail-if", "detections < 7", "--json")
    assert code == 1
    assert json.loads(said)["gates"][0]["value"] == 6
    assert "detections is 6." in err
    assert len(json.loads(out.read_text())) == 6, "a gate is about numbers; what was found is kept"
    scored = ["score", "--truth", world.data, "--predictions", out]
    assert run(*scored, "--fail-if", "AP50 < 0.8")[0] == 0
    out.write_text(json.dumps(json.loads(out.read_text())[:3]))
    code, _, err = run(*scored, "--fail-if", "AP50 < 0.8")
    assert code == 1
    assert "ap.AP50 is 0.5" in err


@pytest.mark.heavy
def test_on_a_checkup_keys_begin_with_the_study(run, tmp_path):
    checkup = ["checkup", *GLASS, "--minutes", "0.1", "--pictures", "0", "--out", tmp_path / "out", "--json"]
    code, out, err = run(*checkup, "--fail-if", "scan.affected[0.5] > 200", "--fail-if", "explain.miss_rate > 0")
    document = json.loads(out)
    assert (code, err.count("the gate")) == (1, 1)
    passed, failed = document["gates"]
    assert passed["value"] == document["studies"]["scan"]["affected"]["0.5"]
    assert failed["value"] == document["studies"]["explain"]["miss_rate"] > 0
    code, _, err = run(*checkup, "--fail-if", "miss_rate < 0", "--fail-if", "verify.f_vv < 1")
    assert code == 2
    assert "verify was not run: no part of the data has a state" in err


def test_on_compare_only_what_is_certain_fails(run, tmp_path):
    """The second run misses all that the first finds in every third image, by one mechanism."""
    old = fates(60, 0)
    new = [[why or "discarded" for why in image] if i % 3 == 0 else image for i, image in enumerate(old)]
    for name, images in (("old", old), ("new", new)):
        write(tmp_path / name, images, detector=f"zoo:{name}")
    compared = md.compare(tmp_path / "old", tmp_path / "new")
    (found,) = compared.document["differences"]
    low, high = found["miss_rate"]["interval"]
    assert 0 < low < high
    for gate, failed in (
        ("miss_rate rises", True),
        (f"miss_rate rises by {low - 1e-6:.9f}", True),
        (f"miss_rate rises by {low + 1e-6:.9f}", False),
        ("miss_rate falls", False),
        ("discarded rises", True),
        ("discarded falls", False),
        ("regressor rises", False),
    ):
        (verdict,) = compared.check(gate)
        assert verdict.failed is failed, gate
    both = [tmp_path / "old", tmp_path / "new"]
    assert run("compare", *reversed(both), "--fail-if", "miss_rate rises")[0] == 0
    assert run("compare", *both, "--fail-if", "AP falls")[0] == 2
    out = tmp_path / "out"
    code, said, err = run("compare", *both, "--fail-if", "discarded rises", "--out", out, "--json")
    assert code == 1
    assert "mechanisms.discarded of new changes by +" in err
    assert json.loads((out / "compare.json").read_text()) == json.loads(said)
    assert json.loads(said)["gates"][0]["interval"] == found["mechanisms"]["discarded"]["rate"]["interval"]


@pytest.mark.heavy
def test_two_scores_of_a_worse_detector(run, tmp_path):
    data = "rooms:val,size=96,count=8"
    for name, fault in (("old", "none"), ("new", "sink/class=chair")):
        md.score(md.detect(f"glassbox:{fault},data={data}", data), data, out=tmp_path / name)
    both = [tmp_path / "old", tmp_path / "new"]
    code, _, err = run(
        "compare", *both, "--fail-if", "AP falls by 0.01", "--fail-if", "by_class[chair].AP falls by 0.9"
    )
    assert (code, err.count("the gate ")) == (1, 2)
    assert run("compare", *both, "--fail-if", "by_class[cup].AP falls", "--fail-if", "AP falls by 0.9")[0] == 0


def test_in_python(explained):
    path, rate = explained
    opened = md.open(path)
    (verdict,) = opened.check("miss_rate > 0")
    assert (verdict.failed, verdict.value) == (True, pytest.approx(rate))
    assert md.check(opened, "miss_rate > 0") == md.check(opened.document, ["miss_rate > 0"]) == [verdict]
    with pytest.raises(BadGate, match="near it is miss_rate"):
        opened.check(["miss_rate > 0", "mis_rate > 0"])


def test_names_of_strangers_do_nothing_to_the_terminal(run, explained):
    code, _, err = run("show", explained[0], "--fail-if", "by_class['\x1b[2J'].AP > 1")
    assert code == 2
    assert "\x1b" not in err
    assert "\\x1b[2J" in err

"""The contract every verb keeps: one JSON document, one sentence per failure, documented exit codes, no traceback."""

import json
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from attack_toys import __file__ as toys
from attack_toys import data as tiles
from cli_world import finish, start
from commands import HARDEN
from fuzz_runs import GUIDED, document

import misdetect as md
from misdetect import cli
from misdetect.cli import VERBS
from misdetect.data.export import export_coco

GLASS = ["--detector", "glassbox:sink/class=chair,data=rooms:val,count=8", "--data", "rooms:val,count=8"]

SLOW = ("checkup", "demo", "harden")

BIKES = ["--detector", "glassbox:hallucinate/rate=.5,data=bikes:val,count=3", "--data", "bikes:val,count=3"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Finished runs: ``fuzz``, and ``one`` and ``two`` of explain."""
    folder = tmp_path_factory.mktemp("runs")
    document(*GUIDED, "--queries", 60, "--out", folder / "fuzz", "--pictures", "0")
    for fault, name in (("sink", "one"), ("shift", "two")):
        md.explain(f"glassbox:{fault}/class=chair,data=rooms:val,count=8", "rooms:val,count=8", out=folder / name)
    export_coco(tiles(3), folder / "tiles")
    return folder


@pytest.fixture
def commands(world, runs, tmp_path, monkeypatch):
    """For each verb arguments that work; what is written goes to ``new`` in ``tmp_path``. A server ends at once."""
    monkeypatch.setattr("uvicorn.Server.run", lambda server, sockets: None)
    results = tmp_path / "results.json"
    results.write_text(json.dumps(world.expected))
    fuzz, new = runs / "fuzz", tmp_path / "new"
    attacked = ["--detector", f"python:{toys}:Tiles", "--data", f"coco:{runs / 'tiles' / 'instances.json'}"]
    return {
        "attack": ["attack", *attacked, "--steps", "3", "--ladder", "2", "--transfer", "none", "--out", new],
        "checkup": ["checkup", *GLASS, "--minutes", "0.1", "--pictures", "0", "--out", new],
        "compare": ["compare", runs / "one", runs / "two", "--out", new],
        "confusion": ["confusion", *GLASS, "--out", new, "--pictures", "0"],
        "data": ["data", world.data],
        "demo": ["demo", "--out", new],
        "detect": world.detect(tmp_path / "out.json"),
        "detectors": ["detectors"],
        "doctor": ["doctor", *GLASS, "--images", "6", "--out", new],
        "explain": ["explain", *GLASS, "--out", new, "--pictures", "0"],
        "export": ["export", fuzz, "--which", "all", "--out", new],
        "fuzz": [*GUIDED[:-1], "--queries", "60", "--out", fuzz],
        "harden": [
            *["harden", "--detector", "zoo:ssd", "--data", "rooms:train,count=3", "--with", "adversarial"],
            *HARDEN,
            "--out",
            new,
        ],
        "ledger": ["ledger", fuzz, runs / "one"],
        "pool": ["pool", "--data", "rooms:val,count=6", "--out", new],
        "replay": ["replay", fuzz, "insertion/10", "--trust"],
        "scan": ["scan", *GLASS, "--pairs", "1", "--step", "40", "--out", new, "--pictures", "0"],
        "score": ["score", "--truth", world.data, "--predictions", str(results)],
        "serve": ["serve", runs / "one", "--port", "0"],
        "show": ["show", runs / "one"],
        "verify": ["verify", *BIKES, "--out", new, "--pictures", "0"],
        "zoo": ["zoo"],
    }


def listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if "__pycache__" not in path.parts)


def is_one_sentence(text: str) -> bool:
    return text.startswith("misdetect: ") and text.count("\n") == 1 and "Traceback" not in text and "\x1b" not in text


LEFT = ("detect", "export", "pool")
"""Verbs whose result is what they leave in --out."""


@pytest.mark.parametrize("verb", [pytest.param(v, marks=pytest.mark.heavy) if v in SLOW else v for v in VERBS])
def test_json_is_one_document_with_sorted_keys_and_nothing_else(run, commands, verb, tmp_path):
    code, out, err = run(*commands[verb], "--json")
    assert code == 0, err
    document = json.loads(out)
    assert out == json.dumps(document, sort_keys=True, indent=2) + "\n"
    assert not err.lstrip().startswith("{")
    shutil.rmtree(tmp_path / "new", ignore_errors=True)
    code, drawn, err = run(*commands[verb], "--quiet")
    assert (code, err) == (0, "")
    assert bool(drawn.strip()) == (verb not in LEFT), "what is in a file or a folder is not told again"
    assert not drawn.startswith("{")


CONFUSION = ["confusion", "--detector", "zoo:yolox", "--data", "rooms:val", "--out", "o"]
BAD = {
    "no such verb": ["nonsense"],
    "verb misspelt": ["detct"],
    "no such option": ["detectors", "--nope"],
    "missing option": ["detect", "--data", "coco:x"],
    "missing argument": ["data"],
    "not a number": ["data", "coco:x", "--limit", "many"],
    "number too small": ["data", "coco:x", "--limit", "0"],
    "too much": ["detectors", "surplus"],
    "unknown data scheme": ["data", "nope:x"],
    "no scheme": ["data", "nope"],
    "no such file": ["data", "coco:absent.json"],
    "unknown spec option": ["data", "coco:absent.json,colour=red"],
    "no such results": ["score", "--truth", "coco:absent.json", "--predictions", "absent.json"],
    "unknown detector": ["detect", "--detector", "nope:x", "--data", "coco:x", "--out", "o.json"],
    "no such factory": ["detect", "--detector", "python:absent_module:f", "--data", "coco:x", "--out", "o.json"],
    "no such folder": ["detect", "--detector", "zoo:yolox", "--data", "rooms:val", "--out", "absent/o.json"],
    "out is a folder": ["detect", "--detector", "zoo:yolox", "--data", "rooms:val", "--out", "."],
    "no such cell": [*CONFUSION, "--cell", "chair,spoon"],
    "no such policy": [*CONFUSION, "--policy", "worst"],
    "no budget": ["fuzz", "--detector", "glassbox:none,data=rooms:val", "--data", "rooms:val", "--out", "o"],
    "attack beyond all colours": ["attack", "--detector", "zoo:ssd", "--data", "rooms:val", "--eps", "256"],
    "attack by less than nothing": ["attack", "--detector", "zoo:ssd", "--data", "rooms:val", "--eps", "-1"],
    "attack on no such loss": ["attack", "--detector", "zoo:ssd", "--data", "rooms:val", "--losses", "cls,obj"],
    "attack nowhere": ["attack", "--detector", "zoo:ssd", "--data", "rooms:val", "--where", "there"],
    "attack on a black box": ["attack", "--detector", "glassbox:none,data=rooms:val", "--data", "rooms:val"],
    "no run to replay": ["replay", "absent", "insertion/1"],
    "no run to serve": ["serve", "absent"],
    "no run to export": ["export", "absent", "--out", "o"],
    "no runs to compare": ["compare", "absent", "gone"],
    "no states to verify": [
        "verify",
        "--detector",
        "glassbox:none,data=rooms:val,count=2",
        "--data",
        "rooms:val,count=2",
    ],
    "no such predictions": ["verify", "--detector", "predictions:absent.json", "--data", "bikes:val,count=2"],
    "no state is missing": ["verify", *BIKES, "--missing", ""],
    "no pool without masks": ["pool", "--data", "coco:absent.json", "--out", "o"],
}


@pytest.mark.parametrize("arguments", BAD.values(), ids=BAD)
def test_bad_input_is_one_sentence_and_exit_code_2(run, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert is_one_sentence(err)
    plain = err.removeprefix("misdetect: ").strip()
    code, out, err = run(*arguments, "--json")
    assert (code, err) == (2, "")
    error = json.loads(out)["error"]
    assert set(error) == {"exit_code", "kind", "message"}
    assert error["exit_code"] == 2
    assert out.count("\n") == 1
    if arguments != BAD["no such verb"]:
        assert error["message"] == plain
    assert listing(tmp_path) == []


def test_a_misspelt_verb_is_corrected_and_what_is_missing_is_named(run):
    assert 'Did you mean "detect"' in run(*BAD["verb misspelt"])[2]
    assert "--detector" in run(*BAD["missing option"])[2]
    assert "--nope" in run(*BAD["no such option"])[2]
    assert "--limit" in run(*BAD["not a number"])[2]


def test_version_and_help(run):
    assert run("--version")[:2] == (0, f"misdetect {version('misdetect')}\n")
    code, shown, _ = run("--help")
    assert code == 0
    assert all(verb in shown for verb in VERBS)
    assert run() == (0, *run("--help")[1:])
    code, shown, _ = run("data", "--help")
    assert code == 0
    assert "--masks" in shown


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example_that_parses(verb, run, monkeypatch):
    summary, example = VERBS[verb].help, VERBS[verb].example
    code, shown, _ = run(verb, "-h" if verb == "show" else "--help")
    assert code == 0
    assert " ".join(summary.split())[:40] in " ".join(shown.split())
    assert "Example:" in shown
    assert "<bool>" not in shown
    assert "BOOL" not in shown
    command, _, unused, *_ = cli.app.parse_known_args(shlex.split(f"{verb} {example}"))
    assert callable(command)
    assert not unused


def test_help_waits_for_no_library_that_only_a_verb_needs():
    code = (
        "import sys; sys.argv = ['misdetect', '--help']\nfrom misdetect.cli import main\n"
        "try: main()\nexcept SystemExit: print(*sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert "misdetect.cli" in loaded
    assert not loaded & {"pyarrow", "duckdb", "cv2", "scipy", "torch", "httpx", "onnxruntime", "PIL", "matplotlib"}


def test_the_library_ends_in_silence():
    """DuckDB tells of its own memory at the end of a process where a registry, such as that of ``typing.overload``,
    holds on to a module that uses it."""
    code = "import misdetect as md; md.explain"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""


@pytest.mark.parametrize(
    ("raised", "kind", "says"),
    [
        (PermissionError(13, "Permission denied", "/somewhere/x"), "file", "/somewhere/x: Permission denied."),
        (OSError(28, "No space left on device"), "file", "No space left on device."),
        (KeyError("oops\nand more"), "fault", "KeyError"),
        (KeyboardInterrupt(), "interrupted", "interrupted"),
    ],
)
def test_whatever_happens_is_one_sentence(run, monkeypatch, raised, kind, says):
    def broken(*arguments, **options):
        raise raised

    monkeypatch.setattr(cli, "app", broken)
    expected = 130 if kind == "interrupted" else 2
    code, out, err = run("detectors")
    assert (code, out) == (expected, "")
    assert is_one_sentence(err)
    assert says in err
    code, out, err = run("detectors", "--json")
    assert (code, json.loads(out)["error"]["kind"]) == (expected, kind)
    if kind == "fault":
        monkeypatch.setenv("MISDETECT_TRACEBACK", "1")
        with pytest.raises(KeyError):
            run("detectors")


def test_no_color_means_no_escape_codes(run, commands, monkeypatch):
    """Forced colours show that there would be some."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" in run(*commands["score"])[1]
    assert "\x1b" in run("nonsense")[2]
    monkeypatch.setenv("NO_COLOR", "1")
    for verb in ("score", "explain", "data", "detectors", "show", "ledger"):
        assert "\x1b" not in "".join(run(*commands[verb])[1:])
    assert "\x1b" not in run("nonsense")[2]


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_reader_that_leaves_early_is_no_error(more):
    process = start("detectors", *more)
    process.stdout.close()
    process.stdout = None
    code, _, err = finish(process)
    assert (code, err) == (0, "")


@pytest.mark.parametrize("verb", ["attack", "checkup", "confusion", "detect", "doctor", "explain", "scan"])
def test_an_empty_data_set_is_bad_input_and_leaves_nothing(run, world, tmp_path, verb):
    (world.folder / "empty.json").write_text('{"images": [], "annotations": [], "categories": []}')
    spec = f"python:{world.folder / 'mine.py'}:Mine"
    out = tmp_path / "out"
    code, _, err = run(verb, "--detector", spec, "--data", f"coco:{world.folder / 'empty.json'}", "--out", out)
    assert code == 2
    assert len(err.strip().splitlines()) == 1
    assert not out.exists()


@pytest.mark.parametrize("verb", ["confusion", "detect", "explain", "checkup"])
def test_broken_images_are_bad_input(run, world, tmp_path, verb):
    for photo in world.folder.glob("*.png"):
        photo.write_bytes(b"torn")
    spec = f"python:{world.folder / 'mine.py'}:Mine"
    code, _, err = run(
        verb, "--detector", spec, "--data", f"coco:{world.folder / 'data.json'}", "--out", tmp_path / "o"
    )
    assert code == 2
    assert ".png" in err

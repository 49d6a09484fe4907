"""A base install, without any extra: it tests ONNX files and the embedded detector; what it cannot do it says in one
sentence that names the extra.

The packages of the extras are blocked in a process of its own, which is then the interpreter of a base install; the
heavy test makes the wheel and installs it into real environments.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from misdetect.cli import VERBS
from misdetect.said.extras import command as install

ROOT = Path(__file__).parents[2]
TORCH = ("torch", "torchvision", "safetensors")
MORE = ("transformers", "onnx", "onnx2torch", "boto3", "matplotlib", "scipy", "imagehash", "starlette", "uvicorn")
MORE += ("httpx", "openvino", "ai_edge_litert", "tensorflow", "ray", "datasets", "fiftyone", "s3fs")
BLOCKED = (*TORCH, *MORE)
ENVIRONMENTS = {"base": BLOCKED, "torch": MORE, "without ONNX Runtime": (*BLOCKED, "onnxruntime")}
SCRIPT = """
import contextlib, io, json, sys
blocked, commands = json.loads(sys.argv[1])
for name in blocked:
    sys.modules[name] = None
from misdetect.cli import main
said = []
for command in commands:
    sys.argv = ["misdetect", *command]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
            code = None
        except SystemExit as ended:
            code = ended.code
    said.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(said))
"""
FAMILIES = {
    "zoo:ssd": "torch",
    "torchvision:ssd300_vgg16": "torch",
    "yolox:nano.pth": "torch",
    "hf:folder": "hf",
    "http://127.0.0.1:9/detect": "http",
    "azure-vision:http://127.0.0.1:9": "http",
}
REFUSED = {
    ("zoo", "train", "yolox", "--out", "training"): ("this", "torch"),
    ("serve", "runs"): ("serve", "app"),
    **{
        ("detect", "--detector", spec, "--data", "rooms:val,count=1", "--out", "found.json"): (
            spec.partition(":")[0] + ":",
            extra,
        )
        for spec, extra in FAMILIES.items()
    },
}
FEW = ("--data", "rooms:val,count=2", "--no-cache")
DONE = (
    ("detect", "--detector", "glassbox:none,data=rooms:val,count=2", *FEW, "--out", "a.json"),
    ("detect", "--detector", "zoo:yolox", *FEW, "--out", "b.json"),
    ("explain", "--detector", "zoo:yolox", *FEW, "--out", "explained"),
    ("confusion", "--detector", "zoo:yolox", *FEW, "--out", "confused"),
    ("zoo",),
    ("detectors",),
)

_ABOUT = ("--detector", "zoo:yolox", "--data", "coco:nosuch.json")
_OUT = ("--out", "out")
ABSENT = {
    "attack": (*_ABOUT, *_OUT),
    "checkup": (*_ABOUT, *_OUT),
    "compare": ("nosuch", "neither"),
    "confusion": (*_ABOUT, *_OUT),
    "data": ("coco:nosuch.json",),
    "demo": (),
    "detect": (*_ABOUT, "--out", "found.json"),
    "detectors": ("nosuch.onnx",),
    "doctor": (*_ABOUT, *_OUT),
    "explain": (*_ABOUT, *_OUT),
    "export": ("nosuch", "--to", "folders", *_OUT),
    "fuzz": (*_ABOUT, *_OUT),
    "harden": (*_ABOUT, "--with", "failures:nosuch", *_OUT),
    "ledger": ("nosuch",),
    "pool": ("--data", "coco:nosuch.json", *_OUT),
    "replay": ("nosuch", "insertion/1"),
    "scan": (*_ABOUT, *_OUT),
    "score": ("--predictions", "nosuch.json", "--truth", "coco:nosuch.json"),
    "serve": ("nosuch",),
    "show": ("nosuch",),
    "verify": (*_ABOUT, *_OUT),
    "zoo": ("install", "nosuch"),
}
"""For each verb a command that is right but for a file that is not there; ``demo`` reads none."""
WITHOUT_ARGUMENTS = {"checkup", "demo", "detectors", "zoo"}
"""Verbs that do something when nothing is said."""


def said(commands, blocked, folder):
    arguments = json.dumps([blocked, commands])
    done = subprocess.run([sys.executable, "-c", SCRIPT, arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def asked_of_all():
    """Every verb with ``--help``, with nothing, with a misspelt option, with a file that is not there."""
    commands = {}
    for verb in VERBS:
        commands[verb, "--help"] = "help"
        commands[verb, *ABSENT[verb], "--otu", "x"] = "typo"
        if ABSENT[verb]:
            commands[verb, *ABSENT[verb]] = "absent"
        if verb not in WITHOUT_ARGUMENTS:
            commands[(verb,)] = "nothing"
    return commands


def check(kind, command, code, out, err):
    """Help on stdout; everything else is one sentence on stderr, and exit code 2."""
    assert "Traceback" not in err, (command, err)
    assert "fault in misdetect" not in err, (command, err)
    if kind == "help":
        assert (code, err) == (0, ""), command
        assert out.startswith("Usage: misdetect"), command
    else:
        assert (code, out) == (2, ""), (command, out, err)
        assert err.startswith("misdetect: "), (command, err)
        assert err.rstrip().endswith((".", "?")), (command, err)
        assert err.count("misdetect: ") == 1, (command, err)
    if kind == "typo":
        assert "--otu" in err, (command, err)
    if kind == "absent":
        assert "nosuch" in err or "needs the '" in err, (command, err)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_verb_says_what_is_wrong_in_one_sentence(environment, tmp_path):
    assert set(ABSENT) == set(VERBS), "a verb has no command here"
    commands = asked_of_all()
    answers = said([list(command) for command in commands], ENVIRONMENTS[environment], tmp_path)
    for (command, kind), answer in zip(commands.items(), answers, strict=True):
        check(kind, command, *answer)
    assert not list(tmp_path.iterdir()), "nothing half-written"


def test_a_verb_that_there_is_not_is_said_so(tmp_path):
    commands = [["nosuch"], ["chekcup", "--help"], ["zoo", "train", "--help"]]
    *unknown, (code, out, _) = said(commands, BLOCKED, tmp_path)
    for (first, *_), (refused, nothing, err) in zip(commands, unknown, strict=False):
        assert (refused, nothing) == (2, "")
        assert err.startswith(f'misdetect: Unknown command "{first}".')
    assert code == 0
    assert out.startswith("Usage: misdetect")


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    (folder / "runs").mkdir()
    commands = [*REFUSED, *DONE]
    return folder, dict(zip(commands, said(commands, BLOCKED, folder), strict=True))


@pytest.mark.parametrize(("command", "names"), REFUSED.items(), ids=lambda value: " ".join(value))
def test_what_needs_an_extra_names_it(answers, command, names):
    folder, told = answers
    what, extra = names
    code, out, err = told[command]
    assert (code, out) == (2, "")
    assert " ".join(err.split()) == f"misdetect: {what} needs the '{extra}' extra: {install(extra)}."
    assert command[0] == "serve" or not (folder / command[-1]).exists(), "nothing half-written"


@pytest.mark.parametrize("command", DONE, ids=lambda value: " ".join(value[:3]))
def test_what_needs_none_works(answers, command):
    code, out, err = answers[1][command]
    assert code == 0, err
    assert out


def test_charts_in_files_are_left_out_with_one_note(answers):
    folder, told = answers
    *_, err = next(answer for command, answer in told.items() if command[0] == "explain")
    assert err.count("note: charts are on the page alone") == 1
    assert install("figures") in " ".join(err.split())
    *_, err = next(answer for command, answer in told.items() if command[0] == "confusion")
    drawn = {path.name for path in (folder / "confused" / "images").iterdir()}
    assert drawn, "photos need no matplotlib"
    assert all(name.startswith("cell-") for name in drawn)


@pytest.mark.heavy
def test_a_checkup_runs_and_its_page_has_its_charts(tmp_path):
    command = ["checkup", "zoo:yolox", "rooms:val,count=12", "--minutes", "0.1", "--no-cache", "--out", "checkup"]
    ((code, out, err),) = said([command], BLOCKED, tmp_path)
    assert code == 0, err
    assert out.startswith("zoo:yolox (boxes only) on rooms:val")
    page = (tmp_path / "checkup" / "report.html").read_text(encoding="utf-8")
    assert page.count('data-chart="') > 3
    assert err.count("note: charts are on the page alone") == 1


@pytest.mark.heavy
def test_the_zoo_needs_no_transformers_but_for_deformable_detr(tmp_path):
    command = ["detect", "--data", "rooms:val,count=1", "--no-cache", "--detector"]
    specs = ("zoo:yolox", "zoo:deformable-detr")
    commands = [[*command, spec, "--out", f"{i}.json"] for i, spec in enumerate(specs)]
    (code, _, err), (refused, _, sentence) = said(commands, ("transformers",), tmp_path)
    assert code == 0, err
    assert refused == 2
    assert install("hf") in " ".join(sentence.split())


@pytest.mark.heavy
@pytest.mark.parametrize("extras", ["", "[torch]"], ids=["base", "torch"])
def test_a_real_environment_made_from_the_wheel(extras, tmp_path):
    """What pip brings and nothing else; needs an index."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(ROOT)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    constraints = ["-c", str(ROOT / "constraints.txt")]
    subprocess.run([python, "-m", "pip", "install", "-q", *constraints, f"{wheel}{extras}"], check=True)
    known = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    work = tmp_path / "work"
    work.mkdir()
    for command, kind in asked_of_all().items():
        done = subprocess.run(
            [python, "-m", "misdetect", *command], cwd=work, env=known, capture_output=True, text=True, timeout=120
        )
        check(kind, command, done.returncode, done.stdout, done.stderr)
    assert not list(work.iterdir())
    found = subprocess.run(
        [python, "-m", "misdetect", "detect", "--detector", "zoo:yolox", *FEW, "--out", "found.json"],
        cwd=work, env=known, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr

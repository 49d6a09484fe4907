"""A base install, without any extra: every family that cannot be had says so in one sentence that names its extra.

The packages of the extras are blocked in a process of its own, which is then the interpreter of a base install.
"""

import json
import subprocess
import sys

import pytest

from misdetect.cli import VERBS

BLOCKED = ("torch", "torchvision", "safetensors", "transformers", "onnxruntime", "onnx", "onnx2torch", "boto3")
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
    "zoo:yolox": "torch",
    "torchvision:ssd300_vgg16": "torch",
    "yolox:nano.pth": "torch",
    "hf:folder": "hf",
    "onnx:model.onnx,decoder=yolox,names=coco": "onnx",
}
REFUSED = {
    ("checkup", "--out", "checkup"): ("zoo:", "torch"),
    ("zoo", "train", "yolox", "--out", "training"): ("this", "torch"),
    **{
        ("detect", "--detector", spec, "--data", "rooms:val,count=1", "--out", "found.json"): (
            spec.partition(":")[0] + ":",
            extra,
        )
        for spec, extra in FAMILIES.items()
    },
}
DONE = (
    ("detect", "--detector", "glassbox:none,data=rooms:val,count=2", "--data", "rooms:val,count=2", "--out", "a.json"),
    ("zoo",),
    ("detectors",),
)


def said(commands, blocked, folder):
    arguments = json.dumps([blocked, commands])
    done = subprocess.run([sys.executable, "-c", SCRIPT, arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def helped(tmp_path_factory):
    """What every verb says to ``--help``, and what is said to a verb that there is not, without any extra."""
    commands = [(verb, "--help") for verb in VERBS] + [("zoo", "train", "--help"), ("nosuch",), ("chekcup", "--help")]
    blocked = (*BLOCKED, "starlette", "uvicorn", "openvino", "ai_edge_litert", "tensorflow", "ray")
    return dict(zip(commands, said(commands, blocked, tmp_path_factory.mktemp("help")), strict=True))


def test_no_help_and_no_typo_needs_an_extra(helped):
    for command, (code, out, err) in helped.items():
        if command[0] in VERBS:
            assert (code, err) == (0, ""), command
            assert out.startswith("Usage: misdetect"), command
        else:
            assert (code, out) == (2, ""), command
            assert err.startswith(f'misdetect: Unknown command "{command[0]}".'), command
            assert "Traceback" not in err


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    commands = [*REFUSED, *DONE]
    return folder, dict(zip(commands, said(commands, BLOCKED, folder), strict=True))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("command", "names"), REFUSED.items(), ids=lambda value: " ".join(value))
def test_what_needs_an_extra_names_it(answers, command, names):
    folder, told = answers
    what, extra = names
    code, out, err = told[command]
    assert (code, out) == (2, "")
    assert " ".join(err.split()) == f"misdetect: {what} needs the '{extra}' extra: {command(extra)}."
    assert not (folder / command[-1]).exists(), "nothing half-written"


@pytest.mark.parametrize("command", DONE, ids=lambda value: value[0])
def test_what_needs_none_works(answers, command):
    code, out, err = answers[1][command]
    assert code == 0, err
    assert out


@pytest.mark.heavy
def test_the_zoo_needs_no_transformers_but_for_deformable_detr(tmp_path):
    command = ["detect", "--data", "rooms:val,count=1", "--no-cache", "--detector"]
    specs = ("zoo:yolox", "zoo:deformable-detr")
    commands = [[*command, spec, "--out", f"{i}.json"] for i, spec in enumerate(specs)]
    (code, _, err), (refused, _, sentence) = said(commands, ("transformers",), tmp_path)
    assert code == 0, err
    assert refused == 2
    assert command("hf") in " ".join(sentence.split())

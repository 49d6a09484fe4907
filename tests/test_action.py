"""The action of the repository, step by step as GitHub would run it: its ``run`` lines, with what they are given. What
reaches a network is a stand-in: ``gh`` keeps comments in a file, and ``python -m pip`` writes down what it should
install."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from misdetect.cli import app

ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
DATA = "rooms:val,size=96,count=6"
INPUTS = {"detector": f"glassbox:none,data={DATA}", "data": DATA, "verb": "explain", "options": "--limit 4"}
_GIVEN = re.compile(r"\$\{\{ (\S+) \}\}")

GH = """#!{python}
import json, os, pathlib, sys
kept = pathlib.Path(os.environ["COMMENTS"])
comments = json.loads(kept.read_text()) if kept.exists() else {{}}
words = sys.argv[1:]
if "-X" not in words:
    print(*(name for name, body in comments.items() if body.startswith(os.environ["MARK"])), sep="\\n")
else:
    path = next(word for word in words if word.startswith("repos/"))
    body = pathlib.Path(words[-1].removeprefix("body=@")).read_text()
    comments[path.rpartition("/")[2] if words[words.index("-X") + 1] == "PATCH" else str(len(comments) + 1)] = body
    kept.write_text(json.dumps(comments))
"""
PYTHON = """#!/bin/sh
printf '%s\\n' "$@" > "$INSTALLED"
"""
MISDETECT = """#!/bin/sh
exec {python} -m misdetect "$@"
"""


class Runner:
    """Runs the steps of the action in ``folder``, as the runner of GitHub does with a pull request."""

    def __init__(self, folder):
        self.folder, self.inside = folder, folder / "runner"
        self.inside.mkdir()
        for name, text in (("gh", GH), ("python", PYTHON), ("misdetect", MISDETECT)):
            (self.inside / name).write_text(text.format(python=sys.executable))
            (self.inside / name).chmod(0o755)
        self.files = {name: self.inside / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "INSTALLED")}
        self.comments = self.inside / "comments.json"

    def step(self, name, inputs):
        """Run the step ``name``: its exit code, and everything it says."""
        (step,) = [each for each in ACTION["runs"]["steps"] if each.get("name") == name]
        output = self.files["GITHUB_OUTPUT"]
        outputs = dict(line.split("=", 1) for line in output.read_text().splitlines()) if output.exists() else {}
        known = {f"inputs.{each}": str(said.get("default", "")) for each, said in ACTION["inputs"].items()}
        known |= {f"inputs.{each}": value for each, value in inputs.items()}
        known |= {f"steps.run.outputs.{each}": value for each, value in outputs.items()}
        known |= {"github.token": "none", "github.event.number": "7"}
        assert not _GIVEN.search(step["run"]), "inputs reach a script as variables only"
        given = {name: _GIVEN.sub(lambda found: known.get(found[1], ""), text) for name, text in step["env"].items()}
        where = {
            **os.environ,
            **{name: str(path) for name, path in self.files.items()},
            "PATH": f"{self.inside}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "COMMENTS": str(self.comments),
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_REPOSITORY": "somebody/something",
            "GITHUB_RUN_ID": "12",
            "GITHUB_SERVER_URL": "https://github.com",
        }
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
            cwd=self.folder,
            env=where | given,
            capture_output=True,
            text=True,
            timeout=300,
        )
        return done.returncode, done.stdout + done.stderr

    def all(self, **inputs):
        """Run every step but that which installs; the exit code of the last, and what all said."""
        self.files["GITHUB_OUTPUT"].unlink(missing_ok=True)
        done = [self.step(name, INPUTS | inputs) for name in ("run", "say", "comment", "verdict")]
        assert [code for code, _ in done[:-1]] == [0, 0, 0], done
        return done[-1][0], "".join(said for _, said in done)


@pytest.fixture
def runner(tmp_path):
    if shutil.which("bash") is None:
        pytest.skip("the action runs in bash, which is not installed")
    return Runner(tmp_path)


@pytest.mark.heavy
def test_what_passes_leaves_a_report_and_one_comment(runner):
    assert runner.all(**{"fail-if": "miss_rate > 0.9\n\n  failed > 0\n"})[0] == 0
    out = runner.folder / "misdetect-out"
    assert "<html" in (out / "report.html").read_text()[:500]
    assert (runner.folder / "misdetect-out.xml").read_text().count("<testcase") == 2
    (comment,) = json.loads(runner.comments.read_text()).values()
    assert comment.startswith("<!-- misdetect: misdetect -->\n**misdetect**: passed.")
    assert "somebody/something/actions/runs/12" in comment
    assert runner.files["GITHUB_STEP_SUMMARY"].read_text() == comment


def test_a_gate_that_fails_is_marked_and_the_comment_is_updated(runner):
    assert runner.all()[0] == 0
    code, said = runner.all(**{"fail-if": "miss_rate > -1"})
    assert code == 1
    assert "::error title=misdetect" in said
    (comment,) = json.loads(runner.comments.read_text()).values()
    assert "a gate failed" in comment
    assert "the gate 'miss_rate > -1' failed" in comment
    assert "::error" not in comment
    assert runner.all(name="other", out="more")[0] == 0
    assert len(json.loads(runner.comments.read_text())) == 2


@pytest.mark.heavy
def test_what_cannot_be_judged_is_no_pass(runner):
    code, said = runner.all(**{"fail-if": "mis_rate > 0.9"})
    assert code == 2
    assert "mis_rate" in said
    assert "could not be judged" in (runner.folder / "misdetect-out.md").read_text()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("field", ["detector", "data", "options", "fail-if", "name"])
def test_nothing_in_an_input_is_run(runner, field):
    evil = '$(touch hacked)`touch hacked`"; touch hacked; "~~~~'
    code, _ = runner.all(**{field: evil})
    assert code == (0 if field == "name" else 2)
    assert not (runner.folder / "hacked").exists()
    assert (runner.folder / "misdetect-out.md").read_text().count("\n~~~~") == 2


def test_it_installs_its_own_checkout(runner):
    assert runner.step("install", INPUTS | {"extras": "onnx,torch"})[0] == 0
    *_, pins, what = runner.files["INSTALLED"].read_text().splitlines()
    assert Path(pins).is_file()
    path, _, extras = what.rstrip("]").partition("[")
    known = tomllib.loads((Path(path) / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras.split(",")) <= set(known)
    assert ACTION["inputs"]["extras"]["default"] in known


def test_the_hook_of_pre_commit_is_a_command(tmp_path, monkeypatch):
    (hook,) = HOOKS
    monkeypatch.setattr("misdetect.data.recognise.recognised", lambda text: (text, None))
    name, *words = hook["entry"].split()
    assert name == "misdetect"
    app.parse_args([*words, "data.yaml"], exit_on_error=False, print_error=False)
    assert not hook["pass_filenames"]

"""The pytest plugin in a pytest of its own: fixtures, where they are named, what is refused; the example project."""

import os
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import yaml

from misdetect.said.gates import parsed

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "ci"
DATA = "rooms:val,size=96,count=4"
INSTALLED = bool(entry_points(group="pytest11", name="misdetect"))


def ran(folder, *options):
    """Run pytest in ``folder``: its exit code and what it says."""
    plugin = [] if INSTALLED else ["-p", "misdetect.pytest_plugin"]  # the environment may be older than the entry point
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", *plugin, *options]
    where = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "300"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, env=where)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def project(tmp_path):
    """A project that prints what its fixtures are."""
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\nmisdetect_detector = glassbox:none,data={DATA}\nmisdetect_data = {DATA}\n"
    )
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('x', ['a/b', 'a:b'])\n"
        "def test_fixtures(misdetect_detector, misdetect_data, misdetect_out, x):\n"
        "    print('seen', misdetect_detector.spec, len(misdetect_data), misdetect_out, sep='|')\n"
    )
    return tmp_path


def seen(said):
    return [line.split("|")[1:] for line in said.splitlines() if "seen|" in line]


def test_it_is_an_entry_point_and_imports_nothing_heavy():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert hasattr(import_module(declared["misdetect"]), "pytest_addoption")
    code = "import pytest, misdetect.pytest_plugin, sys; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert "misdetect.pytest_plugin" in loaded
    assert not loaded & {"numpy", "torch", "pyarrow", "duckdb", "cv2", "scipy", "httpx", "PIL", "cyclopts"}
    assert {name for name in loaded if name.startswith("misdetect.")} == {"misdetect.pytest_plugin"}


def test_fixtures_are_what_the_configuration_names(project):
    code, said = ran(project, "-s")
    assert code == 0, said
    first, second = seen(said)
    assert first[:2] == second[:2] == [f"glassbox:none,data={DATA}", "4"]
    assert first[2] != second[2]


def test_the_command_line_goes_before_the_configuration(project, tmp_path):
    sunk = f"glassbox:sink,data={DATA}"
    options = ["--misdetect-detector", sunk, "--misdetect-data", "rooms:val,size=96,count=3", "--misdetect-out", "kept"]
    code, said = ran(project, "-s", *options)
    assert code == 0, said
    (spec, count, first), (_, _, second) = seen(said)
    assert (spec, count) == (sunk, "3")
    assert Path(first).parent == Path(second).parent == Path("kept")
    assert first != second, "names that differ only in what no folder can be called"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("ini", "says"),
    [
        ("", "the fixture misdetect_detector needs --misdetect-detector SPEC, or misdetect_detector = SPEC"),
        ("misdetect_detector = nonsense:x", "misdetect_detector: "),
        (f"misdetect_detector = glassbox:none,data={DATA}", "the fixture misdetect_data needs --misdetect-data SPEC"),
        (f"misdetect_detector = glassbox:none,data={DATA}\nmisdetect_data = coco:gone.json", "gone.json"),
    ],
)
def test_what_is_missing_or_wrong_is_said_in_a_sentence(project, ini, says):
    (project / "pytest.ini").write_text(f"[pytest]\n{ini}\n")
    code, said = ran(project)
    assert code == 1
    assert says in said
    assert "Traceback" not in said
    assert "errors.py" not in said
    assert "2 errors" in said


def test_help_names_the_options(project):
    code, said = ran(project, "--help")
    assert code == 0
    assert all(f"--misdetect-{name}" in said for name in ("detector", "data", "out"))
    assert "misdetect_detector (string)" in said


@pytest.mark.heavy
def test_the_example_passes(tmp_path):
    shutil.copytree(EXAMPLE, tmp_path / "ci")
    code, said = ran(tmp_path / "ci", "--misdetect-out", "runs")
    assert code == 0, said
    assert "5 passed" in said
    assert len(list((tmp_path / "ci" / "runs").iterdir())) == 3


@pytest.mark.heavy
def test_the_example_fails_with_a_detector_that_hallucinates(tmp_path):
    shutil.copytree(EXAMPLE, tmp_path / "ci")
    spec = "glassbox:hallucinate/rate=.9,data=bikes:val,count=6"
    code, said = ran(tmp_path / "ci", "--misdetect-detector", spec, "-k", "missing or enough")
    assert code == 1
    assert "1 failed, 1 passed" in said
    assert "hallucinates: with_localisation.missing_recall is 0." in said
    assert "asserts.py" not in said, "the traceback ends where the test calls"


def test_what_the_example_asks_in_its_workflow_can_be_read():
    steps = yaml.safe_load((EXAMPLE / ".github/workflows/detector.yml").read_text())["jobs"]["detector"]["steps"]
    asked = next(step["with"] for step in steps if "misdetect@" in step.get("uses", ""))
    assert len(parsed(asked["fail-if"].splitlines())) == 3
    assert set(asked) <= set(yaml.safe_load((ROOT / "action.yml").read_text())["inputs"])

"""What is said about extras can be typed as it stands, and nowhere is the index asked for a name that is not ours."""

import re
import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from misdetect.said import extras
from misdetect.said.errors import MissingExtra
from misdetect.said.extras import command

ROOT = Path(__file__).parents[1]
LINES = [
    "numpy>=2.0",
    "torch>=2.6; extra == 'torch'",
    "safetensors>=0.5; extra == 'torch'",
    'google-auth[requests]>=2.30; extra == "cloud"',
    "colorama; sys_platform == 'win32' and extra == 'hf'",
]
FROM_THE_INDEX = re.compile(r"(pip|uv|pipx)[^\n]*install[^\n]*(?<![./\w-])misdetect(\[|[\"'=<>~`]|\s*$)", re.MULTILINE)
"""The project's name where an installer would ask the index for it; a path to a clone or a wheel is none."""


@pytest.fixture
def metadata(monkeypatch):
    monkeypatch.setattr(extras, "requires", lambda name: LINES)


@pytest.mark.usefixtures("metadata")
def test_what_is_said_is_what_the_extra_brings():
    assert command("torch") == "pip install 'torch>=2.6' 'safetensors>=0.5'"
    assert command("cloud") == "pip install 'google-auth[requests]>=2.30'"
    assert command("hf") == "pip install 'colorama'"
    assert command("unknown") == "pip install '.[unknown]'", "an older installation of a clone"
    assert command("gpu", "somebodys-package") == "pip install 'somebodys-package[gpu]'", "they know their own name"
    sentence = str(MissingExtra.named("this", "torch"))
    assert sentence == "this needs the 'torch' extra: pip install 'torch>=2.6' 'safetensors>=0.5'."


def test_once_the_name_is_the_projects_own_it_is_said(monkeypatch):
    monkeypatch.setattr(extras, "PUBLISHED", True)
    assert command("torch") == "pip install 'misdetect[torch]'"


def test_a_clone_that_is_not_installed_has_its_folder(monkeypatch):
    def absent(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "requires", absent)
    assert command("torch") == "pip install '.[torch]'"


def test_the_index_is_asked_for_the_name_nowhere():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    own = {Path(__file__), ROOT / "src/misdetect/said/extras.py"}
    paths = [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    found = []
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if path not in own and (match := FROM_THE_INDEX.search(text)):
            found.append(f"{path.relative_to(ROOT)}: {match[0]}")
    assert len(paths) > 500
    assert not found


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        ("pip install 'misdetect[torch]' pytest", True),
        ("python -m pip install -q misdetect", True),
        ("`pip install misdetect`", True),
        ("pip install './misdetect[torch]' pytest", False),
        ("pip install dist/misdetect-0.1.0-py3-none-any.whl", False),
        ("pip install '.[torch]'", False),
    ],
)
def test_what_counts_as_asking(line, asks):
    assert bool(FROM_THE_INDEX.search(line)) == asks


def test_extras_that_are_named_exist():
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    text = "\n".join(path.read_text() for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))])
    named = {name for found in re.findall(r"pip install '\.\[([\w,-]+)\]'", text) for name in found.split(",")}
    assert len(named) > 5
    assert named <= set(stated)

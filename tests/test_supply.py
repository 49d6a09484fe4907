"""What is installed is what was tested: every dependency has a tested version, and none is copyleft."""

import re
import subprocess
import sys
import sysconfig
from importlib.metadata import distributions
from pathlib import Path

from licences import DEVELOPERS, USERS, needed

ROOT = Path(__file__).parents[1]


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_dependency_is_constrained():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    known = {plain(line.partition("==")[0]) for line in lines if "==" in line}
    asked = set(needed("misdetect", USERS + DEVELOPERS, {})) - {
        "misdetect",
        "setuptools",
        "wheel",
    }
    here = [sysconfig.get_paths()["purelib"]]  # Ray adds a folder of what it brings along to the path
    installed = {plain(each.metadata["Name"]) for each in distributions(path=here)}
    assert len(asked) > 50
    assert {plain(name) for name in asked} & installed <= known


def test_every_tested_version_is_locked_by_the_hashes_of_its_files():
    constrained = set(re.findall(r"^([^#\s]+==\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    entries = (ROOT / "requirements.lock").read_text().replace(" \\\n", " ").splitlines()
    locked = {line.split()[0]: line.split()[1:] for line in entries if not line.startswith("#")}
    assert {line for line in constrained if line.partition("==")[0] not in ("torch", "torchvision")} == set(locked)
    for name, files in locked.items():
        assert files, name
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", file) for file in files), name


def test_no_dependency_is_under_a_licence_of_the_gpl_family():
    done = subprocess.run([sys.executable, ROOT / "tools" / "licences.py"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "| numpy |" in done.stdout

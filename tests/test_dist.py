"""What is published: the wheel has everything that the package reads, the source archive nothing of others'."""

import json
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def tracked(folder):
    listed = subprocess.run(["git", "ls-files", "-z", folder], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the source archive, by the backend that pip uses; needs an index where that is not installed."""
    folder = tmp_path_factory.mktemp("dist")
    tools = folder / "tools"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", str(tools)]
    if subprocess.run([*pip, "hatchling"], capture_output=True).returncode:
        pytest.skip("hatchling cannot be had here")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": str(tools), "PATH": ""}, check=True, capture_output=True)
    return folder


@pytest.mark.heavy
def test_the_wheel_has_every_file_of_the_package(built):
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        inside = {name for name in archive.namelist() if name.startswith("misdetect/")}
    expected = {name.removeprefix("src/") for name in tracked("src")}
    assert inside == expected
    for ending in (".onnx", ".safetensors", ".shapes", ".js", ".css", "manifest.json", "py.typed", "__init__.pyi"):
        assert any(name.endswith(ending) for name in inside), ending


@pytest.mark.heavy
def test_the_source_archive_builds_and_tests_it_and_has_nothing_of_others(built):
    (path,) = built.glob("*.tar.gz")
    stem = path.name.removesuffix(".tar.gz")
    with tarfile.open(path) as archive:
        inside = {name.removeprefix(f"{stem}/") for name in archive.getnames()}
    for folder in ("src", "tests", "tools", "benchmarks", "examples"):
        assert tracked(folder) <= inside, folder
    files = {"LICENSE", "README.md", "pyproject.toml", "Makefile", "constraints.txt", "CITATION.cff", "SECURITY.md"}
    assert files <= inside
    own = ("src/", "tests/compose/opencv_hog.npz", "tests/detectors/models/")
    others = {name for name in inside if name.endswith((".png", ".jpg", ".onnx", ".pt", ".npz", ".tflite", ".pdf"))}
    assert {name for name in others if not name.startswith(own)} == set()


def test_what_pip_shows_is_filled_in():
    assert PROJECT["authors"] == [{"name": "the misdetect developers"}]
    assert len(PROJECT["keywords"]) > 5
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)} <= set(PROJECT["classifiers"])
    assert not [each for each in PROJECT["classifiers"] if each.startswith("License ::")], "the expression says it"
    assert PROJECT["license"] == "Apache-2.0"


def test_the_citation_is_of_this_version_and_names_the_five_papers():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    titles = [each["title"].partition(":")[0].partition("?")[0] for each in citation["references"]]
    assert len(titles) == 5
    page = (ROOT / "docs" / "papers.md").read_text().lower()
    assert [title for title in titles if title.lower() not in page] == []


def test_the_release_needs_no_token_and_its_make_target_is_there():
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    publish = workflow["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert "secrets." not in text
    assert "password" not in json.dumps(publish)
    assert "make dist" in json.dumps(workflow["jobs"]["build"])
    assert "\ndist:\n" in (ROOT / "Makefile").read_text()

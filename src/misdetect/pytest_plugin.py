"""The pytest plugin: the detector and the data under test as fixtures, named in ``pytest.ini`` or on the command line.

It is loaded with every pytest where misdetect is installed, so it imports nothing: what a fixture needs is imported
when a test asks for it. The assertions to go with it are ``misdetect.assert_stable`` and its like.
"""

import re
from hashlib import sha256
from pathlib import Path

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from misdetect.data.dataset import Dataset
    from misdetect.nouns.protocols import Detector

    Loaded = TypeVar("Loaded")

OPTIONS = {
    "misdetect_detector": ("SPEC", "the detector of the fixture misdetect_detector; see `misdetect detectors`"),
    "misdetect_data": ("SPEC", "the data of the fixture misdetect_data, e.g. coco:instances.json"),
    "misdetect_out": ("DIR", "keep the runs of tests here, instead of in their tmp_path"),
}
"""Each is given on the command line (``--misdetect-data SPEC``) or in the configuration (``misdetect_data = SPEC``)."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, on the command line and in the configuration."""
    group = parser.getgroup("misdetect", "failures of object detectors")
    for name, (value, said) in OPTIONS.items():
        group.addoption(f"--{name.replace('_', '-')}", metavar=value, default=None, help=said)
        parser.addini(name, said, default="")


def _given(config: pytest.Config, name: str) -> str:
    return str(config.getoption(name) or config.getini(name) or "")


def _loaded(config: pytest.Config, name: str, load: "Callable[[str], Loaded]") -> "Loaded":
    from misdetect import MisdetectError

    if not (spec := _given(config, name)):
        option = f"--{name.replace('_', '-')}"
        pytest.fail(f"the fixture {name} needs {option} SPEC, or {name} = SPEC in the configuration.", pytrace=False)
    try:
        return load(spec)
    except MisdetectError as error:
        pytest.fail(f"{name}: {error}", pytrace=False)


@pytest.fixture(scope="session")
def misdetect_detector(pytestconfig: pytest.Config) -> "Detector":
    """The detector that ``--misdetect-detector`` or the configuration names, loaded once."""
    from misdetect import load_detector

    return _loaded(pytestconfig, "misdetect_detector", load_detector)


@pytest.fixture(scope="session")
def misdetect_data(pytestconfig: pytest.Config) -> "Dataset":
    """The data that ``--misdetect-data`` or the configuration names."""
    from misdetect import load_data

    return _loaded(pytestconfig, "misdetect_data", load_data)


@pytest.fixture
def misdetect_out(request: pytest.FixtureRequest) -> Path:
    """A folder for the runs of this test (``out=misdetect_out / "scan"``): in ``--misdetect-out``, or in its
    ``tmp_path``."""
    folder = _given(request.config, "misdetect_out")
    if not folder:
        found: Path = request.getfixturevalue("tmp_path")
        return found / "misdetect"
    name: str = request.node.nodeid
    readable = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[-80:]
    return Path(folder) / f"{readable}-{sha256(name.encode()).hexdigest()[:8]}"

"""Runs to serve, made once: explain by two detectors, detect and score, fuzz and scan, on the same few rooms."""

import pytest
from served import BAD, DATA, GOOD, NEAR, Asked, serving

import misdetect as md
from misdetect.engine import store


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """A folder of run directories: ``explain``, ``other`` (of another detector), ``detect``, ``score``, ``fuzz`` and
    ``scan``. Every case has a part of its own."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "FLUSH_ROWS", 1)
        md.explain(BAD, DATA, out=folder / "explain")
        md.explain(GOOD, DATA, out=folder / "other")
        found = md.detect(BAD, DATA, out=folder / "detect")
        md.score(found, found.data, out=folder / "score")
        md.fuzz(NEAR, DATA, queries=60, out=folder / "fuzz")
        md.scan(NEAR, DATA, pairs=1, step=32, out=folder / "scan")
    return folder


@pytest.fixture(scope="session")
def address(runs):
    with serving([runs]) as found:
        yield found


@pytest.fixture(scope="session")
def asked(address):
    return Asked(address)

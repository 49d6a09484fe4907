"""Fixtures of the command line's tests."""

import pytest
from cli_world import World


@pytest.fixture
def world(tmp_path):
    (tmp_path / "world").mkdir()
    return World(tmp_path / "world")

"""A loopback server, and detectors that ask it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from loopback import Server, detectors_of, running_server

from misdetect.detectors.http.endpoint import HttpDetector


@pytest.fixture
def server() -> Iterator[Server]:
    with running_server() as running:
        yield running


@pytest.fixture
def make(server: Server, tmp_path: Path) -> Iterator[Callable[..., HttpDetector]]:
    with detectors_of(server, tmp_path) as build:
        yield build

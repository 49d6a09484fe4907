"""The four services on a loopback server, and detectors that ask them."""

from collections.abc import Callable, Iterator

import pytest
from cloud_services import cloud_server, clouds_at
from loopback import Server

from misdetect.detectors.cloud.services import CloudDetector


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with cloud_server(monkeypatch) as running:
        yield running


@pytest.fixture
def make(server: Server) -> Iterator[Callable[..., CloudDetector]]:
    with clouds_at(server) as build:
        yield build

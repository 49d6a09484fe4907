"""The same cluster, reached by its client server (``ray://``), as from a machine that is not one of its own."""

import socket

import pytest

pytest.importorskip("ray", reason="Ray is not installed (pip install '.[ray]')")

from clusters import ray_processes, two_nodes, until
from test_cluster import (  # noqa: F401 - they run again here, with these nodes
    test_a_lost_object_is_put_again,
    test_a_parent_that_is_killed_leaves_no_actor_and_goes_on,
    test_an_actor_that_is_lost_is_replaced_and_its_cases_are_asked_again,
    test_rows_are_those_of_one_process,
    test_the_parent_counts_the_budget_to_the_last_query,
)

from misdetect.engine.cluster import connect
from misdetect.said.errors import BadCluster

pytestmark = pytest.mark.heavy


class Reached:
    """A cluster as a stranger sees it."""

    def __init__(self, port):
        self.address = f"ray://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def nodes():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with two_nodes(head={"ray_client_server_port": port}) as cluster:
        yield Reached(port)
        with pytest.raises(BadCluster, match=r"connected to the Ray cluster at .* already, not to 127.0.0.1:1"):
            connect("127.0.0.1:1")
        assert cluster.address.rpartition(":")[2] in str(connect(cluster.address).get_runtime_context().gcs_address)
    assert until(lambda: not ray_processes()), "Ray's processes are gone afterwards"

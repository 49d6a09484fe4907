"""A real Ray cluster of two nodes for tests, and what is run on it."""

import contextlib
import os
import signal
import time
from pathlib import Path

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_health_check_initial_delay_ms", "1000")  # a lost node is noticed within seconds
os.environ.setdefault("RAY_health_check_period_ms", "500")
os.environ.setdefault("RAY_health_check_timeout_ms", "2000")
os.environ.setdefault("RAY_health_check_failure_threshold", "3")
os.environ.setdefault("RAY_AUTH_MODE", "disabled")

SMALL = {"num_cpus": 1, "object_store_memory": 100 << 20}


@contextlib.contextmanager
def signals_given_back():
    """Ray takes SIGTERM for itself when it starts nodes."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def two_nodes(head=None, **second):
    """A cluster of a head and another node with one CPU each; ``second`` are arguments for the other."""
    import ray
    from ray.cluster_utils import Cluster

    with signals_given_back():
        cluster = Cluster(initialize_head=True, head_node_args={**SMALL, "include_dashboard": False, **(head or {})})
    try:
        with signals_given_back():
            cluster.other = cluster.add_node(**SMALL, **second)
            cluster.wait_for_nodes()
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def ray_processes():
    """Processes of Ray that this process's tests have started, by their command."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            command = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
            session = os.getsid(int(entry.name)) if entry.name.isdigit() else -1
            if session == os.getsid(0) and ("raylet" in command or "ray::" in command or "gcs_server" in command):
                found.append(command[:80])
    return found


def until(condition, seconds=60.0):
    """Wait until ``condition()``; whether it came true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True

"""Who runs the cases of a study: settings that every command with workers has."""

from dataclasses import dataclass
from typing import Annotated, Any

from misdetect.engine.backend import Cluster
from misdetect.nouns.settings import RUNNING, Heading, Range, Settings
from misdetect.said.errors import BadSpec

_HOW = Heading("Running")


@dataclass(frozen=True, kw_only=True)
class Workforce(Settings):
    """How many workers there are, and where; nothing here changes rows."""

    workers: Annotated[int | None, RUNNING, _HOW, Range(1, 256)] = None
    """Processes, each with its own detector: by default one, and on a cluster as many as it has room for."""
    cluster: Annotated[str | None, RUNNING, _HOW] = None
    """Run on a Ray cluster: ray (the one that Ray finds, else one of this machine), ray:ADDRESS, or ray://HOST:PORT
    (its client server)."""
    cpus_per_worker: Annotated[float, RUNNING, _HOW, Range(0)] = 1.0
    """Of a cluster: CPUs that each worker takes up."""
    gpus_per_worker: Annotated[float, RUNNING, _HOW, Range(0)] = 0.0
    """Of a cluster: GPUs, or a share of one, that each worker takes up."""
    ship_data: Annotated[bool, RUNNING, _HOW] = False
    """Send the images to the cluster, whose nodes do not see their paths."""

    def __post_init__(self) -> None:
        super().__post_init__()
        scheme, colon, address = (self.cluster or "ray").partition(":")
        if scheme != "ray" or (colon and not address):
            raise BadSpec(f"cluster should be ray or ray:ADDRESS. Got {self.cluster!r}.")
        if not self.cpus_per_worker and not self.gpus_per_worker:
            raise BadSpec("a worker takes up CPUs or GPUs, but cpus_per_worker and gpus_per_worker are both 0.")
        if self.ship_data and self.cluster is None:
            raise BadSpec("ship_data is for a cluster (cluster='ray'); workers of this machine see its files.")

    @property
    def elsewhere(self) -> Cluster | None:
        """The cluster to run on, if it is that."""
        if self.cluster is None:
            return None
        address = self.cluster.partition(":")[2] or None
        if address is not None and address.startswith("//"):
            address = self.cluster
        return Cluster(address, self.cpus_per_worker, self.gpus_per_worker, self.ship_data)

    @property
    def workforce(self) -> dict[str, Any]:
        """These settings alone, for a study that is run on behalf of another."""
        names = ("workers", "cluster", "cpus_per_worker", "gpus_per_worker", "ship_data")
        return {name: getattr(self, name) for name in names}

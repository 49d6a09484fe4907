"""A real S3 server (moto's) in a process of its own, which can be taken away, and commands that talk to it."""

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

KEYS = {"AWS_ACCESS_KEY_ID": "known", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class S3:
    """The server; ``folder`` is where machines have their caches, and where its log is."""

    folder: Path
    port: int = field(default_factory=free_port)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, **more: str) -> None:
        log = (self.folder / "moto.log").open("ab")
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self.process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **more})
        deadline = time.monotonic() + 120
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert self.process.poll() is None, (self.folder / "moto.log").read_text()
                assert time.monotonic() < deadline, "the server does not come up"
                time.sleep(0.1)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def store(self):
        """The bucket as a file system, made if it is not there."""
        import s3fs

        found = s3fs.S3FileSystem(
            endpoint_url=self.address,
            key=KEYS["AWS_ACCESS_KEY_ID"],
            secret=KEYS["AWS_SECRET_ACCESS_KEY"],
            use_listings_cache=False,
            skip_instance_cache=True,
        )
        if not found.exists("bucket"):
            found.mkdir("bucket")
        return found

    def environment(self, machine: str, **more: str) -> dict[str, str]:
        own = {"XDG_CACHE_HOME": str(self.folder / machine), "AWS_ENDPOINT_URL": self.address, "NO_COLOR": "1"}
        return {**os.environ, **KEYS, **own, **more}

    def begin(self, machine: str, *line: object, **more: str) -> "subprocess.Popen[str]":
        """``misdetect LINE`` on a machine, under way."""
        command = [sys.executable, "-m", "misdetect", *map(str, line)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, text=True, env=self.environment(machine, **more), **pipes)

    def run(self, machine: str, *line: object, **more: str) -> "subprocess.CompletedProcess[str]":
        """The same, to its end."""
        begun = self.begin(machine, *line, **more)
        out, err = begun.communicate(timeout=300)
        return subprocess.CompletedProcess(begun.args, begun.returncode, out, err)


def kill(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()

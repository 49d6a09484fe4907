"""Runs served until somebody ends it: the socket, the address, the token."""

import errno
import ipaddress
import secrets
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from misdetect.kept.system import WINDOWS
from misdetect.said.errors import BadSpec, MissingExtra

try:
    import uvicorn

    from misdetect.app.safety import LOCAL
    from misdetect.app.server import Playground, application
    from misdetect.app.shelf import Shelf
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn"):
        raise
    raise MissingExtra.named("serve", "app") from None


def serve(
    runs: Path | str | Sequence[Path | str],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    write: bool = False,
    playground: Playground | None = None,
    ready: Callable[[dict[str, Any]], None] | None = None,
) -> None:
    """Serve ``runs`` (run directories, or folders of them, such as a checkup's) until the process is interrupted.

    ``port`` 0: any that is free. ``write``: tags and notes may be added. Beyond this machine (another ``host``) a token
    is asked for, which is in the address. ``ready`` is called once with what is served: ``address``, ``runs``,
    ``rows``, ``problems``, ``write``, ``playground``.
    """
    shelf = Shelf([runs] if isinstance(runs, Path | str) else runs)
    bound = _bound(host, port)
    with bound:
        own = is_local(host)
        token = None if own else secrets.token_urlsafe(24)
        made = application(shelf, playground=playground, write=write, allowed_hosts=LOCAL if own else None, token=token)
        number = bound.getsockname()[1]
        address = f"http://{_named(host)}:{number}/" + (f"?token={token}" if token else "")
        if ready is not None:
            ready({
                "address": address,
                "runs": [each.name for each in shelf.runs],
                "rows": made.state.app.rows,
                "problems": made.state.app.problems,
                "write": write,
                "playground": playground is not None,
            })  # fmt: skip
        how = uvicorn.Config(made, log_level="error", access_log=False, server_header=False, limit_concurrency=256,
                             timeout_graceful_shutdown=1, lifespan="off")  # fmt: skip
        uvicorn.Server(how).run(sockets=[bound])


def is_local(host: str) -> bool:
    """Whether only this machine reaches a server that is bound to ``host``."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _bound(host: str, port: int) -> socket.socket:
    """A socket at ``host`` and ``port``, or a sentence that says why there is none."""
    try:
        kind, _, _, _, place = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(kind, socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise BadSpec(f"{host!r} is no address of this machine; choose another --host.") from None
    try:
        if not WINDOWS:  # there it would let two servers have one port
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(place)
        found.listen(128)
    except OSError as error:
        found.close()
        if error.errno == errno.EADDRINUSE:
            raise BadSpec(f"port {port} is in use; choose another with --port (0: any that is free).") from None
        raise BadSpec(f"port {port} of {host} cannot be had: {error.strerror}.") from None
    return found


def _named(host: str) -> str:
    """``host`` in an address that somebody can open."""
    plain = host.strip("[]")
    if plain in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{plain}]" if ":" in plain else plain

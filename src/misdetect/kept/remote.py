"""``Remote``: a folder in object storage (``s3://bucket/folder``), by the few operations that a run needs.

fsspec talks to the store. What is written is one complete object under its final name: it is there whole or not at
all, so nothing is renamed. Every failure is one sentence that names the address. Local files are not here: ``files``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from misdetect.kept.system import WINDOWS, portable_name
from misdetect.said.errors import BadData, BadSpec, MissingExtra

OBJECT_STORES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oci", "oss", "memory")
"""Where an object is written whole or not at all: what a run's promises need."""
_URL = re.compile(r"([a-z][a-z0-9+]+):/+(.*)", re.DOTALL)
_NO_STORES = ("file", "local", "http", "https")
_TIMES = ("LastModified", "mtime", "updated", "last_modified", "created")
"""What different stores call the time at which an object was written."""
_AT_ONCE = 1000
"""Objects that S3 removes in one request."""
_S3 = {"connect_timeout": 10, "read_timeout": 60, "retries": {"max_attempts": 3}}


class Unreachable(BadData):
    """A store cannot be read or written: no such bucket, no right to it, no answer. What was written stays."""

    kind = "unreachable"


@dataclass(frozen=True)
class Entry:
    """An object: its size in bytes, and when it was written by the store's own clock (seconds; 0: not known)."""

    size: int
    written: float


def as_url(path: Path | str) -> str | None:
    """``path`` as the address that it is (``Path`` makes one slash of two), or ``None`` where it is a local path."""
    found = _URL.fullmatch(str(path))
    if found is None or (isinstance(path, Path) and path.is_absolute()):
        return None
    if found[1] in _NO_STORES:
        raise BadSpec(f"{found[1]}://{found[2]} is no address of a store; write a local path as it is, or s3://….")
    return f"{found[1]}://{found[2].strip('/')}"


class Remote:
    """The folder ``url``. Names are relative to it, with ``/`` between their parts."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.protocol = url.partition(":")[0]

    @cached_property
    def _store(self) -> tuple[Any, str]:
        try:
            from fsspec.core import url_to_fs  # type: ignore[import-untyped, unused-ignore]
        except ImportError:
            raise MissingExtra.named(self.url, "s3") from None
        more = {"config_kwargs": _S3, "use_listings_cache": False} if self.protocol in ("s3", "s3a") else {}
        try:
            return url_to_fs(self.url, **more)  # type: ignore[no-any-return]
        except ImportError:
            if self.protocol in ("s3", "s3a"):
                raise MissingExtra.named(self.url, "s3") from None
            raise BadSpec(f"{self.url} needs a package that fsspec reads {self.protocol}:// with.") from None
        except ValueError as error:
            raise BadSpec(f"{self.url} is no address that fsspec knows: {_reason(error)}.") from None

    def __getstate__(self) -> dict[str, Any]:
        return {"url": self.url, "protocol": self.protocol}  # each process has its own connections

    def _at(self, name: str) -> str:
        base = self._store[1]
        return f"{base}/{name}" if name else base

    @contextmanager
    def _said(self, what: str, name: str) -> Iterator[Any]:
        try:
            yield self._store[0]
        except FileExistsError:
            raise
        except Exception as error:
            if isinstance(error, (BadData, BadSpec, MissingExtra)):
                raise
            raise Unreachable(f"{self.url}/{name} cannot be {what}: {_reason(error)}.") from error

    def entries(self, name: str) -> dict[str, Entry]:
        """All objects below ``name``, or the one that is called so. Names that lead out of it are refused."""
        with self._said("listed", name) as store:
            store.invalidate_cache()
            try:
                found = store.find(self._at(name), detail=True)
            except FileNotFoundError as error:
                if "bucket" in str(error).lower():
                    raise
                return {}
            start = len(self._at("")) + 1
            kept = {path[start:]: about for path, about in found.items() if about.get("type") != "directory"}
        return {path: Entry(int(about["size"] or 0), _time(about)) for path, about in kept.items() if self._fits(path)}

    def _fits(self, name: str) -> bool:
        parts = name.split("/")
        if any(part in ("..", ".") or "\0" in part or "\\" in part for part in parts):
            raise Unreachable(f"{self.url} holds an object called {name!r:.80}, which leads out of its folder.")
        if WINDOWS and any(part != portable_name(part) for part in parts if part):
            raise Unreachable(f"{self.url} holds an object called {name!r:.80}, which no file on Windows can be.")
        return all(parts)  # some tools make objects of no bytes that stand for folders

    def read(self, name: str) -> bytes:
        """The bytes of an object."""
        with self._said("read", name) as store:
            return bytes(store.cat_file(self._at(name)))

    def fetch(self, targets: Mapping[str, Path]) -> None:
        """Copy objects to local files, several at once."""
        if targets:
            with self._said("read", next(iter(targets))) as store:
                store.get([self._at(name) for name in targets], [str(path) for path in targets.values()])

    def write(self, name: str, data: bytes) -> None:
        """Make ``data`` the object ``name``: the old one or the new one is there, nothing between."""
        with self._said("written", name) as store:
            store.pipe_file(self._at(name), data)

    def write_all(self, objects: Mapping[str, bytes]) -> None:
        """The same for several, at once where the store can do that."""
        if objects:
            with self._said("written", next(iter(objects))) as store:
                store.pipe({self._at(name): data for name, data in objects.items()})

    def create(self, name: str, data: bytes) -> bool:
        """The same, unless there is one already; whether there was none. The store itself decides who is first."""
        try:
            with self._said("written", name) as store:
                store.pipe_file(self._at(name), data, mode="create")
        except FileExistsError:
            return False
        except Unreachable as error:
            if "PreconditionFailed" in repr(error.__cause__) or "pre-conditions" in str(error.__cause__):
                return False
            raise
        return True

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects; those that are not there are no error."""
        wanted = list(names)
        with self._said("removed", wanted[0] if wanted else "") as store:
            if len(wanted) > 1 and hasattr(store, "bulk_delete"):
                for start in range(0, len(wanted), _AT_ONCE):
                    store.bulk_delete([self._at(name) for name in wanted[start : start + _AT_ONCE]])
                return
            for name in wanted:
                with suppress(FileNotFoundError):
                    store.rm_file(self._at(name))


def _reason(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def _time(about: Mapping[str, Any]) -> float:
    """When an object was written; 0 where its store does not say."""
    for name in _TIMES:
        found = about.get(name)
        if isinstance(found, str):
            found = datetime.fromisoformat(found)
        if isinstance(found, datetime):
            return found.timestamp()
        if isinstance(found, (int, float)):
            return float(found)
    return 0.0

"""Predictions by content: a question that was answered once is not asked again, in this run or any later one.

One SQLite file holds encoded ``Detections`` under a hash of (detector fingerprint, picture key). It is bounded, least
recently used go first, several processes share it, and nobody but the user can read it. It can only save time: where it
is locked, full, broken or no cache at all, it turns itself off and the run goes on.
"""

import contextlib
import json
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from misdetect.kept.mirror import mirror_of
from misdetect.kept.system import unlink
from misdetect.nouns.detections import Detections, Said
from misdetect.nouns.masks import Masks
from misdetect.nouns.open_names import is_word, number_of, words_of
from misdetect.said.errors import BadData

DEFAULT_BYTES = 1 << 30
UNBOUNDED = 1 << 50
SUFFIXES = ("", "-wal", "-shm")
"""What SQLite calls the files beside its own."""
_TOUCH_AFTER = 3600 * 10**9
"""Nanoseconds after which a hit renews an entry's age; finer would turn every read into a write."""
_WRITE_EVERY = 0.25
_PATIENCE = 5.0
"""Seconds to wait for another process's write."""
_ASK_AT_ONCE = 500
_CHECK_BYTES = 8
_APPLICATION = 0x6D697364
"""Marks the file as ours, so that another program's database is never written to."""
_TABLE = "predictions (key TEXT PRIMARY KEY, value BLOB, used INTEGER) WITHOUT ROWID"
_INDEX = "by_age ON predictions (used)"
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
"""What decoding an entry of another version, or of a stranger, may raise."""


def default_path() -> Path:
    """``$MISDETECT_CACHE``, or ``misdetect/predictions.sqlite`` in the user's cache folder."""
    if "MISDETECT_CACHE" in os.environ:
        return Path(os.environ["MISDETECT_CACHE"])
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "misdetect" / "predictions.sqlite"


def encode(detections: Detections, key: str = "") -> bytes:
    """``detections`` as bytes with a checksum, which holds for ``key`` alone; exact, the same for the same."""
    n = len(detections)
    data = n.to_bytes(4, "little")
    data += detections.boxes.tobytes() + detections.scores.tobytes() + detections.labels.tobytes()
    more: dict[str, Any] = {}
    if detections.masks is not None:
        more["size"] = [detections.masks.height, detections.masks.width]
        more["counts"] = [detections.masks.rle(i)["counts"] for i in range(n)]
    elif isinstance(detections, Said):
        more["said"] = True
    if n and not isinstance(detections, Said) and is_word(detections.labels).all():
        more["words"] = words_of(detections.labels)  # their numbers say nothing to a process that never heard them
    data += json.dumps(more).encode() if more else b""
    return _checksum(data, key) + data


def _checksum(data: bytes, key: str) -> bytes:
    return blake2b(data, digest_size=_CHECK_BYTES, key=blake2b(key.encode()).digest()).digest()


def decode(data: bytes, key: str = "") -> Detections:
    """The inverse of ``encode``; a ``ValueError`` where the bytes have changed, or are those of another key."""
    check, data = data[:_CHECK_BYTES], data[_CHECK_BYTES:]
    if check != _checksum(data, key):
        raise ValueError("an entry does not have the checksum it was written with")
    n = int.from_bytes(data[:4], "little")
    columns = np.frombuffer(data, dtype=np.float64, count=5 * n, offset=4)
    labels = np.frombuffer(data, dtype=np.int64, count=n, offset=4 + 40 * n)
    tail, masks = data[4 + 48 * n :], None
    if tail:
        stored = json.loads(tail)
        if "said" in stored:
            return Said(columns[: 4 * n].reshape(n, 4), columns[4 * n :], labels)
        if [number_of(word) for word in stored.get("words", ())] != (labels.tolist() if "words" in stored else []):
            raise ValueError("an entry's words do not have its numbers")
        if "size" in stored:
            masks = Masks([{"size": stored["size"], "counts": c} for c in stored["counts"]], *stored["size"])
    return Detections(columns[: 4 * n].reshape(n, 4), columns[4 * n :], labels, masks)


class Cache:
    """A bounded store of detections on disk; ``problem`` says why it is off, if it is. One that is ``needed`` (a run's
    journal) raises instead: what it cannot keep would have to be paid for again."""

    def __init__(self, path: Path | None = None, max_bytes: int = DEFAULT_BYTES, *, needed: bool = False) -> None:
        self.max_bytes, self._needed = max_bytes, needed
        self.problem: str | None = None
        self._db: sqlite3.Connection | None = None
        self._pending: dict[str, bytes] = {}
        self._renewed: set[str] = set()
        self._written = time.monotonic()
        self._lock = threading.RLock()
        self.path = path
        try:
            self.path = path or default_path()
            _claim(self.path, own_folder=path is None and "MISDETECT_CACHE" not in os.environ, shared=needed)
            self._db = _open(self.path)
        except (sqlite3.Error, OSError, RuntimeError, ValueError) as error:
            self._off(error)

    def get(self, keys: Iterable[str]) -> dict[str, Detections]:
        """What is known of ``keys``."""
        wanted = list(keys)
        with self._lock:
            return self._get(self._db, wanted) if self._db is not None and wanted else {}

    def _get(self, db: sqlite3.Connection, wanted: list[str]) -> dict[str, Detections]:
        stale = time.time_ns() - _TOUCH_AFTER
        found: dict[str, Detections] = {}
        try:
            for start in range(0, len(wanted), _ASK_AT_ONCE):
                some = wanted[start : start + _ASK_AT_ONCE]
                found.update((key, decode(self._pending[key], key)) for key in some if key in self._pending)
                marks = ",".join("?" * len(some))
                rows = db.execute(f"SELECT key, value, used FROM predictions WHERE key IN ({marks})", some)
                for key, value, used in rows:
                    try:
                        found[key] = decode(value, key)
                    except _UNREADABLE:  # damaged, or of another version: asked again, replaced
                        continue
                    if not isinstance(used, int) or used < stale:
                        self._renewed.add(key)
            self._write_if_due()
        except sqlite3.Error as error:
            self._off(error)
            return {}
        return found

    def put(self, found: Mapping[str, Detections], *, at_once: bool = False) -> None:
        """Remember ``found``; it reaches the disk with the next of a quick succession, or at ``close``, or at once."""
        with self._lock:
            if self._db is None or not found:
                return
            encoded = {key: encode(value, key) for key, value in found.items()}
            self._pending |= encoded
            try:
                if at_once:
                    self._write(self._db)
                else:
                    self._write_if_due()
            except sqlite3.Error as error:
                self._off(error)
        if self._needed and self.path is not None and (mirror := mirror_of(self.path)) is not None:
            mirror.keep_answers(self.path.parent, encoded)  # this machine may be lost

    def take_in(self, encoded: Mapping[str, bytes]) -> None:
        """Remember what another one has ``encoded``."""
        with self._lock:
            self._pending.update(encoded)

    def close(self) -> None:
        """Write what is pending."""
        with self._lock:
            db, self._db = self._db, None
            if db is None:
                return
            try:
                self._write(db)
            except sqlite3.Error as error:
                self._off(error)
            finally:
                with contextlib.suppress(sqlite3.Error):
                    db.close()

    def _write_if_due(self) -> None:
        if self._db is not None and time.monotonic() - self._written > _WRITE_EVERY:
            self._write(self._db)

    def _write(self, db: sqlite3.Connection) -> None:
        """One short transaction: the lock is never held while a detector works, since others wait for it."""
        if self._pending or self._renewed:
            now = time.time_ns()
            db.execute("BEGIN IMMEDIATE")
            with db:  # commits, or takes back all of it
                db.executemany(
                    "INSERT OR REPLACE INTO predictions VALUES (?, ?, ?)",
                    [(key, value, now) for key, value in self._pending.items()],
                )
                db.executemany("UPDATE predictions SET used = ? WHERE key = ?", [(now, key) for key in self._renewed])
            self._pending, self._renewed = {}, set()
        self._written = time.monotonic()
        while _live_bytes(db) > self.max_bytes:
            count = db.execute("SELECT count(*) FROM predictions").fetchone()[0]
            if not count:
                return
            db.execute(
                "DELETE FROM predictions WHERE key IN (SELECT key FROM predictions ORDER BY used, key LIMIT ?)",
                (max(1, count // 10),),
            )

    def _off(self, error: Exception) -> None:
        if self._needed:
            damaged = not isinstance(error, (sqlite3.OperationalError, OSError))
            what = "remove it, or give --repair" if damaged else "what was answered so far is kept"
            raise BadData(f"{self.path} cannot be used ({_reason(error)}); {what}.") from error
        self.problem = f"the prediction cache {self.path} is off: {_reason(error)}"
        self._pending, self._renewed = {}, set()
        if self._db is not None:
            with contextlib.suppress(sqlite3.Error):
                self._db.close()
            self._db = None


def recall_answers(journal: Path) -> None:
    """Take into ``journal`` what its run's store has of it: another machine may have asked."""
    mirror = mirror_of(journal)
    kept = set() if mirror is None else mirror.answered(journal.parent)
    if mirror is None or not kept:
        return
    with contextlib.closing(Cache(journal, UNBOUNDED, needed=True)) as own:
        own.take_in(mirror.answers(journal.parent, kept - own.get(kept).keys()))


def forget_answers(journal: Path) -> None:
    """Remove ``journal``, here and in its run's store."""
    mirror = mirror_of(journal)
    if mirror is not None:
        mirror.forget_answers(journal.parent)
    for suffix in SUFFIXES:
        unlink(journal.with_name(journal.name + suffix))


def is_sound(path: Path) -> bool:
    """Whether the cache in the file ``path`` can be used, down to its last page; one that does not exist can."""
    if not path.exists():
        return True
    try:
        with contextlib.closing(_open(path)) as db:
            return bool(db.execute("PRAGMA quick_check").fetchone() == ("ok",))
    except (sqlite3.DatabaseError, OSError, ValueError):
        return False


def _reason(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def _claim(path: Path, *, own_folder: bool, shared: bool) -> None:
    """Make the file where there is none, and keep others from reading it. One that belongs to somebody else is refused
    (an ``OSError``), since its answers could be anything; but not a run's, which may be ``shared``."""
    folder = path.parent
    user = os.geteuid() if hasattr(os, "geteuid") else None  # Windows: a user's folders are closed to others
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if own_folder and folder.stat().st_uid == user:  # any other one is not ours to close
        os.chmod(folder, 0o700)
    with contextlib.suppress(FileExistsError):  # one that is there is not opened: closing it would end SQLite's locks
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    for suffix in SUFFIXES:
        beside = path.with_name(path.name + suffix)
        if suffix and not beside.exists():
            continue
        found = beside.stat()
        if not stat.S_ISREG(found.st_mode):
            raise OSError(f"{beside.name} is no regular file")
        if user is not None and found.st_uid not in (user, 0) and not shared:
            raise OSError(f"{beside.name} belongs to another user")
        if stat.S_IMODE(found.st_mode) & 0o077 and found.st_uid == user:
            os.chmod(beside, 0o600)


def _open(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        _refuse_strange(db)
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                db.execute("PRAGMA journal_mode=WAL")
                break
            except sqlite3.OperationalError as error:
                # SQLite does not wait here while another process makes the same change
                if time.monotonic() > deadline or error.sqlite_errorcode not in _BUSY:
                    raise
                time.sleep(0.01)
        db.execute("PRAGMA synchronous=NORMAL")
        db.execute(f"CREATE TABLE IF NOT EXISTS {_TABLE}")
        db.execute(f"CREATE INDEX IF NOT EXISTS {_INDEX}")
        if db.execute("PRAGMA application_id").fetchone() != (_APPLICATION,):
            db.execute(f"PRAGMA application_id={_APPLICATION}")
    except BaseException:
        db.close()
        raise
    return db


def _refuse_strange(db: sqlite3.Connection) -> None:
    """Raise before anything is written to a database that is not a cache. One that is being made has no mark yet."""
    (mark,) = db.execute("PRAGMA application_id").fetchone()
    found = {sql for (sql,) in db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    if mark not in (0, _APPLICATION) or not found <= {f"CREATE TABLE {_TABLE}", f"CREATE INDEX {_INDEX}"}:
        raise sqlite3.DatabaseError("it is another program's database, or one of another misdetect; remove it")


def _live_bytes(db: sqlite3.Connection) -> int:
    """Bytes of the file that are in use; freed pages are used again before the file grows."""
    pages, free, size = (
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)

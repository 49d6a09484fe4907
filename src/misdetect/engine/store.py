"""``Run``: a directory that holds everything a run found, and is its only state.

``run.json`` says what was run; ``parts/*.parquet`` hold the rows of whole cases, written under a temporary name, synced
and renamed, never changed. A case is done when a part lists it, so a run killed at any moment resumes where its parts
end. DuckDB reads the parts for every view.
"""

import contextlib
import fcntl
import glob
import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from misdetect.engine.pump import Finished
from misdetect.errors import BadData, RunBusy, RunMismatch
from misdetect.files import write_atomically
from misdetect.picture import digest

_DONE = b"misdetect.cases"
_OWN_COLUMNS = [
    pa.field("case_index", pa.int64(), nullable=False),
    pa.field("case", pa.string(), nullable=False),
    pa.field("row", pa.int32(), nullable=False),
    pa.field("error", pa.string()),
]
FLUSH_SECONDS = 5.0
FLUSH_ROWS = 4096


class Run:
    """A run directory, opened for reading (``Run.open``) or for writing (``Run.start``)."""

    def __init__(self, path: Path, document: Mapping[str, Any]) -> None:
        self.path = path
        self.document = dict(document)
        self._schema: pa.Schema | None = None
        self._lock: IO[str] | None = None
        self._buffer: list[Finished] = []
        self._rows = 0
        self._flushed = time.monotonic()
        self._next_part = 1 + max((int(p.stem.split("-")[1]) for p in self._parts()), default=0)

    @classmethod
    def open(cls, path: Path | str) -> "Run":
        """An existing run, for reading."""
        path = Path(path)
        try:
            document = json.loads((path / "run.json").read_text())
        except FileNotFoundError:
            raise BadData(f"{path} is not a run directory: it has no run.json.") from None
        except (ValueError, OSError) as error:
            raise BadData(f"{path / 'run.json'} cannot be read: {error}.") from None
        return cls(path, document)

    @classmethod
    def start(cls, path: Path | str, identity: Mapping[str, Any], schema: pa.Schema, **provenance: Any) -> "Run":
        """Create ``path``, or resume it if it holds the same run.

        ``identity`` is what decides the rows (study, settings, detector, data, seed); ``provenance`` is the rest of
        ``run.json`` (command, versions). A directory that holds another run is refused, naming what differs.
        """
        path = Path(path)
        identity = json.loads(json.dumps(identity, sort_keys=True))
        if (path / "run.json").exists():
            run = cls.open(path)
            found = run.document.get("identity", {})
            if found != identity:
                raise RunMismatch(f"{path} holds another run ({_difference(found, identity)}); choose another --out.")
            run._take_lock()
        else:
            if path.exists() and (not path.is_dir() or any(p.name != ".lock" for p in path.iterdir())):
                raise RunMismatch(f"{path} exists and is not a run directory; choose another --out.")
            (path / "parts").mkdir(parents=True, exist_ok=True)
            run = cls(path, {"identity": identity, "id": digest(json.dumps(identity, sort_keys=True)), **provenance})
            run._take_lock()
            write_atomically(path / "run.json", (json.dumps(run.document, sort_keys=True, indent=2) + "\n").encode())
        run._schema = pa.schema(_OWN_COLUMNS + list(schema))
        return run

    def done(self) -> set[int]:
        """Indices of the cases that are finished."""
        finished: set[int] = set()
        for part in self._parts():
            metadata = pq.read_schema(part).metadata or {}
            finished.update(json.loads(metadata[_DONE]))
        return finished

    def add(self, finished: Finished, *, flush_seconds: float = FLUSH_SECONDS) -> None:
        """Take down a finished case; it reaches the disk within ``flush_seconds``."""
        self._buffer.append(finished)
        self._rows += len(finished.rows)
        if self._rows >= FLUSH_ROWS or time.monotonic() - self._flushed >= flush_seconds:
            self.flush()

    def flush(self) -> None:
        """Write what is buffered as one part."""
        self._flushed = time.monotonic()
        if not self._buffer:
            return
        assert self._schema is not None, "only a started run is written to"
        table = _table(self._buffer, self._schema)
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        write_atomically(self.path / "parts" / f"part-{self._next_part:06d}.parquet", sink.getvalue().to_pybytes())
        self._next_part += 1
        self._buffer, self._rows = [], 0

    def close(self) -> None:
        """Flush and let others write."""
        self.flush()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def discard(self) -> None:
        """Forget everything, for a run in which nothing succeeded: the next try starts anew instead of resuming it."""
        for path in (*self._parts(), self.path / "run.json", self.path / ".lock"):
            path.unlink(missing_ok=True)
        for folder in (self.path / "parts", self.path):
            with contextlib.suppress(OSError):  # whatever else is in there is not the run's
                folder.rmdir()

    def query(self, sql: str, parameters: Iterable[Any] = ()) -> pa.Table:
        """The answer of ``sql`` over the views ``rows`` (results of cases) and ``errors`` (cases that failed)."""
        database = duckdb.connect()
        try:
            if self._parts():
                folder = glob.escape(str(self.path / "parts")).replace("'", "''")
                everything = f"read_parquet('{folder}/part-*.parquet')"
            else:
                database.register("nothing", pa.schema(self._schema or _OWN_COLUMNS).empty_table())
                everything = "nothing"
            database.execute(f"CREATE VIEW rows AS SELECT * EXCLUDE (error) FROM {everything} WHERE error IS NULL")
            database.execute(
                f'CREATE VIEW errors AS SELECT case_index, "case", error FROM {everything} WHERE error IS NOT NULL'
            )
            return database.sql(sql, params=list(parameters)).to_arrow_table()
        finally:
            database.close()

    def table(self) -> pa.Table:
        """All rows in the order of cases: the same however the run was divided, interrupted and resumed."""
        return self.query("SELECT * FROM rows ORDER BY case_index, row")

    def errors(self) -> pa.Table:
        """``case_index``, ``case`` and ``error`` of the cases that failed, in order."""
        return self.query("SELECT * FROM errors ORDER BY case_index")

    def _parts(self) -> list[Path]:
        return sorted((self.path / "parts").glob("part-*.parquet"))

    def _take_lock(self) -> None:
        self._lock = open(self.path / ".lock", "w")  # noqa: SIM115 - held until close
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            self._lock = None
            raise RunBusy(
                f"{self.path} is being written by another process; wait for it, or choose another --out."
            ) from None


def _table(finished: list[Finished], schema: pa.Schema) -> pa.Table:
    rows: list[dict[str, Any]] = []
    for item in finished:
        own = {"case_index": item.case.index, "case": item.case.id}
        if item.error is not None:
            rows.append({**own, "row": 0, "error": item.error})
        else:
            rows.extend({**row, **own, "row": i} for i, row in enumerate(item.rows))
    done = json.dumps([item.case.index for item in finished]).encode()
    return pa.Table.from_pylist(rows, schema=schema.with_metadata({_DONE: done}))


def _difference(found: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str = "") -> str:
    """The first entry in which two identities differ, for the message."""
    for key in sorted(set(found) | set(wanted)):
        old, new = found.get(key), wanted.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping) and old != new:
            return _difference(old, new, f"{prefix}{key}.")
        if old != new:
            return f"{prefix}{key} was {old!r}, now {new!r}"
    return "it is the same"

"""``Run``: a directory that holds everything a run found, and is its only state.

``run.json`` says what was run; ``parts/*.parquet`` (``engine.parts``) hold the rows of whole cases, written under a
temporary name, synced and renamed, never changed. A case is done when a part lists it, so a run killed at any moment
resumes where its parts end. Both carry checksums: what is not as it was written is named, and nothing is read from it.
"""

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from misdetect.engine.about import FORMAT, identity_id, read_about, write_about
from misdetect.engine.about import RUN_JSON as RUN_JSON
from misdetect.engine.cache import SUFFIXES, forget_answers, is_sound, recall_answers
from misdetect.engine.indices import Indices
from misdetect.engine.older import OLDER, case_now, columns_now, name_now, stored_schema
from misdetect.engine.parts import (
    Part,
    failed_at_last,
    look,
    number_of,
    part_files,
    survey,
    unfinished_files,
    write_compacted,
    write_part,
)
from misdetect.engine.requests import Case, Finished
from misdetect.kept.files import move, remove
from misdetect.kept.lease import Lease
from misdetect.kept.mirror import address_of, local_path, mirror_of, refresh
from misdetect.kept.system import LockFile
from misdetect.said.errors import BadData, RunBusy, RunMismatch

DOCUMENT, JOURNAL, LOCK, PARTS, DAMAGED = "document.json", "answers.sqlite", ".lock", "parts", "damaged"
_OWN_COLUMNS = [
    pa.field("case_index", pa.int64(), nullable=False),
    pa.field("case", pa.string(), nullable=False),
    pa.field("row", pa.int32(), nullable=False),
    pa.field("error", pa.string()),
    pa.field("error_image", pa.string()),
]
FLUSH_SECONDS = 5.0
FLUSH_ROWS = 4096
_PATTERN = re.compile(r"[*?\[\\]")
"""What DuckDB takes for a pattern in a file's name, and cannot be told otherwise."""
SMALL_ROWS = 1 << 17
MOST_SMALL = 64
"""So many parts with fewer rows than that become one: a run of any size has few parts to open."""


def new_database() -> duckdb.DuckDBPyConnection:
    """An empty database in memory. On its own DuckDB draws a bar on stdout when a query takes seconds."""
    database = duckdb.connect()
    database.execute("SET enable_progress_bar = false")
    return database


class Run:
    """A run directory, opened for reading (``Run.open``) or for writing (``Run.start``). ``about`` is its run.json;
    ``new``: it was begun by this ``start``; ``repaired`` says what this ``start`` moved out of the way."""

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self.path = path
        self.about = dict(about)
        self.new = False
        self.repaired: tuple[str, ...] = ()
        self._idle: tuple[tuple[Part, ...], duckdb.DuckDBPyConnection] | None = None
        self._schema: pa.Schema | None = None
        self._lock: LockFile | None = None
        self._lease: Lease | None = None
        self._discarded = False
        self._looked: dict[Path, Part | str] = {}
        self._good: list[Part] = []
        self._seen: set[Path] = set()
        self._replaced: list[Path] = []
        self._buffer: list[Finished] = []
        self._rows = 0
        self._flushed = time.monotonic()
        self._next_part = 1 + max(map(number_of, part_files(path / PARTS)), default=0)

    @classmethod
    def open(cls, path: Path | str) -> "Run":
        """An existing run, for reading."""
        path = local_path(path)
        return cls(path, read_about(path))

    @classmethod
    def start(
        cls,
        path: Path | str,
        identity: Mapping[str, Any],
        schema: pa.Schema,
        *,
        repair: bool = False,
        **provenance: Any,
    ) -> "Run":
        """Create ``path``, or resume it if it holds the same run.

        ``identity`` is what decides the rows (``engine.identity``); ``provenance`` is the rest of ``run.json``
        (command, versions). A directory that holds another run is refused, naming what differs; so is one that is
        damaged, unless it is to be ``repair``ed: then what cannot be used is moved to ``damaged/``.
        """
        path = local_path(path, write=True)
        # as it is read again from run.json, so that a document does not tell one sitting from the next
        identity, provenance = (json.loads(json.dumps(each, sort_keys=True)) for each in (identity, provenance))
        about = {"format": FORMAT, "id": identity_id(identity), "identity": identity, "cases": None, **provenance}
        run = _existing(path, identity, repair) or cls(path, about)
        path.mkdir(parents=True, exist_ok=True)
        run._take_lock()
        try:
            refresh(path)
            found = _existing(path, identity, repair)  # another process may have been quicker
            if found is None:
                run._begin()
            else:
                found._lock, found._lease, run = run._lock, run._lease, found
            run._schema = stored_schema(run.about, pa.schema(_OWN_COLUMNS + list(schema)))
            for left in unfinished_files(path / PARTS):
                left.unlink(missing_ok=True)
            if repair:
                run._repair(about)
            recall_answers(path / JOURNAL)
            run._parts()
            run._replaced = sorted(run._seen - {part.path for part in run._good})
            run._remove_replaced()
        except BaseException:
            run._release()
            raise
        return run

    def _begin(self) -> None:
        """Make it a run directory, or leave nothing of it."""
        self.new = True
        try:
            write_about(self.path, self.about)
        except BaseException:
            self.discard()
            raise

    def _repair(self, about: Mapping[str, Any]) -> None:
        """Move what is damaged out of the way."""
        moved = []
        try:
            read_about(self.path)
        except BadData:
            moved += self._move_away(self.path / RUN_JSON)
            self.about = dict(about)
            write_about(self.path, self.about)
        for part in self._survey()[1]:
            moved += self._move_away(part)
        if not is_sound(self.path / JOURNAL):
            for suffix in SUFFIXES:
                moved += self._move_away(self.path / (JOURNAL + suffix))
        if os.path.lexists(self.path / DOCUMENT) and not (self.path / DOCUMENT).is_file():
            moved += self._move_away(self.path / DOCUMENT)
        if moved:
            self.repaired = (f"{', '.join(moved)} could not be used and went to {self.address}/{DAMAGED}.",)

    def _move_away(self, path: Path) -> list[str]:
        """Move ``path`` to ``damaged/``; its name, or nothing where it does not exist."""
        if not os.path.lexists(path):
            return []
        (self.path / DAMAGED).mkdir(exist_ok=True)
        target, number = self.path / DAMAGED / path.name, 1
        while os.path.lexists(target):
            number += 1
            target = target.with_name(f"{path.name}.{number}")
        move(path, target)
        self._looked.pop(path, None)
        return [path.name]

    @property
    def address(self) -> str:
        """Where it is, for people: its directory, or its address in a store."""
        return address_of(self.path)

    @property
    def older(self) -> bool:
        """Whether an earlier version began it, whose words were others: its rows are read in those of today, and a
        document that was kept is not."""
        return bool(self.about.get("format") == OLDER)

    @property
    def study(self) -> str:
        """Which study this is a run of."""
        return str(self.about["identity"]["study"])

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that decided its rows."""
        return dict(self.about["identity"]["settings"])

    @property
    def chosen(self) -> dict[str, Any]:
        """All that was chosen: the settings that it was made with, and those that it is shown with."""
        return {**self.settings, **self.about.get("view", {})}

    @property
    def cases(self) -> int | None:
        """How many cases it has in all; ``None`` as long as that is not known."""
        return None if self.about["cases"] is None else int(self.about["cases"])

    @property
    def finished(self) -> bool:
        """Whether all its cases are done."""
        return self.cases is not None and len(self.done()) == self.cases

    def note(self, **more: Any) -> None:
        """Add to ``run.json`` what is not part of the identity."""
        if any(self.about.get(name) != value for name, value in more.items()):
            self._check_lease()
            self.about |= json.loads(json.dumps(more, sort_keys=True))
            write_about(self.path, self.about)

    def done(self) -> Indices:
        """Indices of the cases that are finished, those that failed among them."""
        return Indices.union(part.done for part in self._parts())

    def failed(self) -> Indices:
        """Indices of the cases that failed, and did not succeed when they were asked again."""
        return failed_at_last(self._parts())

    def ever_failed(self) -> Indices:
        """Indices of the cases that failed once, whatever became of them later."""
        return Indices.union(each for part in self._parts() for each in (part.failed, part.recovered))

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
        done = Indices(item.case.index for item in self._buffer)
        failed = Indices(item.case.index for item in self._buffer if item.error is not None)
        self._write_part(_table(self._buffer, self._schema), done, failed)
        self._buffer, self._rows = [], 0

    def add_table(self, rows: pa.Table, cases: Sequence[Case]) -> None:
        """Write down all of ``cases`` at once, as one part: for a study that has its rows as columns. ``case_index``
        says which of ``cases`` a row is of; rows are in the order of cases."""
        assert self._schema is not None, "only a started run is written to"
        of_case = rows["case_index"].to_numpy()
        own = {
            "case_index": pa.array(of_case, pa.int64()),
            "case": pa.array([case.id for case in cases], pa.string()).take(pa.array(of_case)),
            "row": pa.array(np.arange(len(of_case)) - np.searchsorted(of_case, of_case), pa.int32()),
            **{name: pa.nulls(len(of_case), pa.string()) for name in ("error", "error_image")},
        }
        columns = [own[name] if name in own else rows[name_now(name)] for name in self._schema.names]
        self._write_part(pa.table(columns, schema=self._schema), Indices(case.index for case in cases), Indices())

    def _write_part(self, table: pa.Table, done: Indices, failed: Indices) -> None:
        self._check_lease()
        self._take_in(write_part(self.path / PARTS, self._next_part, self.about["id"], table, done, failed))
        small = [part for part in self._parts() if part.rows < SMALL_ROWS]
        if len(small) >= MOST_SMALL:
            with contextlib.suppress(OSError):  # where there is no room for it, there may be for the next rows
                self._compact(small)

    def _take_in(self, part: Part) -> None:
        self._looked[part.path] = part
        self._next_part += 1

    def _compact(self, parts: Sequence[Part]) -> None:
        """Write ``parts`` as one. They are removed when the next are, or at the end: others may be reading them."""
        self._take_in(write_compacted(self.path / PARTS, self._next_part, self.about["id"], parts))
        self._remove_replaced()
        self._replaced = [part.path for part in parts]

    def _remove_replaced(self) -> None:
        for path in self._replaced:
            try:
                remove(path)
            except PermissionError:  # on Windows, while somebody reads it: the next start removes all that is left
                break
            self._looked.pop(path, None)
        self._replaced = []

    def close(self) -> None:
        """Flush and let others write."""
        try:
            self.flush()
            self._remove_replaced()
        finally:
            self._release()

    def _release(self) -> None:
        lease, self._lease = self._lease, None
        lock, self._lock = self._lock, None
        try:
            if lease is not None:
                lease.release()
        finally:
            if lock is not None:
                lock.release(remove=self._discarded)
            if self._discarded:
                with contextlib.suppress(OSError):  # whatever else is in there is not the run's
                    self.path.rmdir()

    def _check_lease(self) -> None:
        if self._lease is not None:
            self._lease.check()

    def discard(self) -> None:
        """Forget everything: the next try starts anew instead of resuming it. ``run.json`` goes last, so that a kill in
        the middle leaves a run, and not a folder that nobody knows; the folder goes with the lock."""
        held = self._lock is not None
        if not held:
            self._take_lock()
        try:
            forget_answers(self.path / JOURNAL)
            for path in (*part_files(self.path / PARTS), self.path / DOCUMENT):
                remove(path)
            with contextlib.suppress(OSError):
                (self.path / PARTS).rmdir()
            remove(self.path / RUN_JSON)
            self._discarded = True
        finally:
            if not held:
                self._release()

    def query(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> pa.Table:
        """The answer of ``sql`` over the views ``rows`` (results of cases) and ``errors`` (cases that failed)."""
        try:
            return self._answer(sql, parameters)
        except duckdb.IOException:
            if not self.grown():
                raise
            return self._answer(sql, parameters)  # its parts were compacted meanwhile

    def _answer(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any]) -> pa.Table:
        with self._database() as database:
            return database.sql(sql, params=parameters or None).to_arrow_table()

    def batches(self, sql: str, rows: int) -> Iterator[pa.RecordBatch]:
        """The same, some ``rows`` at a time: for more than should be in memory at once."""
        with self._database() as database:
            yield from database.sql(sql).to_arrow_reader(rows)

    @contextlib.contextmanager
    def _database(self) -> "Iterator[duckdb.DuckDBPyConnection]":
        """A database with the views ``rows`` and ``errors``. It is kept while the parts stay the same; what a query
        changes in it is undone."""
        parts = tuple(self._parts())
        idle, self._idle = self._idle, None  # taken: a query inside another one has its own
        database = idle[1] if idle is not None and idle[0] == parts else self._viewed(parts)
        database.begin()
        try:
            yield database
        except BaseException:  # who knows in which state it is
            database.close()
            raise
        database.rollback()
        self._idle = parts, database

    def _viewed(self, parts: Sequence[Part]) -> duckdb.DuckDBPyConnection:
        database = new_database()
        self._make_views(database, parts)
        return database

    def make_views(self, database: duckdb.DuckDBPyConnection) -> None:
        """Make the views ``rows`` and ``errors`` in ``database``, where those of another run may be; they are of the
        parts that are there now."""
        self._make_views(database, self._parts())

    def _make_views(self, database: duckdb.DuckDBPyConnection, parts: Sequence[Part]) -> None:
        paths = [os.path.abspath(part.path) for part in parts]  # DuckDB takes ~x for a home
        if paths and not _PATTERN.search(paths[0]):
            names = ("'" + path.replace("'", "''") + "'" for path in paths)
            # a folder called label=x is no column
            everything = f"read_parquet([{', '.join(names)}], hive_partitioning = false)"
        else:
            database.register("everything", self._everything(parts))
            everything = "everything"
        stored, failed = self._stored(parts), np.fromiter(failed_at_last(parts), np.int64)
        database.register("failed", pa.table({"index": pa.array(failed)}))
        database.execute(
            "CREATE OR REPLACE VIEW rows AS "
            f"SELECT {columns_now(self.about, stored)} FROM {everything} WHERE error IS NULL"
        )
        # a case that was asked again and failed again has several rows; which of its errors is told does not matter
        database.execute(
            "CREATE OR REPLACE VIEW errors AS "
            f'SELECT case_index, any_value({case_now(self.about, stored)}) AS "case", any_value(error) AS error, '
            f"any_value(error_image) AS image "
            f"FROM {everything} WHERE error IS NOT NULL AND case_index IN (FROM failed) GROUP BY case_index"
        )

    def everything(self) -> Any:
        """All that its parts hold, as what DuckDB reads when it is asked, only the columns that it needs and some rows
        at a time: for a database that may not open files itself. ``error`` is null in rows of cases that succeeded."""
        return self._everything(self._parts())

    @property
    def columns(self) -> str:
        """What to SELECT of ``everything``, which has looked at the parts: what cases that succeeded have, in the words
        of today."""
        return columns_now(self.about, self._stored(self._good))

    def _stored(self, parts: Sequence[Part]) -> pa.Schema:
        """The columns of its parts."""
        return parts[0].columns if parts else pa.schema(self._schema or _OWN_COLUMNS)

    def _everything(self, parts: Sequence[Part]) -> Any:
        from pyarrow.dataset import dataset

        stored = self._stored(parts)
        if not parts:
            return stored.empty_table()
        return dataset([os.path.abspath(part.path) for part in parts], schema=stored, format="parquet")

    def grown(self) -> bool:
        """Whether its parts are others than when they were last looked at."""
        return set(self._files()) != self._seen

    def table(self) -> pa.Table:
        """All rows in the order of cases: the same however the run was divided, interrupted and resumed."""
        return self.query("SELECT * FROM rows ORDER BY case_index, row")

    def errors(self) -> pa.Table:
        """``case_index``, ``case``, ``error`` and ``image`` of the cases that failed, in order."""
        return self.query("SELECT * FROM errors ORDER BY case_index")

    def _parts(self) -> list[Part]:
        """The parts, each looked at once. One that cannot be used is an error: what it holds is not known."""
        if self.grown():
            self._good, bad = self._survey()
            if bad:
                self._seen = set()
                raise BadData(self._damage(bad))
        return self._good

    def _files(self) -> list[Path]:
        folder = self.path / PARTS
        return [folder] if os.path.lexists(folder) and not folder.is_dir() else part_files(folder)

    def _survey(self) -> tuple[list[Part], dict[Path, str]]:
        there = self._files()
        for path in there:
            if path not in self._looked:
                self._looked[path] = look(path, self.about["id"])
        if there != self._files():  # they were compacted meanwhile
            self._looked = {path: found for path, found in self._looked.items() if isinstance(found, Part)}
            return self._survey()
        self._seen = set(there)
        return survey({path: self._looked[path] for path in there}, self._schema)

    def _damage(self, bad: Mapping[Path, str]) -> str:
        """The sentence that names the first of the parts that cannot be used, and the cases that it costs."""
        listed = (part.done for path, part in self._looked.items() if path in bad and isinstance(part, Part))
        known = self.cases is not None
        lost = (Indices.below(self.cases or 0) if known else Indices.union(listed)) - Indices.union(
            part.done for part in self._good
        )
        path, why = next(iter(bad.items()))
        others = f" (and {len(bad) - 1} more cannot be used)" if len(bad) > 1 else ""
        cost = f"asks again about {len(lost)} cases ({lost.told()})" if lost else "asks again about its cases"
        if known and not lost:
            cost = "has nothing to ask again"
        return (
            f"{address_of(path)} {why}{others}; remove it, or give --repair, and the command that made this run {cost}."
        )

    def _take_lock(self) -> None:
        try:
            self._lock = LockFile(self.path / LOCK)
        except BlockingIOError:
            raise RunBusy(
                f"{self.address} is being written by another process; wait for it, or choose another --out."
            ) from None
        mirror = mirror_of(self.path)
        try:
            self._lease = None if mirror is None else mirror.lease(self.path)
        except BaseException:
            self._release()
            raise


def _table(finished: list[Finished], schema: pa.Schema) -> pa.Table:
    """The rows of cases as columns; what a study says of a column of the engine's own does not count."""
    rows: list[Mapping[str, Any]] = []
    own: dict[str, list[Any]] = {field.name: [] for field in _OWN_COLUMNS}
    index, case, number, error, image = own.values()
    for item in finished:
        found = item.rows if item.error is None else [{}]
        rows.extend(found)
        index.extend([item.case.index] * len(found))
        case.extend([item.case.id] * len(found))
        number.extend(range(len(found)))
        error.extend([item.error] * len(found))
        image.extend([None if item.error is None else item.image] * len(found))
    columns = [own[name] if name in own else [row.get(name_now(name)) for row in rows] for name in schema.names]
    return pa.table(columns, schema=schema)


def _existing(path: Path, identity: Mapping[str, Any], repair: bool) -> Run | None:
    """The run in ``path`` to go on with, or ``None`` where there is nothing yet."""
    if os.path.lexists(path / RUN_JSON):
        try:
            run = Run.open(path)
        except BadData:
            if not (repair and _has_parts_of(path, identity)):
                raise
            return Run(path, {"id": identity_id(identity), "identity": identity, "cases": None})
        found = run.about["identity"]
        if found != identity:
            raise RunMismatch(
                f"{address_of(path)} holds another run ({_difference(found, identity)}); choose another --out."
            )
        return run
    if os.path.lexists(path) and not (path.is_dir() and _is_begun(path)):
        if repair and _has_parts_of(path, identity):
            return Run(path, {"id": identity_id(identity), "identity": identity, "cases": None})
        raise RunMismatch(f"{address_of(path)} exists and is not a run directory; choose another --out.")
    return None


def _has_parts_of(path: Path, identity: Mapping[str, Any]) -> bool:
    """Whether something in ``path`` shows that the run was there: without that nothing of it is touched."""
    return any(isinstance(look(part, identity_id(identity)), Part) for part in part_files(path / PARTS))


def _is_begun(path: Path) -> bool:
    """Whether a folder holds nothing but what a run leaves that was killed while it was being made or discarded."""
    inside = {entry.name for entry in path.iterdir()} - {LOCK, f".{RUN_JSON}.writing"}
    parts = path / PARTS
    return not inside or (inside == {PARTS} and parts.is_dir() and {*parts.iterdir()} == {*unfinished_files(parts)})


def _difference(found: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str = "") -> str:
    """The first entry in which two identities differ, for the message."""
    for key in sorted(set(found) | set(wanted)):
        old, new = found.get(key), wanted.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping) and old != new:
            return _difference(old, new, f"{prefix}{key}.")
        if old != new:
            return f"{prefix}{key} was {old!r}, now {new!r}"
    return "it is the same"

"""The ledger of all runs in a database of its own, as views ask for it: filtered, counted, in order, some at a time.

An ``Edition`` is built once and never changed: DuckDB reads the parts of the runs, adds what a view needs beside the
ledger's columns (the same that ``report.embedded`` adds to a page's rows), and keeps it in a temporary file, with a
bound on memory. ``Store`` has the newest edition and makes another when a run has grown.
"""

import contextlib
import json
import math
import shlex
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from misdetect.app.shelf import Shelf, Shelved
from misdetect.app.wanted import ENUMS, Wanted
from misdetect.drawing.scenes import Row
from misdetect.engine.parts import part_files
from misdetect.engine.store import PARTS
from misdetect.kept.mirror import refresh
from misdetect.nouns.boxes import SIDES
from misdetect.report.scenes import FAINT
from misdetect.said.errors import MisdetectError
from misdetect.studies.kinds import known_by, looked_at
from misdetect.studies.ledger import COLUMNS, ledger_select, spellings
from misdetect.studies.looked import AREA, evidence_of
from misdetect.studies.looked import looked_at as rows_looked_at
from misdetect.studies.notes import KEY_SQL

MEMORY = "128MB"
"""What the database may hold in memory; what is more lies in its file."""
LOOK = 1.0
"""Seconds between two looks at whether runs have grown."""
PATIENCE = 4
"""So many times as long as an edition took to build, the next one is waited for: a run may grow every second."""
MOST_ROWS = 240
"""Rows of one answer."""
_KEPT = ("run", "detector", "study", "label", "outcome", "tide", "mechanism", "size", "by", "others", "harm", "became",
         "reason", "object", "control", "flicker", "attributable", "failure", "again", "score")  # fmt: skip
"""Columns that rows are chosen by; the others are read of the rows that are shown."""
_SHOWN = ("case", "data", "image", "scene", "key", "condition", *SIDES, "state", "score_before", "iou", "evidence")
FACETS = ("detector", "study", "label", "outcome", "tide", "mechanism", "size", "by", "others")
_STAGED = {name: kind for name, kind in COLUMNS.items() if name not in ("weight", "replay")} | {
    "detector": "VARCHAR", "data": "INTEGER", "rank": "INTEGER", "by": "VARCHAR", "scene": "VARCHAR", "size": "VARCHAR",
    "failure": "BOOLEAN", "key": "VARCHAR",
}  # fmt: skip
_TOLD = ("run VARCHAR", "kind VARCHAR", "image VARCHAR", "id BIGINT", "label VARCHAR",
         *(f"{side} DOUBLE" for side in SIDES), "tide VARCHAR", "score DOUBLE")  # fmt: skip
_SEVERITY = "CASE WHEN outcome = 'extra' THEN coalesce(score, 0) ELSE coalesce(score_before, (x1 - x0) * (y1 - y0)) END"


class Edition:
    """The rows of the runs on ``shelf`` as they were when this was built."""

    def __init__(self, shelf: Shelf, memory: str = MEMORY) -> None:
        self.shelf = shelf
        self.problems: list[str] = []
        self.seen = _parts(shelf)
        self._folder = TemporaryDirectory(prefix="misdetect-serve-", ignore_cleanup_errors=True)
        folder = Path(self._folder.name)
        how = {"memory_limit": memory, "temp_directory": str(folder), "preserve_insertion_order": "false"}
        self._database = duckdb.connect(str(folder / "rows.duckdb"), config=how)
        self._database.execute("SET enable_progress_bar = false")
        columns = ", ".join(f'"{name}" {kind}' for name, kind in _STAGED.items())
        self._database.execute(f"CREATE TABLE staged ({columns})")
        self._database.execute(f"CREATE TABLE told ({', '.join(_TOLD)})")
        for each in shelf.runs:
            self._stage(each)
        self.words: dict[str, tuple[str, ...]] = {name: self._words(name) for name in ENUMS}
        self._arrange()
        self._database.execute("SET enable_external_access = false")
        self.rows = self.total(Wanted({}))

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()
        self._folder.cleanup()

    def _stage(self, each: Shelved) -> None:
        """Read the rows of one run; a run that cannot be read is a problem, and has none."""
        try:
            with each.lock:
                if not each.run.done():
                    return
                each.run.make_views(self._database)
                if each is self.teller(each):
                    self._database.execute(
                        f"INSERT INTO told SELECT $run AS run, kind, image, id, label, {', '.join(SIDES)}, tide, score "
                        f"FROM ({evidence_of(each.run).boxes}) WHERE kind <> 'detection' OR score >= {FAINT}",
                        {"run": each.name},
                    ).fetchall()
                if not evidence_of(each.run).rows:
                    return
                select, values = _select(each, self.shelf.reported(each))
                self._database.execute(f"INSERT INTO staged BY NAME {select}", values).fetchall()
        except (MisdetectError, duckdb.Error) as error:
            self.problems.append(f"{each.name}: {str(error).splitlines()[0]}")

    def _words(self, name: str) -> tuple[str, ...]:
        """The values of a text column; columns that rows are counted by are enumerations, which are quick to count."""
        values = f'SELECT DISTINCT "{name}" FROM staged WHERE "{name}" IS NOT NULL ORDER BY ALL'
        if name == "others":
            values = "SELECT unnest(['find it', 'miss it too', 'some find it'])"
        words = self._database.execute(values).fetchall()
        if words:
            self._database.execute(f'CREATE TYPE "enum_{name}" AS ENUM ({values})')
        return tuple(word for (word,) in words)

    def _arrange(self) -> None:
        """The rows that are looked for, in the order in which they are shown: ``embedded.in_order``'s."""
        box = ", ".join(f"round_even({side}, 0)" for side in SIDES)
        thing = f"CASE WHEN object IS NULL THEN (label, {box}) END"
        kept = ", ".join(self._typed(name) for name in _KEPT)
        clean = f"rank < {_clean()}"
        self._database.execute(f"""
            CREATE TABLE images AS SELECT CAST(row_number() OVER (ORDER BY image) AS INTEGER) AS id, image AS name
                FROM (SELECT image FROM staged UNION SELECT image FROM told);
            CREATE TABLE boxes AS SELECT told.*, id_ AS photo FROM told JOIN (SELECT id AS id_, name FROM images)
                ON image = name ORDER BY run, photo;
            DROP TABLE told;
            CREATE TABLE ordered AS
            WITH narrow AS (SELECT staged.rowid AS line, images.id AS photo, run, detector, data, rank, study, object,
                    label, {", ".join(SIDES)}, outcome, failure, {_SEVERITY} AS severity
                FROM staged JOIN images ON staged.image = images.name),
            told AS (SELECT *, failure AND {clean} AND row_number() OVER (
                PARTITION BY detector, data, failure AND {clean}, photo, object, {thing} ORDER BY rank, line) > 1
                AS again FROM narrow),
            turns AS (SELECT line, photo, rank, run, outcome, failure, again, row_number() OVER (
                PARTITION BY failure, again, run, outcome ORDER BY severity DESC, photo, object, line) AS turn
                FROM told)
            SELECT CAST(line AS INTEGER) AS line, photo, again, CAST(row_number() OVER (
                ORDER BY NOT failure, again, turn, rank, run, outcome) - 1 AS INTEGER) AS place FROM turns;
            CREATE TABLE page AS
            WITH told AS (SELECT staged.*, place, line, photo, again FROM staged JOIN ordered ON staged.rowid = line),
            compared AS ({self._compared()})
            SELECT place, line, photo, {kept}, CAST({AREA} AS FLOAT) AS area FROM compared ORDER BY place;
            DROP TABLE ordered""")

    def _typed(self, name: str) -> str:
        if name in ENUMS:
            return (
                f'CAST("{name}" AS "enum_{name}") AS "{name}"'
                if self.words[name]
                else f'CAST(NULL AS VARCHAR) AS "{name}"'
            )
        return "round(score, 4) AS score" if name == "score" else f'"{name}"'

    def _compared(self) -> str:
        """``told`` with what other detectors make of the same object in the same study of clean images."""
        several = len({each.group for each in self.shelf.runs}) > len({each.data for each in self.shelf.runs})
        if not several:
            return "SELECT *, CAST(NULL AS VARCHAR) AS others FROM told"
        return f"""
            SELECT told.*, CASE WHEN n < 2 OR n IS NULL THEN NULL WHEN hits - CAST(outcome = 'found' AS INT) = n - 1
                THEN 'find it' WHEN hits - CAST(outcome = 'found' AS INT) = 0 THEN 'miss it too'
                ELSE 'some find it' END AS others
            FROM told LEFT JOIN (
                SELECT data, study, image, object, count(*) AS n, sum(CAST(hit AS INT)) AS hits FROM (
                    SELECT data, study, image, object, detector, bool_or(outcome = 'found') AS hit FROM told
                    WHERE rank < {_clean()} AND object IS NOT NULL GROUP BY ALL) GROUP BY ALL) seen
            ON told.data = seen.data AND told.study = seen.study AND told.image = seen.image
                AND told.object = seen.object AND rank < {_clean()}"""

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        cursor = self._database.cursor()
        try:
            yield cursor
        finally:
            cursor.close()

    def total(self, wanted: Wanted) -> int:
        """How many rows there are."""
        where, values = wanted.where(self.words)
        with self._cursor() as cursor:
            return int(cursor.execute(f"SELECT count(*) FROM page WHERE {where}", values).fetchall()[0][0])

    def some(self, wanted: Wanted, offset: int, limit: int) -> list[Row]:
        """The rows from ``offset`` on, at most ``limit``: a page's columns, with ``run`` and ``detector``."""
        return self.found(wanted, offset, limit)[1]

    def found(self, wanted: Wanted, offset: int, limit: int) -> tuple[int, list[Row]]:
        """How many rows there are, and ``some`` of them."""
        where, values = wanted.where(self.words)
        columns = ", ".join(f'p."{name}"' for name in ("place", *_KEPT)) + ", "
        columns += ", ".join(f's."{name}"' for name in _SHOWN)
        once = "" if "search" in wanted.filter else "NOT"  # a search costs more than to keep what it finds
        with self._cursor() as cursor:
            places = cursor.execute(
                f"WITH base AS {once} MATERIALIZED (SELECT place, line, score, area FROM page WHERE {where}) "
                f"SELECT place, line, (SELECT count(*) FROM base) FROM base ORDER BY {wanted.order} LIMIT ? OFFSET ?",
                [*values, min(limit, MOST_ROWS), offset],
            ).fetchall()
            if not places:
                return self.total(wanted), []
            chosen, lines = (", ".join(str(int(pair[i])) for pair in places) for i in (0, 1))
            found = cursor.execute(
                f"SELECT {columns} FROM (FROM page WHERE place IN ({chosen})) p JOIN (SELECT *, rowid FROM staged "
                f"WHERE rowid IN ({lines})) s ON p.line = s.rowid"
            )
            names = [each[0] for each in found.description]
            rows = {row[0]: dict(zip(names, row, strict=True)) for row in found.fetchall()}
        return int(places[0][2]), [self._finished(rows[place]) for place, *_ in places]

    def _finished(self, row: Row) -> Row:
        row["index"] = row.pop("place")
        row["evidence"] = _parsed(row["evidence"])
        row["replay"] = shlex.join(["misdetect", "replay", row["run"], row["case"]])
        return {name: _rounded(value) if isinstance(value, float) else value for name, value in row.items()}

    def teller(self, each: Shelved) -> Shelved | None:
        """The run of the same detector on the same data that knows most of its detections."""
        beside = {other.study: other for other in reversed(self.shelf.runs) if other.group == each.group}
        best = known_by(beside)
        return None if best is None else beside[best]

    def boxes(self, each: Shelved, images: Sequence[str]) -> list[Row]:
        """Objects and detections of ``images``, by the detector of ``each`` (``scenes.detections``)."""
        teller = self.teller(each)
        if teller is None or not images:
            return []
        listed = ", ".join("?" * len(images))
        with self._cursor() as cursor:
            photos = cursor.execute(f"SELECT id FROM images WHERE name IN ({listed})", list(images)).fetchall()
            chosen = ", ".join(str(int(number)) for (number,) in photos) or "NULL"
            found = cursor.execute(f"FROM boxes WHERE photo IN ({chosen}) AND run = ?", [teller.name])
            names = [column[0] for column in found.description]
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def facets(self, wanted: Wanted, columns: Sequence[str] = FACETS) -> dict[str, list[tuple[str, int]]]:
        """Of each column how many rows have which value, the most first, whatever is wanted of the column itself:
        what could be chosen instead. One query for all."""
        own = (*columns, "again")  # of a study all is counted, whoever else tells of it
        shared, values = wanted.beyond(own).where(self.words)
        parts = []
        for name in columns:
            if self.words[name]:
                where, more = wanted.among(own).without(name).where(self.words)
                parts.append(f"""SELECT '{name}', CAST("{name}" AS VARCHAR), count(*) FROM base
                    WHERE {where} AND "{name}" IS NOT NULL GROUP BY "{name}" """)
                values += more
        found: dict[str, list[tuple[str, int]]] = {name: [] for name in columns}
        if parts:
            listed = ", ".join(f'"{name}"' for name in own)
            once = "" if "search" in wanted.filter else "NOT"  # a search costs more than to keep what it finds
            base = f"WITH base AS {once} MATERIALIZED (SELECT {listed} FROM page WHERE {shared})"
            with self._cursor() as cursor:
                for name, word, n in cursor.execute(f"{base} {' UNION ALL '.join(parts)}", values).fetchall():
                    found[name].append((word, n))
        return {name: sorted(each, key=lambda pair: (-pair[1], pair[0])) for name, each in found.items()}

    def counted(self, each: Shelved) -> Callable[..., Counter[tuple[Any, ...]]]:
        """The rows of one run, to be counted (``embedded.Counted``)."""

        def count(*names: str) -> Counter[tuple[Any, ...]]:
            told = [f"round({name}, 4)" if name == "score" else f'CAST("{name}" AS VARCHAR)' if name in ENUMS
                    else f'"{name}"' for name in names]  # fmt: skip
            with self._cursor() as cursor:
                found = cursor.execute(
                    f"SELECT {', '.join(told)}, count(*) FROM staged WHERE run = ? GROUP BY ALL "
                    "ORDER BY min(rowid)", [each.name]
                ).fetchall()  # fmt: skip
            return Counter({tuple(row[:-1]): row[-1] for row in found})

        return count


def _parsed(text: str | None) -> Any:
    """Evidence, which a stranger may have written; what JSON has no number for is none."""
    try:
        return None if text is None else json.loads(text, parse_constant=lambda name: None)
    except (ValueError, RecursionError):
        return None


def _rounded(value: float) -> float | None:
    return round(value, 4) if math.isfinite(value) else None


def _clean() -> int:
    """Ranks below this are of studies of images as they are."""
    return sum(not each.edited for each in looked_at().values())


def _select(each: Shelved, reported: float) -> tuple[str, dict[str, Any]]:
    """The rows of a run that a view has, with what it adds to the ledger's columns, and the values in it."""
    rank = list(looked_at()).index(each.study)
    label, became = (f"coalesce(map_extract($spelt, {name})[1], {name})" for name in ("label", "became"))
    found = rows_looked_at(each.run, reported, f"({ledger_select(each.run)})")
    select = f"""
        SELECT * EXCLUDE (run, replay, weight, label, became), $run AS run, $detector AS detector, {each.data} AS data,
            {rank} AS rank, {label} AS label, {became} AS became
        FROM ({found})"""
    given = {"run": each.name, "detector": each.detector, "spelt": spellings(each.run)}
    return f"SELECT *, {KEY_SQL} AS key FROM ({select})", given


def _parts(shelf: Shelf) -> list[list[str]]:
    """The names of the parts of every run: what changes when one grows."""
    for each in shelf.runs:
        with contextlib.suppress(MisdetectError):  # a store that is not reached now: what is here stays
            refresh(each.run.path)
    return [[part.name for part in part_files(each.run.path / PARTS)] for each in shelf.runs]


class Store:
    """The newest edition of the rows. ``look`` sees whether runs have grown, and then builds another in a thread of its
    own; until that is done the one before answers."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self._lock = threading.Lock()
        self._building = False
        began = time.monotonic()
        self.edition, self.version = Edition(shelf), 1
        self._looked, self._took = time.monotonic(), time.monotonic() - began

    def look(self) -> int:
        """The version of the rows."""
        with self._lock:
            due = self._looked + max(LOOK, PATIENCE * self._took)
            if self._building or time.monotonic() < due:
                return self.version
            self._looked = time.monotonic()
            self._building = _parts(self.shelf) != self.edition.seen
            if self._building:
                threading.Thread(target=self._build, name="misdetect-edition", daemon=True).start()
            return self.version

    def _build(self) -> None:
        began = time.monotonic()
        try:
            self.shelf.reopen()
            made: Edition | None = Edition(self.shelf)
        except (OSError, MisdetectError, duckdb.Error):  # a full disk, a run that was taken away: what is there stays
            made = None
        with self._lock:
            if made is not None:
                self.edition, self.version = made, self.version + 1
            self._building, self._looked, self._took = False, time.monotonic(), time.monotonic() - began

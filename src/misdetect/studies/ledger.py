"""The ledger: one row per object and condition, over the runs of any studies.

Every study supplies one SELECT from its own rows into these columns (those it leaves out are null); the ledger of
several runs is their union. So "this object: its TIDE type, its mechanism, what scan did to it, what fuzz did to it" is
one query. docs/ledger.md explains each column.
"""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from misdetect.engine.store import Run, new_database
from misdetect.kept.files import check_writable, write_atomically
from misdetect.nouns.labels import Joined
from misdetect.said.errors import BadSpec
from misdetect.said.glossary import told_of_query
from misdetect.studies.kinds import kind_of

OUTCOMES = ("found", "missed", "renamed", "moved", "extra", "ignored")
COLUMNS = {
    "run": "VARCHAR",
    "study": "VARCHAR",
    "case": "VARCHAR",
    "image": "VARCHAR",
    "object": "BIGINT",
    "condition": "VARCHAR",
    "control": "BOOLEAN",
    "label": "VARCHAR",
    "x0": "DOUBLE",
    "y0": "DOUBLE",
    "x1": "DOUBLE",
    "y1": "DOUBLE",
    "state": "VARCHAR",
    "outcome": "VARCHAR",
    "harm": "VARCHAR",
    "became": "VARCHAR",
    "score_before": "DOUBLE",
    "score": "DOUBLE",
    "iou": "DOUBLE",
    "flicker": "BOOLEAN",
    "attributable": "BOOLEAN",
    "weight": "DOUBLE",
    "tide": "VARCHAR",
    "mechanism": "VARCHAR",
    "reason": "VARCHAR",
    "evidence": "VARCHAR",
    "replay": "VARCHAR",
}
_FORMULA = r"\A([=+\-@\t\r])"
_RUNS = ("run", "study", "id", "detector", "detector_fingerprint", "data", "data_fingerprint", "cases", "finished")


def ledger(runs: Sequence[Run]) -> pa.Table:
    """The ledger of ``runs``, in their order, each in the order of its rows."""
    return _answer(runs, "FROM ledger")


def _answer(runs: Sequence[Run], sql: str) -> pa.Table:
    """What ``sql`` finds in the relations ``ledger`` and ``runs``."""
    try:
        return _asked(runs, sql)
    except duckdb.Error:
        if not any(run.grown() for run in runs):
            raise
        return _asked(runs, sql)  # parts were compacted meanwhile


def _asked(runs: Sequence[Run], sql: str) -> pa.Table:
    """The same. Only the columns that are needed are read out of the parts: all of them may be more than memory
    holds."""
    with new_database() as database:
        database.register("runs", runs_table(runs))
        selects = [f"SELECT {_nulls()} WHERE false"]
        for number, run in enumerate(run for run in runs if run.done()):
            database.register(f"parts_{number}", run.everything())
            selects.append(f"""
                (WITH rows AS (SELECT {run.columns} FROM parts_{number} WHERE error IS NULL
                    ORDER BY case_index, row)
                SELECT * REPLACE ({_respelt(run, "label")}, {_respelt(run, "became")}) FROM ({ledger_select(run)}))""")
        database.execute(f"CREATE VIEW ledger AS {' UNION ALL '.join(selects)}")
        database.execute("SET enable_external_access = false")
        found = database.sql(sql)
        if found is None:
            raise BadSpec("the query asks for nothing; expected a SELECT over ledger or runs.")
        return found.to_arrow_table()


def _nulls() -> str:
    return ", ".join(f'CAST(NULL AS {kind}) AS "{name}"' for name, kind in COLUMNS.items())


def ledger_select(run: Run) -> str:
    """The ledger of ``run`` as a SELECT over its ``rows``, in their order; class names are those of the detector where
    that spells them differently (``spellings``)."""
    columns = ", ".join(f'CAST({_value(name, run)} AS {kind}) AS "{name}"' for name, kind in COLUMNS.items())
    return f"SELECT {columns} FROM (SELECT {_nulls()} WHERE false UNION ALL BY NAME ({kind_of(run.study).ledger(run)}))"


def spellings(run: Run) -> dict[str, str]:
    """How the data spells the detector's classes, where that is different."""
    detector, data = (run.about["identity"][key]["names"] for key in ("detector", "data"))
    joined = Joined.loosely(detector, data).to_data.tolist()
    return {name: data[i] for name, i in zip(detector, joined, strict=True) if i >= 0 and data[i] != name}


def _respelt(run: Run, name: str) -> str:
    """A column of class names, as the data spells them."""
    other = " ".join(f"WHEN {literal(word)} THEN {literal(spelt)}" for word, spelt in spellings(run).items())
    return f'CASE "{name}" {other} ELSE "{name}" END AS "{name}"' if other else f'"{name}" AS "{name}"'


def literal(value: str | None) -> str:
    """A text, or NULL, in SQL; views have no parameters."""
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"


def _value(name: str, run: Run) -> str:
    """A column of the ledger, given what the study says of it."""
    # a case's name has no quotes and spaces but where an image's has; then it is quoted for the shell
    quoted = """CASE WHEN regexp_full_match("case", '[\\w./@,:-]+') THEN "case" ELSE
        '''' || replace("case", '''', '''"''"''') || '''' END"""
    return {
        "run": literal(run.address),
        "study": literal(run.study),
        "replay": f"{literal(f'misdetect replay {shlex.quote(run.address)} ')} || {quoted}",
        "weight": "coalesce(weight, 1.0)",
        "harm": "coalesce(harm, 'unknown')",
    }.get(name, f'"{name}"')


def runs_table(runs: Sequence[Run]) -> pa.Table:
    """What each of ``runs`` is: the relation ``runs`` beside ``ledger`` in queries."""
    rows = []
    for run in runs:
        detector, data = run.about["identity"]["detector"], run.about["identity"]["data"]
        said = (run.address, run.study, run.about["id"], detector["spec"], detector["fingerprint"])
        rows.append(dict(zip(_RUNS, (*said, data["spec"], data["fingerprint"], run.cases, run.finished), strict=True)))
    kinds = {"cases": pa.int64(), "finished": pa.bool_()}
    return pa.Table.from_pylist(rows, schema=pa.schema([(name, kinds.get(name, pa.string())) for name in _RUNS]))


def query(runs: Sequence[Run], sql: str) -> pa.Table:
    """The answer of ``sql`` over ``ledger`` and ``runs``. It cannot read files or write anything."""
    if (renamed := told_of_query(sql)) is not None:
        raise BadSpec(f"the query cannot be answered: {renamed}")
    try:
        return _answer(runs, sql)
    except duckdb.Error as error:
        raise BadSpec(f"the query cannot be answered: {str(error).splitlines()[0]}") from None


def check_table_file(path: Path) -> None:
    """Refuse, before anything is computed, a file that no table can be written to."""
    if path.suffix not in (".parquet", ".csv"):
        raise BadSpec(f"{path}: a table is written as .parquet or .csv. Got {path.suffix or 'no ending'}.")
    check_writable(path)


def write_table(table: pa.Table, path: Path) -> None:
    """Write ``table`` as Parquet or CSV, by the ending of ``path``. A spreadsheet calculates what starts with = + - @
    or a tab; such text and such headings get an apostrophe in front, as spreadsheets themselves mark text."""
    check_table_file(path)
    sink = pa.BufferOutputStream()
    if path.suffix == ".parquet":
        pq.write_table(table, sink, compression="zstd")
    else:
        pyarrow.csv.write_csv(_without_formulas(table), sink)
    write_atomically(path, sink.getvalue().to_pybytes())


def _without_formulas(table: pa.Table) -> pa.Table:
    columns = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            column = pc.replace_substring_regex(column, pattern=_FORMULA, replacement="'\\1")
        columns.append(column)
    return pa.table(columns, names=[re.sub(_FORMULA, r"'\1", name) for name in table.column_names])

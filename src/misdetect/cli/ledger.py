"""``misdetect ledger``: the rows of several runs in one table, shown, queried or written."""

import json as json_format
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from misdetect.api.ledger import make_ledger
from misdetect.cli.shell import Document, Json, Quiet, present
from misdetect.said.errors import BadSpec
from misdetect.studies.ledger import COLUMNS, check_table_file, write_table

_SHOWN = 30
_SUMMARY = (
    "SELECT study, condition, control, outcome, harm, count(*) AS rows, count(DISTINCT (image, object)) AS objects "
    "FROM ledger GROUP BY ALL ORDER BY ALL"
)


def ledger(
    *runs: Annotated[Path, Parameter(help="Run directories.", negative=())],
    sql: Annotated[str | None, Parameter(help="A query over the relations ledger and runs.")] = None,
    out: Annotated[Path | None, Parameter(help="Write the table to FILE.parquet or FILE.csv.")] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """The rows of several runs in one table, one per object and condition.

    Without --sql the rows are counted by study, condition and outcome; --out then writes all of them.
    """
    if not runs:
        raise BadSpec("ledger needs a run directory; none was given.")
    if out is not None:
        check_table_file(out)
    asked = make_ledger(runs, sql) if sql is not None or out is not None else None
    if out is not None and asked is not None:
        write_table(asked, out)
    shown = asked if sql is not None and asked is not None else make_ledger(runs, _SUMMARY)
    document = {
        "runs": [str(run) for run in runs],
        "sql": sql,
        "columns": list(COLUMNS) if sql is None else shown.column_names,
        "rows": _plain(shown),
        "out": None if out is None else str(out),
        "written": asked.num_rows if out is not None and asked is not None else None,
    }
    present(document, json, show)


def _plain(table: pa.Table) -> list[dict[str, Any]]:
    """The rows as JSON has them: what it has no name for (not a number, dates) becomes null or text."""
    rows = table.to_pylist()
    return [
        {name: None if value != value else value for name, value in row.items()}
        for row in json_format.loads(json_format.dumps(rows, default=str))
    ]


def show(console: Console, document: Document) -> None:
    """The table for a person, its first rows if it is long."""
    rows = document["rows"]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in rows[0] if rows else document["columns"]:
        table.add_column(Text(name), justify="right" if rows and _is_number(rows[0][name]) else "left")
    for row in rows[:_SHOWN]:
        table.add_row(*(Text(_cell(value)) for value in row.values()))
    console.print(table)
    if len(rows) > _SHOWN:
        console.print(f"… and {len(rows) - _SHOWN} more rows (all with --json or --out)")
    if document["out"] is not None:
        console.print(Text(f"{document['written']} rows -> {document['out']}"))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _cell(value: Any) -> str:
    return "–" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)

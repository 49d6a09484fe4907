"""The rows of a score run as a file: one per truth and per detection, for whoever reads neither runs nor Python."""

import json
from pathlib import Path

import pyarrow as pa

from misdetect.engine.store import Run
from misdetect.kept.files import check_writable, write_atomically
from misdetect.nouns.boxes import SIDES
from misdetect.said.errors import BadSpec
from misdetect.studies.ledger import write_table

SUFFIXES = (".parquet", ".csv", ".json")


def exported(run: Run) -> pa.Table:
    """One row per truth and then per detection, each exactly once; see docs/score.md for the columns."""
    return run.query(
        f"""SELECT CASE WHEN kind = 'detection' THEN kind ELSE 'truth' END AS kind, file AS image, image_id, id, label,
        {", ".join(SIDES)}, score, CASE WHEN found THEN 'found' WHEN kind = 'ignored' THEN kind ELSE tide END AS tide,
        matched AS matched_id, matched_iou AS iou, area, kind = 'ignored' AS crowd
        FROM rows ORDER BY rows.kind = 'detection', case_index, row"""
    )


def check_rows_file(path: Path) -> None:
    """Refuse, before anything is computed, a file that rows cannot be written to."""
    if path.suffix not in SUFFIXES:
        raise BadSpec(f"Rows can be written to {', '.join(SUFFIXES)} files. Got {path.name!r}.")
    check_writable(path)


def write_rows(table: pa.Table, path: Path) -> None:
    """Write rows as Parquet, CSV or JSON (a list of objects), by the file's suffix; the file appears when complete."""
    check_rows_file(path)
    if path.suffix == ".json":
        write_atomically(path, json.dumps(table.to_pylist(), allow_nan=False).encode())
    else:
        write_table(table, path)

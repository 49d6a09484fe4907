"""``ledger``: the rows of several runs in one table."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from misdetect.api.run import Run, open_run
from misdetect.studies import ledger as ledgers


def make_ledger(runs: Run | Path | str | Sequence[Run | Path | str], sql: str | None = None) -> pa.Table:
    """One row per object and condition, over ``runs``; with ``sql`` the answer of that query over the relations
    ``ledger`` and ``runs``."""
    several = [runs] if isinstance(runs, (Run, Path, str)) else list(runs)
    opened = [(run if isinstance(run, Run) else open_run(run)).directory for run in several]
    return ledgers.ledger(opened) if sql is None else ledgers.query(opened, sql)

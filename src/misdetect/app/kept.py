"""What was found in the playground, kept as a campaign of fuzz: ``replay``, ``ledger``, ``report`` and ``export`` read
it like any other. Each case is the row that fuzz would have written, null controls included."""

import shlex
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

from misdetect.app.table import Seen, Table
from misdetect.engine import start_run
from misdetect.engine.requests import Case, Finished
from misdetect.engine.store import Run
from misdetect.said.errors import BadData
from misdetect.studies.documents import keep_document
from misdetect.studies.fuzz.rows import CLEAN, INSERTION, Insertion
from misdetect.studies.fuzz.study import FuzzStudy


class Kept:
    """The run ``folder``, which begins with the first case that is kept."""

    def __init__(self, table: Table, folder: Path) -> None:
        self._table, self.folder, self._lock = table, folder, Lock()

    def add(self, seen: Seen, row: Mapping[str, Any]) -> dict[str, str]:
        """Keep ``row``, an insertion into the photo that was ``seen``, once. The ``case``, and the command that asks
        about it again (``replay``)."""
        with self._lock:
            run = start_run(self._study, self._table.detector, self.folder)
            try:
                name = self._name(run, row) or self._write(run, seen, row)
            finally:
                run.close()
            keep_document(Run.open(self.folder))
        command = shlex.join(["misdetect", "replay", str(self.folder), name])
        return {"case": name, "run": str(self.folder), "replay": command}

    @cached_property
    def _study(self) -> FuzzStudy:
        """The campaign that cases are kept as."""
        table = self._table
        if table.data.spec == "memory:" or table.data.part is not None:
            raise BadData("the photos were chosen in Python and cannot be found again from a run alone.")
        return FuzzStudy(table.opened, table.pool, table.detector.names, table.how)

    def _name(self, run: Run, row: Mapping[str, Any]) -> str | None:
        """What the case of ``row`` is called, if it is there already."""
        kept = run.query("SELECT * FROM rows WHERE phase = ? ORDER BY case_index", [INSERTION]).to_pylist()
        wanted = Insertion.of_row(row)
        return next((str(each["case"]) for each in kept if Insertion.of_row(each) == wanted), None)

    def _write(self, run: Run, seen: Seen, row: Mapping[str, Any]) -> str:
        """Write ``row``, and that of its photo where it is the first there; the name of its case."""
        number = len(run.done())
        photos = run.query("SELECT number FROM rows WHERE phase = ?", [CLEAN])["number"].to_pylist()
        if seen.background.image not in photos:
            run.add(Finished(Case(number, f"{CLEAN}/{seen.background.image}"), [seen.row]))
            number += 1
        name = f"{INSERTION}/{number}"
        run.add(Finished(Case(number, name), [row]))
        run.flush()
        run.note(cases=number + 1, view={})
        return name

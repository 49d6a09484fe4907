"""Insertions that somebody chose, kept as a campaign: ``replay``, ``ledger``, ``report`` and ``export`` read it like
any other. Each case is the row that a campaign would have written, controls included."""

import shlex
from functools import cached_property
from pathlib import Path
from threading import Lock

from misdetect.engine import start_run
from misdetect.engine.requests import Case, Finished
from misdetect.engine.store import Run
from misdetect.nouns.protocols import Detector
from misdetect.said.errors import BadData
from misdetect.studies.documents import keep_document
from misdetect.studies.fuzz.plan import Row
from misdetect.studies.fuzz.rows import CLEAN, INSERTION, Insertion
from misdetect.studies.fuzz.settings import FuzzSettings
from misdetect.studies.fuzz.study import FuzzStudy
from misdetect.studies.fuzz.workbench import Workbench


class Kept:
    """The run ``folder``, which begins with the first case that is kept."""

    def __init__(self, bench: Workbench, how: FuzzSettings, detector: Detector, folder: Path) -> None:
        self._bench, self._how, self._detector, self.folder, self._lock = bench, how, detector, folder, Lock()

    def add(self, clean: Row, row: Row) -> dict[str, str]:
        """Keep ``row``, an insertion into the photo of the row ``clean``, once. The ``case``, and the command that asks
        about it again (``replay``)."""
        with self._lock:
            run = start_run(self._study, self._detector, self.folder)
            try:
                name = self._name(run, row) or self._write(run, clean, row)
            finally:
                run.close()
            keep_document(Run.open(self.folder))
        command = shlex.join(["misdetect", "replay", str(self.folder), name])
        return {"case": name, "run": str(self.folder), "replay": command}

    @cached_property
    def _study(self) -> FuzzStudy:
        """The campaign that cases are kept as."""
        bench = self._bench
        if not bench.data.by_spec:
            raise BadData("the photos were chosen in Python and cannot be found again from a run alone.")
        return FuzzStudy(bench.opened, bench.pool, bench.classes.names, self._how)

    def _name(self, run: Run, row: Row) -> str | None:
        """What the case of ``row`` is called, if it is there already."""
        kept = run.query("SELECT * FROM rows WHERE phase = ? ORDER BY case_index", [INSERTION]).to_pylist()
        wanted = Insertion.of_row(row)
        return next((str(each["case"]) for each in kept if Insertion.of_row(each) == wanted), None)

    def _write(self, run: Run, clean: Row, row: Row) -> str:
        """Write ``row``, and that of its photo where it is the first there; the name of its case."""
        number = len(run.done())
        photos = run.query("SELECT number FROM rows WHERE phase = ?", [CLEAN])["number"].to_pylist()
        if clean["number"] not in photos:
            run.add(Finished(Case(number, f"{CLEAN}/{clean['number']}"), [clean]))
            number += 1
        name = f"{INSERTION}/{number}"
        run.add(Finished(Case(number, name), [row]))
        run.flush()
        run.note(cases=number + 1, view={})
        return name

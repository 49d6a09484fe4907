"""``Run``: what a study found, as an object: its document, rows, ledger, figures and report."""

import html
import shutil
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa

from misdetect.data.dataset import Dataset
from misdetect.detectors import load_detector
from misdetect.detectors.catalogue import reach
from misdetect.engine import Outcome
from misdetect.engine.store import Run as Directory
from misdetect.kept.mirror import local_path
from misdetect.said import gates
from misdetect.said.errors import BadSpec
from misdetect.said.glossary import told_of_query
from misdetect.said.printable import printable
from misdetect.studies.contract import Document
from misdetect.studies.documents import data_of, read_document
from misdetect.studies.kinds import kind_of
from misdetect.studies.ledger import ledger
from misdetect.studies.replay import replay

MOST = 4
"""Figures of each kind, unless told otherwise."""
_BESIDE = ("surrogate", "reference")
"""Settings that name another detector, which is loaded when a case is asked again."""


class Run:
    """A finished or resumable run. ``path`` is its directory; it can be read without detector and data.

    A run that was given no directory has a temporary one, which goes when the object does.
    """

    def __init__(
        self,
        directory: Directory,
        *,
        data: Dataset | None = None,
        outcome: Outcome | None = None,
        document: Document | None = None,
        place: "Place | None" = None,
    ) -> None:
        self.directory, self.outcome, self._place = directory, outcome, place
        self._data, self._document = data, document

    @property
    def path(self) -> Path:
        """The run directory."""
        return self.directory.path

    @property
    def address(self) -> str:
        """Where it is, for people: its directory, or its address in a store."""
        return self.directory.address

    @property
    def data(self) -> Dataset:
        """What it looked at, opened again where this object did not run the study itself."""
        if self._data is None:
            self._data = data_of(self.directory)
        return self._data

    @property
    def study(self) -> str:
        """Which study this is a run of."""
        return self.directory.study

    @property
    def document(self) -> Document:
        """What was found, with the settings that it was found with: JSON-able, the same for the same rows."""
        if self._document is None:
            self._document = read_document(self.directory)
        return self._document

    @property
    def sentences(self) -> list[str]:
        """What was found, in words, the most important first."""
        return kind_of(self.study).sentences(self.document)

    def check(self, fail_if: str | Iterable[str]) -> list[gates.Verdict]:
        """Judge what was found by the gates ``fail_if``, such as "miss_rate > 0.2"; see ``misdetect.check``."""
        return gates.check(self.document, fail_if)

    def rows(self) -> pa.Table:
        """All rows in the order of cases; ``.to_pandas()`` makes a data frame of them."""
        return self.directory.table()

    def errors(self) -> pa.Table:
        """``case_index``, ``case`` and ``error`` of the cases that failed."""
        return self.directory.errors()

    def query(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> pa.Table:
        """The answer of ``sql`` over the relations ``rows`` and ``errors``."""
        if (renamed := told_of_query(sql)) is not None:
            raise BadSpec(f"the query cannot be answered: {renamed}")
        return self.directory.query(sql, parameters)

    def ledger(self) -> pa.Table:
        """One row per object and condition, in the columns that all studies share."""
        return ledger([self.directory])

    def figures(self, most: int = MOST) -> list[Path]:
        """Draw the figures into the run directory, at most ``most`` of each kind, and return the files. Photos are
        read from the data, which must still be what it was."""
        from misdetect import report  # drawing takes longer to import than most of what is asked of a run

        return report.draw(self.directory, self._data, most)

    def report(self, path: Path | str, most: int = MOST) -> Path:
        """Write one self-contained HTML page: what was found, its charts and failures, its settings."""
        from misdetect.report.page import run_page

        return run_page(self, Path(path), most)

    def replay(self, case: str, detector: str | object | None = None, *, trust: bool = False) -> Document:
        """Ask ``detector`` (by default the run's own) again about one case: ``reproduced`` says whether the same
        happens. A run directory is data: someone's code that its spec names is only run, and an address or a service
        only asked, with ``trust``."""
        names: Sequence[str] | None = None
        named = {f"the {role} ": self.directory.settings.get(role) for role in _BESIDE}
        if detector is None:
            known = self.directory.about["identity"]["detector"]
            detector = named[""] = known["spec"]
            if "given" in self.directory.about["detector_settings"]:  # its file may not name its classes
                names = known["names"]
            if detector is None:
                raise BadSpec(f"{self.address} does not say which detector it was made with; name it with --detector.")
        for role, spec in named.items():
            if not trust and spec is not None and (why := reach(str(spec))) is not None:
                instead = "" if role else "name it with --detector, or "
                raise BadSpec(
                    f"{self.address} was made with {role}{spec}, which {why}: {instead}give --trust if you know where "
                    "the run comes from."
                )
        data = data_of(self.directory, trust=trust) if self._data is None else self._data
        return replay(self.directory, data, case, load_detector(detector, names))

    def __repr__(self) -> str:
        document = self.document
        state = "" if document["finished"] else f", {document['done']} of {document['cases'] or 'some'} cases done"
        lines = [f"{self.study} of {document['detector'] or 'a detector'} on {document['data']}{state}"]
        lines += [*(f"  {sentence}" for sentence in self.sentences), f"  {self.address}"]
        return "\n".join(map(printable, lines))

    def _repr_html_(self) -> str:
        title, *rest = self.__repr__().splitlines()
        items = "".join(f"<li>{html.escape(line.strip())}</li>" for line in rest[:-1])
        return f"<b>{html.escape(title)}</b><ul>{items}</ul><code>{html.escape(rest[-1].strip())}</code>"


def open_run(path: Path | str) -> Run:
    """The run in the directory ``path``; neither its detector nor its data is needed, but for photos in figures."""
    return Run(Directory.open(path))


class Place:
    """Where a run is to be: ``out``, or a temporary directory, which goes when this object does, or at exit. Where
    ``out`` is an address, ``path`` is the mirror of it."""

    def __init__(self, out: Path | str | None) -> None:
        self.path = Path(mkdtemp(prefix="misdetect-")) / "run" if out is None else local_path(out, write=True)
        if out is None:
            weakref.finalize(self, shutil.rmtree, self.path.parent, ignore_errors=True)

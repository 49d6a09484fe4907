"""The runs that are served: where they are, by which detector and on which data, and what is wrong with them.

A folder that is no run may hold some (a checkup's). Data is told apart by its fingerprint, a detector by its spec, with
the folder where two have the same one.
"""

import contextlib
import re
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from misdetect.data.dataset import Dataset
from misdetect.engine.about import RUN_JSON
from misdetect.engine.store import Run
from misdetect.kept.mirror import local_path
from misdetect.said.errors import BadData, MisdetectError
from misdetect.studies.documents import data_of
from misdetect.studies.kinds import kind_of, place_of, reported_by


@dataclass
class Shelved:
    """One run: ``number`` on the shelf, ``name`` for people, its ``detector`` and the number of its ``data``. Whoever
    asks the run something holds its ``lock``: a ``Run`` serves one thread."""

    number: int
    run: Run
    name: str
    detector: str
    data: int
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    @property
    def study(self) -> str:
        """Which study it is a run of."""
        return self.run.study

    @property
    def group(self) -> tuple[str, int]:
        """What its rows have in common with those of other studies: the detector and the data."""
        return self.detector, self.data


class Shelf:
    """All runs, in the order of a report, and in ``problems`` a sentence for each that cannot be shown."""

    def __init__(self, paths: Sequence[Path | str]) -> None:
        self.problems: list[str] = []
        found = self._open([path for given in paths for path in self._folders(local_path(given))])
        if not found:
            why = self.problems[0] if self.problems else "no run was named."
            raise BadData(f"there is nothing to serve: {why}")
        found.sort(key=lambda run: place_of(run.study))
        names = _names(found)
        fingerprints = list(dict.fromkeys(run.about["identity"]["data"]["fingerprint"] for run in found))
        self.runs = [
            Shelved(i, run, run.address, names[i], fingerprints.index(run.about["identity"]["data"]["fingerprint"]))
            for i, run in enumerate(found)
        ]
        self._data: dict[int, Dataset | MisdetectError] = {}
        self._lock = threading.Lock()

    def _folders(self, path: Path) -> list[Path]:
        """The run directories that ``path`` stands for."""
        if not path.is_dir():
            self.problems.append(f"{path} is no folder.")
            return []
        if (path / RUN_JSON).exists():
            return [path]
        inside = [each for each in sorted(path.iterdir()) if (each / RUN_JSON).exists()]
        if not inside:
            self.problems.append(f"{path} is not a run directory, and no folder in it is one.")
        return inside

    def _open(self, paths: Sequence[Path]) -> list[Run]:
        found: dict[Path, Run] = {}
        for path in paths:
            try:
                run = Run.open(path)
                kind_of(run.study).check()
                run.done()
                found.setdefault(path.resolve(), run)
            except MisdetectError as error:
                self.problems.append(str(error))
        return list(found.values())

    def reopen(self) -> None:
        """Read again what the runs say of themselves: one that is being written learns how many cases it has. One that
        cannot be read any more stays as it was."""
        for each in self.runs:
            with contextlib.suppress(MisdetectError), each.lock:
                each.run = Run.open(each.run.path)

    def data(self, number: int) -> Dataset:
        """The data of ``number``, opened once: the widest view of it that a run has; why it cannot be had is raised."""
        with self._lock:
            if number not in self._data:
                self._data[number] = self._opened(number)
            found = self._data[number]
        if isinstance(found, MisdetectError):
            raise found
        return found

    def _opened(self, number: int) -> Dataset | MisdetectError:
        best: Dataset | MisdetectError = BadData("no run has this data.")
        for each in self.runs:
            if each.data == number:
                try:
                    data = data_of(each.run)
                except MisdetectError as error:
                    best = best if isinstance(best, Dataset) else error
                    continue
                if not isinstance(best, Dataset) or len(data) > len(best):
                    best = data
        return best

    def beside(self, each: Shelved, study: str) -> "Shelved | None":
        """The run of ``study`` by the same detector on the same data, if there is one."""
        return next((other for other in self.runs if other.study == study and other.group == each.group), None)

    def reported(self, each: Shelved) -> float:
        """From which score on a detection of ``each`` counts as reported, as a study that knows has it."""
        beside = [other for other in self.runs if other.group == each.group]
        return reported_by({other.study: other.run.settings.get("score") for other in reversed(beside)})


def _names(runs: Sequence[Run]) -> list[str]:
    """The detector of each run: its spec, with a folder where runs of one study on the same data have the same. Which
    scores it was asked for is no part of who it is, nor is the fingerprint: that of a study that wraps it differs."""
    identities = [run.about["identity"] for run in runs]
    specs = [re.sub(r",score=[^,]*", "", each["detector"]["spec"] or "a detector") for each in identities]
    whats = [(s, run.study, each["data"]["fingerprint"]) for s, run, each in zip(specs, runs, identities, strict=True)]
    twice = {what[0] for what, n in Counter(whats).items() if n > 1}
    folders = Counter(run.path.resolve().parent for run in runs)  # a checkup's tells more than that of its study
    where = [run.path.resolve() for run in runs]
    named = [(path.parent if folders[path.parent] > 1 and _is_study(path, run) else path).name
             for path, run in zip(where, runs, strict=True)]  # fmt: skip
    return [f"{spec} ({name})" if spec in twice else spec for spec, name in zip(specs, named, strict=True)]


def _is_study(path: Path, run: Run) -> bool:
    return path.name == run.study

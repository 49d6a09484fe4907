"""The study: a case is one image asked about in one way. Which ways come next is planned by ``search``, in rounds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from misdetect.compose.resend import resent
from misdetect.data.dataset import Dataset, Sample
from misdetect.data.opened import Opened
from misdetect.detectors import load_detector
from misdetect.engine.backend import Asking
from misdetect.engine.requests import Case, Detect, Row, Steps
from misdetect.engine.store import Run
from misdetect.nouns.boxes import sides
from misdetect.nouns.detections import Detections
from misdetect.nouns.protocols import Detector
from misdetect.said.errors import BadData, BadSpec, DetectorFailed
from misdetect.studies.doctor.answers import AS_IS
from misdetect.studies.doctor.bench import Bench, Options, Wired
from misdetect.studies.doctor.changes import Change, changes_for
from misdetect.studies.doctor.rows import REFERENCE, SCHEMA, TRUTH, answers_in, evidence_of
from misdetect.studies.doctor.search import search, split
from misdetect.studies.doctor.settings import DoctorSettings

KEPT = 300
"""Boxes of one answer that are taken down, the best-scored: one without suppression may have thousands."""
_SEARCHED = 4
"""How many times the images wanted are looked through for such with objects."""


class DoctorStudy:
    """Look for mistakes of wiring of a detector of class ``names`` on ``opened``; ``changes`` are what can be tried,
    ``reference_names`` the classes of the reference, where there is one."""

    name = "doctor"
    schema: pa.Schema = SCHEMA

    def __init__(
        self,
        opened: Opened,
        names: Sequence[str],
        how: DoctorSettings,
        changes: Sequence[Change],
        reference_names: Sequence[str] | None = None,
    ) -> None:
        self._opened, self.names, self.how = opened, tuple(names), how
        self.changes = {change.name: change for change in changes}
        self.reference_names = None if reference_names is None else tuple(reference_names)
        self._rows: dict[int, list[Row]] = {}
        self._planned = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_rows": {}}

    @property
    def data(self) -> Dataset:
        """What it looks at."""
        return self._opened.data

    def settings(self) -> dict[str, Any]:
        """What decides the rows, for ``run.json``."""
        names = None if self.reference_names is None else list(self.reference_names)
        changes = [change.document() for change in self.changes.values()]
        return self.how.document() | {"changes": changes, "reference_names": names}

    def chosen(self) -> list[int]:
        """Places in the data of the images that are used, at random; such with objects, unless there is a reference."""
        order: list[int] = np.random.default_rng([self.how.seed, 14]).permutation(len(self.data)).tolist()
        if self.how.reference is not None:
            return order[: self.how.images]
        found: list[int] = []
        for place in order[: _SEARCHED * self.how.images]:
            truth = self.data[place].truth
            if (~np.asarray(truth.crowd, np.bool_) & truth.present).any():
                found.append(place)
            if len(found) == self.how.images:
                break
        return found

    def __len__(self) -> int:
        """Cases planned so far; more come as they are planned."""
        return self._planned

    def learn(self, index: int, rows: list[Row]) -> None:
        """Take in the rows of a case that is done."""
        self._rows[index] = rows

    def cases(self) -> Iterator[Case | None]:
        """The reference and the detector as it is first, then what the search wants to know."""
        places = self.chosen()
        index: dict[tuple[str, int], int] = {}

        def hand_out(wanted: Sequence[tuple[str, int]]) -> Iterator[Case | None]:
            new = [pair for pair in dict.fromkeys(wanted) if pair not in index]
            for query, place in new:
                index[query, place] = self._planned
                self._planned += 1
                image = places[place]
                yield Case(index[query, place], f"{query}/{self.data[image].id}", (query, place, image))
            while not all(index[pair] in self._rows for pair in new):
                yield None

        yield from hand_out([(TRUTH, i) for i in range(len(places))])
        if self.how.reference is not None:
            yield from hand_out([(REFERENCE, i) for i in range(len(places))])
        yield from hand_out([(AS_IS, i) for i in range(len(places))])
        rows = self._rows_of(self._rows)
        evidence = evidence_of(rows, len(places), self.names, self._space(), self.changes, self.how.score)
        for wanted in search(evidence, *split(len(places))):
            yield from hand_out(wanted)
            evidence.add(answers_in(self._rows_of(index[pair] for pair in wanted)))

    def _rows_of(self, cases: Iterable[int]) -> list[Row]:
        return [row for case in cases for row in self._rows[case]]

    def _space(self) -> Sequence[str]:
        return self.data.names if self.reference_names is None else self.reference_names

    def image_of(self, case: Case) -> str:
        """The image of a case, to name it by if it fails."""
        return str(self.data[case.content[2]].id)

    def run(self, case: Case) -> Steps:
        """Ask once, in the way that the case says."""
        query, place, image = case.content
        sample = self.data[image]
        about = {"image": sample.id, "place": place, "query": query}
        if query == TRUTH:
            return self._truth_rows(about, sample)
        parts = [] if query in (AS_IS, REFERENCE) else [self.changes[name] for name in query.split(" + ")]
        picture = resent(sample, [change.edit for change in parts if change.edit])
        options: Options = tuple(pair for change in parts for pair in change.options)
        if options or query == REFERENCE:
            picture = Wired(picture, options, query == REFERENCE)
        try:
            said = yield Detect(picture)
        except (DetectorFailed, BadSpec):
            if not options:
                raise
            said = Detections.empty()  # an output that cannot be read in this way: the way is wrong, not the detector
        rows = [{**about, "kind": "answer", "number": len(said)}]
        names = self.reference_names if query == REFERENCE else self.names
        order = np.argsort(-said.scores, kind="stable")[:KEPT]
        for i in np.sort(order).tolist():
            label = int(said.labels[i])
            name = names[label] if names is not None and 0 <= label < len(names) else str(label)
            what = {"kind": "box", "label": name, "number": label, "score": said.scores[i]}
            rows.append(about | what | sides(said.boxes[i]))
        return rows

    def _truth_rows(self, about: Mapping[str, Any], sample: Sample) -> list[dict[str, Any]]:
        truth = sample.truth
        ignored = np.asarray(truth.crowd, np.bool_) | ~truth.present
        assert truth.ids is not None
        rows: list[dict[str, Any]] = [{**about, "kind": "image", "width": sample.width, "height": sample.height}]
        for i, label in enumerate(truth.labels.tolist()):
            what = {"kind": "truth", "label": self.data.names[label], "number": label, "id": int(truth.ids[i])}
            rows.append({**about, **what, "crowd": bool(ignored[i])} | sides(truth.boxes[i]))
        return rows


def prepare(bench: Bench, opened: Opened, settings: DoctorSettings, asking: Asking) -> DoctorStudy:
    """What can be tried depends on how the detector can be changed, and on whether all pictures are square. Refuse data
    with too few images before anything is written."""
    names = None if bench.reference is None else bench.reference.names
    study = DoctorStudy(opened, bench.names, settings, [], names)
    places = study.chosen()
    if len(places) < 6:
        what = "images" if settings.reference is not None else "images with annotated objects"
        raise BadData(f"{opened.data.spec} has {len(places)} {what}; doctor needs at least 6, or --reference.")
    square = all(opened.data[i].width == opened.data[i].height for i in places)
    return DoctorStudy(opened, bench.names, settings, changes_for(bench, square), names)


def rebuild(run: Run, data: Dataset) -> DoctorStudy:
    """The study of ``run`` again."""
    settings = run.settings
    return DoctorStudy(
        Opened(data),
        run.about["identity"]["detector"]["names"],
        DoctorSettings.of(settings),
        [Change.of(each) for each in settings["changes"]],
        settings["reference_names"],
    )


def asked(detector: Detector, how: DoctorSettings) -> Bench:
    """``detector`` as this study asks it, beside the reference where one is given."""
    return Bench(detector, None if how.reference is None else load_detector(how.reference))

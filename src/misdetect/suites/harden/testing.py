"""What a detector is tested with before and after a hardening: photos, an attack, a campaign of insertions, and the
insertions of earlier campaigns shown again. Which studies these are is said here and nowhere else in this room."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from misdetect.api.run import Run
from misdetect.api.studies import DataLike, DetectorLike, run_settings, study
from misdetect.engine.store import Run as Directory
from misdetect.pools.pool import build_pool, write_pool
from misdetect.said.errors import BadData, BadSpec
from misdetect.studies.attack.document import settings_of
from misdetect.studies.attack.results import Results
from misdetect.studies.conditions_read import Conditions
from misdetect.studies.kinds import kind_of
from misdetect.studies.retest.document import photos
from misdetect.studies.retest.settings import RetestSettings
from misdetect.suites.harden.lessons import Lessons
from misdetect.suites.harden.settings import HardenSettings
from misdetect.suites.harden.split import Split

PHOTOS, ATTACK, FUZZ, INSERTIONS, CAMPAIGN = "photos", "attack", "fuzz", "insertions", "campaign"
"""The tests: what is found on test photos; under attack; a campaign of insertions; what is found beside the insertions
of the first campaign there, and beside those that were trained on."""
MTD = "mtd"
"""The condition of a photo attacked by the stronger of cls and loc."""
_RETEST = "retest"
_LADDER = 16
_CUT = 500
"""Photos whose objects are cut out, to be inserted."""


def conditions_of(run: Directory) -> Conditions:
    """The images of a test of photos, clean or attacked, and what was found on them."""
    return photos(run) if run.study == _RETEST else Results(run, settings_of(run))


class Tests:
    """Tests on the photos of ``split``; ``lessons`` are what is learnt from, if that is a campaign, and ``out`` is
    where objects to insert are kept. ``skipped``: the tests that could not be made, and why."""

    def __init__(self, split: Split, lessons: Lessons | None, out: Path, how: HardenSettings) -> None:
        self._split, self._lessons, self._out, self._how = split, lessons, out, how
        self._common: dict[str, Any] = {**how.workforce, "cache": how.cache, "progress": how.progress}
        self.skipped: list[dict[str, str]] = []

    def of(
        self, detector: DetectorLike, folder: Path, *, attacked: bool, before: Mapping[str, Run] | None = None
    ) -> dict[str, Run]:
        """All tests of ``detector``, by name. Insertions are shown again of the campaign ``before``, or of its own
        where it is the first. ``attacked``: it has gradients to be attacked by."""
        how, test = self._how, self._split.test
        rules: dict[str, Any] = {"score": how.score, "confidence": how.confidence}
        looked = RetestSettings(out=folder / PHOTOS, limit=how.images, **rules, **self._common)
        runs = {PHOTOS: run_settings(_RETEST, detector, test, looked)}
        wanted: dict[str, Callable[[], Run]] = {FUZZ: lambda: self.campaign(detector, test, folder / FUZZ)}
        if attacked:
            wanted[ATTACK] = lambda: study(ATTACK)(
                detector, test, losses=("cls", "loc", MTD), eps=how.eps, steps=how.attack_steps, limit=how.attacked,
                ladder=min(_LADDER, how.attacked), keep=False, seed=how.seed, out=folder / ATTACK, **rules,
                **self._common,
            )  # fmt: skip
        for name, run in wanted.items():
            try:
                runs[name] = run()
            except (BadData, BadSpec) as error:  # no masks to cut out by, nothing found that could be lost
                if name == FUZZ and self._lessons is not None:
                    raise
                self.skipped.append({"study": f"{name} {folder.name}", "why": str(error)})
        edits = (before or runs).get(FUZZ)
        if edits is not None:
            runs[INSERTIONS] = self._shown(detector, edits, folder / INSERTIONS)
        if self._lessons is not None:
            trained = Run(self._lessons.run, data=self._lessons.photos)
            runs[CAMPAIGN] = self._shown(detector, trained, folder / CAMPAIGN)
        return runs

    def campaign(self, detector: DetectorLike, data: DataLike, out: Path) -> Run:
        """A campaign that gives a rate: guided insertions, nothing searched for."""
        how = self._how
        return study(FUZZ)(
            detector, data, strategy="guided", queries=how.queries, limit=how.images, pool=self._pool(), seed=how.seed,
            confidence=how.confidence, relocate=False, shrink=False, out=out, **self._common,
        )  # fmt: skip

    def again(self, detector: DetectorLike, lessons: Lessons, out: Path) -> Run:
        """Another campaign like that of ``lessons``, on the same photos."""
        run = lessons.run
        how = replace(kind_of(run.study).settings.of(run.settings), out=out, **self._common)
        return run_settings(run.study, detector, lessons.photos, how)

    def _pool(self) -> str:
        """The objects that campaigns insert: those of the campaign that is learnt from, where these are stored, else
        the objects of the photos that are trained on, cut out once."""
        if self._lessons is not None and Path(self._lessons.run.settings["pool"]).is_dir():
            return str(self._lessons.run.settings["pool"])
        folder = self._out / "pool"
        if not folder.exists():
            write_pool(build_pool(self._split.train.limit(_CUT)), folder)
        return str(folder)

    def _shown(self, detector: DetectorLike, campaign: Run, out: Path) -> Run:
        """What ``detector`` finds beside the insertions of ``campaign``."""
        rules = {"loc": campaign.directory.settings["iou"], "score": campaign.directory.settings["score"]}
        how = RetestSettings(
            edits=campaign.address, photos=False, out=out, confidence=self._how.confidence, **rules, **self._common
        )  # fmt: skip
        return run_settings(_RETEST, detector, campaign.data, how)

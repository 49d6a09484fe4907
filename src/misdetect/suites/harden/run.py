"""``harden``: train on what was found, guarded, and test again.

A folder with runs in it: ``before`` and ``after`` hold the same studies of the detector and of what it became, each
``round-N`` its trainings. Every one of them goes on where it was interrupted, so the whole does. ``plan.json`` says
what was asked for: a folder is never gone on with by another plan.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from misdetect.api.run import Place, Run
from misdetect.api.studies import DataLike, DetectorLike, with_keywords
from misdetect.data import load_data
from misdetect.data.dataset import Dataset
from misdetect.detectors import load_detector
from misdetect.engine.store import Run as Directory
from misdetect.kept.files import check_local, write_atomically
from misdetect.nouns.protocols import Detector, Differentiable, Trainable, describe, require
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadData, BadSpec, RunMismatch
from misdetect.studies.contract import Document
from misdetect.studies.documents import data_of
from misdetect.studies.kinds import kind_of
from misdetect.suites.harden.adversarial import Adversarial
from misdetect.suites.harden.backbone import CHANGE, adversarial_backbone, pretrainable
from misdetect.suites.harden.document import Hardening, Round, document
from misdetect.suites.harden.free import Free
from misdetect.suites.harden.lessons import Lessons, drawn_from, images_of
from misdetect.suites.harden.mixture import Mixture
from misdetect.suites.harden.page import harden_page
from misdetect.suites.harden.settings import HardenSettings
from misdetect.suites.harden.split import Split, divided
from misdetect.suites.harden.testing import FUZZ, Tests
from misdetect.suites.harden.trainings import Workshop, recipe_for, remembered, zoo_name
from misdetect.suites.harden.watch import EDITED, Pictures, Watched
from misdetect.training.batches import Batches, Replayed
from misdetect.training.loop import Change
from misdetect.training.zoo import mirrored

PLAN, WEIGHTS, DOCUMENT, REPORT = "plan.json", "weights.safetensors", "harden.json", "report.html"
SAME, FAILING, UNFILTERED, ADVERSARIAL = "same", "failing", "unfiltered", "adversarial"
"""Paper 4's three configurations (more of the same photos; failing images added; as many added that nobody filtered),
and paper 5's."""


class Hardened:
    """What came of it: ``weights``, and all that was found as one ``document``, also in ``harden.json`` in ``path``."""

    def __init__(self, place: Place, document: Document) -> None:
        self.path, self.document, self._place = place.path, document, place

    @property
    def weights(self) -> Path:
        """The hardened detector's weights (safetensors)."""
        return self.path / WEIGHTS

    @property
    def report(self) -> Path:
        """The page of all of it."""
        return self.path / REPORT

    def __repr__(self) -> str:
        return "\n".join([f"harden -> {self.path}", *(f"  {each}" for each in self.document["sentences"])])


def _harden(detector: DetectorLike, data: DataLike, how: HardenSettings) -> Hardened:
    if how.out is not None:
        check_local(Path(how.out))
    place = Place(how.out)
    subject: Trainable = require(
        load_detector(detector), Trainable, "harden", "`misdetect export` writes failing images for whoever trains it"
    )
    source = data if isinstance(data, str) else load_data(data, subject.names)
    split = divided(source, subject.names, how.held_out, how.test)
    lessons = _lessons(subject, split, how)
    _keep_plan(place.path, subject, split, how)
    given = detector if isinstance(detector, str) else subject
    found = _Hardener(given, subject, split, lessons, place.path, how).harden()
    told = {
        "detector": describe(subject),
        "data": split.whole.spec,
        "splits": split.fingerprints,
        "weights": str(place.path / WEIGHTS),
        "hardened": _with_weights(given, place.path / WEIGHTS),
        **document(found, how),
        "out": str(place.path),
        "report": str(place.path / REPORT),
    }
    told = json.loads(json.dumps(told, allow_nan=False))
    write_atomically(place.path / DOCUMENT, (json.dumps(told, sort_keys=True, indent=2) + "\n").encode())
    harden_page(told, place.path / REPORT)
    return Hardened(place, told)


def _lessons(subject: Detector, split: Split, how: HardenSettings) -> Lessons | None:
    """What ``--with failures:RUN`` names, refused where it does not fit; ``None`` for adversarial training."""
    if how.campaign is None:
        require(subject, Differentiable, "adversarial training", "it gives no gradients")
        if how.backbone == "adversarial":
            pretrainable(subject)
        return None
    run = Directory.open(how.campaign)
    if (kind := kind_of(run.study)).images is None or kind.edits is None:
        raise BadData(f"{run.address} is a run of {run.study!r}, which puts nothing into photos; name one of fuzz.")
    known = run.about["identity"]
    names = known["detector"]["names"]
    if list(subject.names) != names:
        raise BadSpec(
            f"{run.address} was made with a detector of other classes ({', '.join(names[:3])}, …) than "
            f"{describe(subject)} has ({', '.join(list(subject.names)[:3])}, …)."
        )
    same = split.whole.fingerprint == known["data"]["fingerprint"]
    photos = split.whole.limit(known["data"]["limit"]) if same else data_of(run)
    lessons = Lessons.of(run, photos, split.train)
    lessons.images("all", how.inserted)  # a run without failures is refused before anything is done
    return lessons


def _keep_plan(out: Path, subject: Detector, split: Split, how: HardenSettings) -> None:
    """Write ``plan.json``, or refuse a folder that was begun with another plan."""
    path = out / PLAN
    wanted = {**how.plan(), "detector": getattr(subject, "fingerprint", None), "data": split.fingerprints}
    wanted = json.loads(json.dumps(wanted))
    with suppress(FileNotFoundError):
        try:
            kept = dict(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError):
            raise RunMismatch(f"{path} cannot be read; delete {out} to begin again, or choose another --out.") from None
        other = [name for name in wanted if wanted[name] != kept.get(name)]
        if other:
            name = other[0]
            raise RunMismatch(
                f"{out} was begun with another {name.replace('_', '-')} ({_short(kept.get(name))}, not "
                f"{_short(wanted[name])}); choose another --out."
            )
        return
    if out.exists() and any(out.iterdir()):
        raise RunMismatch(f"{out} holds something else already; choose another --out.")
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(wanted, indent=2) + "\n").encode())


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) < 40 else f"{text[:37]}…"


def _with_weights(given: DetectorLike, weights: Path) -> str | None:
    """The spec that loads the hardened detector; ``None`` where the detector came without a spec."""
    return Spec.parse(given).instead("weights", weights) if isinstance(given, str) else None


class _Hardener:
    """Hardens ``subject``, which was ``given`` by its spec or is that object itself, and tests what comes of it."""

    def __init__(
        self,
        given: DetectorLike,
        subject: Trainable,
        split: Split,
        lessons: Lessons | None,
        out: Path,
        how: HardenSettings,
    ) -> None:
        self.given, self.subject, self.split, self.lessons = given, subject, split, lessons
        self.out, self.how = out, how
        self.tests = Tests(split, lessons, out, how)
        self.tested: dict[str, dict[int, dict[str, float]]] = {}
        self.held_out: dict[str, float] = {}

    def harden(self) -> Hardening:
        """Test, train, test again."""
        attacked = isinstance(self.subject, Differentiable)
        before = self.tests.of(self.given, self.out / "before", attacked=attacked)
        if self.lessons is None:
            first, check = None, Watched(self._pictures(self.split.held_out), eps=self.how.eps)
            rounds, kept = [self._round(1, check, {ADVERSARIAL: self._attacked()}, before)], 0
        else:
            first = self.tests.campaign(self.given, self.split.held_out, self.out / "held-out" / FUZZ)
            made = Lessons.of(first.directory, first.data, first.data).images("any", "ignored")
            names = self.subject.names
            check = Watched(self._pictures(self.split.held_out), edited=Pictures(made, names))
            rounds, kept = self._rounds(self.lessons, first, check, before)
        saved = self._saved(self.out / WEIGHTS)
        after = self.tests.of(saved, self.out / "after", attacked=attacked, before=before)
        old, new = ({name: run.directory for name, run in runs.items()} for runs in (before, after))
        fuzzed = None if first is None else first.directory
        return Hardening(old, new, rounds, kept, self.tested, self.held_out, fuzzed, self.tests.skipped)

    def _pictures(self, data: str | Dataset) -> Pictures:
        return Pictures(load_data(data).limit(self.how.watched), self.subject.names)

    @property
    def _flip(self) -> bool:
        """Whether images are mirrored at random."""
        name = zoo_name(self.subject)
        return name is None or mirrored(name)

    def _photos(self, synthetic: Dataset | None = None) -> Mixture:
        return Mixture(
            self.split.train, self.subject.names, synthetic=synthetic, share=self.how.share, flip=self._flip
        )  # fmt: skip

    def _attacked(self) -> tuple[Batches, Change | None]:
        """Photos, and the attack on each batch."""
        how, photos = self.how, self._photos()
        if how.free:
            return Replayed(photos, how.free), Free(replays=how.free, eps=how.eps, alpha=how.pace, clean=how.clean)
        half = recipe_for(self.subject, how, how.seed).precision == "bfloat16"
        steps, clean = how.inner_steps, how.clean
        return photos, Adversarial(how=how.how, eps=how.eps, alpha=how.pace, steps=steps, clean=clean, half=half)

    def _round(
        self,
        number: int,
        check: Watched,
        configurations: Mapping[str, tuple[Batches, Change | None]],
        before: Mapping[str, Run],
    ) -> Round:
        """Train by each of ``configurations``; the first is the one whose best training is chosen."""
        how, folder = self.how, self.out / f"round-{number}"
        workshop = Workshop(self.subject, check, folder, how)
        if number == 1:
            self.held_out = workshop.before
        if how.backbone == "adversarial":
            workshop.begin_with(self._with_backbone)
        trials = []
        for name, (batches, change) in configurations.items():
            for seed in range(how.seed, how.seed + how.trainings):
                place = folder / f"{name}-{seed}"
                trial = workshop.train(name, seed, batches, place, change, how.progress)
                trials.append(trial)
                if number == 1:
                    workshop.hold_last(trial)
                    tested = self.tested.setdefault(name, {})
                    tested[seed] = remembered(place / "test.json", lambda: self._scores(before))
        own = [trial for trial in trials if trial.configuration == next(iter(configurations))]
        chosen = max(own, key=lambda trial: (trial.scores[check.objective], -trial.seed))
        workshop.hold(chosen)
        return Round(trials, chosen)

    def _with_backbone(self, detector: Trainable) -> None:
        how = self.how
        change = replace(CHANGE, eps=how.eps, alpha=how.eps / 2)

        def watch(step: int, total: int, numbers: Mapping[str, float]) -> None:
            if how.progress is not None:
                how.progress(step, total, {"of": "backbone", **numbers})

        adversarial_backbone(
            detector, self.split.train, self.out / "backbone", steps=how.backbone_steps, seed=how.seed, change=change,
            flip=self._flip, watch=watch,
        )  # fmt: skip

    def _scores(self, before: Mapping[str, Run]) -> dict[str, float]:
        """AP and AP50 of the detector as it is now on test photos, and AP50 on those that were edited before."""
        photos = Pictures(load_data(self.split.test).limit(self.how.images), self.subject.names)
        scores = photos.measured(self.subject)
        found = {name: scores[name] for name in ("AP", "AP50")}
        if FUZZ in before:
            run = before[FUZZ]
            edited = Pictures(Lessons.of(run.directory, run.data, run.data).images("any", "ignored"), photos.names)
            found[EDITED] = edited.measured(self.subject)["AP50"]
        return found

    def _rounds(
        self, lessons: Lessons, first: Run, check: Watched, before: Mapping[str, Run]
    ) -> tuple[list[Round], int]:
        """Retrain, fuzz held-out photos; fuzz the photos that are trained on for more failures, and again, until held-
        out photos yield no fewer. The detector ends up with the weights of the round that is kept, which is told."""
        how, rounds, learnt, kept = self.how, list[Round](), [lessons], 0
        least = first.document["failure_rate"]
        for number in range(1, how.rounds + 1):
            folder = self.out / f"round-{number}"
            if number > 1:
                found = self._more_lessons(lessons, folder)
                if found is None:  # nothing fails any more
                    break
                learnt.append(found)
            failing = images_of(learnt, "all", how.inserted)
            configurations: dict[str, tuple[Batches, Change | None]] = {FAILING: (self._photos(failing), None)}
            if number == 1:
                other = drawn_from(images_of(learnt, "any", how.inserted), len(failing), how.seed)
                configurations |= {SAME: (self._photos(), None), UNFILTERED: (self._photos(other), None)}
            done = self._round(number, check, configurations, before)
            hardened = self._saved(folder / WEIGHTS)
            fuzzed = self.tests.campaign(hardened, self.split.held_out, folder / "held-out")
            rounds.append(replace(done, images=len(failing), fuzzed=fuzzed.directory))
            if number > 1 and fuzzed.document["failure_rate"] >= least:
                self.subject.load(self.out / f"round-{kept + 1}" / WEIGHTS)
                break
            kept, least = number - 1, fuzzed.document["failure_rate"]
        return rounds, kept

    def _more_lessons(self, lessons: Lessons, folder: Path) -> Lessons | None:
        """Another campaign like the first, on the same photos, against what the detector has become."""
        run = self.tests.again(self._saved(folder / "begun.safetensors"), lessons, folder / FUZZ)
        found = Lessons.of(run.directory, run.data, self.split.train)
        try:
            found.images("all", self.how.inserted)
        except BadData:
            return None
        return found

    def _saved(self, weights: Path) -> DetectorLike:
        """The detector as it is now, its weights in a file: by its spec, where it has one."""
        weights.parent.mkdir(parents=True, exist_ok=True)
        self.subject.save(weights)
        return _with_weights(self.given, weights) or self.subject


harden = with_keywords(_harden, HardenSettings, "harden")

"""The search for what is wrong: chosen on some images, confirmed on others. It asks nothing itself.

``search`` is a generator: it yields what it wants asked, (way of asking, image), and goes on once the answers are in
the ``Evidence``. So the study plans by it while it runs, and the document, which has all answers, runs through it
again.

Every change is tried on the *choosing* images, each with the best reading of what comes back; the best is kept if it
gains enough, and the others are tried on top of it once more. What was chosen is then asked on the *confirming* images,
which had no part in the choice: there it must gain, image for image, more than a margin, or it is not reported.
"""

from collections.abc import Container, Generator, Sequence
from dataclasses import dataclass, field, replace

from misdetect.studies.doctor.answers import AS_IS, GIVEN, Evidence, Fit, Reading

Wanted = list[tuple[str, int]]
GAIN = 0.02
"""What a change must gain on the choosing images to be looked at further: in AP with plus AP without classes."""
TUNING_GAIN, READING_GAIN = 0.1, 0.1
MIRRORS = {"mirror", "flip"}
QUERY = "query "
"""Before the name of a change in what is sent, among the single changes of a wiring."""
READABLE = 0.2
"""Fit from which on the answers are understood: other ways of asking are then read in the same way."""
HARM = 0.05
"""What a change may lose alone and still be tried together with another."""
EQUAL = 0.001
"""Of changes that gain as much the first in the list is believed."""
SWEEPS = 2
"""Changes of what is sent that are found together."""


@dataclass(frozen=True)
class Wiring:
    """A way of asking and a reading of the answers."""

    query: str = AS_IS
    reading: Reading = GIVEN


@dataclass(frozen=True)
class Trial:
    """What a way of asking, at its best reading, did on the choosing images."""

    wiring: Wiring
    fit: Fit


@dataclass
class Diagnosis:
    """The wiring that does best on the choosing images, and all that was tried. ``asked``: also on the confirming
    ones."""

    chosen: Wiring = field(default_factory=Wiring)
    plain: Fit = field(default_factory=lambda: Fit(0.0, 0.0))
    tried: list[Trial] = field(default_factory=list)
    asked: bool = False


def without(query: str, name: str) -> str:
    """``query`` without the change called ``name``."""
    left = [part for part in query.split(" + ") if part != name]
    return " + ".join(left) or AS_IS


def split(images: int) -> tuple[list[int], list[int]]:
    """The images to choose by, a third, and those to confirm with."""
    third = max(2, images // 3)
    return list(range(third)), list(range(third, images))


def search(evidence: Evidence, choose: Sequence[int], confirm: Sequence[int]) -> Generator[Wanted, None, Diagnosis]:
    """Look for what is wrong; see above."""
    found = Diagnosis()
    yield [(AS_IS, i) for i in (*choose, *confirm)]
    reading, fit = evidence.best_reading(AS_IS, choose)
    found.plain = evidence.fit(AS_IS, GIVEN, choose, strict=True)
    found.tried.append(Trial(Wiring(AS_IS, reading), fit))
    best = max(Trial(Wiring(), found.plain), found.tried[0], key=lambda trial: _worth(evidence, trial))
    candidates = list(evidence.changes)
    for _ in range(SWEEPS):
        parts = evidence.parts(best.wiring.query)
        prefix = [part.name for part in parts]
        names = [name for name in candidates if evidence.changes[name].kind not in {part.kind for part in parts}]
        queries = [" + ".join([*prefix, name]) for name in names]
        yield [(query, i) for query in queries for i in choose]
        known = best.wiring.reading if best.fit.total >= READABLE else None
        read = [(query, *evidence.best_reading(query, choose, known)) for query in queries]
        trials = [Trial(Wiring(query, reading), fit) for query, reading, fit in read]
        found.tried += trials
        # what does harm alone is not tried again together with what helps
        candidates = [
            name for name, trial in zip(names, trials, strict=True) if trial.fit.total > best.fit.total - HARM
        ]
        gains = [_worth(evidence, trial) - _worth(evidence, best) for trial in trials]
        if max(gains, default=0.0) <= 0:
            break
        top = next(trial for trial, gain in zip(trials, gains, strict=True) if gain >= max(gains) - EQUAL)
        if evidence.edits(top.wiring.query) and top.fit.total - best.fit.total <= GAIN:
            break  # an edit must do better than another reading; an option need not, being the plainer fix
        best = top
    found.chosen = best.wiring
    if best.wiring != Wiring():
        names = [] if best.wiring.query == AS_IS else best.wiring.query.split(" + ")
        needed = dict.fromkeys([best.wiring.query, *(without(best.wiring.query, name) for name in names)])
        yield [(query, i) for query in needed for i in confirm]
        found.asked = True
    return found


def diagnose(evidence: Evidence, images: int, failed: Container[tuple[str, int]]) -> Diagnosis | None:
    """Run through the search with all answers there are; ``None`` where it wants more than that, and what it wants has
    not ``failed``."""
    plan = search(evidence, *split(images))
    try:
        wanted = next(plan)
        while all(evidence.said(*pair) is not None or pair in failed for pair in wanted):
            wanted = next(plan)
    except StopIteration as stop:
        found: Diagnosis = stop.value
        return found
    return None


def _worth(evidence: Evidence, trial: Trial) -> float:
    """The fit of a trial less what its changes and readings must gain: of explanations that do about as well the one
    that needs fewer is believed."""
    price = sum(TUNING_GAIN if change.tunes else GAIN for change in evidence.parts(trial.wiring.query))
    readings = sum(not name.startswith(QUERY) for name, _ in atoms(trial.wiring))
    if not trial.wiring.reading.turned and MIRRORS & set(evidence.edits(trial.wiring.query)):
        readings += 2  # most detectors see mirrored pictures as well, so mirrored boxes alone explain the same
    return trial.fit.total - price - READING_GAIN * readings


def atoms(wiring: Wiring) -> list[tuple[str, Wiring]]:
    """The single changes of which ``wiring`` is made, each with the wiring that lacks only it."""
    names = [] if wiring.query == AS_IS else wiring.query.split(" + ")
    found = [(f"{QUERY}{name}", replace(wiring, query=without(wiring.query, name))) for name in names]
    reading = wiring.reading
    for part in ("boxes", "labels", "scores", "nms"):
        if getattr(reading, part) != getattr(GIVEN, part):
            plain = replace(reading, **{part: getattr(GIVEN, part)})
            found.append((part, replace(wiring, reading=plain)))
    return found

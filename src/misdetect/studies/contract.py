"""What a study is: ``Kind`` is all that anything outside its room knows of it.

Command line, Python, checkup, report, app, compare and export walk over the kinds that are registered
(``studies.kinds``) and know none of them by name. Nothing heavy is imported here: a kind names its parts, and each is
imported when it is first asked for, so that ``misdetect --help`` waits for none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from misdetect.data.dataset import Dataset
    from misdetect.data.opened import Opened
    from misdetect.drawing.scenes import Stage
    from misdetect.drawing.tables import Table
    from misdetect.drawing.values import Chart, Counted, Filter
    from misdetect.engine.backend import Asking
    from misdetect.engine.requests import Study
    from misdetect.engine.store import Run
    from misdetect.nouns.picture import Picture
    from misdetect.nouns.protocols import Detector
    from misdetect.registry import Registered
    from misdetect.studies.running import Running

T = TypeVar("T")
Document = dict[str, Any]
"""What a run says, JSON-able: the same for the same rows."""
Group = Literal["wrong", "why", "breaks", "better", "look", "data"]
GROUPS: Mapping[Group, str] = {
    "wrong": "What is wrong with my detector?",
    "why": "Why does it miss, confuse, invent?",
    "breaks": "What breaks it?",
    "better": "Make it better",
    "look": "Look and compare",
    "data": "Data and detectors",
}
"""The questions that verbs answer, in the order of ``misdetect --help``."""


@dataclass(frozen=True)
class Headline:
    """A headline number, with its interval where it has one."""

    value: float | int | None
    interval: Sequence[float] | None = None


@dataclass(frozen=True)
class Finding:
    """Something that is wrong, as a checkup says it: ``sentence`` and ``advice`` for a person. ``value`` in 0..1 is the
    share of the objects (or of AP50) that is at stake, with its ``interval`` where it has one. ``kind`` is what is
    wrong in one word; findings of one study and kind are of the same thing, whatever the detector.

    What only follows from another finding does not come before it: ``follows`` names the kinds of findings that this
    one follows from, ``brings`` those that follow from this one."""

    sentence: str
    advice: str
    value: float
    interval: tuple[float, float] | None
    study: str
    kind: str
    follows: tuple[str, ...] = ()
    brings: tuple[str, ...] = ()

    def document(self) -> Document:
        """As it stands in the document of a checkup."""
        names = ("sentence", "advice", "value", "interval", "study", "kind")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Fact:
    """A number at the head of a page: ``name`` as people call it, ``told``, what it is of; a ``share`` is shown in
    percent."""

    name: str
    value: float | int | str | None
    told: str = ""
    share: bool = False


@dataclass(frozen=True)
class Behind:
    """What a page shows beside a finding. ``rows``: the filter of the rows behind it, whose first are shown as pictures
    (none: it has none). ``chart``: bars that say the same at a glance, the one that the finding is about ``chosen``.
    ``sure``: what its number was counted on. ``gain``: what mending it would bring at most."""

    rows: Filter
    chart: Chart | None = None
    sure: str = ""
    gain: str = ""


@dataclass(frozen=True)
class Evidence:
    """Which rows of the ledger people look at one by one, and the picture behind each.

    ``condition`` is that of the ledger's rows that tell of failures; "clean": of images as they are. ``rank`` is the
    order in which studies are shown, and in which their word counts where several tell of one failure. SQL over the
    columns of the ledger are ``scene``, the key of the picture that shows a row, ``by(run)``, what did it (an attack,
    the class of an object that was put in), ``among(run)``, which rows of that condition count where not all do,
    ``first(run)``, which of these stand for all where several tell of the same, and ``shown``, which are looked at one
    by one. ``titled`` stands over an edited picture (``control``: over that of a control) and ``told`` beside a row,
    with ``{by}`` for what did it. ``stage(run, data)`` makes the edited pictures again. ``boxes`` is a SELECT over
    ``rows`` (``t``) of the objects and detections of images as they are (``kind, image, id, label, x0, y0, x1, y1,
    tide, score``), and ``knows`` how well: the largest is asked. ``reports``: its setting ``score`` says from which
    score on a detection is reported; ``faint``: detections below that are no failures. ``asks``: whether its cases can
    be asked again. ``rows``: whether it has such rows at all, and not only boxes."""

    condition: str = "clean"
    rank: int = 100
    scene: str = "'clean/' || image"
    by: Callable[[Run], str] | None = None
    among: Callable[[Run], str] | None = None
    first: Callable[[Run], str] | None = None
    shown: str = "true"
    titled: str = "{by}"
    control: str = "with the control"
    told: str = "{by}"
    stage: Callable[[Run, Dataset], Stage] | None = None
    boxes: str | None = None
    knows: int = 0
    reports: bool = False
    faint: bool = False
    asks: bool = True
    rows: bool = True

    @property
    def edited(self) -> bool:
        """Whether it looks at edited images."""
        return self.condition != "clean"


@dataclass(frozen=True)
class Figures:
    """Figures in files. ``draw(run, data, most)`` writes at most ``most`` of each kind into the run directory;
    ``compared(document, folder)`` those of runs side by side. ``captions`` by the names of files; ``live`` are patterns
    of names that a page has as charts or in its gallery; ``beyond(document)``: whether there are any others."""

    draw: Callable[[Run, Dataset, int], list[Path]]
    compared: Callable[[Document, Path], list[Path]] | None = None
    captions: Mapping[str, str] = field(default_factory=dict)
    live: tuple[str, ...] = ()
    beyond: Callable[[Document], bool] = lambda document: True


@dataclass(frozen=True, eq=False)
class Examined:
    """What a checkup knows when it comes to a study: the ``data``, whether it is ``annotated`` and has ``states`` of
    parts, how much each study may ask (``plan``), the ``runs`` so far by study, and the ``limit`` on images."""

    data: Dataset
    annotated: bool
    states: bool
    plan: Mapping[str, int]
    runs: Mapping[str, Any]
    limit: int | None


@dataclass(frozen=True)
class Pace:
    """How fast a detector is: ``seconds`` there are in all, those that an image takes (``query``; ``inside``: looked
    into), and how many ``images`` there are."""

    seconds: float
    query: float
    inside: float
    images: int


@dataclass(frozen=True)
class InCheckup:
    """What a checkup does with a study. ``order``: those that explain others first. ``settings(examined)`` are the
    settings that it is run with, a sentence why it is not run, or ``None`` where that need not be said.
    ``plan(pace)``: how much it may ask. ``required``: without it nothing can be checked. ``more(run)`` is added to its
    document."""

    order: int
    settings: Callable[[Examined], Mapping[str, Any] | str | None]
    plan: Callable[[Pace], int] | None = None
    required: bool = False
    more: Callable[[Run], Document] | None = None


@dataclass(frozen=True)
class Claim:
    """What an assertion (``assert_stable``, ``assert_no_hallucination``) holds of a run of this study: the number at
    ``key``, the low ``end`` of its interval, and SQL for the ledger's rows to name. ``unknown``: the same where nothing
    is annotated. ``fits(data)``: whether the data has what it takes; the first study that fits is run. ``settings`` are
    its defaults where no budget is given."""

    key: str
    end: str
    rows: str
    unknown: tuple[str, str] | None = None
    fits: Callable[[Dataset], bool] = lambda data: True
    settings: Mapping[str, Any] = field(default_factory=dict)
    rank: int = 100


Inserted = Literal["unlabelled", "labelled", "ignored"]
"""Whether an object that was put in is annotated; ignored: as a crowd, which is neither to be found nor wrong."""
Hidden = Literal["drop", "mark", "keep"]
"""What becomes of annotations that it hides."""


class Made(Protocol):
    """Images that a run made, as data to train on: ``which`` of them, and the photo that each was made of
    (``backgrounds``)."""

    @property
    def which(self) -> str: ...
    @property
    def backgrounds(self) -> Sequence[str]: ...
    def dataset(self) -> Dataset: ...
    def about(self, i: int) -> Document:
        """What image ``i`` shows, for its record; the ids of annotations that are ``hidden``, where any may be."""
        ...


class Edits(Protocol):
    """The edited pictures of a run, by the number of their case, to be shown to any detector."""

    @property
    def numbers(self) -> Sequence[int]: ...
    @property
    def key(self) -> str:
        """What they show, wherever the run lies."""
        ...

    def photo(self, number: int) -> int:
        """The index of the photo that it was made of."""
        ...

    def box(self, number: int) -> tuple[int, int, int, int]:
        """What was put in: x0, y0, x1, y1 in pixels."""
        ...

    def picture(self, number: int) -> Picture: ...


@dataclass(frozen=True)
class Subject:
    """What a verb is about, beside its settings: its name in Python and as an option, its help, and whether it is a
    data set."""

    name: str
    help: str
    is_data: bool = False


DETECTOR = Subject("detector", "A model file, or a spec such as zoo:yolox; `misdetect detectors` lists them.")
DATA = Subject("data", "A data file or folder, or a spec such as coco:instances.json or rooms:val.", is_data=True)


class Part(Generic[T]):
    """A part of a kind: the object itself, or where it is, as "file:name" in the kind's room; unless the kind says
    otherwise it is at ``place``."""

    def __init__(self, place: str | None, *, needed: bool = False) -> None:
        self.place, self.needed = place, needed

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, kind: Kind, owner: type) -> T:
        return kind.part(self.name)  # type: ignore[no-any-return]


class Kind:
    """A study: what it is called and what it is made of. To build one, write a package (its *room*) and register an
    instance of this class as an entry point of the group ``misdetect.studies``, under the study's name::

        BRIGHTNESS = Kind(
            "brightness",
            room=__name__,  # the package that its parts are in
            help="How far images can be darkened before objects are lost.",
            group="breaks",  # the question it answers: a key of GROUPS
            title="What darkness does",  # heading on a page
            example="--detector zoo:yolox --data rooms:val --out RUN",
            settings="settings:BrightnessSettings",
        )

    Each part is in the file that is said beside it here (``document`` in ``document.py``); one that is elsewhere is
    named as "file:name", or given itself. ``settings``, ``prepare``, ``rebuild``, ``ledger``, ``document``,
    ``sentences`` and ``numbers`` are needed. With these the study is a verb with all its options, a function of
    ``misdetect``, and is shown, compared by its numbers, queried in the ledger, exported, reported and served; each
    further part adds what it says. All but ``prepare`` work from the run directory (``engine.store.Run``) and what it
    says of itself: neither detector nor data is needed. Without an ``example`` it has no verb.
    """

    settings: Part[type[Running]] = Part(None, needed=True)
    """Its settings: a frozen dataclass derived from ``studies.running.Running``; the sentence below a field is its
    help."""
    prepare: Part[Callable[[Any, Opened, Any, Asking], Study]] = Part("study:prepare", needed=True)
    """``prepare(detector, opened, settings, asking)`` makes the ``Study``, whose cases yield ``Detect``, ``Trace`` and
    ``Gradient``; it may ask the detector first."""
    rebuild: Part[Callable[[Run, Dataset], Study]] = Part("study:rebuild", needed=True)
    """``rebuild(run, data)``: the study of a run again, to draw its pictures or to run one of its cases once more."""
    ledger: Part[Callable[[Run], str]] = Part("rows:ledger", needed=True)
    """``ledger(run)``: a SELECT over the run's ``rows`` with columns of the ledger; those that it leaves out are
    null."""
    document: Part[Callable[[Run], Document]] = Part("document:document", needed=True)
    """``document(run)``: everything that the run says, JSON-able."""
    sentences: Part[Callable[[Document], list[str]]] = Part("document:sentences", needed=True)
    """``sentences(document)``: what was found in words, the most important first."""
    numbers: Part[Callable[[Document], dict[str, Headline]]] = Part("document:numbers", needed=True)
    """``numbers(document)``: headline numbers by name, for comparing runs."""

    show: Part[Callable[[Console, Mapping[str, Any]], None] | None] = Part("shown:show")
    """``show(console, document)``: how a terminal shows the document; without it, its sentences."""
    findings: Part[Callable[[Document, Mapping[str, Document]], Iterable[Finding]] | None] = Part("findings:findings")
    """``findings(document, documents)``: what a checkup says is wrong; ``documents`` are those of all studies, by
    name."""
    charts: Part[Callable[[Run, Document, Counted, Dataset | None], list[Chart]] | None] = Part("charts:charts")
    """``charts(run, document, counted, data)``: charts as values, which the page and the app draw."""
    head: Part[Callable[[Run, Document, float], Sequence[Fact]] | None] = Part("head:head")
    """``head(run, document, reported)``: the numbers that stand at the head of a page; ``reported``: from which score
    on a detection counts as reported there."""
    behind: Part[Callable[[Document, Document], Behind] | None] = Part("behind:behind")
    """``behind(finding, document)``: what a page shows beside one of its findings (as a document). Without it, the
    study's failures."""
    figures: Part[Figures | None] = Part("figures:FIGURES")
    """Figures in files."""
    evidence: Part[Evidence | None] = Part("evidence:EVIDENCE")
    """The rows that people look at one by one."""
    tables: Part[Callable[[Sequence[Document]], Iterable[Table]] | None] = Part("latex:tables")
    """``tables(documents)``: tables as a paper prints them, of one or several runs."""
    checkup: Part[InCheckup | None] = Part("checkup:CHECKUP")
    """What a checkup does with it."""
    claims: Part[Mapping[str, Claim] | None] = Part("claims:CLAIMS")
    """What assertions hold of a run, by the assertion's name without ``assert_``."""
    images: Part[Callable[[Run, Dataset, str | None, Inserted, Hidden], Made] | None] = Part(None)
    """``images(run, data, which, inserted, hidden)``: the images that it made, as data to train on. Of a study with
    ``edits``, ``which`` may be "all" that fail, or "any"."""
    edits: Part[Callable[[Run, Dataset], Edits] | None] = Part("edits:edits")
    """``edits(run, data)``: the objects that it put into photos, to be shown again."""

    compare: Part[Callable[[Mapping[str, Run], float, int], Document] | None] = Part("compare:compare")
    """``compare(runs, confidence, seed)``: more of several runs than their numbers. All of them are run directories,
    unless ``by_document``: then documents that a verb printed are compared by their numbers too."""
    show_compared: Part[Callable[[Console, Mapping[str, Any]], None] | None] = Part("shown:show_compared")
    """``show_compared(console, document)``: how a terminal shows runs side by side, where numbers and what differs are
    not all."""
    replay: Part[Callable[[Run, Dataset, str, Detector], Document] | None] = Part("replay:replay")
    """``replay(run, data, case, detector)``: more of one case than whether its rows are the same."""

    after: Part[Callable[[Any, Detector, Run, Any, Asking], None] | None] = Part(None)
    """``after(study, detector, run, settings, asking)`` asks more once a run is finished, into a directory of its own
    inside the run's, where ``document`` finds it."""
    asked: Part[Callable[[Detector, Any], Detector] | None] = Part(None)
    """``asked(detector, settings)``: what a run really asks, where that is not the detector alone."""
    stored: Part[Callable[[Any, Dataset, Any], tuple[Any, Any]] | None] = Part(None)
    """``stored(predictions, data, settings)``, of a study that needs no model: what stands for the detector where
    stored predictions (a spec, or a run of detect) are given, and the settings that are left."""
    run: Part[Callable[[Any, Any, Any, Path], tuple[Run, Dataset]] | None] = Part(None)
    """``run(subject, data, settings, path)``: of a study that asks nobody: runs it into ``path``; the run, and its
    data."""
    results: Part[Callable[[Run, Dataset, Path], tuple[Document, list[str]]] | None] = Part(None)
    """``results(run, data, path)``: of a study whose verb leaves a file and no run: writes it; what the document then
    has in place of its own, and notes."""

    def __init__(
        self,
        name: str,
        *,
        room: str,
        help: str,
        group: Group,
        title: str,
        example: str | None = None,
        subjects: tuple[Subject, Subject] = (DETECTOR, DATA),
        headlines: Sequence[str] = (),
        by_document: bool = False,
        open_names: bool = False,
        reads: str | None = None,
        **parts: Any,
    ) -> None:
        self.name, self.room, self.help, self.group, self.title = name, room, help, group, title
        self.example, self.subjects = example, subjects
        self.headlines: Sequence[str] = headlines
        """Differences between runs that a person is told of, certain or not."""
        self.by_document = by_document
        self.open_names = open_names
        """Whether it can do without knowing a detector's classes beforehand."""
        self.reads = reads
        """The study whose runs it is about, where it asks no detector itself."""
        self.registered: Registered | None = None
        """What registers it, once it is found there."""
        if unknown := parts.keys() - known_parts().keys():
            raise TypeError(f"a Kind has no part {', '.join(sorted(unknown))}; it has {', '.join(known_parts())}.")
        self._parts = parts

    @property
    def missing(self) -> list[str]:
        """The needed parts that it lacks."""
        return [name for name, each in known_parts().items() if each.needed and not self.has(name)]

    def has(self, name: str) -> bool:
        """Whether it has the part ``name``, or a file where that would be; neither is imported for it."""
        where = self._parts.get(name, known_parts()[name].place)
        if not isinstance(where, str):
            return where is not None
        try:
            return find_spec(f"{self.room}.{where.partition(':')[0]}") is not None
        except ModuleNotFoundError:  # its room is not there
            return False

    def part(self, name: str) -> Any:
        """The part ``name``, imported if need be; ``None`` where it has none."""
        if name not in self._parts or isinstance(self._parts[name], str):
            self._parts[name] = self._imported(name)
        return self._parts[name]

    def check(self) -> None:
        """Import every part, where it is another package's: a ``BadPlugin`` now, and not once all has been asked."""
        if self.registered is not None and not self.registered.own:
            for name in known_parts():
                self.part(name)

    def _imported(self, name: str) -> Any:
        said = name in self._parts
        where = str(self._parts[name]) if said else known_parts()[name].place
        if where is None or not (said or self.has(name)):
            return None
        module, _, attribute = where.partition(":")
        try:
            found = import_module(f"{self.room}.{module}")
            return getattr(found, attribute) if said else getattr(found, attribute, None)
        except (Exception, SystemExit) as error:  # whatever a stranger's file may raise when it is imported
            if self.registered is None or self.registered.own:
                raise
            why = f"{type(error).__name__}: {str(error).rstrip('.')}"
            raise self.registered.broken(f"its part {name!r} ({where}) cannot be had, {why}") from error

    def __repr__(self) -> str:
        return f"Kind({self.name!r})"


def known_parts() -> dict[str, Part[Any]]:
    """The parts that a kind can have, by name."""
    return {name: each for name, each in vars(Kind).items() if isinstance(each, Part)}

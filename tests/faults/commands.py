"""Every verb that writes something, as a small command: what the harness kills, signals and starves.

A ``Verb`` may need what other verbs have written; that is prepared once. Whatever it changes lies below the folder
``out``, which is a fresh one each time; the prediction cache and the training images lie there too.
"""

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

ROOMS, BIKES = "rooms:val,count=3", "bikes:val,count=3"
SCAN = ("--pairs", "2", "--step", "48", "--pictures", "1")
SHORT = ("--minutes", "0.1", "--pictures", "0")
FUZZ = ("--strategy", "guided", "--reach", "2", "--per-object", "1", "--backgrounds", "2", "--queries", "300")
"""More queries than it needs: a kill costs those that were under way, and a budget that ends early would show it."""
ATTACK = ("--limit", "2", "--steps", "2", "--pictures", "1")
HARDEN = (
    *("--held-out", "rooms:val,count=3", "--test", "rooms:test,count=3", "--steps", "2", "--batch", "2"),
    *("--checks", "1", "--attacked", "1", "--attack-steps", "1", "--queries", "8", "--watched", "2"),
)
TOYS = Path(__file__).resolve().parents[1] / "studies" / "attack_toys.py"
SIGNALLED = ("data", "detect", "explain", "fuzz", "score", "attack", "confusion", "doctor", "verify")
"""Verbs that are sent signals: they write what others write too, or take long."""


@dataclass(frozen=True)
class Verb:
    """``line(made, out)``: the arguments of the command, given what ``needs(made)`` left in the folder ``made``.
    ``before(made, out)`` puts into ``out`` what the command changes. ``patch()`` makes it small. ``most`` strikes
    are enough: it takes long, and what it writes others write too."""

    name: str
    line: Callable[[Path, Path], list[str]]
    needs: Callable[[Path], None] = lambda made: None
    before: Callable[[Path, Path], object] = lambda made, out: None
    patch: Callable[[Path], None] = lambda out: None
    most: int | None = None

    def prepare(self, made: Path) -> None:
        """Make what it needs, below the folder ``made``."""
        made.mkdir(parents=True, exist_ok=True)
        _COCO(made)
        self.needs(made)

    def body(self, made: Path, out: Path) -> Callable[[], None]:
        """The command, to be called in a process of its own."""

        def run() -> None:
            os.environ["MISDETECT_CACHE"] = str(out / "cache" / "predictions.sqlite")
            os.environ["XDG_CACHE_HOME"] = str(out / "cache")
            os.environ["TMPDIR"] = str(out / "tmp")
            self.patch(out)
            command(self.line(made, out))

        return run


def command(arguments: list[str]) -> None:
    """``misdetect ARGUMENTS`` in this process."""
    from misdetect.cli import main

    sys.argv = ["misdetect", *arguments]
    main()


def data(made: Path) -> str:
    """The rooms as files, which are read faster than drawn."""
    return f"coco:{made / 'coco' / 'instances.json'}"


def glass(made: Path, fault: str = "vanish-near") -> list[str]:
    """A detector that needs no model, on the rooms."""
    return ["--detector", f"glassbox:{fault},data={data(made)}", "--data", data(made)]


def parts(made: Path) -> list[str]:
    """A detector that hallucinates, on bikes as files: their edited images are asked about too."""
    data = f"coco:{made / 'bikes' / 'instances.json'}"
    return ["--detector", f"glassbox:hallucinate-context/rate=.5,data={data}", "--data", data]


def tiles(made: Path) -> str:
    """Images of a detector whose gradients take no network."""
    return f"coco:{made / 'tiles' / 'instances.json'}"


def _tiles(made: Path) -> None:
    if not (made / "tiles").exists():
        sys.path.append(str(TOYS.parent))
        from attack_toys import data as painted

        from misdetect.data.export import export_coco

        export_coco(painted(3), made / "tiles")


def _made(name: str, line: Callable[[Path], list[str]]) -> Callable[[Path], None]:
    """Make ``made / name`` by a command, unless it is there."""

    def prepare(made: Path) -> None:
        if (made / name).exists():
            return
        child = os.fork()
        if not child:
            try:
                out = os.open(made / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                os.dup2(out, 1)
                os.dup2(out, 2)
                os.environ["MISDETECT_CACHE"] = str(made / "cache.sqlite")
                command([*line(made), "--out", str(made / name)])
            except SystemExit as ended:
                os._exit(int(ended.code or 0))
            finally:
                os._exit(70)
        assert os.waitpid(child, 0)[1] == 0, (made / "log").read_text()

    return prepare


def _all(*prepared: Callable[[Path], None]) -> Callable[[Path], None]:
    def prepare(made: Path) -> None:
        for each in prepared:
            each(made)

    return prepare


_COCO = _made("coco", lambda made: ["data", ROOMS])
_MORE = _made("more", lambda made: ["data", "rooms:val,count=6"])
_BIKES = _made("bikes", lambda made: ["data", BIKES])
_RESULTS = _made("results.json", lambda made: ["detect", *glass(made)])
_EXPLAINED = _made("explained", lambda made: ["explain", *glass(made), "--pictures", "0"])
_OTHER = _made("other", lambda made: ["explain", *glass(made, "sink"), "--pictures", "0"])
_CAMPAIGN = _made("campaign", lambda made: ["fuzz", *glass(made), *FUZZ, "--pictures", "0"])


def _copy(name: str) -> Callable[[Path, Path], object]:
    return lambda made, out: shutil.copytree(made / name, out / name)


def _failing_case(run: Path) -> str:
    """A case of a campaign in which something failed: replaying it draws a picture."""
    from misdetect.engine.store import Run

    return str(Run.open(run).query('SELECT "case" FROM rows WHERE failed ORDER BY case_index LIMIT 1')["case"][0])


def _small_training(out: Path) -> None:
    """Few images and few steps, so that a training takes a second."""
    import misdetect.training.zoo as zoo

    zoo.TRAINING_IMAGES = 4
    zoo.RECIPES = {name: replace(recipe, batch=2, precision="float32") for name, recipe in zoo.RECIPES.items()}
    lay_out = zoo.training_images
    zoo.training_images = lambda spec, *args, **more: lay_out(spec.replace(":val", ":val,count=4"), *args, **more)


def _always_as_fast(out: Path) -> None:
    """A detector that takes as long each time: how much a checkup asks follows from that, and is compared."""
    import_module("misdetect.suites.checkup")._seconds = lambda model, data: 0.02


def _many_parts(out: Path) -> None:
    """A part for every case, and any two become one: what was compacted is compacted again."""
    import misdetect.engine.store as store

    store.FLUSH_ROWS, store.MOST_SMALL = 1, 2


def _damaged(made: Path, out: Path) -> None:
    shutil.copytree(made / "explained", out / "run")
    part = next((out / "run" / "parts").iterdir())
    part.write_bytes(part.read_bytes()[:-1])


VERBS = {
    verb.name: verb
    for verb in (
        Verb("data", lambda made, out: ["data", ROOMS, "--out", str(out / "coco")]),
        Verb("detect", lambda made, out: ["detect", *glass(made), "--out", str(out / "results.json")]),
        Verb(
            "explain",
            lambda made, out: ["explain", *glass(made, "sink"), "--out", str(out / "run"), "--pictures", "1"],
        ),
        Verb(
            "repair",
            lambda made, out: ["explain", *glass(made), "--out", str(out / "run"), "--pictures", "0", "--repair"],
            _EXPLAINED,
            _damaged,
        ),
        Verb(
            "explain with 2 workers",  # which write the cache, the journal and the count of queries
            lambda made, out: [
                *("explain", *glass(made, "sink"), "--out", str(out / "run"), "--pictures", "0"),
                *("--workers", "2", "--queries", "50"),
            ],
            most=12,
        ),
        Verb("scan", lambda made, out: ["scan", *glass(made), *SCAN, "--out", str(out / "run"), "--interference", "1"]),
        Verb("fuzz", lambda made, out: ["fuzz", *glass(made), *FUZZ, "--pictures", "1", "--out", str(out / "run")]),
        Verb(
            "compaction",
            lambda made, out: ["explain", *glass(made, "sink"), "--out", str(out / "run"), "--pictures", "0"],
            patch=_many_parts,
        ),
        Verb(
            "score",
            lambda made, out: [
                *("score", "--truth", data(made), "--predictions"),
                *(str(made / "results.json"), "--out", str(out / "run"), "--rows", str(out / "rows.parquet")),
            ],
            _RESULTS,
        ),
        Verb(
            "attack",  # with a ladder, whose last rung is a run inside the run
            lambda made, out: [
                *("attack", "--detector", f"python:{TOYS}:Tiles", "--data", tiles(made), *ATTACK),
                *("--ladder", "2", "--transfer", f"python:{TOYS}:Detached", "--out", str(out / "run")),
            ],
            _tiles,
        ),
        Verb(
            "attack of a network",
            lambda made, out: [
                *("attack", "--detector", "zoo:ssd", "--data", data(made), *ATTACK),
                *("--ladder", "0", "--out", str(out / "run")),
            ],
            most=12,
        ),
        Verb(
            "confusion",
            lambda made, out: [
                *("confusion", *glass(made, "other-class/rate=.5"), "--pictures", "1", "--out", str(out / "run")),
            ],
        ),
        Verb(
            "doctor",
            lambda made, out: [
                *("doctor", "--detector", f"glassbox:none,data=coco:{made / 'more' / 'instances.json'}"),
                *("--data", f"coco:{made / 'more' / 'instances.json'}", "--images", "6", "--out", str(out / "run")),
            ],
            _MORE,
        ),
        Verb(
            "verify",
            lambda made, out: ["verify", *parts(made), "--pictures", "1", "--out", str(out / "run")],
            _BIKES,
        ),
        Verb("pool", lambda made, out: ["pool", "--data", data(made), "--out", str(out / "pool")]),
        Verb(
            "export",
            lambda made, out: ["export", str(made / "campaign"), "--out", str(out / "failing"), "--which", "all"],
            _CAMPAIGN,
        ),
        Verb(
            "compare",
            lambda made, out: ["compare", str(made / "explained"), str(made / "other"), "--out", str(out / "c")],
            _all(_EXPLAINED, _OTHER),
        ),
        Verb(
            "ledger",
            lambda made, out: ["ledger", str(made / "explained"), str(made / "campaign"), "--out", str(out / "l.csv")],
            _all(_EXPLAINED, _CAMPAIGN),
        ),
        Verb(
            "replay",
            lambda made, out: ["replay", str(out / "campaign"), _failing_case(made / "campaign")],
            _CAMPAIGN,
            _copy("campaign"),
        ),
        Verb("show", lambda made, out: ["show", str(out / "explained"), "--json"], _EXPLAINED, _copy("explained")),
        Verb(
            "checkup",
            lambda made, out: ["checkup", *glass(made), *SHORT, "--out", str(out / "checkup")],
            patch=_always_as_fast,
        ),
        Verb(
            "harden",
            lambda made, out: [
                *("harden", "--detector", "zoo:ssd", "--data", data(made), "--with", "adversarial", *HARDEN),
                *("--out", str(out / "hardened")),
            ],
            most=12,
        ),
        Verb(
            "zoo train",
            lambda made, out: ["zoo", "train", "yolox", "--steps", "2", "--out", str(out / "training")],
            patch=_small_training,
        ),
    )
}

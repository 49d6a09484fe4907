"""What the zoo's robust twins withstand: AP50 clean and under PGD on ``cls`` and ``loc``, beside those they come from.

    python benchmarks/robust_zoo.py [--names ssd …] [--limit 200] [--steps 20 40] [--ladder 16] [--runs DIR]
                                    [--docs docs]

Both twins are attacked on the same images, which no training saw, within 8 of 255, and each attack is checked by its
ladder. Intervals are of 90 %, over images; that of a ratio is paired: both twins on the same draws. With ``--runs`` the
attacks are kept, and a second call goes on where the first was stopped. Prints the table of docs/zoo.md; ``--docs``
puts it there.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from _measuring import Parser

import misdetect as md
from misdetect.detectors.zoo.shipped import ZOO, manifest
from misdetect.metrics.bootstrap import interval
from misdetect.metrics.paired import resampled_ap
from misdetect.nouns.boxes import Floats
from misdetect.studies.attack.document import settings_of
from misdetect.studies.attack.ladder import STRONG
from misdetect.studies.attack.plan import CLEAN
from misdetect.studies.attack.results import Results

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from zoo_page import fill

DATA, EPS, LOSSES = "rooms:test", 8, ("cls", "loc")
TWINS = {entry.twin: name for name, entry in ZOO.items() if entry.twin is not None}


def attacked(name: str, steps: int, limit: int, ladder: int, runs: Path) -> md.Run:
    """The attack of ``steps`` on the zoo's ``name``."""
    print(f"attacking zoo:{name}, {steps} steps", file=sys.stderr)
    run = md.attack(
        f"zoo:{name}",
        DATA,
        limit=limit,
        losses=LOSSES,
        eps=EPS,
        steps=steps,
        ladder=ladder,
        keep=False,
        pictures=0,
        out=runs / f"{name}-{steps}-of-{limit}",
    )
    assert run.document["finished"], f"{run} was stopped; call again."
    return run


def draws(run: md.Run, condition: str) -> tuple[list[str], Floats]:
    """The images, and AP50 ``[R]`` of resamples of them, the same draws for all runs with as many images."""
    results = Results(run.directory, settings_of(run.directory))
    return results.images, resampled_ap(results.truth, results.boxes(condition).columns, seed=results.how.seed)[1]


def ratio(robust: md.Run, twin: md.Run, condition: str) -> tuple[float, tuple[float, float]]:
    """AP50 of ``robust`` over that of ``twin``, infinite where the twin has none left, with its paired interval."""
    (images, above), (same, below) = draws(robust, condition), draws(twin, condition)
    assert images == same, "both twins are attacked on the same images"
    values = [entry(run, condition)["AP50"] for run in (robust, twin)]
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = interval(np.minimum(above / below, 1e9), settings_of(robust.directory).confidence)
        return float(np.divide(*values)), (float(low), float(high))


def entry(run: md.Run, condition: str) -> dict:
    """What the document of ``run`` says of ``condition``."""
    return run.document["clean"] if condition == CLEAN else run.document["attacks"][condition]


def row(name: str, runs: Sequence[md.Run], twins: Sequence[md.Run] = ()) -> str:
    """The line of ``name``: clean, under each loss of each of its ``runs``, and what their ladders say."""
    cells = [f"`zoo:{name}`", _score(runs[0], CLEAN)]
    for i, run in enumerate(runs):
        for loss in LOSSES:
            more = f", **{_ratio(*ratio(run, twins[i], loss))}**" if twins else ""
            cells.append(_score(run, loss) + more)
    cells.append("; ".join(dict.fromkeys(map(_ladder, runs))))
    return "| " + " | ".join(cells) + " |"


def table(names: Sequence[str], steps: Sequence[int], limit: int, ladder: int, runs: Path) -> list[str]:
    """What was done, in a sentence, and the Markdown table of it."""
    heads = [f"`{loss}`, {count} steps" for count in steps for loss in LOSSES]
    lines = ["| | clean | " + " | ".join([*heads, "ladder"]) + " |", "|---" * (len(heads) + 3) + "|"]
    for twin in names:
        found = {name: [attacked(name, count, limit, ladder, runs) for count in steps] for name in (twin, TWINS[twin])}
        lines += [row(twin, found[twin]), row(TWINS[twin], found[TWINS[twin]], found[twin])]
        about = found[twin][0].document
    said = (
        f"`python benchmarks/robust_zoo.py --limit {limit}`: AP50 on {about['images']} images of `{DATA}` with "
        f"{about['objects']} objects, clean and under PGD within {EPS} of 255; in bold, times the twin's. In brackets "
        "90 % intervals over images."
    )
    return [said, "\n".join(lines)]


def _score(run: md.Run, condition: str) -> str:
    found = entry(run, condition)
    low, high = found["intervals"]["AP50"]
    return f"{_short(found['AP50'])} ({_short(low)}–{_short(high)})"


def _ratio(value: float, ends: tuple[float, float]) -> str:
    shown = ["∞" if each >= 1e3 else f"{each:.1f}" if each < 10 else f"{each:.0f}" for each in (value, *ends)]
    return f"{shown[0]} × ({shown[1]}–{shown[2]})"


def _ladder(run: md.Run) -> str:
    found, word = run.document["ladder"], run.document["verdict"]["attack"]
    if word == STRONG:
        return f"unbroken on {found['images']} images"
    return f"{settings_of(run.directory).steps} steps: **{word}** ({found['says']})"


def _short(number: float) -> str:
    return f"{number:.3f}".removeprefix("0")


def main() -> None:
    """Attack, print the table, and put it into the page where that is asked for."""
    shipped = [twin for twin, robust in TWINS.items() if robust in manifest()]
    parser = Parser(__doc__)
    parser.add_argument(
        "--names", nargs="+", default=shipped, choices=shipped, short=["ssd"], help="of the twins; all that are here"
    )
    parser.add_argument("--limit", type=int, default=200, short=2, help="images")
    parser.add_argument("--steps", type=int, nargs="+", default=[20, 40], short=[1])
    parser.add_argument("--ladder", type=int, default=16, short=1, help="images that the ladder is climbed on")
    parser.add_argument("--runs", type=Path, help="where attacks are kept")
    parser.add_argument("--docs", type=Path, help="folder of zoo.md")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        parts = table(given.names, given.steps, given.limit, given.ladder, given.runs or Path(folder))
    print("\n\n".join(parts))
    if given.docs:
        fill(given.docs / "zoo.md", "robust", parts)


if __name__ == "__main__":
    main()

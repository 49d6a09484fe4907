"""``misdetect zoo``: the detectors that come with the package, and how to train them again."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from cyclopts.validators import Number
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from misdetect.cli.shell import Document, Json, Quiet, present, tell, whole_number
from misdetect.detectors.zoo.shipped import ZOO, manifest

zoo = App(
    name="zoo",
    help="List the detectors that come with misdetect; train one again.",
    help_epilogue="Example: `misdetect zoo train yolox --out training`",
)


@zoo.default
def overview(*, quiet: Quiet = False, json: Json = False) -> None:
    """List the detectors that come with misdetect; train one again."""
    listing(json=json)


@zoo.command(name="list")
def listing(*, quiet: Quiet = False, json: Json = False) -> None:
    """List names, sizes and scores."""
    shipped = manifest()
    rows = [
        {
            "name": name,
            "spec": f"zoo:{name}",
            "family": entry.family,
            "data": entry.data,
            "twin": entry.twin,
            "shipped": name in shipped,
            **{key: shipped.get(name, {}).get(key) for key in ("parameters", "bytes", "sha256", "scores")},
        }
        for name, entry in ZOO.items()
    ]
    present({"zoo": rows}, json, _show_list)


_WHOLE, _SEED = Parameter(converter=whole_number), Number(gte=0, lt=1 << 63)


@zoo.command
def train(
    name: Annotated[str, Parameter(help="Which detector, e.g. yolox; `misdetect zoo` lists them.")],
    /,
    *,
    out: Annotated[
        Path | None, Parameter(help="Run directory of the training; the same command goes on. [default: zoo-NAME]")
    ] = None,
    seed: Annotated[
        int, _WHOLE, Parameter(help="Decides first weights, order of images, and their variation.", validator=_SEED)
    ] = 0,
    steps: Annotated[
        int | None, _WHOLE, Parameter(help="Train for N steps instead of the recipe's.", validator=Number(gte=1))
    ] = None,
    workers: Annotated[
        int, _WHOLE, Parameter(help="Processes that draw the training images.", validator=Number(gte=1, lte=256))
    ] = 1,
    install: Annotated[
        bool, Parameter(negative=(), show_default=False, help="Put the result into the package's zoo.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Train a detector of the zoo, measure it on val, and write weights.safetensors into the run directory."""
    from misdetect.engine.store import Run
    from misdetect.studies.documents import keep_document
    from misdetect.suites.harden.zoo import change_of
    from misdetect.training.zoo import install as put
    from misdetect.training.zoo import train_zoo

    folder = out or Path(f"zoo-{name}")
    started = time.monotonic()
    trained = train_zoo(name, folder, seed=seed, steps=steps, workers=workers, change=change_of(name), progress=_report)
    keep_document(Run.open(folder))
    document: dict[str, Any] = {
        "name": name,
        "scores": trained.scores,
        "scored_on": trained.data,
        "steps": trained.recipe.steps,
        "seed": seed,
        "out": str(folder),
        "weights": str(trained.weights),
        "installed": install,
        "timing": {"seconds": round(time.monotonic() - started, 1)},
    }
    if install:
        document["sha256"] = put(trained)["sha256"]
    present(document, json, _show_trained)


@zoo.command(name="install")
def install_trained(
    folder: Annotated[Path, Parameter(help="Run directory of a finished training.")],
    /,
    *,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Put the weights of a finished training into the package's zoo and its manifest."""
    from misdetect.training.zoo import install, read_trained

    trained = read_trained(folder)
    entry = install(trained)
    document = {"name": trained.name, "installed": True, "weights": str(trained.weights), "scored_on": trained.data}
    present({**document, "scores": entry["scores"], "sha256": entry["sha256"]}, json, _show_trained)


def _report(what: str, done: int, total: int, numbers: Mapping[str, float]) -> None:
    shown = "  ".join(f"{name} {value:.3f}" for name, value in numbers.items())
    tell(f"{time.strftime('%H:%M:%S')}  {what}  {done}/{total}  {shown}".rstrip())


def _show_list(console: Console, document: Document) -> None:
    right = ("parameters", "size", "AP", "AP50")
    table = Table("spec", "data", *(Column(n, justify="right") for n in right), box=None, pad_edge=False)
    table.header_style = "bold"
    for row in document["zoo"]:
        if row["shipped"]:
            scores = row["scores"]
            cells = (f"{row['parameters'] / 1e6:.2f} M", f"{row['bytes'] / 1e6:.1f} MB")
            table.add_row(row["spec"], row["data"], *cells, f"{scores['AP']:.3f}", f"{scores['AP50']:.3f}")
        else:
            table.add_row(row["spec"], row["data"], "", "", "", "not trained yet")
    console.print(table)


def _show_trained(console: Console, document: Document) -> None:
    scores = document["scores"]
    console.print(f"{document['name']}: AP {scores['AP']:.3f}, AP50 {scores['AP50']:.3f} on {document['scored_on']}")
    console.print(Text(f"weights: {document['weights']}" + (", installed" if document["installed"] else "")))

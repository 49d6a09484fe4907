"""``misdetect serve``: runs in a browser, with filters, pictures and notes; with a detector the playground too."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import Console
from rich.text import Text

from misdetect.cli.interruption import Interrupted
from misdetect.cli.shell import Document, Json, Quiet, present, whole_number
from misdetect.said.errors import BadSpec

if TYPE_CHECKING:
    from misdetect.app.playground import Playground


def serve(
    *runs: Annotated[Path, Parameter(help="Run directories, or folders of them, such as a checkup's.", negative=())],
    detector: Annotated[str | None, Parameter(help="Detector spec: opens the playground.")] = None,
    data: Annotated[str | None, Parameter(help="Photos of the playground; by default those of the first run.")] = None,
    pool: Annotated[
        str | None, Parameter(help="Objects of the playground: a folder of `misdetect pool`, or data with masks.")
    ] = None,
    host: Annotated[str, Parameter(help="Address to bind to; beyond this machine a token is asked for.")] = "127.0.0.1",
    port: Annotated[
        int,
        Parameter(help="Port to listen on; 0: any that is free.", validator=Number(gte=0, lte=65535)),
        Parameter(converter=whole_number),
    ] = 8000,
    write: Annotated[
        bool, Parameter(negative=(), show_default=False, help="Let tags, notes and found cases be saved.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Walk through the rows of runs in a browser, until interrupted. Prints the address and opens nothing itself."""
    if not runs:
        raise BadSpec("serve needs a run directory; none was given.")
    for option, given in (("--data", data), ("--pool", pool)):
        if given is not None and detector is None:
            raise BadSpec(f"{option} is for the playground, which needs --detector too.")
    from misdetect.app.serving import serve as served

    playground = None if detector is None else _playground(detector, data, pool, runs[0], write)
    told: list[Document] = []

    def ready(said: Document) -> None:
        present(said, json, show)
        told.append(said)

    try:
        served(runs, host=host, port=port, write=write, playground=playground, ready=ready)
    except (Interrupted, KeyboardInterrupt):
        if not told:  # once it has begun, this is how it ends
            raise


def _playground(detector: str, data: str | None, pool: str | None, first: Path, write: bool) -> "Playground":
    """The playground of ``detector``, over ``data`` or the photos of the run ``first``, with the objects of ``pool`` or
    of those photos."""
    from misdetect.app.playground import Playground
    from misdetect.app.shelf import Shelf
    from misdetect.detectors import load_detector

    source = data if data is not None else Shelf([first]).data(0)
    keep = first.with_name(first.name + ".playground") if write else None
    return Playground(load_detector(detector), source, pool, keep=keep)


def show(console: Console, document: Document) -> None:
    """The document for a person."""
    count = len(document["runs"])
    console.print(Text(f"{document['rows']:,} rows of {count} {'run' if count == 1 else 'runs'}"))
    for problem in document["problems"]:
        console.print(Text(f"note: {problem}"))
    console.print(Text(document["address"]), style="bold")

"""``misdetect detect``: run a detector over data and write COCO results."""

import inspect
import shutil
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from misdetect.api import detect as run
from misdetect.cli.gates import Gates, gate_options
from misdetect.cli.options import DataSpec, DetectorSpec, options, signed
from misdetect.cli.shell import Document, remarks, tell, unfinished, watching
from misdetect.engine.store import DAMAGED
from misdetect.kept.files import check_writable
from misdetect.studies.contract import budget_file
from misdetect.studies.detect import DetectSettings, coco_results, write_results

_DOC = """Run a detector over data and write COCO results (category ids of the data).

Interrupted or killed, the same command goes on where it stopped: what is finished waits in OUT.partial.
"""


def _detect(detector: str, data: str, *, out: Path, json: bool = False, **given: Any) -> int:
    gates = Gates.of(given)
    check_writable(out)
    partial = out.with_name(out.name + ".partial")
    with watching("detect") as progress:
        found = run(detector, data, out=partial, progress=progress, **given)
    assert found.outcome is not None
    document = {**found.document, "out": str(out), **found.outcome.document()}
    remarks(found.outcome, document)
    if found.outcome.stopped is None:
        records = coco_results(found.directory, found.data)
        write_results(out, records)
        budget_file(partial).unlink(missing_ok=True)
        shutil.rmtree(partial / DAMAGED, ignore_errors=True)
        found.directory.discard()
        document["unknown_class"] = without = document["detections"] - len(records)
        document["detections"] = len(records)
        if without:
            tell(f"note: {without} detections of classes that the data does not have were left out.")
    return gates.conclude(document, json, show)


def show(console: Console, document: Document) -> None:
    """The document for a person."""
    if (line := unfinished(document)) is not None:
        console.print(Text(line))
        return
    told = f"{document['detections']} detections on {document['images']} images"
    if "out" in document:
        engine, timing = document["engine"], document["timing"]
        told += f" -> {document['out']} ({engine['queries']} asked, {engine['cached']} from cache, "
        told += f"{timing['seconds']:.1f} s)"
    console.print(Text(told))


_OUT = Annotated[Path, Parameter(name="--out", help="Where to write the COCO results (JSON).")]
detect = signed(
    _detect,
    "detect",
    _DOC,
    [
        inspect.Parameter("detector", inspect.Parameter.KEYWORD_ONLY, annotation=DetectorSpec),
        inspect.Parameter("data", inspect.Parameter.KEYWORD_ONLY, annotation=DataSpec),
        inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, annotation=_OUT),
        *(option for option in options(DetectSettings) if option.name != "out"),
        *gate_options(),
    ],
)

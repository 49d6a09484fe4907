"""``misdetect detect``: run a detector over data and write COCO results."""

import shutil
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from misdetect.cli.running import Asking, Batch, NoCache, Queries, Workers
from misdetect.cli.shell import DataSpec, DetectorSpec, Document, Json, Limit, messages, present
from misdetect.detectors import load_detector
from misdetect.errors import BadSpec
from misdetect.labels import join_labels
from misdetect.protocols import Detector, require
from misdetect.studies.detect import DetectStudy, coco_results, write_results


def detect(
    detector: DetectorSpec,
    data: DataSpec,
    out: Annotated[Path, typer.Option("--out", help="Where to write the COCO results (JSON).")],
    limit: Limit = None,
    workers: Workers = 1,
    batch: Batch = None,
    queries: Queries = None,
    no_cache: NoCache = False,
    json: Json = False,
) -> None:
    """Run a detector over data and write COCO results (category ids of the data).

    Interrupted or killed, the same command goes on where it stopped: what is finished waits in OUT.partial.
    """
    if not out.parent.is_dir():
        raise BadSpec(f"--out {out}: there is no folder {out.parent}.")
    if out.is_dir():
        raise BadSpec(f"--out {out}: this is a folder; expected the name of a file to write.")
    model: Detector = require(load_detector(detector), Detector, "detect", "score takes stored predictions as they are")
    study = DetectStudy(data, limit)
    labels = join_labels(model.names, study.data.names, detector, data)
    partial_run = out.with_name(out.name + ".partial")
    asking = Asking(detector, workers, batch, queries, no_cache)
    budget = asking.budget(out)
    outcome = asking.run(study, model, partial_run, study.data, limit, budget=budget)
    document = {"detector": detector, "data": data, "out": str(out), **outcome.document()}
    if outcome.stopped is None:
        rows = outcome.run.table()
        records = coco_results(rows, study.data, labels)
        write_results(out, records)
        shutil.rmtree(partial_run)
        if budget is not None and budget.path is not None:
            budget.close()
            budget.path.unlink(missing_ok=True)
        document["detections"] = len(records)
        document["unknown_class"] = without = rows.num_rows - len(records)
        if without:
            messages().print(f"note: {without} detections of classes that the data does not have were left out.")
    present(document, json, _show)


def _show(console: Console, document: Document) -> None:
    if document["stopped"]:
        console.print(
            f"{document['done']} of {document['cases']} images done; stopped: {document['stopped']}", markup=False
        )
        return
    timing, engine = document["timing"], document["engine"]
    console.print(
        f"{document['detections']} detections on {document['done']} images -> {document['out']} "
        f"({engine['queries']} asked, {engine['cached']} from cache, {timing['seconds']:.1f} s)",
        markup=False,
    )

"""The page of a checkup: its numbers, what is wrong in plain sentences, then all that ``page`` shows of its runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from misdetect.drawing.values import called
from misdetect.nouns.protocols import in_words
from misdetect.report.page import Shown, identity, report_page
from misdetect.studies.contract import Fact


def checkup_page(
    runs: Mapping[str, Shown], document: Mapping[str, Any], path: Path, most: int, seconds: float | None = None
) -> Path:
    """Write the page of a checkup's ``document``, which took so many ``seconds``, to ``path``; with ``most`` 0 it has
    no pictures, else its figures show at most so many of each kind."""
    data, detector = document["data"], document["detector"]
    first = identity(next(iter(runs.values())).directory)
    footer = {
        "detector": detector["spec"],
        "level": f"{detector['level']}: {in_words(detector['level'])}",
        "detector settings": detector["settings"],
        "detector fingerprint": first["detector fingerprint"],
        "data": data["spec"],
        "data fingerprint": data["fingerprint"],
        "images": data["images"],
        "checkup settings": document["settings"],
        "runs": {study: run.directory.about["id"] for study, run in runs.items()},
    }
    return report_page(
        path,
        called({"detector": detector["spec"], "data": data["spec"]}),
        runs,
        findings=document["findings"],
        skipped=document["skipped"],
        facts=_facts(runs, document, seconds),
        footer=footer,
        most=most,
    )


def _facts(runs: Mapping[str, Shown], document: Mapping[str, Any], seconds: float | None) -> list[Fact]:
    """How much was looked at, how long it took, and what was not asked."""
    there = document["data"]["images"]
    looked = min(document["settings"]["plan"].get("images", there), there)
    facts = [Fact("images", looked, told="all of them" if looked == there else f"of {there:,} in the data")]
    if seconds is not None:
        facts.append(Fact("took", _duration(seconds), told=f"about {document['settings']['minutes']:g} min were given"))
    skipped = [each["study"] for each in document["skipped"]]
    cut = [study for study, run in runs.items() if not run.document["finished"]]
    if skipped:
        facts.append(Fact("not run", len(skipped), told=", ".join(skipped)))
    if cut:
        facts.append(Fact("not finished", len(cut), told=", ".join(cut)))
    return facts


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"

"""The page of a checkup: what is wrong in plain sentences, then everything that ``page`` shows of its runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from misdetect.nouns.protocols import in_words
from misdetect.report.page import Shown, identity, report_page


def checkup_page(runs: Mapping[str, Shown], document: Mapping[str, Any], path: Path, most: int) -> Path:
    """Write the page of a checkup's ``document`` to ``path``; with ``most`` 0 it has no pictures, else its figures show
    at most so many of each kind."""
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
        f"{detector['spec'] or 'A detector'} on {data['spec']}",
        runs,
        findings=document["findings"],
        skipped=document["skipped"],
        footer=footer,
        most=most,
    )

"""The folder of a checkup read again, wherever it is now: what ``checkup.json`` says, and where its runs are.

It is data from elsewhere, as a run directory is: what is half written, damaged or of another version is refused in a
sentence.
"""

import json
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from misdetect.data.untrusted import read_json
from misdetect.engine.store import RUN_JSON, Run
from misdetect.kept.files import write_atomically
from misdetect.kept.mirror import address_of
from misdetect.nouns.picture import digest
from misdetect.said.errors import BadData, MisdetectError
from misdetect.said.glossary import in_words_of_today
from misdetect.studies.contract import Document
from misdetect.studies.kinds import in_checkup

CHECKUP, PLAN, REPORT = "checkup.json", "plan.json", "report.html"
FORMAT, OLDER = 2, 1
"""Of ``checkup.json``. What is older is read in the words of today."""
_CHECK = "check"
"""Where ``checkup.json`` has the checksum of everything else in it."""


def is_checkup(folder: Path) -> bool:
    """Whether ``folder`` is that of a checkup, a finished one or not, and no run."""
    return not (folder / RUN_JSON).exists() and any((folder / name).is_file() for name in (CHECKUP, PLAN))


def write_checkup(folder: Path, document: Mapping[str, Any]) -> None:
    """Write ``document`` as the ``checkup.json`` of ``folder``, without what differs from one sitting to the next."""
    kept = json.loads(json.dumps({"format": FORMAT, **_timeless(document)}))  # as it is read again
    text = json.dumps({**kept, _CHECK: _checksum(kept)}, sort_keys=True, indent=2) + "\n"
    write_atomically(folder / CHECKUP, text.encode())


def _checksum(document: Mapping[str, Any]) -> str:
    return digest(json.dumps(document, sort_keys=True))


def _timeless(value: Any) -> Any:
    """``value`` without wall-clock, and without what came from the cache."""
    if not isinstance(value, dict):
        return value
    return {key: _timeless(inner) for key, inner in value.items() if key not in ("timing", "engine")}


def read_checkup(folder: Path) -> Document:
    """The document of the checkup in ``folder``; ``out`` and ``report`` are where they are now, studies in the order in
    which they are run."""
    path = folder / CHECKUP
    if not path.exists():
        if not is_checkup(folder):
            raise BadData(f"{address_of(folder)} is neither a run directory nor the folder of a checkup.")
        raise BadData(
            f"{address_of(folder)} is the folder of a checkup that is not finished; go on with: {_command(folder)}"
        )
    found, _ = read_json(path, what="what a checkup found")
    if not isinstance(found, dict) or found.get("format") not in (OLDER, FORMAT):
        raise BadData(
            f"{address_of(path)} was not written by this version of misdetect. The same command writes it anew, and "
            f"asks nothing twice: {_command(folder)}"
        )
    check = found.pop(_CHECK, None)
    if check != _checksum(found) or not _sound(found):
        raise BadData(
            f"{address_of(path)} is damaged, it is not as it was written; the same command writes it anew: "
            f"{_command(folder)}"
        )
    if found.pop("format") == OLDER:
        found = in_words_of_today(found)
    studies = {name: {**study, "out": address_of(folder / name)} for name, study in found["studies"].items()}
    order = [kind.name for kind in in_checkup() if kind.name in studies]  # the file has them by the alphabet
    return {
        **found,
        "studies": {name: studies[name] for name in [*order, *(n for n in studies if n not in order)]},
        "report": address_of(folder / REPORT),
        "out": address_of(folder),
    }


def _sound(found: Document) -> bool:
    """Whether it is the document of a checkup; a study's name is also that of a folder."""
    parts = {"detector": dict, "data": dict, "findings": list, "studies": dict, "skipped": list, "settings": dict}
    return all(isinstance(found.get(name), kind) for name, kind in parts.items()) and all(
        re.fullmatch(r"\w[\w-]*", name) for name in found["studies"]
    )


def _command(folder: Path) -> str:
    """The command that made the checkup, as one of its runs knows it."""
    for kind in in_checkup():
        with suppress(MisdetectError):
            command = [str(word) for word in Run.open(folder / kind.name).about["command"]]
            if command and command[0] == "checkup":
                return shlex.join(["misdetect", *command])
    return f"misdetect checkup … --out {shlex.quote(address_of(folder))}"

"""What a run says, as one document: computed from its rows, kept beside them, read again; and its data again."""

import json
import shlex

import duckdb

from misdetect.data import unseen
from misdetect.data.dataset import Dataset
from misdetect.data.opened import Opened
from misdetect.engine.store import DOCUMENT, Run
from misdetect.kept.files import read_regular, write_atomically
from misdetect.nouns.labels import joining
from misdetect.nouns.open_names import names_in
from misdetect.nouns.picture import digest
from misdetect.said.errors import BadData, BadSpec, MisdetectError, RunMismatch
from misdetect.studies.contract import Document
from misdetect.studies.kinds import kind_of

_CHECK = "check"
"""Where ``document.json`` has the checksum of everything else in it."""


def document_of(run: Run) -> Document:
    """The document of ``run``, from its directory alone: what it is, how far it got, its settings, what it found."""
    identity, failed = run.about["identity"], run.errors().to_pylist()
    own: Document = {
        "study": run.study,
        "detector": identity["detector"]["spec"],
        "data": identity["data"]["spec"],
        "cases": run.cases,
        "done": len(run.done()),
        "failed": len(failed),
        "failures": [{name: each[name] for name in ("case", "image", "error")} for each in failed],
        "finished": run.finished,
        "settings": {
            **run.chosen,
            "limit": identity["data"]["limit"],
            "detector": run.about["detector_settings"],
        },
    }
    found = kind_of(run.study).document(run)
    settings = own["settings"] | found.pop("settings", {})
    own["settings"] = dict(sorted(settings.items()))  # those read again from run.json come in another order
    own["joining"] = joining(names_in(identity["detector"]), identity["data"]["names"])
    return own | found


def read_document(run: Run) -> Document:
    """The document of ``run``: as kept in ``document.json``, or computed again where that is damaged or does not fit
    the rows."""
    path = run.path / DOCUMENT
    try:
        found: Document = json.loads(read_regular(path).decode())
        sound = found.pop(_CHECK) == _checksum(found)
        shown = run.chosen
        current = (found["done"], found["cases"], found["failed"]) == (len(run.done()), run.cases, len(run.failed()))
        if (
            sound
            and current
            and not run.older
            and all(found["settings"].get(name) == value for name, value in shown.items())
        ):
            return found
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, MisdetectError):  # of the rows
            raise
    try:
        return document_of(run)
    except (duckdb.Error, LookupError, ValueError) as error:  # most studies cannot say anything of no rows at all
        if isinstance(error, MisdetectError) or run.done():
            raise
        raise BadData(
            f"{run.address} has nothing to show: no case is done yet. The command that made it goes on."
        ) from error


def keep_document(run: Run) -> Document:
    """Compute the document of ``run`` and keep it beside the rows."""
    found: Document = json.loads(json.dumps(document_of(run), allow_nan=False))
    text = json.dumps({**found, _CHECK: _checksum(found)}, indent=2) + "\n"
    write_atomically(run.path / DOCUMENT, text.encode())
    return found


def _checksum(document: Document) -> str:
    return digest(json.dumps(document))


def data_of(run: Run, *, trust: bool = False) -> Dataset:
    """The data that ``run`` looked at, opened again: pictures need it. It must be the same. A run directory is data: a
    place beyond this machine that it names is only read where that was opened here before, or with ``trust``."""
    known = run.about["identity"]["data"]
    if known["part"] is not None or known["spec"] == "memory:":
        raise BadData(f"{run.address}: its data was chosen in Python and cannot be opened again from the run alone.")
    for spec in (known["spec"], run.settings.get("truth"), run.settings.get("pool")):
        plain = str(spec or "").removeprefix("mirrored:")
        if not trust and (place := unseen(plain)) is not None:
            raise BadSpec(
                f"{run.address} looked at {plain}, and {place} was never opened on this machine: a run may come from "
                f"elsewhere, so name it yourself first (misdetect data {shlex.quote(plain)})."
            )
    found = Opened(known["spec"], known["limit"], run.settings.get("truth")).data
    if found.fingerprint != known["fingerprint"]:
        raise RunMismatch(f"the data {known['spec']} has changed since {run.address} was run.")
    return found

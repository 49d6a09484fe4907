"""``run.json``: what was run, read only where it is as it was written.

It carries a checksum of itself, and every field that others rely on is checked for its type, so that a run from
elsewhere, or one that was damaged, is refused in a sentence here and surprises nobody later.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import Any

from misdetect.engine.older import OLDER, renewed
from misdetect.kept.files import read_regular, write_atomically
from misdetect.kept.mirror import address_of
from misdetect.nouns.picture import digest
from misdetect.said.errors import BadData

FORMAT = 3
"""Of run directories. Raise it when what an earlier version wrote has to be read in another way."""
_READ = (OLDER, FORMAT)
RUN_JSON = "run.json"
_LARGEST = 256 << 20
_CHECK = "check"
_FIELDS: dict[tuple[str, ...], tuple[type, ...]] = {
    ("id",): (str,),
    ("identity",): (dict,),
    ("identity", "study"): (str,),
    ("identity", "settings"): (dict,),
    ("identity", "detector"): (dict,),
    ("identity", "detector", "spec"): (str, NoneType),
    ("identity", "detector", "fingerprint"): (str,),
    ("identity", "detector", "names"): (list,),
    ("identity", "data"): (dict,),
    ("identity", "data", "spec"): (str,),
    ("identity", "data", "fingerprint"): (str,),
    ("identity", "data", "names"): (list,),
    ("cases",): (int, NoneType),
    ("command",): (list,),
    ("versions",): (dict,),
    ("detector_settings",): (dict,),
}
_REPAIR = "the command that made it writes it anew with --repair"


def identity_id(identity: Mapping[str, Any]) -> str:
    """The id of the run with that identity."""
    return digest(json.dumps(identity, sort_keys=True))


def write_about(folder: Path, about: Mapping[str, Any]) -> None:
    """Write ``about`` as the ``run.json`` of ``folder``."""
    text = json.dumps({**about, _CHECK: _checksum(about)}, sort_keys=True, indent=2) + "\n"
    write_atomically(folder / RUN_JSON, text.encode())


def read_about(folder: Path) -> dict[str, Any]:
    """The ``run.json`` of ``folder``, or a ``BadData`` that says what is wrong with it."""
    path = folder / RUN_JSON
    said = address_of(path)
    if not path.exists():
        raise BadData(f"{address_of(folder)} is not a run directory: it has no {RUN_JSON}.")
    if not path.is_file():
        raise BadData(f"{said} is no file; {_REPAIR}.")
    try:
        about = json.loads(read_regular(path, _LARGEST).decode())
    except OSError as error:
        raise BadData(f"{said} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise BadData(f"{said} is damaged, it is not JSON ({error}); {_REPAIR}.") from None
    if not isinstance(about, dict) or "format" not in about:
        raise BadData(f"{said} does not say what was run; it was not written by misdetect, or by an older one.")
    if (found := about["format"]) not in _READ or isinstance(found, bool):
        read = " and ".join(map(str, _READ))
        raise BadData(f"{address_of(folder)} is a run in format {str(found)[:20]}; this misdetect reads {read}.")
    if about.pop(_CHECK, None) != _checksum(about):
        raise BadData(f"{said} is damaged, it is not as it was written (its checksum differs); {_REPAIR}.")
    for place, types in _FIELDS.items():
        if not isinstance(_at(about, place), types) or isinstance(_at(about, place), bool):
            raise BadData(f"{said} is damaged, {'.'.join(place)} is missing or no {types[0].__name__}; {_REPAIR}.")
    return renewed(about)


def _at(about: dict[str, Any], place: tuple[str, ...]) -> Any:
    """The value at ``place``; ``...`` where there is none. Outer places are checked before inner ones."""
    value: Any = about
    for name in place:
        value = value.get(name, ...)
    return value


def _checksum(about: Mapping[str, Any]) -> str:
    return digest(json.dumps(about, sort_keys=True))

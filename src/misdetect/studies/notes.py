"""Tags and notes that people give to failures: an append-only file beside the run, ``RUN.notes.jsonl``.

A line is one change: the failure it is about, its tags and its note from then on; the last line about a failure counts.
A failure is known by what happened to which object, so that what is said at one position of an object that was put in
holds for the same failure at all positions, as ``export`` counts them. Lines that are damaged are left out.
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from misdetect.engine.store import Run
from misdetect.kept.files import open_regular
from misdetect.kept.mirror import mirror_of
from misdetect.kept.system import open_plainly
from misdetect.nouns.boxes import SIDES
from misdetect.said.errors import BadSpec

MOST_TAGS, LONGEST_TAG, LONGEST_NOTE = 20, 60, 4000
"""Of one failure: how many tags, characters of a tag, characters of the note."""
_LARGEST = 64 << 20
_SEPARATOR = "\x1f"
KEY_SQL = f"""md5(concat_ws('{_SEPARATOR}', image, outcome, coalesce(became, ''), coalesce(label, ''),
    coalesce(CAST(object AS VARCHAR),
    concat_ws(',', {", ".join(f"CAST(round_even({side}, 0) AS BIGINT)" for side in SIDES)}))))"""
"""``failure_key`` in SQL, over the ledger's columns."""


@dataclass(frozen=True)
class Note:
    """What was said of a failure."""

    tags: tuple[str, ...] = ()
    note: str = ""


def failure_key(row: Mapping[str, Any]) -> str:
    """What a row of the ledger is about, as text: the same for the same happening to the same object."""
    box = ",".join(str(round(row[side])) for side in SIDES)
    thing = box if row["object"] is None else str(row["object"])
    parts = (row["image"], row["outcome"], row["became"] or "", row["label"] or "", thing)
    return hashlib.md5(_SEPARATOR.join(parts).encode(), usedforsecurity=False).hexdigest()


def notes_file(run: Run) -> Path:
    """Where what is said about the failures of ``run`` is kept."""
    return run.path.with_name(run.path.name + ".notes.jsonl")


def read_notes(run: Run) -> dict[str, Note]:
    """What was said of each failure, by its key."""
    found: dict[str, Note] = {}
    try:
        with open_regular(notes_file(run), _LARGEST) as file:
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return found
    for line in lines:
        with contextlib.suppress(ValueError, LookupError, TypeError, RecursionError):
            said = json.loads(line)
            found[str(said["key"])] = checked(said["tags"], said["note"])
    return {key: note for key, note in found.items() if note.tags or note.note}


def checked(tags: Any, note: Any) -> Note:
    """``tags`` and ``note`` as they are kept, or a ``BadSpec`` that says what is wrong with them."""
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags) or not isinstance(note, str):
        raise BadSpec("tags should be a list of texts, and a note a text.")
    plain = tuple(dict.fromkeys(filter(None, (re.sub(r"\s+", " ", tag).strip() for tag in tags))))
    if len(plain) > MOST_TAGS or any(len(tag) > LONGEST_TAG for tag in plain):
        raise BadSpec(f"a failure has at most {MOST_TAGS} tags, each of at most {LONGEST_TAG} characters.")
    if len(note) > LONGEST_NOTE:
        raise BadSpec(f"a note has at most {LONGEST_NOTE} characters. Got {len(note)}.")
    return Note(plain, note.strip())


def append_note(run: Run, row: Mapping[str, Any], note: Note) -> None:
    """Add what is now said of the failure ``row`` to the file."""
    about = {name: row[name] for name in ("case", "image", "object", "label", "outcome", "became")}
    said = {"key": failure_key(row), **about, "tags": list(note.tags), "note": note.note}
    line = json.dumps({**said, "at": datetime.now(UTC).isoformat(timespec="seconds")}, ensure_ascii=False) + "\n"
    with open(open_plainly(notes_file(run), os.O_RDWR | os.O_APPEND | os.O_CREAT), "ab+") as file:
        whole = file.tell() == 0 or file.seek(-1, os.SEEK_END) < 0 or file.read(1) == b"\n"
        file.write(("" if whole else "\n").encode() + line.encode(errors="replace"))  # a crash may leave half a line
        file.flush()
        os.fsync(file.fileno())
    if (mirror := mirror_of(notes_file(run))) is not None:
        mirror.publish(notes_file(run), notes_file(run).read_bytes())


def with_note(row: Mapping[str, Any], notes: Mapping[str, Note]) -> dict[str, Any]:
    """What was said of ``row``, for an export: ``tags`` and ``note``, where there are any."""
    said = notes.get(failure_key(row), Note())
    tags: Sequence[str] = said.tags
    return ({"tags": list(tags)} if tags else {}) | ({"note": said.note} if said.note else {})

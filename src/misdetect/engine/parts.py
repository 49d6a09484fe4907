"""Part files: the rows of whole cases, under a name that holds their number and the checksum of their bytes.

The footer of a part says which run it is of, its number, the cases it finishes, and those of them that failed. So a
part that was cut off, changed, copied, renamed or brought from another run is found when it is looked at, and named.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b, file_digest
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from misdetect.files import write_atomically

_NAME = re.compile(r"part-(\d{6,18})-([0-9a-f]{16})\.parquet")
_RUN, _NUMBER, _DONE, _FAILED = b"misdetect.run", b"misdetect.part", b"misdetect.cases", b"misdetect.failed"


@dataclass(frozen=True, eq=False)
class Part:
    """A part that is as it was written: the cases it finishes, those of them that failed, and its columns."""

    path: Path
    done: frozenset[int]
    failed: frozenset[int]
    columns: pa.Schema


def write_part(folder: Path, number: int, run: str, table: pa.Table, done: list[int], failed: list[int]) -> Part:
    """Write ``table`` as part ``number`` of the run with id ``run``."""
    said = {_RUN: run, _NUMBER: str(number), _DONE: json.dumps(done), _FAILED: json.dumps(failed)}
    repeated = [field.name for field in table.schema if not pa.types.is_floating(field.type)]
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(said), sink, compression="zstd", use_dictionary=repeated)
    data = sink.getvalue().to_pybytes()
    folder.mkdir(exist_ok=True)
    path = folder / f"part-{number:06d}-{_hasher(data).hexdigest()}.parquet"
    write_atomically(path, data)
    return Part(path, frozenset(done), frozenset(failed), table.schema.remove_metadata())


def part_files(folder: Path) -> list[Path]:
    """What looks like a part in ``folder``, in the order of writing."""
    return sorted(folder.glob("part-*.parquet"), key=lambda path: (number_of(path), path.name))


def unfinished_files(folder: Path) -> list[Path]:
    """What a kill in the middle of writing left."""
    return list(folder.glob(".part-*.parquet.writing"))


def number_of(path: Path) -> int:
    """The number in a part's name; 0 where it has none."""
    named = _NAME.fullmatch(path.name)
    return int(named[1]) if named else 0


def look(path: Path, run: str) -> Part | str:
    """The part of ``run`` in the file ``path``, or what is wrong with it."""
    named = _NAME.fullmatch(path.name)
    if named is None:
        return "does not have the name of a part"
    if not path.is_file():
        return "is no file that can be read"
    try:
        with path.open("rb") as file:
            intact = file_digest(file, _hasher).hexdigest() == named[2]
        if not intact:
            return "is damaged: its bytes are not those that were written"
        columns = pq.read_schema(path)
        said = {key: value.decode() for key, value in (columns.metadata or {}).items()}
        owner, number = said[_RUN], int(said[_NUMBER])
        done, failed = (json.loads(said[key]) for key in (_DONE, _FAILED))
        found = Part(path, frozenset(done), frozenset(failed), columns.remove_metadata())
        sound = all(type(case) is int and case >= 0 for case in done) and found.failed <= found.done
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"
    except (ValueError, LookupError, TypeError, RecursionError, pa.ArrowException):
        return "was not written by misdetect"
    if owner != run:
        return "is a part of another run"
    if number != int(named[1]):
        return f"is a copy of part {number}"
    if not sound or len(done) > len(found.done):
        return "lists cases that cannot be"
    return found


def survey(looked: Mapping[Path, Part | str], columns: pa.Schema | None = None) -> tuple[list[Part], dict[Path, str]]:
    """The parts that can be used, and what is wrong with the others: none finishes a case that another has finished,
    unless it had failed, and all have the same ``columns``."""
    good: list[Part] = []
    bad: dict[Path, str] = {}
    finished: dict[int, str] = {}
    for path, found in looked.items():
        if isinstance(found, str):
            bad[path] = found
            continue
        columns = columns or found.columns
        if twice := found.done & finished.keys():
            bad[path] = f"finishes case {min(twice)} again, which {finished[min(twice)]} has finished"
        elif not found.columns.equals(columns):
            bad[path] = "has other columns than this run (was it written by another version of misdetect?)"
        else:
            good.append(found)
            finished |= dict.fromkeys(found.done - found.failed, path.name)
    return good, bad


def ranges(cases: Iterable[int], most: int = 8) -> str:
    """``cases`` for a message: "3, 10-19, …"."""
    runs: list[list[int]] = []
    for case in sorted(cases):
        if runs and case == runs[-1][1] + 1:
            runs[-1][1] = case
        else:
            runs.append([case, case])
    told = [str(first) if first == last else f"{first}-{last}" for first, last in runs[:most]]
    return ", ".join(told + ["…"] * (len(runs) > most))


def _hasher(data: bytes = b"") -> "blake2b":
    return blake2b(data, digest_size=8)

"""Part files: the rows of whole cases, under a name that holds their number and the checksum of their bytes.

The footer of a part says which run it is of, its number, the cases it finishes, and those of them that failed. So a
part that was cut off, changed, copied, renamed or brought from another run is found when it is looked at, and named.
A part may hold the rows of earlier ones, which its footer names: from the moment it is there, they do not count.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b, file_digest
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from misdetect.engine.indices import Indices
from misdetect.kept.files import write_atomically

_NAME = re.compile(r"part-(\d{6,18})-([0-9a-f]{16})\.parquet")
_RUN, _NUMBER, _DONE, _FAILED = b"misdetect.run", b"misdetect.part", b"misdetect.cases", b"misdetect.failed"
_RECOVERED, _REPLACES = b"misdetect.recovered", b"misdetect.replaces"


@dataclass(frozen=True, eq=False)
class Part:
    """A part that is as it was written: the cases it finishes, those of them that failed, its columns and how many
    rows it has. One that ``replaces`` earlier parts (their names) also says which cases failed in one of them and
    ``recovered`` in a later one."""

    path: Path
    done: Indices
    failed: Indices
    columns: pa.Schema
    rows: int
    recovered: Indices = field(default_factory=Indices)
    replaces: tuple[str, ...] = ()


def write_part(folder: Path, number: int, run: str, table: pa.Table, done: Indices, failed: Indices) -> Part:
    """Write ``table`` as part ``number`` of the run with id ``run``."""
    return _write(folder, number, run, table, Part(folder, done, failed, table.schema.remove_metadata(), len(table)))


def write_compacted(folder: Path, number: int, run: str, parts: Sequence[Part]) -> Part:
    """Write the rows of ``parts``, which follow each other, as one part that replaces them; its rows are in the order
    of cases. They are not removed here."""
    done = Indices.union(part.done for part in parts)
    failed = failed_at_last(parts)
    recovered = Indices.union([each for part in parts for each in (part.failed, part.recovered)]) - failed
    table = pa.concat_tables([pq.read_table(part.path, partitioning=None) for part in parts])
    table = table.sort_by([("case_index", "ascending"), ("row", "ascending")])
    names = tuple(part.path.name for part in parts)
    about = Part(folder, done, failed, parts[0].columns, len(table), recovered, names)
    return _write(folder, number, run, table, about)


def failed_at_last(parts: Sequence[Part]) -> Indices:
    """The cases that failed in one of ``parts``, which are in order, and did not succeed in a later one."""
    found = Indices()
    for part in parts:
        if found or part.failed:
            found = (found - part.done) | part.failed
    return found


def _write(folder: Path, number: int, run: str, table: pa.Table, about: Part) -> Part:
    said = {_RUN: run, _NUMBER: str(number)}
    said |= {_DONE: json.dumps(about.done.written()), _FAILED: json.dumps(about.failed.written())}
    if about.replaces:
        said |= {_RECOVERED: json.dumps(about.recovered.written()), _REPLACES: json.dumps(about.replaces)}
    repeated = [each.name for each in table.schema if not pa.types.is_floating(each.type)]
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(said), sink, compression="zstd", use_dictionary=repeated)
    data = sink.getvalue().to_pybytes()
    folder.mkdir(exist_ok=True)
    path = folder / f"part-{number:06d}-{_hasher(data).hexdigest()}.parquet"
    write_atomically(path, data)
    return replace(about, path=path)


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
        found, owner, number = _read(path)
        sound = not ((found.failed | found.recovered) - found.done or found.failed & found.recovered)
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"
    except (ValueError, LookupError, TypeError, RecursionError, pa.ArrowException):
        return "was not written by misdetect"
    if owner != run:
        return "is a part of another run"
    if number != int(named[1]):
        return f"is a copy of part {number}"
    if not sound:
        return "lists cases that cannot be"
    return found


def _read(path: Path) -> tuple[Part, str, int]:
    """The part in the file ``path``, the id of its run, and its number."""
    about = pq.read_metadata(path)
    columns = about.schema.to_arrow_schema()
    said = {key: value.decode() for key, value in (columns.metadata or {}).items()}
    listed = [json.loads(said[key]) for key in (_DONE, _FAILED)] + [json.loads(said.get(_RECOVERED, "[]"))]
    replaces = json.loads(said.get(_REPLACES, "[]"))
    if not all(isinstance(name, str) for name in replaces):
        raise ValueError("no names")
    done, failed, recovered = map(Indices.read, listed)
    part = Part(path, done, failed, columns.remove_metadata(), about.num_rows, recovered, tuple(replaces))
    return part, said[_RUN], int(said[_NUMBER])


def survey(looked: Mapping[Path, Part | str], columns: pa.Schema | None = None) -> tuple[list[Part], dict[Path, str]]:
    """The parts that can be used, and what is wrong with the others: none finishes a case that another has finished,
    unless it had failed, and all have the same ``columns``. Parts that another one replaces are neither."""
    counted = _without_replaced(looked)
    good: list[Part] = []
    bad: dict[Path, str] = {}
    parts = [found for found in counted.values() if isinstance(found, Part)]
    apart = len(Indices.union(part.done for part in parts)) == sum(len(part.done) for part in parts)
    finished = Indices()
    for path, found in counted.items():
        if isinstance(found, str):
            bad[path] = found
            continue
        columns = columns or found.columns
        if not apart and (twice := found.done & finished):
            case = next(iter(twice))
            earlier = next(part for part in good if case in part.done and case not in part.failed)
            bad[path] = f"finishes case {case} again, which {earlier.path.name} has finished"
        elif not found.columns.equals(columns):
            bad[path] = "has other columns than this run (was it written by another version of misdetect?)"
        else:
            good.append(found)
            if not apart:
                finished |= found.done - found.failed
    return good, bad


def _without_replaced(looked: Mapping[Path, Part | str]) -> dict[Path, Part | str]:
    """Those of ``looked`` that no other one replaces: a kill may have come before they were removed."""
    replaced = {name for found in looked.values() if isinstance(found, Part) for name in found.replaces}
    return {path: found for path, found in looked.items() if path.name not in replaced}


def _hasher(data: bytes = b"") -> "blake2b":
    return blake2b(data, digest_size=8)

"""Ways in which a run directory is damaged, each with what has to come of it.

A damage is a function of a ``Victim``: a copy of a finished run of several parts, beside runs it may be mixed up with.
``REFUSED``: reading it and going on with it is one sentence, and ``--repair`` mends it. ``REDONE``: it is read as an
unfinished run, and the same command finishes it. ``RETRIED``: a case that failed first counts as failed, is named, and
``--retry-failed`` mends it. ``HARMLESS``: it changes nothing. ``STUCK``: ``--repair`` refuses too,
and leaves everything as it is, since nothing shows that the folder was ever this run's.
"""

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

REFUSED, REDONE, RETRIED, HARMLESS, STUCK = "refused", "redone", "retried", "harmless", "stuck"
DAMAGED = "is damaged"


@dataclass
class Victim:
    """``run`` is to be damaged; ``other`` is a run of other settings, ``study`` one of another study."""

    run: Path
    other: Path
    study: Path

    @property
    def parts(self) -> list[Path]:
        return sorted((self.run / "parts").glob("part-*.parquet"))

    @property
    def part(self) -> Path:
        return self.parts[2]


@dataclass(frozen=True)
class Damage:
    """``says``: what the sentence has to contain."""

    name: str
    do: Callable[[Victim], object]
    expected: str
    says: str = ""

    def __repr__(self) -> str:
        return self.name


def damages() -> Iterator[Damage]:
    """All of them."""
    yield from _of_bytes()
    yield from _of_names()
    yield from _made_by_hand()
    yield from _of_run_json()
    yield from _of_the_rest()


def random_damages(count: int) -> Iterator[Damage]:
    """A byte changed anywhere in a run: nothing wrong may ever come of it."""
    for seed in range(count):
        yield Damage(f"random-byte-{seed}", lambda victim, seed=seed: _random_byte(victim, seed), REFUSED)


def _random_byte(victim: Victim, seed: int) -> None:
    chance = random.Random(seed)
    path = chance.choice([*victim.parts, victim.run / "run.json"])
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= chance.randrange(1, 256)
    path.write_bytes(data)


# The bytes of a part.


def _of_bytes() -> Iterator[Damage]:
    def changed(name: str, change: Callable[[bytes], bytes], which: int = 2) -> Damage:
        def do(victim: Victim) -> None:
            path = victim.parts[which]
            path.write_bytes(change(path.read_bytes()))

        return Damage(f"part-{name}", do, REFUSED, DAMAGED)

    def flipped(at: Callable[[int], int]) -> Callable[[bytes], bytes]:
        def change(data: bytes) -> bytes:
            place = at(len(data))
            return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]

        return change

    for where, which in (("first", 0), ("middle", 2), ("last", -1)):
        yield changed(f"empty-{where}", lambda data: b"", which)
        yield changed(f"half-{where}", lambda data: data[: len(data) // 2], which)
        yield changed(f"bit-{where}", flipped(lambda n: n // 3), which)
    yield changed("without-its-last-byte", lambda data: data[:-1])
    yield changed("without-its-first-byte", lambda data: data[1:])
    yield changed("bit-of-the-magic-number", flipped(lambda n: 0))
    yield changed("bit-of-the-footer", flipped(lambda n: n - 40))
    yield changed("bit-of-the-footers-length", flipped(lambda n: n - 7))
    yield changed("bit-of-the-end", flipped(lambda n: n - 1))
    yield changed("one-byte-more", lambda data: data + b"\0")
    yield changed("twice-itself", lambda data: data + data)
    yield changed("zeros", lambda data: bytes(len(data)))
    yield changed("noise", lambda data: random.Random(0).randbytes(len(data)))
    yield changed("text", lambda data: b"not a part\n")
    yield changed("json", lambda data: b'{"cases": []}')

    def swap(victim: Victim) -> None:
        first, second = victim.parts[:2]
        one, two = first.read_bytes(), second.read_bytes()
        first.write_bytes(two)
        second.write_bytes(one)

    yield Damage("two-parts-swapped", swap, REFUSED, "1 more cannot be used")

    def all_torn(victim: Victim) -> None:
        for part in victim.parts:
            part.write_bytes(part.read_bytes()[:-3])

    yield Damage("all-parts-cut-off", all_torn, REFUSED, "asks again about 6 cases (0-5)")


# The names of parts, and what stands in their place.


def _of_names() -> Iterator[Damage]:
    def named(victim: Victim, name: str) -> Path:
        return victim.run / "parts" / name

    def check(part: Path) -> str:
        return part.stem.split("-")[2]

    def copy(victim: Victim) -> None:
        shutil.copy(victim.part, named(victim, f"part-000099-{check(victim.part)}.parquet"))

    def copy_of_failed(victim: Victim) -> None:
        failed = next(part for part in victim.parts if json.loads(_said(part)[b"misdetect.failed"]))
        shutil.copy(failed, named(victim, f"part-000099-{check(failed)}.parquet"))

    def moved(victim: Victim) -> None:
        victim.part.rename(named(victim, f"part-000099-{check(victim.part)}.parquet"))

    yield Damage("copied-part", copy, REFUSED, "is a copy of part 3")
    yield Damage("copied-part-of-a-failed-case", copy_of_failed, REFUSED, "is a copy of part")
    yield Damage("part-with-another-number", moved, REFUSED, "is a copy of part 3")
    for name, new in (
        ("without-checksum", "part-000003.parquet"),
        ("with-another-checksum", "part-000003-0123456789abcdef.parquet"),
        ("with-a-short-checksum", "part-000003-0123.parquet"),
        ("without-number", "part-x-0123456789abcdef.parquet"),
        ("with-a-huge-number", f"part-{'9' * 80}-0123456789abcdef.parquet"),
        ("with-markup", "part-[red]$(id).parquet"),
    ):
        yield Damage(f"part-{name}", lambda victim, new=new: victim.part.rename(named(victim, new)), REFUSED, "part-")

    def foreign(which: str) -> Callable[[Victim], object]:
        def do(victim: Victim) -> None:
            source = sorted((getattr(victim, which) / "parts").iterdir())[0]
            shutil.copy(source, named(victim, source.name.replace("000001", "000099")))

        return do

    yield Damage("part-of-other-settings", foreign("other"), REFUSED, "is a part of another run")
    yield Damage("part-of-another-study", foreign("study"), REFUSED, "is a part of another run")

    def instead(victim: Victim) -> None:
        source = sorted((victim.other / "parts").iterdir())[2]
        victim.part.unlink()
        shutil.copy(source, named(victim, source.name))

    yield Damage("part-instead-of-ours", instead, REFUSED, "is a part of another run")

    def replaced(make: Callable[[Path], object]) -> Callable[[Victim], object]:
        def do(victim: Victim) -> None:
            part = victim.part
            part.unlink()
            make(part)

        return do

    says = "is no file that can be read"
    yield Damage("part-is-a-folder", replaced(Path.mkdir), REFUSED, says)
    yield Damage("part-is-a-pipe", replaced(os.mkfifo), REFUSED, says)
    yield Damage("part-is-a-device", replaced(lambda path: path.symlink_to("/dev/zero")), REFUSED, says)
    yield Damage("part-is-a-dangling-link", replaced(lambda path: path.symlink_to("gone")), REFUSED, says)
    yield Damage("part-links-to-itself", replaced(lambda path: path.symlink_to(path.name)), REFUSED, says)
    yield Damage("part-deleted", lambda victim: victim.part.unlink(), REDONE)
    yield Damage("first-part-deleted", lambda victim: victim.parts[0].unlink(), REDONE)
    yield Damage("last-part-deleted", lambda victim: victim.parts[-1].unlink(), RETRIED)
    yield Damage("all-parts-deleted", lambda victim: [part.unlink() for part in victim.parts], REDONE)


# Parts that somebody made: whole, but not what this run could have written.


def _said(part: Path) -> dict[bytes, bytes]:
    return dict(pq.read_schema(part).metadata)


def forge(victim: Victim, *, table: pa.Table | None = None, number: int = 3, **said: object) -> None:
    """Put another table, or another footer, in the place of the third part, under a name that fits it."""
    part = victim.part
    kept = pq.read_table(part) if table is None else table
    told = _said(part) | {f"misdetect.{key}".encode(): str(value).encode() for key, value in said.items()}
    sink = pa.BufferOutputStream()
    pq.write_table(kept.replace_schema_metadata({key: value for key, value in told.items() if value != b"None"}), sink)
    data = sink.getvalue().to_pybytes()
    part.unlink()
    check = blake2b(data, digest_size=8).hexdigest()
    (part.parent / f"part-{number:06d}-{check}.parquet").write_bytes(data)


def _made_by_hand() -> Iterator[Damage]:
    strange = "was not written by misdetect"
    for name, says, said in (
        ("of-another-run", "is a part of another run", {"run": "someone"}),
        ("without-a-run", strange, {"run": None}),
        ("without-a-number", strange, {"part": None}),
        ("with-no-cases", strange, {"cases": None}),
        ("with-cases-that-are-no-json", strange, {"cases": "[1, 2"}),
        ("with-cases-that-are-a-number", strange, {"cases": "7"}),
        ("with-a-negative-case", "lists cases that cannot be", {"cases": "[-1]"}),
        ("with-words-as-cases", "lists cases that cannot be", {"cases": '["a"]'}),
        ("with-a-case-twice", "lists cases that cannot be", {"cases": "[2, 2]"}),
        ("with-lists-as-cases", strange, {"cases": "[[1]]"}),
        ("with-a-failed-case-it-has-not", "lists cases that cannot be", {"failed": "[77]"}),
        ("that-finishes-what-is-finished", "again, which part-000001", {"cases": "[0, 1, 2]"}),
    ):
        yield Damage(f"made-{name}", lambda victim, said=said: forge(victim, **said), REFUSED, says)

    def other_columns(victim: Victim) -> None:
        forge(victim, table=pq.read_table(victim.part).append_column("more", pa.nulls(len(pq.read_table(victim.part)))))

    def other_types(victim: Victim) -> None:
        table = pq.read_table(victim.part)
        forge(victim, table=table.set_column(0, "case_index", table["case_index"].cast(pa.string())))

    def no_own_columns(victim: Victim) -> None:
        forge(victim, table=pq.read_table(victim.part).drop_columns(["error"]))

    yield Damage("made-with-another-column", other_columns, REFUSED, "has other columns")
    yield Damage("made-with-another-type", other_types, REFUSED, "has other columns")
    yield Damage("made-without-a-column", no_own_columns, REFUSED, "has other columns")


# run.json.


def _of_run_json() -> Iterator[Damage]:
    def text(
        name: str, change: Callable[[str], str | bytes], expected: str = REFUSED, says: str = "run.json"
    ) -> Damage:
        def do(victim: Victim) -> None:
            path = victim.run / "run.json"
            new = change(path.read_text())
            path.write_bytes(new if isinstance(new, bytes) else new.encode())

        return Damage(f"run-json-{name}", do, expected, says)

    def entry(name: str, change: Callable[[dict], object], says: str = "run.json") -> Damage:
        def rewritten(old: str) -> str:
            about = json.loads(old)
            change(about)
            return json.dumps(about)

        return text(name, rewritten, says=says)

    yield text("empty", lambda old: "", says="is not JSON")
    yield text("half", lambda old: old[: len(old) // 2], says="is not JSON")
    yield text("without-its-last-lines", lambda old: old[:-3], says="is not JSON")
    yield text("zeros", lambda old: bytes(len(old)), says="is not JSON")
    yield text("noise", lambda old: random.Random(1).randbytes(500), says="is not JSON")
    yield text("of-another-encoding", lambda old: old.encode("utf-16"), says="is not JSON")
    yield text("nested-deeply", lambda old: "[" * 100_000, says="is not JSON")
    yield text("a-list", lambda old: "[]", says="does not say what was run")
    yield text("null", lambda old: "null", says="does not say what was run")
    yield text("of-something-else", lambda old: '{"name": "mine"}', says="does not say what was run")
    yield text("a-digit-changed", lambda old: old.replace('"cases": 6', '"cases": 8'), says="checksum")
    yield text("a-setting-changed", lambda old: old.replace('"score": 0.3', '"score": 0.2'), says="checksum")
    yield text("twice", lambda old: old + old, says="is not JSON")
    yield entry("of-an-older-format", lambda about: about.update(format=1), "format 1")
    yield entry("of-a-strange-format", lambda about: about.update(format={"a": [1]}), "format {'a': [1]}")
    for key in ("format", "id", "identity", "cases", "check", "detector_settings"):
        yield entry(f"without-{key}", lambda about, key=key: about.pop(key))
    yield entry("with-words-as-cases", lambda about: about.update(cases="six"))
    yield entry("with-a-list-as-identity", lambda about: about.update(identity=[]))

    def file(
        name: str, make: Callable[[Victim, Path], object], expected: str = REFUSED, says: str = "run.json"
    ) -> Damage:
        def do(victim: Victim) -> None:
            (victim.run / "run.json").unlink()
            make(victim, victim.run / "run.json")

        return Damage(f"run-json-{name}", do, expected, says)

    yield file("deleted", lambda victim, path: None, says="not a run directory")
    yield file("is-a-folder", lambda victim, path: path.mkdir(), says="is no file")
    yield file("is-a-pipe", lambda victim, path: os.mkfifo(path), says="is no file")
    yield file("is-a-dangling-link", lambda victim, path: path.symlink_to("gone"), says="run.json")

    def of_another_run(victim: Victim) -> None:
        shutil.copy(victim.other / "run.json", victim.run / "run.json")

    yield Damage("run-json-of-another-run", of_another_run, STUCK, "")

    def nothing_left(victim: Victim) -> None:
        (victim.run / "run.json").write_text("{")
        shutil.rmtree(victim.run / "parts")

    yield Damage("nothing-but-a-torn-run-json", nothing_left, STUCK, "is not JSON")


# The rest of the directory.


def _of_the_rest() -> Iterator[Damage]:
    def document(name: str, change: Callable[[Path], object]) -> Damage:
        return Damage(f"document-{name}", lambda victim: change(victim.run / "document.json"), HARMLESS)

    yield document("deleted", Path.unlink)
    yield document("empty", lambda path: path.write_text(""))
    yield document("half", lambda path: path.write_text(path.read_text()[:400]))
    yield document("a-list", lambda path: path.write_text("[]"))
    yield document("noise", lambda path: path.write_bytes(random.Random(2).randbytes(900)))
    yield document(
        "a-number-changed", lambda path: path.write_text(path.read_text().replace('"missed": ', '"missed": 1'))
    )
    yield document("without-checksum", lambda path: _without(path, "check"))
    yield document("nested-deeply", lambda path: path.write_text("[" * 100_000))

    def is_a_folder(victim: Victim) -> None:
        (victim.run / "document.json").unlink()
        (victim.run / "document.json").mkdir()

    yield Damage("document-is-a-folder", is_a_folder, "unwritable", "is no regular file")

    def parts_is_a_file(victim: Victim) -> None:
        shutil.rmtree(victim.run / "parts")
        (victim.run / "parts").write_text("no folder")

    yield Damage("parts-is-a-file", parts_is_a_file, REFUSED, "parts")
    yield Damage("parts-deleted", lambda victim: shutil.rmtree(victim.run / "parts"), REDONE)
    for name in ("parts/.part-000001-0123456789abcdef.parquet.writing", "parts/notes.txt", "notes.txt"):
        yield Damage(
            f"left-{name.replace('/', '-')}", lambda victim, n=name: (victim.run / n).write_text("x"), HARMLESS
        )


def _without(path: Path, key: str) -> None:
    found = json.loads(path.read_text(encoding="utf-8"))
    del found[key]
    path.write_text(json.dumps(found), encoding="utf-8")

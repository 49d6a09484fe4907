"""Ways in which a prediction cache is damaged. Whatever it is, a run finds what it finds without one."""

import os
import random
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from misdetect.engine.cache import decode, encode
from misdetect.nouns.detections import Detections

TABLE = "CREATE TABLE predictions (key TEXT PRIMARY KEY, value BLOB, used INTEGER) WITHOUT ROWID"


@dataclass
class Kept:
    """A cache that knows all six answers of the run that is about to use it."""

    path: Path
    held: list[sqlite3.Connection] = field(default_factory=list)

    def sql(self, *statements: str) -> None:
        db = sqlite3.connect(self.path, isolation_level=None)
        for statement in statements:
            db.execute(statement)
        db.close()

    def values(self, change: Callable[[str, bytes], object]) -> None:
        """Replace each value by what ``change(key, value)`` makes of it."""
        db = sqlite3.connect(self.path, isolation_level=None)
        for key, value in db.execute("SELECT key, value FROM predictions").fetchall():
            db.execute("UPDATE predictions SET value = ? WHERE key = ?", (change(key, value), key))
        db.close()

    def answers(self, change: Callable[[Detections], Detections]) -> None:
        """Replace each answer by another one, as misdetect itself would write it."""
        self.values(lambda key, value: encode(change(decode(value, key)), key))

    def release(self) -> None:
        for db in self.held:
            db.close()


@dataclass(frozen=True)
class CacheDamage:
    """``off``: whether the cache is to say that it is off; ``asked``: how many images have to be asked about."""

    name: str
    do: Callable[[Kept], object]
    off: bool | None = True
    asked: int | None = 6

    def __repr__(self) -> str:
        return self.name


def cache_damages() -> Iterator[CacheDamage]:
    """All of them."""
    yield from _of_bytes()
    yield from _of_the_place()
    yield from _other_databases()
    yield from _of_entries()


def random_cache_damages(count: int) -> Iterator[CacheDamage]:
    """Bytes changed anywhere."""
    for seed in range(count):
        yield CacheDamage(f"random-bytes-{seed}", lambda kept, seed=seed: _random_bytes(kept, seed), None, None)


def _random_bytes(kept: Kept, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(kept.path.read_bytes())
    for _ in range(chance.choice((1, 3, 100))):
        data[chance.randrange(len(data))] = chance.randrange(256)
    kept.path.write_bytes(data)


def _of_bytes() -> Iterator[CacheDamage]:
    def changed(
        name: str, change: Callable[[bytes], bytes], off: bool | None = True, asked: int | None = 6
    ) -> CacheDamage:
        return CacheDamage(name, lambda kept: kept.path.write_bytes(change(kept.path.read_bytes())), off, asked)

    yield changed("empty", lambda data: b"", off=False)
    yield changed("one-byte", lambda data: data[:1], None)  # no database, or an empty one: SQLite has said both
    yield changed("cut-off-in-the-header", lambda data: data[:50])
    yield changed("cut-off-after-the-header", lambda data: data[:100])
    yield changed("half", lambda data: data[: len(data) // 2], None, None)
    yield changed("without-its-last-byte", lambda data: data[:-1], None, None)
    yield changed("text", lambda data: b"this is a text\n" * 100)
    yield changed("zeros", lambda data: bytes(len(data)))
    yield changed("noise", lambda data: random.Random(0).randbytes(len(data)))
    yield changed("another-page-size", lambda data: data[:16] + b"\x02\x00" + data[18:])
    yield changed("another-file-format", lambda data: data[:18] + b"\x09\x09" + data[20:])
    yield changed("pages-in-another-order", lambda data: data[:4096] + data[8192:] + data[4096:8192], None, None)
    yield changed("header-alone-is-right", lambda data: data[:100] + random.Random(1).randbytes(len(data) - 100))
    yield changed("twice-itself", lambda data: data + data, None, None)


def _of_the_place() -> Iterator[CacheDamage]:
    def instead(name: str, make: Callable[[Path], object], off: bool = True) -> CacheDamage:
        def do(kept: Kept) -> None:
            kept.path.unlink()
            make(kept.path)

        return CacheDamage(name, do, off)

    yield instead("gone", lambda path: None, off=False)
    yield instead("a-folder", Path.mkdir)
    yield instead("a-pipe", os.mkfifo)
    yield instead("a-device", lambda path: path.symlink_to("/dev/null"))
    yield instead("a-link-to-nothing", lambda path: path.symlink_to("gone"))
    yield instead("a-link-to-itself", lambda path: path.symlink_to(path.name))

    def folder_is_a_file(kept: Kept) -> None:
        for path in kept.path.parent.iterdir():
            path.unlink()
        kept.path.parent.rmdir()
        kept.path.parent.write_text("no folder")

    yield CacheDamage("its-folder-is-a-file", folder_is_a_file)

    def beside(
        name: str, suffix: str, make: Callable[[Path], object], off: bool | None, asked: int | None
    ) -> CacheDamage:
        return CacheDamage(name, lambda kept: make(kept.path.with_name(kept.path.name + suffix)), off, asked)

    noise = random.Random(2).randbytes(9000)
    yield beside("log-of-noise", "-wal", lambda path: path.write_bytes(noise), None, None)
    yield beside("log-is-a-folder", "-wal", Path.mkdir, True, 6)
    yield beside("log-is-a-pipe", "-wal", os.mkfifo, True, 6)
    yield beside("shared-memory-of-noise", "-shm", lambda path: path.write_bytes(noise), None, None)
    yield beside("shared-memory-is-a-folder", "-shm", Path.mkdir, True, 6)

    def locked(kept: Kept) -> None:
        db = sqlite3.connect(kept.path, isolation_level=None)
        db.execute("PRAGMA locking_mode=EXCLUSIVE")
        db.execute("BEGIN EXCLUSIVE")
        kept.held.append(db)

    yield CacheDamage("locked-for-ever", locked)


def _other_databases() -> Iterator[CacheDamage]:
    def database(name: str, *statements: str) -> CacheDamage:
        def do(kept: Kept) -> None:
            kept.path.unlink()
            kept.sql(*statements)

        return CacheDamage(name, do)

    yield database("another-programs", "CREATE TABLE bookmarks (title TEXT)", "INSERT INTO bookmarks VALUES ('a')")
    yield database("another-programs-by-its-mark", TABLE, "PRAGMA application_id=77")
    yield database("other-columns", "CREATE TABLE predictions (key TEXT, answer TEXT)")
    yield database("fewer-columns", "CREATE TABLE predictions (key TEXT PRIMARY KEY)")
    yield database(
        "a-view-of-that-name", "CREATE TABLE t (key, value, used)", "CREATE VIEW predictions AS SELECT * FROM t"
    )
    trigger = "CREATE TRIGGER t AFTER INSERT ON predictions BEGIN DELETE FROM predictions; END"
    yield CacheDamage("with-a-trigger", lambda kept: kept.sql(trigger))
    yield CacheDamage("with-a-table-of-somebody", lambda kept: kept.sql("CREATE TABLE mine (a)"))


def _of_entries() -> Iterator[CacheDamage]:
    def values(name: str, change: Callable[[str, bytes], object]) -> CacheDamage:
        return CacheDamage(f"value-{name}", lambda kept: kept.values(change), off=False)

    yield values("empty", lambda key, value: b"")
    yield values("null", lambda key, value: None)
    yield values("text", lambda key, value: "[]")
    yield values("number", lambda key, value: 7)
    yield values("cut-off", lambda key, value: value[:-1])
    yield values("longer", lambda key, value: value + b"\0")
    yield values("flipped", lambda key, value: value[:20] + bytes([value[20] ^ 1]) + value[21:])
    yield values("of-another-key", lambda key, value: encode(decode(value, key), "another"))
    yield values("without-a-key", lambda key, value: encode(decode(value, key)))

    def rotated(kept: Kept) -> None:
        db = sqlite3.connect(kept.path, isolation_level=None)
        found = db.execute("SELECT key, value FROM predictions ORDER BY key").fetchall()
        for (key, _), (_, value) in zip(found, found[1:] + found[:1], strict=True):
            db.execute("UPDATE predictions SET value = ? WHERE key = ?", (value, key))
        db.close()

    yield CacheDamage("values-exchanged", rotated, off=False)

    def answers(name: str, change: Callable[[Detections], Detections]) -> CacheDamage:
        return CacheDamage(f"answer-{name}", lambda kept: kept.answers(change), off=False)

    def boxes(name: str, *corners: float) -> CacheDamage:
        return answers(name, lambda found: Detections([corners] * len(found), found.scores, found.labels))

    yield answers("of-an-unknown-class", lambda found: Detections(found.boxes, found.scores, found.labels + 99))
    yield boxes("beyond-the-image", 100, 100, 120, 120)
    yield boxes("left-of-the-image", -30, 0, -5, 9)
    yield boxes("that-sticks-out", 1, 2, 40, 12)
    yield boxes("that-sticks-out-a-little", 1, 2, 32.25, 12)
    yield boxes("of-huge-numbers", 0, 0, 1e308, 1e308)
    masks = [[[False] * 7] * 5]
    yield answers(
        "with-masks-of-another-size",
        lambda found: Detections(found.boxes, found.scores, found.labels, masks * len(found)),
    )
    for name, value in (("null", "NULL"), ("text", "'late'"), ("negative", "-1"), ("in-the-future", "9e18")):
        statement = f"UPDATE predictions SET used = {value}"
        yield CacheDamage(f"age-{name}", lambda kept, s=statement: kept.sql(s), off=False, asked=0)
    yield CacheDamage("keys-of-another-case", lambda kept: kept.sql("UPDATE predictions SET key = upper(key)"), False)

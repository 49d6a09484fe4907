"""The cache gives back exactly what it was given, stays within its bound, and where it breaks it only turns off."""

import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from misdetect.engine import cache as module
from misdetect.engine.cache import Cache, decode, default_path, encode
from misdetect.nouns.detections import Detections


def some(seed: int, n: int = 3, masks: bool = False) -> Detections:
    rng = np.random.default_rng(seed)
    corners = np.sort(rng.uniform(-5, 900, (n, 2, 2)), axis=1).reshape(n, 4)
    return Detections(corners, rng.random(n), rng.integers(0, 2**40, n), rng.random((n, 5, 7)) < 0.5 if masks else None)


@given(st.integers(0, 2**32 - 1), st.integers(0, 6), st.booleans())
def test_encoding_is_exact_and_repeatable(seed, n, masks):
    found = some(seed, n, masks)
    data = encode(found)
    assert data == encode(some(seed, n, masks))
    back = decode(data)
    assert back == found
    assert back.boxes.tobytes() == found.boxes.tobytes()
    if masks:
        assert back.masks is not None
        assert (back.masks.height, back.masks.width) == (5, 7)


@given(st.data())
def test_a_changed_byte_is_noticed(data):
    """A cache that answers wrongly is worse than none."""
    encoded = bytearray(encode(some(1, masks=True)))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ValueError, match="checksum"):
        decode(bytes(encoded))


def test_what_was_put_is_found_at_once_and_by_the_next(tmp_path):
    path = tmp_path / "deep" / "folder" / "cache.sqlite"
    cache = Cache(path)
    many = {f"key{i}": some(i, masks=i % 2 == 0) for i in range(1200)}
    cache.put(many)
    assert cache.get([*many, "unknown"]) == many
    cache.put({"key0": some(77)})
    cache.close()
    later = Cache(path)
    assert later.get(many) == many | {"key0": some(77)}
    assert later.get([]) == {}
    later.close()
    assert cache.problem is None
    assert later.problem is None


def test_it_stays_bounded_and_the_most_recent_survive(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_WRITE_EVERY", -1)
    path, bound = tmp_path / "cache.sqlite", 200_000
    cache = Cache(path, max_bytes=bound)
    used = []
    for batch in range(60):
        cache.put({f"{batch}-{i}": some(i, n=20) for i in range(10)})  # 10 kB a batch, 600 kB in all
        used.append(module._live_bytes(sqlite3.connect(path)))
    assert max(used) <= bound
    found = [bool(cache.get([f"{batch}-0"])) for batch in range(60)]
    assert found[-5:] == [True] * 5
    assert found == sorted(found)  # what is gone is older than all that is left
    cache.close()
    assert cache.problem is None
    assert path.stat().st_size < 2 * bound


def test_a_hit_makes_an_old_entry_young(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_WRITE_EVERY", -1)
    monkeypatch.setattr(module, "_TOUCH_AFTER", 0)
    cache = Cache(tmp_path / "cache.sqlite", max_bytes=100_000)
    cache.put({"treasure": some(0)})
    for batch in range(40):
        cache.put({f"{batch}-{i}": some(i, n=20) for i in range(10)})
        assert cache.get(["treasure"])
    assert not cache.get(["0-0"])
    cache.close()


@pytest.mark.parametrize("content", [b"this is no database at all, but a text", b"SQLite format 3\0" + bytes(200)])
def test_a_broken_file_turns_it_off(tmp_path, content):
    path = tmp_path / "cache.sqlite"
    path.write_bytes(content * 100)
    cache = Cache(path)
    cache.put({"a": some(0)})
    assert cache.get(["a"]) == {}
    cache.close()
    assert str(path) in cache.problem
    assert path.read_bytes() == content * 100


@pytest.mark.parametrize("value", [b"", b"\x05\0\0\0", None, "text", 7, encode(some(0))[:-1]])
def test_a_broken_entry_is_as_good_as_none_and_is_replaced(tmp_path, value):
    path = tmp_path / "cache.sqlite"
    cache = Cache(path)
    with sqlite3.connect(path) as other:
        other.execute("INSERT INTO predictions VALUES ('a', ?, 0)", (value,))
    assert cache.get(["a"]) == {}
    cache.put({"a": some(0)})
    cache.close()
    assert cache.problem is None
    assert Cache(path).get(["a"]) == {"a": some(0)}


def test_a_place_that_cannot_be_written_turns_it_off(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    for path in (tmp_path / "file" / "cache.sqlite", tmp_path, tmp_path / "file"):
        cache = Cache(path)
        assert cache.problem is not None
        cache.put({"a": some(0)})
        assert cache.get(["a"]) == {}
        cache.close()
    monkeypatch.setenv("MISDETECT_CACHE", str(tmp_path / "mine"))
    assert default_path() == tmp_path / "mine"
    monkeypatch.delenv("MISDETECT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_path() == tmp_path / "xdg" / "misdetect" / "predictions.sqlite"


def test_it_does_not_keep_others_waiting_while_its_detector_works(tmp_path, monkeypatch):
    """Planted: a put (or a renewing hit) followed by a long silence must not hold the lock during it."""
    monkeypatch.setattr(module, "_PATIENCE", 0.05)
    monkeypatch.setattr(module, "_TOUCH_AFTER", 0)
    first, second = Cache(tmp_path / "cache.sqlite"), Cache(tmp_path / "cache.sqlite")
    first.put({"a": some(0)})
    first.get(["a"])
    time.sleep(2 * module._WRITE_EVERY)
    second.put({"b": some(1)})  # due, and written now, though the first has not closed
    assert second.problem is None
    assert Cache(tmp_path / "cache.sqlite").get(["b"]) == {"b": some(1)}
    first.close()
    second.close()
    assert first.problem is None
    assert Cache(tmp_path / "cache.sqlite").get(["a", "b"]) == {"a": some(0), "b": some(1)}


WRITER = """
import sys
from pathlib import Path
import numpy as np
from misdetect.nouns.detections import Detections
from misdetect.engine import cache as module
module._WRITE_EVERY = 0.001
print("ready", flush=True)
sys.stdin.readline()
cache = module.Cache(Path(sys.argv[1]))
for i in range(150):
    cache.put({f"{sys.argv[2]}-{i}": Detections([[0, 0, i, i]], [0.5], [int(sys.argv[2])])})
    cache.get([f"{k}-{i}" for k in range(3)])
cache.close()
print(cache.problem, flush=True)
"""


def test_processes_share_it_from_the_first_moment(tmp_path):
    path = tmp_path / "cache.sqlite"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(k)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for k in range(3)
    ]
    assert [p.stdout.readline() for p in processes] == ["ready\n"] * 3
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    assert [p.communicate(timeout=60)[0] for p in processes] == ["None\n"] * 3
    found = Cache(path).get([f"{k}-{i}" for k in range(3) for i in range(150)])
    assert len(found) == 450
    assert all(found[f"{k}-9"] == Detections([[0, 0, 9, 9]], [0.5], [k]) for k in range(3))

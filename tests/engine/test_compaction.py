"""Many small parts become one: the rows, the cases and what failed of them stay what they were."""

from hashlib import blake2b

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_store import go
from toys import ChainStudy, SumDetector, chain_rows

from misdetect.engine import store
from misdetect.engine.parts import part_files
from misdetect.engine.store import Run
from misdetect.said.errors import BadData


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(store, "MOST_SMALL", 4)
    monkeypatch.setattr(store, "FLUSH_ROWS", 1)


def parts_of(run):
    return part_files(run.path / "parts")


def test_many_small_parts_become_few(tmp_path, few, monkeypatch):
    run = go(tmp_path / "run").run
    assert run.table().to_pylist() == chain_rows(40)
    assert (Run.open(run.path).done(), len(parts_of(run)) <= 4) == (set(range(40)), True)
    monkeypatch.setattr(store, "SMALL_ROWS", 10)  # those that are large enough are left alone
    run = go(tmp_path / "large").run
    assert run.table().to_pylist() == chain_rows(40)
    assert len(parts_of(run)) > 4


@pytest.mark.heavy
def test_what_is_replaced_does_not_count_though_it_is_there(tmp_path, few, monkeypatch):
    """A kill between the writing of a part and the removing of those that it replaces."""
    before = []
    monkeypatch.setattr(Run, "_remove_replaced", lambda self: before.append(parts_of(self)))
    run = go(tmp_path / "run").run
    replaced = len(parts_of(run))
    assert replaced > 40 / 2
    assert Run.open(run.path).table().to_pylist() == chain_rows(40)
    monkeypatch.undo()
    detector = SumDetector()
    again = go(tmp_path / "run", detector=detector).run
    assert (detector.batches, again.table().to_pylist()) == ([], chain_rows(40))
    assert len(parts_of(again)) < replaced
    assert all(part.exists() for part in parts_of(again))


class Failing(SumDetector):
    def detect(self, images):
        if any(image.mean() > 127 for image in images):
            raise RuntimeError("too bright")
        return super().detect(images)


def test_what_failed_is_remembered(tmp_path, few):
    first = go(tmp_path / "run", detector=Failing()).run
    failed = first.failed()
    assert 0 < len(failed) < 40
    assert first.errors()["case_index"].to_pylist() == sorted(failed)
    again = go(tmp_path / "run", retry_failed=True).run
    assert (again.failed(), again.ever_failed(), again.done()) == (set(), failed, set(range(40)))
    assert again.table().to_pylist() == chain_rows(40)
    assert again.errors().num_rows == 0


def test_a_damaged_one_is_named_and_repaired(tmp_path, few):
    run = go(tmp_path / "run").run
    compacted = next(part for part in Run.open(run.path)._parts() if part.replaces).path
    compacted.write_bytes(compacted.read_bytes()[:-1])
    with pytest.raises(BadData, match=f"{compacted.name} is damaged.*asks again about"):
        Run.open(run.path).table()
    assert go(tmp_path / "run", repair=True).run.table().to_pylist() == chain_rows(40)


def test_a_reader_does_not_mind(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "FLUSH_ROWS", 1)
    run = go(tmp_path / "run").run
    reader = Run.open(run.path)
    before = reader.table()
    writer = Run.open(run.path)
    writer._compact(writer._parts())
    assert reader.table().equals(before)
    writer._remove_replaced()
    assert (len(parts_of(run)), reader.table().equals(before)) == (1, True)


def test_parts_of_older_versions_are_read(tmp_path):
    """Their footers list each case by itself."""
    run = go(tmp_path / "run", flush_seconds=0).run
    for path in parts_of(run):
        table = pq.read_table(pa.BufferReader(path.read_bytes()))  # a file may be open a moment longer
        done = sorted(run._looked[path].done)
        said = table.schema.metadata | {b"misdetect.cases": str(done).encode()}
        path.unlink()
        sink = pa.BufferOutputStream()
        pq.write_table(table.replace_schema_metadata(said), sink)
        data = sink.getvalue().to_pybytes()
        named = "-".join([*path.stem.split("-")[:2], blake2b(data, digest_size=8).hexdigest()])
        path.with_name(f"{named}.parquet").write_bytes(data)
    old = Run.open(run.path)
    assert (old.table().to_pylist(), old.done(), old.finished) == (chain_rows(40), set(range(40)), True)


def test_rounds_are_recalled_a_piece_at_a_time(tmp_path, monkeypatch):
    """A study that learns is told each case once, whole, however many rows are read at once."""
    import misdetect.engine as engine

    run = go(tmp_path / "run", ChainStudy()).run
    told: dict[int, list[dict]] = {}
    for size in (1, 2, 3, 1000):
        monkeypatch.setattr(engine, "_RECALLED", size)
        told.clear()
        engine._recall(run, lambda index, rows: told.update({index: rows}))
        assert sorted(told) == list(range(40))
        assert [row for index in sorted(told) for row in told[index]] == chain_rows(40)

"""Runs and data in object storage keep the promises of a local folder; here in fsspec's store in memory. Another
machine is another cache folder; a machine that dies does nothing more to the store."""

import json

import fsspec
import numpy as np
import pytest
from PIL import Image
from test_store import go
from toys import ChainStudy, SumDetector, chain_rows

import misdetect as md
from misdetect.data import load_data, unseen
from misdetect.data.export import export_coco
from misdetect.detectors.catalogue import reach
from misdetect.engine.store import Run
from misdetect.kept import lease, mirror
from misdetect.kept.budget import Budget
from misdetect.kept.lease import Lease
from misdetect.kept.mirror import local_path
from misdetect.kept.remote import Remote, Unreachable
from misdetect.said.errors import BadSpec, MisdetectError, RunBusy
from misdetect.studies.running import budget_file

OUT = "memory://bucket/runs/run"
OPERATIONS = ("entries", "read", "fetch", "write", "write_all", "create", "remove")


class Died(BaseException):
    """The machine is gone."""


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    """An empty store, and the first machine."""
    found = fsspec.filesystem("memory")
    found.store.clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "machine-1"))
    yield found
    found.store.clear()


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Go on on another machine, so much later that nobody waits for the one before."""

    def other(name):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
        monkeypatch.setattr(Lease, "_now", lambda self: 1e12)

    return other


class Strike:
    """Operation number ``at`` on the store, and all that follow, end with ``error``; ``after``: once it is done."""

    def __init__(self, monkeypatch, at, error, after=False):
        self.count, self.struck = 0, False
        for name in OPERATIONS:
            monkeypatch.setattr(Remote, name, self._around(getattr(Remote, name), at, error, after))

    def _around(self, do, at, error, after):
        def called(remote, *args):
            self.count += 1
            if self.struck or (self.count == at and not after):
                self.struck = True
                raise error
            found = do(remote, *args)
            if self.count == at:
                self.struck = True
                raise error
            return found

        return called


def files(store, but="/.lease/"):
    """Names of objects; numbers of leases are of no interest."""
    found = {path.removeprefix("/bucket/runs/") for path in store.find("/bucket")}
    return {name for name in found if "/.lease/" not in name and but not in name}


def test_another_machine_reads_what_one_wrote(store, machine):
    first = go(OUT, flush_seconds=0).run
    assert (first.address, first.table().to_pylist()) == (OUT, chain_rows(40))
    machine("machine-2")
    again = Run.open(OUT)
    assert again.path != first.path
    assert (again.table().to_pylist(), again.finished) == (chain_rows(40), True)
    detector = SumDetector()
    assert go(OUT, detector=detector).run.table().to_pylist() == chain_rows(40)
    assert detector.batches == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("after", [False, True])
def test_a_machine_may_die_at_any_operation(store, machine, monkeypatch, tmp_path, after):
    """What it left, the next machine goes on with: no row is lost or doubled."""
    with monkeypatch.context() as counting:
        whole = Strike(counting, None, Died())
        go(OUT, ChainStudy(8), flush_seconds=0)
    kept = files(store, but="part-")
    for at in range(1 + after, whole.count, 4):
        store.store.clear()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"dies-{at}"))
        with monkeypatch.context() as dying:
            strike = Strike(dying, at, Died(), after)
            with pytest.raises(Died):
                go(OUT, ChainStudy(8), flush_seconds=0)
            assert strike.struck
        machine(f"goes-on-{at}")
        assert go(OUT, ChainStudy(8), flush_seconds=0).run.table().to_pylist() == chain_rows(8)
        assert files(store, but="part-") == kept
    assert whole.count > 15


def test_the_same_machine_goes_on_at_once(store, monkeypatch):
    """It was killed and could not end its lease; no one else can have it."""
    with monkeypatch.context() as dying:
        Strike(dying, 14, Died())
        with pytest.raises(Died):
            go(OUT, flush_seconds=0)
    assert go(OUT).run.table().to_pylist() == chain_rows(40)


def test_a_store_that_goes_away_is_a_sentence(store, monkeypatch):
    with monkeypatch.context() as dying:
        Strike(dying, 14, Unreachable(f"{OUT} cannot be written: it is gone."))
        with pytest.raises(Unreachable, match="it is gone"):
            go(OUT, flush_seconds=0)
    before = Run.open(OUT)
    assert 0 < len(before.done()) < 40
    assert go(OUT).run.table().to_pylist() == chain_rows(40)


def begun(store):
    """A run that is being written."""
    go(OUT)
    held = Run.open(OUT)
    held._take_lock()
    return held


def test_two_cannot_write_at_once(store, monkeypatch, tmp_path, machine):
    held = begun(store)
    with pytest.raises(RunBusy, match="being written by another process"):
        go(OUT)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "machine-2"))
    with pytest.raises(RunBusy, match=r"being written by process \d+ on .*last heard of 0 s ago"):
        go(OUT)
    held.note(cases=40)
    held.close()
    go(OUT)


def test_who_was_not_heard_of_may_not_write_any_more(store, machine, monkeypatch):
    held = begun(store)
    machine("machine-2")
    go(OUT)
    held._lease._until = 0.0
    with pytest.raises(RunBusy, match="not this process's to write any more"):
        held.note(view={"late": True})
    held.close()
    assert "late" not in Run.open(OUT).about.get("view", {})


def test_a_lease_is_kept_alive_and_its_loss_is_noticed(store, monkeypatch):
    monkeypatch.setattr(lease, "SECONDS", 0.04)
    remote = Remote("memory://bucket/runs")
    held = Lease(remote, "run", "me")
    first = held._until
    while held._until == first:
        held._end.wait(0.001)
    remote.write("run/.lease/000000009", b"{}")
    held._thread.join()
    with pytest.raises(RunBusy, match="another process has taken it over"):
        held.check()


def test_of_those_who_want_it_only_one_gets_it(store):
    """Whoever was slower, at whatever moment, is refused."""
    remote = Remote("memory://bucket/runs")
    first = Lease(remote, "run", "a")
    for holder in ("b", "c"):
        with pytest.raises(RunBusy):
            Lease(remote, "run", holder)
    first.release()
    second = Lease(remote, "run", "b")
    assert not remote.create(f"run/.lease/{second._number:09d}", b"")
    second.release()
    assert len(remote.entries("run/.lease")) == 1


def paid(queries, **more):
    budget = Budget(queries=queries, path=budget_file(local_path(OUT)))
    detector = SumDetector()
    outcome = go(OUT, detector=detector, budget=budget, **more)
    return outcome, sum(detector.batches)


def test_a_budget_holds_whichever_machine_goes_on(store, machine, monkeypatch):
    """A machine that was lost is taken to have spent all that it had entered."""
    monkeypatch.setattr("misdetect.kept.budget.AHEAD", 8)
    outcome, asked = paid(20)
    assert (outcome.stopped, asked) == ("budget", 20)
    machine("machine-2")
    outcome, asked = paid(20)
    assert (outcome.stopped, asked) == ("budget", 0)
    with monkeypatch.context() as dying:
        Strike(dying, 26, Died())
        with pytest.raises(Died):
            paid(60)
    spent = int(store.cat("/bucket/runs/run.budget").split()[3])
    assert spent > 20
    machine("machine-3")
    outcome, asked = paid(60)
    assert asked <= 60 - spent
    assert Budget(queries=60, path=budget_file(local_path(OUT))).spent["queries"] == spent + asked <= 60


def test_what_was_paid_for_is_not_asked_again(store, machine):
    """Answers are in the store before they are used."""
    _, whole = paid(10**6)
    store.store.clear()
    machine("machine-2")
    outcome, first = paid(20, flush_seconds=3600)
    assert any("/.answers/" in name for name in files(store))
    machine("machine-3")
    outcome, second = paid(10**6)
    assert first + second == whole
    assert outcome.run.table().to_pylist() == chain_rows(40)
    assert not any("/.answers/" in name for name in files(store)), "a finished run needs none"


def test_what_is_discarded_is_gone(store):
    go(OUT).run.discard()
    assert files(store) == set()
    assert go(OUT).run.table().to_pylist() == chain_rows(40)


def test_a_damaged_part_is_named_by_its_address_and_repaired(store, machine):
    go(OUT, flush_seconds=0)
    part = next(path for path in store.find("/bucket") if "part-" in path)
    store.pipe_file(part, b"PAR1 no more")
    machine("machine-2")
    with pytest.raises(MisdetectError, match=rf"memory:/{part} is damaged"):
        Run.open(OUT).table()
    assert go(OUT, repair=True).run.table().to_pylist() == chain_rows(40)
    assert f"run/damaged/{part.rpartition('/')[2]}" in files(store)


@pytest.fixture
def photos(store, tmp_path):
    """The same photos as local files and in the store."""
    rng = np.random.default_rng(0)
    pairs = [
        (rng.integers(0, 256, (20, 30, 3), dtype=np.uint8), {"boxes": [[1, 2, 9, 9]], "labels": [0]}) for _ in range(3)
    ]
    export_coco(load_data(pairs, names=["thing"]), tmp_path / "coco")
    store.put(str(tmp_path / "coco"), "/bucket/data/", recursive=True)
    return tmp_path / "coco"


def fetched():
    return [path for path in mirror.mirrors().rglob("*.png") if path.stat().st_mtime_ns]


def test_data_is_read_from_the_store(store, photos):
    here = load_data(f"coco:{photos / 'instances.json'}")
    there = load_data("coco:memory://bucket/data/coco/instances.json")
    assert (there.fingerprint, there.spec) == (here.fingerprint, "coco:memory://bucket/data/coco/instances.json")
    assert fetched() == [], "images are read when they are looked at"
    for i in range(3):
        assert np.array_equal(there[i].image, here[i].image)
        assert len(fetched()) == i + 1
    folder = load_data("folder:memory://bucket/data/coco/images")
    assert len(folder) == 3
    assert folder.fingerprint == load_data(f"folder:{photos / 'images'}").fingerprint
    split = load_data("coco:memory://bucket/data/coco/instances.json,images=memory://bucket/data/coco/images")
    assert np.array_equal(split[1].image, here[1].image)


def test_what_a_run_names_is_not_read_unless_it_was_opened_here(store, photos, machine):
    """A run may come from a stranger, and a store is read with one's own credentials."""
    spec = "coco:memory://bucket/data/coco/instances.json"
    run = md.detect(f"glassbox:none,data={spec}", spec, out=OUT)
    case = run.rows()["case"][0].as_py()
    assert len(md.open(OUT).data) == 3, "where it was made it is known"
    assert md.open(OUT).replay(case)["reproduced"]
    machine("machine-2")
    with pytest.raises(BadSpec, match=f"{spec}, and memory://bucket/data/.* was never opened on this machine"):
        md.open(OUT).data  # noqa: B018
    with pytest.raises(BadSpec, match=r"would be read from memory://bucket/data/.*, with your credentials: .* --trust"):
        md.open(OUT).replay(case)
    assert not any(mirror.mirrors().rglob("instances.json"))
    assert md.open(OUT).replay(case, trust=True)["reproduced"]
    machine("machine-3")
    load_data(spec)
    assert len(md.open(OUT).data) == 3
    assert md.open(OUT).replay(case)["reproduced"]


@pytest.mark.parametrize(
    "spec",
    [
        *(
            "folder:memory://bucket/data",
            "coco:memory:/bucket/x.json",
            "voc:here,images=s3://bucket/x",
            "yolo:ftp://a/b",
        ),
        *("COCO:s3://bucket/a/../b.json", "hfdata:stranger/data"),
    ],
)
def test_what_is_beyond_this_machine(spec):
    assert unseen(spec) is not None
    assert reach(f"glassbox:none,data={spec}") is not None


@pytest.mark.parametrize("spec", ["coco:/here/x.json", "rooms:val", "memory:", "a folder", "hfdata:.", "folder:s3"])
def test_what_is_on_this_machine(spec):
    assert unseen(spec) is None


def test_a_folder_at_the_top_of_a_bucket(store, photos):
    """What is above it is the bucket, which nobody mirrors."""
    first = sorted(photos.joinpath("images").iterdir())[0]
    shape = {"label": "cup", "shape_type": "rectangle", "points": [[1, 2], [20, 10]]}
    store.pipe_file("/bucket/labels/a.json", json.dumps({"imagePath": first.name, "shapes": [shape]}).encode())
    store.put_file(str(first), f"/bucket/labels/{first.name}")
    (sample,) = load_data("labelme:memory://bucket/labels")
    assert sample.truth.boxes.tolist() == [[1, 2, 20, 10]]
    assert np.array_equal(sample.image, np.asarray(Image.open(first)))


def test_data_that_changed_is_read_anew(store, photos):
    spec = "folder:memory://bucket/data/coco/images"
    name = load_data(spec)[0].id
    before = load_data(spec)[0].image
    Image.fromarray(255 - before).save(photos / "images" / name)
    store.put_file(str(photos / "images" / name), f"/bucket/data/coco/images/{name}")
    assert np.array_equal(load_data(spec)[0].image, 255 - before)


def test_an_image_that_went_is_named_by_its_address(store, photos):
    data = load_data("folder:memory://bucket/data/coco/images")
    store.rm_file(f"/bucket/data/coco/images/{data[0].id}")
    with pytest.raises(MisdetectError, match=f"memory://bucket/data/coco/images/{data[0].id} does not exist"):
        data[0].source.read()


def test_names_that_lead_out_are_refused(store):
    store.pipe_file("/bucket/data/../../escaped.png", b"")
    with pytest.raises(Unreachable, match="leads out of its folder"):
        load_data("folder:memory://bucket/data")


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("memory://bucket", "is a whole bucket; name a folder"),
        ("file:///tmp/run", "write a local path as it is"),
        ("https://example.com/run", "write a local path as it is"),
        ("nowhere://bucket/run", "cannot be written: a run needs a store"),
        ("ftp://host/run", "cannot be written: a run needs a store"),
    ],
)
def test_addresses_that_cannot_be(store, path, complaint):
    with pytest.raises(BadSpec, match=complaint):
        go(path)

"""Many workers on an adaptive campaign, in simulated time: the plan is that of one worker, and all are busy."""

import pytest
from fuzz_toys import SPEC, cut_out
from simulated import Simulated

import misdetect as md
from misdetect import engine
from misdetect.data import load_data


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    return cut_out(load_data(SPEC), tmp_path_factory.mktemp("busy"))


@pytest.fixture
def campaign(monkeypatch, tmp_path, pool):
    """Runs one with so many simulated workers (``None``: in this process); its rows, and the workers."""

    def run(workers, queries, data=SPEC, **options):
        made = []

        def simulated(detector, *_):
            made.append(Simulated(workers, detector))
            return made[-1]

        with monkeypatch.context() as patch:
            if workers is not None:
                patch.setattr(engine, "_backend", simulated)
            how = {"pool": pool, "queries": queries, "cache": False, **options}
            done = md.fuzz("glassbox:vanish-near,data=rooms:val", data, out=tmp_path / f"{workers}", **how)
        rows = done.query("SELECT * FROM rows ORDER BY case_index, row").to_pylist()
        return rows, made[0] if made else None

    return run


@pytest.mark.heavy
def test_the_plan_does_not_depend_on_the_number_of_workers(campaign):
    alone, _ = campaign(None, 200)
    assert {row["phase"] for row in alone} == {"clean", "insertion", "relocation", "shrinking"}
    for workers in (1, 3, 8):
        rows, _ = campaign(workers, 200)
        assert rows == alone


@pytest.mark.heavy
def test_eight_workers_are_busy_for_nine_tenths_of_the_time(campaign):
    rows, workers = campaign(8, 2000, "rooms:val,count=60")
    assert workers.idle() <= 0.1
    assert workers.asked <= 2000
    assert sum(row["queries"] for row in rows) <= 2000


def test_a_long_case_holds_up_nobody(campaign):
    """Patches make cases of very different lengths; with rounds that wait for each other half of the time was lost. In
    so small a campaign the end weighs more."""
    _, workers = campaign(8, 300)
    assert workers.idle() <= 0.3

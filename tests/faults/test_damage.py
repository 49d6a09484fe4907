"""Damaged run directories and caches: named in a sentence, or mended; never a wrong row, never a traceback."""

import json
import os
import shutil
from pathlib import Path

import pytest
from cli_world import World
from damaged_caches import Kept, cache_damages, random_cache_damages
from damaged_runs import HARMLESS, REDONE, REFUSED, RETRIED, STUCK, Damage, Victim, damages, random_damages

from misdetect.engine import store
from misdetect.engine.store import Run

RUNS = list(damages())
CACHES = list(cache_damages())
SAMPLE = 40
"""Every so many of them are tried by ``make test``, all of them by ``make test-all``."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damage")
    (folder / "world").mkdir()
    return folder


@pytest.fixture(scope="module")
def world(place):
    return World(place / "world")


@pytest.fixture(autouse=True)
def a_part_per_case(monkeypatch):
    monkeypatch.setattr(store, "FLUSH_ROWS", 1)


def explain(world, out, *more):
    spec = f"python:{world.folder / 'mine.py'}:Mine,fingerprint=mine"
    return ["explain", "--detector", spec, "--data", world.data, "--out", out, "--pictures", "0", *more]


def said(result):
    """The one sentence of a refusal."""
    code, out, err = result
    assert (code, out) == (2, ""), result
    assert err.startswith("misdetect: "), err
    assert err.count("\n") == 1, err
    assert "fault in misdetect" not in err
    return err


def contents(run: Path):
    """Everything in a directory, links not followed."""
    found = {}
    for path in sorted(run.rglob("*")):
        if path.name != ".lock":
            found[str(path.relative_to(run))] = path.read_bytes() if path.is_file() else os.lstat(path).st_mode
    return found


class Whole:
    """A sound run with a case that failed first, and what is to be read from it."""

    def __init__(self, run, world, place):
        self.world, self.path = world, place / "whole"
        world.behave(fails_at=90)
        run(*explain(world, self.path, "--no-cache"))
        assert Run.open(self.path).failed() == {4, 5}
        world.behave(fails_at=100)
        run(*explain(world, self.path, "--no-cache", "--retry-failed"))
        world.behave()
        assert run(*explain(world, self.path, "--no-cache", "--retry-failed"))[0] == 0
        self.other, self.study = place / "other", place / "study"
        assert run(*explain(world, self.other, "--no-cache", "--loc", "0.6"))[0] == 0
        spec = f"python:{world.folder / 'mine.py'}:Mine,fingerprint=mine"
        import misdetect as md

        md.detect(spec, world.data, out=self.study)
        self.rows, self.document = self.read(run, self.path)
        assert len(self.rows) > 6

    @staticmethod
    def read(run, path):
        code, out, _ = run("show", path, "--json")
        assert code == 0
        opened = Run.open(path)
        assert opened.finished
        return opened.table().to_pylist(), {**json.loads(out), "out": ""}

    def victim(self, tmp_path) -> Victim:
        shutil.copytree(self.path, tmp_path / "run")
        return Victim(tmp_path / "run", self.other, self.study)


@pytest.fixture
def whole(place, world, run, request):
    if not hasattr(request.module, "_whole"):
        request.module._whole = Whole(run, world, place)
    return request.module._whole


def check_run(damage: Damage, whole: Whole, run, tmp_path):
    victim = whole.victim(tmp_path)
    damage.do(victim)
    line = explain(whole.world, victim.run, "--no-cache")
    shown, before = run("show", victim.run, "--json"), contents(victim.run)
    if damage.expected in (REFUSED, STUCK):
        again = said(run(*line))
        assert damage.says in again or damage.says in said(run("show", victim.run))
        assert contents(victim.run) == before, "what is refused is left as it is"
    if damage.expected == REFUSED:
        assert shown[0] == 2
        assert json.loads(shown[1])["error"]["message"]
    elif damage.expected == HARMLESS:
        assert shown[0] == 0
        assert {**json.loads(shown[1]), "out": ""} == whole.document
    elif damage.expected == REDONE and not victim.parts:
        assert "no case is done yet" in json.loads(shown[1])["error"]["message"]
    elif damage.expected == REDONE:
        assert shown[0] == 0
        assert not json.loads(shown[1])["finished"]
    elif damage.expected == RETRIED:
        assert [failure["image"] for failure in json.loads(shown[1])["failures"]] == ["5.png"]
        line += ["--retry-failed"]
        assert run(*line)[0] == 0
        assert whole.read(run, victim.run) == (whole.rows, whole.document)
    if damage.expected in (HARMLESS, REDONE):
        assert run(*line)[0] == 0
        assert whole.read(run, victim.run) == (whole.rows, whole.document)
    code, out, err = run(*line, "--repair")
    if damage.expected == STUCK:
        said((code, out, err))
        assert contents(victim.run) == before
        return
    assert (code, "Traceback" in err) == (0, False), err
    assert whole.read(run, victim.run) == (whole.rows, whole.document)
    assert sorted(Run.open(victim.run).done()) == list(range(6))
    asked = whole.world.asked
    assert run(*line)[0] == 0
    assert whole.world.asked == asked, "mended once and for all"
    if damage.expected == REFUSED and damage.name != "run-json-deleted":
        assert "went to" in err
        assert any((victim.run / "damaged").iterdir())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("damage", RUNS[::SAMPLE], ids=str)
def test_some_damage_to_a_run_is_named_and_mended(damage, whole, run, tmp_path):
    check_run(damage, whole, run, tmp_path)


@pytest.mark.heavy
@pytest.mark.parametrize("damage", [*RUNS, *random_damages(40)], ids=str)
def test_all_damage_to_a_run_is_named_and_mended(damage, whole, run, tmp_path):
    check_run(damage, whole, run, tmp_path)


def test_there_are_enough_of_them():
    assert len({damage.name for damage in RUNS}) == len(RUNS) >= 45
    assert len({damage.name for damage in CACHES}) == len(CACHES) >= 25


def test_the_sentence_says_which_cases_are_asked_again(whole, run, tmp_path):
    victim = whole.victim(tmp_path)
    for part in victim.parts[1:3]:
        part.write_bytes(b"")
    err = said(run(*explain(whole.world, victim.run)))
    assert "part-000002" in err
    assert "(and 1 more cannot be used)" in err
    assert "asks again about 2 cases (" in err
    asked = whole.world.asked
    code, out, err = run(*explain(whole.world, victim.run, "--no-cache", "--repair", "--json"))
    assert (code, json.loads(out)["engine"]["queries"], whole.world.asked - asked) == (0, 2, 2)
    assert err.startswith("note: part-000002")


@pytest.mark.parametrize("verb", [("ledger",), ("compare", "WHOLE"), ("replay", "CASE")])
def test_every_verb_that_reads_a_run_refuses_a_damaged_one(verb, whole, run, tmp_path):
    victim = whole.victim(tmp_path)
    victim.part.write_bytes(victim.part.read_bytes()[:-1])
    name, *more = verb
    more = [{"WHOLE": whole.path, "CASE": "0.png"}[word] for word in more]
    trust = ["--trust"] if name == "replay" else []
    assert "is damaged" in said(run(name, victim.run, *more, *trust))


def test_failed_cases_are_named_with_their_images(world, run, tmp_path):
    world.behave(fails_at=90)
    try:
        code, out, _ = run(*explain(world, tmp_path / "run", "--no-cache", "--json"))
    finally:
        world.behave()
    document = json.loads(out)
    assert (code, document["failed"]) == (0, 2)
    assert [failure["image"] for failure in document["failures"]] == ["4.png", "5.png"]
    assert all("luck" in failure["error"] for failure in document["failures"])


# Caches.


class Fresh:
    """What is found without a cache, and a cache that knows the answers."""

    def __init__(self, run, world, place):
        self.world, self.path = world, place / "cache" / "predictions.sqlite"
        out = place / "fresh"
        assert run(*explain(world, out, "--no-cache"))[0] == 0
        self.rows = Run.open(out).table().to_pylist()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MISDETECT_CACHE", str(self.path))
            assert run(*explain(world, place / "first"))[0] == 0
            asked = world.asked
            assert run(*explain(world, place / "second"))[0] == 0
            assert world.asked == asked, "it is used where it is sound"


@pytest.fixture
def fresh(place, world, run, request):
    if not hasattr(request.module, "_fresh"):
        request.module._fresh = Fresh(run, world, place)
    return request.module._fresh


def check_cache(damage, fresh, run, tmp_path, monkeypatch):
    monkeypatch.setattr("misdetect.engine.cache._PATIENCE", 0.1)
    folder = tmp_path / "cache"
    shutil.copytree(fresh.path.parent, folder)
    kept = Kept(folder / "predictions.sqlite")
    damage.do(kept)
    monkeypatch.setenv("MISDETECT_CACHE", str(kept.path))
    try:
        code, out, err = run(*explain(fresh.world, tmp_path / "run", "--json"))
    finally:
        kept.release()
    assert (code, "Traceback" in err) == (0, False), err
    assert Run.open(tmp_path / "run").table().to_pylist() == fresh.rows
    told = json.loads(out)["engine"]
    assert told["queries"] + told["cached"] == 6
    if damage.off is not None:
        assert ("prediction cache" in err and " is off" in err) == damage.off, err
    if damage.asked is not None:
        assert told["queries"] == damage.asked


@pytest.mark.parametrize("damage", CACHES[:: SAMPLE // 2], ids=str)
def test_some_damage_to_a_cache_changes_no_row(damage, fresh, run, tmp_path, monkeypatch):
    check_cache(damage, fresh, run, tmp_path, monkeypatch)


@pytest.mark.heavy
@pytest.mark.parametrize("damage", [*CACHES, *random_cache_damages(40)], ids=str)
def test_no_damage_to_a_cache_changes_a_row(damage, fresh, run, tmp_path, monkeypatch):
    check_cache(damage, fresh, run, tmp_path, monkeypatch)

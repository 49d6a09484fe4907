"""``misdetect detect`` from the outside: the same results whole, limited, cached, in parallel, interrupted, resumed."""

import json
import signal
import sys
import time

import pytest
from cli_world import finish, start

from misdetect.__main__ import ENDED


def listing(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def place(tmp_path):
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


def test_a_users_detector_of_a_few_lines_gives_coco_results(world, place, run):
    code, out, err = run(*world.detect(place / "r.json", "--json"))
    assert code == 0, err
    document = json.loads(out)
    assert json.loads((place / "r.json").read_text()) == world.expected
    assert (document["cases"], document["done"], document["failed"], document["detections"]) == (6, 6, 0, 6)
    assert document["engine"]["queries"] == world.asked == 6
    assert document["unknown_class"] == 6
    assert "6 detections of classes that the data does not have" in err
    assert listing(place) == ["r.json"]


def test_limit_asks_no_more_than_that(world, place, run):
    code, out, _ = run(*world.detect(place / "r.json", "--limit", "2", "--json"))
    assert (code, json.loads(out)["cases"], world.asked) == (0, 2, 2)
    assert json.loads((place / "r.json").read_text()) == world.expected[:2]


def test_the_second_run_asks_nothing_and_says_the_same(world, place, run):
    first = json.loads(run(*world.detect(place / "a.json", "--json", fingerprint="v1"))[1])
    second = json.loads(run(*world.detect(place / "b.json", "--json", fingerprint="v1"))[1])
    assert (first["engine"]["queries"], first["engine"]["cached"]) == (6, 0)
    assert (second["engine"]["queries"], second["engine"]["cached"]) == (0, 6)
    assert (place / "a.json").read_bytes() == (place / "b.json").read_bytes()
    assert {**first, "engine": 0, "out": 0, "timing": 0} == {**second, "engine": 0, "out": 0, "timing": 0}
    for more, fingerprint in ((["--no-cache"], "v1"), ([], "v2"), ([], "")):
        before = world.asked
        run(*world.detect(place / "c.json", *more, fingerprint=fingerprint))
        assert world.asked == before + 6
        assert (place / "c.json").read_bytes() == (place / "a.json").read_bytes()


@pytest.mark.heavy
def test_workers_and_batches_change_nothing(world, place, run):
    assert run(*world.detect(place / "a.json"))[0] == 0
    assert run(*world.detect(place / "b.json", "--batch", "5"))[0] == 0
    code, out, err = finish(start(*world.detect(place / "c.json", "--workers", "2", "--json")))
    assert code == 0, err
    assert json.loads(out)["engine"]["queries"] == 6
    assert (place / "a.json").read_bytes() == (place / "b.json").read_bytes() == (place / "c.json").read_bytes()
    assert listing(place) == ["a.json", "b.json", "c.json"]


def test_a_detector_that_always_fails_is_exit_code_3_and_leaves_nothing_behind(world, place, run):
    world.behave(fails_at=0)
    code, out, err = run(*world.detect(place / "r.json"))
    assert (code, out, listing(place)) == (3, "", [])
    assert err.count("\n") == 1
    assert "not one of 6 cases" in err
    assert "RuntimeError: out of [bold]luck[/nope]" in err
    code, out, _ = run(*world.detect(place / "r.json", "--json"))
    assert (code, json.loads(out)["error"]["kind"], listing(place)) == (3, "detector-failed", [])
    world.behave()  # once mended, the same command must not remember the failures
    assert run(*world.detect(place / "r.json"))[0] == 0
    assert json.loads((place / "r.json").read_text()) == world.expected


def test_images_on_which_the_detector_fails_are_counted_and_the_others_kept(world, place, run):
    world.behave(fails_at=100)  # the mean of the last image alone
    code, out, err = run(*world.detect(place / "r.json", "--json"))
    assert (code, json.loads(out)["failed"]) == (0, 1)
    assert "1 of 6 cases failed" in err
    assert "the first, 5.png: detector-failed" in err
    assert json.loads((place / "r.json").read_text()) == world.expected[:5]


def test_a_budget_stops_the_run_and_a_later_one_finishes_it(world, place, run):
    code, out, err = run(*world.detect(place / "r.json", "--queries", "4", "--json"))
    assert (code, json.loads(out)["stopped"], json.loads(out)["done"], world.asked) == (0, "budget", 4, 4)
    assert "2 cases are left" in err
    assert listing(place) == ["r.json.partial", "r.json.partial.budget"]
    assert run(*world.detect(place / "r.json", "--queries", "4"))[0] == 0
    assert world.asked == 4  # what was spent stays spent
    assert run(*world.detect(place / "r.json"))[0] == 0
    assert world.asked == 6
    assert json.loads((place / "r.json").read_text()) == world.expected
    assert listing(place) == ["r.json"]


@pytest.mark.heavy
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_so_by_its_exit_code_and_goes_on_where_it_stopped(world, place, run, number):
    hold = world.folder / "hold"  # the fourth image takes as long as this file exists
    hold.touch()
    process = start(*world.detect(place / "r.json", "--batch", "1", "--json"))
    deadline = time.monotonic() + 50
    while world.asked < 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(number)
    hold.unlink()
    code, out, err = finish(process)
    assert code == ENDED[number], err
    assert "Traceback" not in err
    assert json.loads(out)["error"]["kind"] == "interrupted"
    assert listing(place) == ["r.json.partial"]
    code, out, err = run(*world.detect(place / "r.json", "--batch", "1", "--json"))
    assert code == 0, err
    assert 2 <= json.loads(out)["engine"]["queries"] < 6  # at least the first was kept; two may be under way
    assert json.loads((place / "r.json").read_text()) == world.expected
    assert listing(place) == ["r.json"]


def test_an_edited_detector_does_not_go_on_with_the_old_ones_results(world, place, run):
    run(*world.detect(place / "r.json", "--queries", "2"))
    code = world.folder / "mine.py"
    code.write_text(code.read_text().replace("image.mean() / 255", "0.5"))
    for name in [n for n in sys.modules if n.startswith("misdetect_user_mine")]:
        del sys.modules[name]
    code, _, err = run(*world.detect(place / "r.json"))
    assert code == 2
    assert "holds another run (detector.fingerprint was" in err


def test_names_that_look_like_markup_are_printed_as_they_are(world, place, run):
    out = place / "[red]a[bold] :dog:.json"
    code, shown, _ = run(*world.detect(out))
    assert code == 0
    assert f"-> {out} (" in shown

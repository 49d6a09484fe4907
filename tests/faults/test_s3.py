"""The promises of a run, kept on a real S3 server: kills, two writers, a server that goes away, bad addresses."""

import json
import time
from pathlib import Path

import pytest
from s3_server import S3, kill

pytest.importorskip("s3fs")
pytest.importorskip("moto")
pytestmark = pytest.mark.heavy

TOY = Path(__file__).with_name("slow_toy.py")
IMAGES = 40
OUT = "s3://bucket/runs/run"
LINE = ("explain", "--data", f"rooms:val,count={IMAGES}", "--detector", f"python:{TOY}:Slow", "--pictures", "0")
LINE += ("--no-cache",)


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    server = S3(tmp_path_factory.mktemp("s3"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def bucket(s3, monkeypatch, tmp_path):
    """The empty bucket."""
    monkeypatch.setenv("SLOW_LOG", str(tmp_path / "asked"))
    (tmp_path / "asked").touch()
    store = s3.store()
    if store.exists("bucket/runs"):
        store.rm("bucket/runs", recursive=True)
    return store


def parts(store):
    return [path for path in store.find("bucket/runs") if "/part-" in path]


def rows(s3, machine="reader"):
    """The rows as another machine reads them."""
    found = s3.run(machine, "ledger", OUT, "--json", "--sql", "SELECT * EXCLUDE (run, replay) FROM ledger ORDER BY ALL")
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)["rows"]


@pytest.fixture(scope="module")
def expected(s3, tmp_path_factory):
    """The rows of a run in a local folder, and how many images it asked about."""
    out = tmp_path_factory.mktemp("local") / "run"
    log = str(out.with_name("asked"))
    made = s3.run("local", *LINE, "--out", out, SLOW_LOG=log, SLOW_SECONDS="0")
    assert made.returncode == 0, made.stderr
    line = ("ledger", out, "--json", "--sql", "SELECT * EXCLUDE (run, replay) FROM ledger ORDER BY ALL")
    return json.loads(s3.run("local", *line).stdout)["rows"], len(Path(log).read_text(encoding="utf-8").splitlines())


def until(condition, process=None):
    deadline = time.monotonic() + 120
    while not condition():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def asked(tmp_path):
    return len((tmp_path / "asked").read_text().splitlines())


@pytest.mark.parametrize("machine", ["same", "another"])
def test_killed_in_the_middle_it_goes_on(s3, bucket, tmp_path, expected, machine):
    begun = s3.begin("first", *LINE, "--out", OUT, "--queries", 500, SLOW_SECONDS="0.3")
    until(lambda: len(parts(bucket)) >= 1 and asked(tmp_path) >= 5, begun)
    kill(begun)
    before = asked(tmp_path)
    goes_on = "first" if machine == "same" else "second"
    if machine == "another":
        busy = s3.run("second", *LINE, "--out", OUT, "--queries", 500, SLOW_SECONDS="0")
        assert (busy.returncode, "is being written by process" in busy.stderr) == (2, True), busy.stderr
        assert asked(tmp_path) == before
        time.sleep(62)
    again = s3.run(goes_on, *LINE, "--out", OUT, "--queries", 500, "--json", SLOW_SECONDS="0")
    assert again.returncode == 0, again.stderr
    assert rows(s3) == expected[0]
    # answers that had come are not asked for again: no more than the one that was on its way
    assert asked(tmp_path) <= expected[1] + 1
    assert json.loads(again.stdout)["finished"]
    assert not [path for path in bucket.find("bucket/runs") if ".answers" in path or ".writing" in path]


def test_the_second_of_two_writers_is_refused(s3, bucket, tmp_path, expected):
    begun = s3.begin("first", *LINE, "--out", OUT, SLOW_SECONDS="2")
    until(lambda: parts(bucket), begun)
    for machine in ("first", "second"):
        second = s3.run(machine, *LINE, "--out", OUT, SLOW_SECONDS="0")
        assert (second.returncode, second.stderr.count("\n")) == (2, 1), second.stderr
        assert f"{OUT} is being written by" in second.stderr
    _, err = begun.communicate(timeout=300)
    assert begun.returncode == 0, err
    assert rows(s3) == expected[0]


def test_a_server_that_goes_away_is_one_sentence(s3, tmp_path, monkeypatch):
    """moto forgets all when it ends, so that this server is not the others'."""
    own = S3(tmp_path)
    monkeypatch.setenv("SLOW_LOG", str(tmp_path / "asked"))
    own.start()
    try:
        store = own.store()
        begun = own.begin("first", *LINE, "--out", OUT, SLOW_SECONDS="0.3")
        until(lambda: parts(store), begun)
        own.stop()
        _, err = begun.communicate(timeout=300)
        assert begun.returncode == 2, err
        assert err.count("cannot be") == 1
        assert "Traceback" not in err
        own.start()
        own.store()
        again = own.run("second", *LINE, "--out", OUT, SLOW_SECONDS="0")
        assert again.returncode == 0, again.stderr
    finally:
        own.stop()


@pytest.mark.parametrize(
    ("out", "more", "complaint"),
    [
        ("s3://nowhere/run/a", {}, "The specified bucket does not exist"),
        ("s3://bucket", {}, "is a whole bucket"),
        ("s3://bucket/runs/a", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "Could not connect"),
    ],
)
def test_addresses_that_lead_nowhere(s3, bucket, tmp_path, out, more, complaint):
    found = s3.run("other", *LINE, "--out", out, **more)
    assert (found.returncode, found.stderr.count("\n")) == (2, 1), found.stderr
    assert complaint in found.stderr
    assert asked(tmp_path) == 0


def test_keys_that_are_not_known(tmp_path):
    own = S3(tmp_path)
    own.start(INITIAL_NO_AUTH_ACTION_COUNT="0")
    try:
        found = own.run("first", "show", "s3://bucket/runs/a")
    finally:
        own.stop()
    assert (found.returncode, found.stderr.count("\n")) == (2, 1), found.stderr
    assert "s3://bucket/runs/a cannot be listed" in found.stderr


def test_data_in_a_bucket(s3, bucket, tmp_path):
    made = s3.run("first", "data", "rooms:val,count=3", "--out", tmp_path / "coco")
    assert made.returncode == 0, made.stderr
    bucket.put(str(tmp_path / "coco"), "bucket/data/coco", recursive=True)
    found = {}
    for where in (tmp_path, "s3://bucket/data"):
        spec = f"coco:{where}/coco/instances.json"
        line = ("explain", "--detector", f"glassbox:sink,data={spec}", "--data", spec, "--pictures", "1", "--json")
        ended = s3.run("first", *line, "--out", f"{OUT}-{len(found)}", "--workers", 2 - len(found))
        assert ended.returncode == 0, ended.stderr
        document = json.loads(ended.stdout)
        found[where] = {key: document[key] for key in ("cases", "done", "failed", "miss_rate", "mechanisms")}
    assert found[tmp_path] == found["s3://bucket/data"]
    assert [path for path in bucket.find("bucket/runs") if path.endswith(".png")]

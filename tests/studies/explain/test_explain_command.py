"""``misdetect explain`` as a command: its keys, that it resumes, its pictures, and what it says of a black box."""

import json

import cv2
import pytest

KEYS = {
    "objects",
    "missed",
    "miss_rate",
    "mechanisms",
    "reasons",
    "tide",
    "sankey",
    "potential",
    "by_class",
    "settings",
}


@pytest.fixture
def command(run):
    """``command(*arguments)``: ``misdetect explain`` with them."""
    return lambda *arguments: run("explain", *arguments)


GLASS = "glassbox:sink/rate=.3+misrank/rate=.4,data=rooms:val"


def test_the_document_the_resumed_run_and_the_pictures(command, tmp_path):
    common = ("--detector", GLASS, "--data", "rooms:val", "--limit", 8, "--out", tmp_path / "run")
    code, out, _ = command(*common, "--json")
    document = json.loads(out)
    assert code == 0
    assert set(document) >= KEYS
    assert document["missed"] == sum(document["mechanisms"].values()) > 5
    assert document["mechanisms"]["background"] > 0 < document["mechanisms"]["discarded"]
    assert document["reasons"]["discarded"] == {"suppressed": document["mechanisms"]["discarded"]}
    assert document["settings"]["loc"] == 0.5
    assert document["settings"]["cls"] == 0.3
    again = json.loads(command(*common, "--json")[1])
    assert again["engine"]["queries"] == 0, "everything was there"
    assert {k: again[k] for k in KEYS} == {k: document[k] for k in KEYS}
    drawn = {path.rsplit("/", 1)[1]: path for path in document["pictures"]}
    assert set(drawn) == {"mechanisms.png", "background.png", "discarded.png"}
    # the fixed colour code is on the evidence: truth green, suppressor red
    pixels = cv2.imread(drawn["discarded.png"])[:, :, ::-1].reshape(-1, 3)
    for paint in ((30, 150, 70), (230, 140, 20), (40, 120, 220), (230, 60, 60)):
        assert (pixels == paint).all(axis=1).sum() > 200
    code, out, _ = command(*common)
    assert code == 0
    assert "objects missed" in out
    assert f"{document['mechanisms']['discarded']} suppressed" in out


@pytest.mark.heavy
def test_a_black_box_gets_less_and_says_so(command, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(
        "class Mine:\n"
        "    names = ['cup', 'ball']\n"
        "    def detect(self, images):\n"
        "        return [([[1, 2, 60, 62]], [0.9], [0]) for image in images]\n"
    )
    common = ("--detector", f"python:{mine}:Mine", "--data", "rooms:val", "--limit", 4)
    code, out, err = command(*common, "--out", tmp_path / "a", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["mechanisms"]["unknown"] > 0
    assert not document["settings"]["inside"]
    assert "cannot be looked into" in err
    assert document["ignored"]["unknown-class"] > 0
    code, out, _ = command(*common, "--out", tmp_path / "b", "--inside", "--json")
    assert code == 2
    assert "needs a detector that looks inside (Traced)" in json.loads(out)["error"]["message"]


@pytest.mark.parametrize("option", ["--loc", "--cls", "--score"])
def test_a_threshold_out_of_range_is_refused(command, tmp_path, option):
    code, out, _ = command("--detector", GLASS, "--data", "rooms:val", "--out", tmp_path / "r", option, 1.5, "--json")
    assert code == 2
    assert f"{option[2:]} should be from 0 to 1" in json.loads(out)["error"]["message"]
    assert not (tmp_path / "r").exists()

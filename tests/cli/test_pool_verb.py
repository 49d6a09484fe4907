"""``misdetect pool`` from the outside: what it writes is what it says, and bad input leaves nothing behind."""

import json

import numpy as np
import pytest
from PIL import Image

import misdetect as md
from misdetect.data import load_data
from misdetect.pools.pool import build_pool, load_pool

ROOMS = "rooms:val,count=25"
KEYS = {"objects", "labels", "extracted", "dropped", "settings", "out", "fingerprint"}

SEGMENTER = '''
import numpy as np

class Middle:
    """Sees one thing in the middle of every image."""
    names = ["thing"]
    def __init__(self, masks="yes"):
        self.masks = masks == "yes"
    def detect(self, images):
        found = []
        for image in images:
            mask = np.zeros((1, *image.shape[:2]), dtype=bool)
            mask[0, 4:-4, 5:-5] = True
            answer = {"boxes": [[5, 4, image.shape[1] - 5, image.shape[0] - 4]], "scores": [0.5], "labels": [0]}
            found.append({**answer, "masks": mask} if self.masks else answer)
        return found
'''


@pytest.fixture
def middle(world):
    (world.folder / "middle.py").write_text(SEGMENTER)
    return f"python:{world.folder / 'middle.py'}:Middle"


def pool(run, *arguments):
    code, out, err = run("pool", *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def test_the_document_the_folder_and_the_library_agree(run, tmp_path):
    document = pool(run, "--data", ROOMS, "--out", tmp_path / "p")
    stored, built = load_pool(tmp_path / "p"), build_pool(load_data(ROOMS))
    assert set(document) == KEYS
    assert document["fingerprint"] == stored.fingerprint == built.fingerprint
    assert document["objects"] == len(stored) == sum(document["labels"].values())
    assert document["extracted"] == document["objects"] + sum(document["dropped"].values())
    assert document["labels"] == {label: len(places) for label, places in stored.by_label.items()}
    assert document["settings"]["refinement"]["keep"] == 0.1
    assert document["out"] == str(tmp_path / "p")
    with Image.open(tmp_path / "p" / "pool.png") as sheet:
        assert np.asarray(sheet).std() > 10
    again = pool(run, "--data", ROOMS, "--out", tmp_path / "q")
    assert {**again, "out": document["out"]} == document
    assert (tmp_path / "q" / "pool.json").read_bytes() == (tmp_path / "p" / "pool.json").read_bytes()


@pytest.mark.heavy
def test_python_builds_what_the_verb_does(run, tmp_path):
    """Without a folder nothing is kept; data may be a spec, a data set, or pairs."""
    document = pool(run, "--data", ROOMS, "--keep", 0.5, "--few", 2, "--out", tmp_path / "p")
    seen = []
    built = md.pool(ROOMS, keep=0.5, few=2, progress=lambda *counts: seen.append(counts))
    assert (built.fingerprint, built.extracted) == (document["fingerprint"], document["extracted"])
    assert seen == [(done, 25) for done in range(1, 26)]
    stored = md.pool(load_data(ROOMS), keep=0.5, few=2, out=tmp_path / "q")
    assert (stored.found_at, stored.fingerprint) == (str(tmp_path / "q"), built.fingerprint)
    assert load_pool(tmp_path / "q").fingerprint == built.fingerprint
    pairs = [(sample.image, sample.truth) for sample in load_data(ROOMS)]
    named = load_data(pairs, load_data(ROOMS).names)
    assert [cutout.label for cutout in md.pool(named, keep=0.5, few=2)] == [cutout.label for cutout in built]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p", "q"]


@pytest.mark.heavy
def test_every_criterion_can_be_set(run, tmp_path):
    loosest = {"keep": 1, "few": 0, "component": 1, "border": 0, "solidity": 0, "max_side": 1, "min_side": 0}
    everything = [word for name, v in loosest.items() for word in (f"--{name.replace('_', '-')}", str(v))]
    document = pool(run, "--data", ROOMS, "--out", tmp_path / "p", *everything)
    assert document["objects"] == document["extracted"]
    assert document["settings"]["refinement"] == loosest
    fewer = pool(run, "--data", ROOMS, "--out", tmp_path / "q", *everything, "--limit", "5")
    assert fewer["extracted"] < document["extracted"]


def test_what_was_dropped_is_told_to_people_too(run, tmp_path):
    code, shown, _ = run("pool", "--data", ROOMS, "--out", tmp_path / "p")
    assert code == 0
    document = json.loads((tmp_path / "p" / "pool.json").read_text())
    assert f"{len(document['objects'])} of {document['extracted']} objects kept" in shown
    for criterion, count in document["dropped"].items():
        assert f"{count} " in next(line for line in shown.splitlines() if f"--{criterion.replace('_', '-')})" in line)


def test_a_users_segmenter_cuts_objects_out_of_data_without_masks(run, world, middle, tmp_path):
    some = ["--data", world.data, "--max-side", "1", "--min-side", "10", "--keep", "1"]
    document = pool(run, *some, "--segmenter", middle, "--out", tmp_path / "p")
    assert document["labels"] == {"thing": 6}
    assert document["settings"]["segmenter"] == middle
    assert [cutout.size for cutout in load_pool(tmp_path / "p")] == [(22, 16)] * 6
    code, _, err = run("pool", *some, "--segmenter", middle, "--score", "0.6", "--out", tmp_path / "q")
    assert (code, err.count("\n")) == (2, 1)
    assert "finds nothing with a score of 0.6" in err


def test_bad_input_is_one_sentence_and_leaves_nothing(run, world, middle, tmp_path):
    def refused(*arguments):
        code, out, err = run("pool", *arguments, "--out", tmp_path / "p")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert not (tmp_path / "p").exists()
        return err

    assert "has a mask to cut it out by" in refused("--data", world.data)
    assert "returns boxes only" in refused("--data", world.data, "--segmenter", f"{middle},masks=no")
    assert "passes the refinement" in refused("--data", ROOMS, "--min-side", "127")
    assert "keep should be from 0 to 1" in refused("--data", ROOMS, "--keep", "2")
    (world.folder / "empty.json").write_text('{"images": [], "annotations": [], "categories": []}')
    assert "no images" in refused("--data", f"coco:{world.folder / 'empty.json'}")
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "mine").write_text("precious")
    code, _, err = run("pool", "--data", ROOMS, "--out", tmp_path / "p")
    assert code == 2
    assert "not empty" in err
    assert [path.name for path in (tmp_path / "p").iterdir()] == ["mine"]

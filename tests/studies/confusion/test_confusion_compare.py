"""Confusion runs side by side: what was planted between them is the difference, and the same images are drawn."""

from collections import Counter

import numpy as np
import pytest

import misdetect as md
from misdetect.studies.confusion.compare import changed_cells, difference
from misdetect.studies.objects import Common, Judged

DATA = "rooms:val,count=30"
SPEC = "glassbox:{},data=" + DATA


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    faults = {"whole": "none", "renamed": "other-class/class=chair/to=cup", "sunk": "sink/class=chair,lamp"}
    return {name: md.confusion(SPEC.format(fault), DATA, out=folder / name) for name, fault in faults.items()}


def test_what_was_planted_is_the_difference(runs):
    document = md.compare(*runs.values()).document
    assert document["paired"]
    assert document["objects"] == [document["objects"][0]] * 3
    hit = runs["renamed"].document["outcomes"]["confused"]
    total = document["objects"][0]
    assert hit > 10
    first = document["differences"][0]
    assert (first["first"], first["second"]) == ("whole", "renamed")
    assert first["outcomes"]["confused"]["difference"] == pytest.approx(hit / total)
    assert first["outcomes"]["right"]["difference"] == pytest.approx(-hit / total)
    low, high = first["outcomes"]["confused"]["interval"]
    assert 0 < low < hit / total < high
    assert first["outcomes"]["confused"]["certain"]
    assert not first["outcomes"]["missed"]["certain"]
    assert sorted(first["flow"]) == [["right", "confused", hit], ["right", "right", total - hit]]
    assert first["p"] == pytest.approx(2 * 0.5**hit)
    cells = {(cell["actual"], cell["predicted"]): cell["counts"] for cell in document["cells"]}
    assert cells["chair", "cup"] == [0, hit, 0]
    assert (document["outcomes"]["missed"][0], document["outcomes"]["missed"][1]) == (0, 0) < (0, 1)


def test_the_flow_is_that_of_the_rows_and_turned_around_it_is_its_mirror(runs):
    there = md.compare(runs["renamed"], runs["sunk"]).document["differences"][0]
    back = md.compare(runs["sunk"], runs["renamed"]).document["differences"][0]
    told = [
        {(row["image"], row["id"]): row["outcome"] for row in runs[name].rows().to_pylist() if row["kind"] == "object"}
        for name in ("renamed", "sunk")
    ]
    expected = Counter((told[0][key], told[1][key]) for key in told[0])
    assert {(a, b): n for a, b, n in there["flow"]} == expected
    assert {(b, a): n for a, b, n in back["flow"]} == expected
    for name, each in there["outcomes"].items():
        low, high = back["outcomes"][name]["interval"]
        assert each["interval"] == pytest.approx([-high, -low])
    assert there["p"] == back["p"]


def test_other_rules_are_named_and_the_command_shows_it(runs, run, tmp_path):
    other = md.confusion(SPEC.format("none"), DATA, iou=0.6, out=tmp_path / "other")
    document = md.compare(runs["whole"], other).document
    assert not document["paired"]
    assert any("different rules: iou" in why for why in document["why_not_paired"])
    code, out, _ = run("compare", runs["whole"].path, runs["renamed"].path)
    assert code == 0
    assert "Paired" in out
    assert f"-{100 * runs['renamed'].document['outcomes']['confused'] / runs['renamed'].document['objects']:.1f}" in out


OUTCOMES = ("right", "confused", "background", "missed")


def judged(images, seed, shift=0.0):
    """Made-up outcomes of up to four objects on each of ``images``."""
    world, rng = np.random.default_rng(9), np.random.default_rng(seed)
    keys = [(f"i{i}", k) for i in range(images) for k in range(int(world.integers(1, 5)))]
    outcome = np.array(rng.choice(OUTCOMES, len(keys), p=[0.55 - 0.15 * seed, 0.15, 0.15, 0.15 + 0.15 * seed]), object)
    return Judged(keys, np.arange(4.0 * len(keys)).reshape(-1, 4) + shift, outcome, {}, {})


def drawn(run, seed):
    """By outcome the share in every resample of images."""
    images = list(dict.fromkeys(image for image, _ in run.keys))
    draws = np.random.default_rng(seed).multinomial(len(images), [1 / len(images)] * len(images), size=1000)
    weights = draws[:, [images.index(image) for image, _ in run.keys]]
    return {name: (weights * (run.fate == name)).sum(axis=1) / weights.sum(axis=1) for name in OUTCOMES}


@pytest.mark.parametrize("shift", [0.0, 50.0], ids=["same objects", "other objects"])
def test_differences_are_those_of_drawing_images_again(shift):
    """The same images for both where the objects are the same, else others for the second."""
    a, b = judged(30, 0), judged(30, 1, shift)
    found = difference(a, b, Common.of(a, b), confidence=0.8, seed=4)
    first, second = drawn(a, 4), drawn(b, 4 if not shift else 5)
    for name in OUTCOMES:
        told, shares = found["outcomes"][name], [float((run.fate == name).mean()) for run in (a, b)]
        assert [told["first"], told["second"]] == pytest.approx(shares)
        assert told["difference"] == pytest.approx(shares[1] - shares[0])
        ends = np.quantile(second[name] - first[name], [0.1, 0.9])
        assert told["interval"] == pytest.approx(ends.tolist())
        assert told["certain"] == (ends[0] > 0 or ends[1] < 0)
    assert {told["certain"] for told in found["outcomes"].values()} == {True, False}
    assert found["same_images"] == (not shift)
    counted = Counter(zip(a.fate, b.fate, strict=True))
    if shift:
        assert (found["flow"], found["p"]) == (None, None)
    else:
        assert {(x, y): n for x, y, n in found["flow"]} == counted
        numbers = [n for *_, n in found["flow"]]
        assert numbers == sorted(numbers, reverse=True)
    nothing = Judged([], np.zeros((0, 4)), np.array([], dtype=object), {}, {})
    assert difference(a, nothing, Common.of(a, nothing))["outcomes"] == {}
    assert difference(nothing, a, Common.of(nothing, a))["outcomes"] == {}


def test_cells_that_differ_most_come_first():
    rng = np.random.default_rng(0)
    tables = [rng.integers(0, 6, (7, 7)) for _ in range(3)]
    labels = [*"abcdef", "background"]

    def run(counts, named=labels):
        return {"labels": named, "counts": counts.tolist()}

    cells = changed_cells([run(table) for table in tables])
    spread = {(a, b): max(t[a, b] for t in tables) - min(t[a, b] for t in tables) for a in range(7) for b in range(7)}
    wanted = sorted((cell for cell in spread if spread[cell]), key=lambda cell: (-spread[cell], cell))[:20]
    assert [(each["actual"], each["predicted"]) for each in cells] == [(labels[a], labels[b]) for a, b in wanted]
    assert [each["counts"] for each in cells] == [[t[cell] for t in tables] for cell in wanted]
    assert changed_cells([run(tables[0]), run(tables[0])]) == []
    assert changed_cells([run(tables[0]), run(tables[1], [*"abcdeg", "background"])]) == []

"""How scans, campaigns, attacks and verifications differ: rates and intervals computed again in plain loops, over the
images that both runs saw; and which failures are fixed, new and common, out of two ledgers."""

import json
from collections import defaultdict

import numpy as np
import pytest
from attack_toys import Tiles
from attack_toys import data as tiles
from verify_toys import BOXES, Told, sample
from verify_toys import data as parts

import misdetect as md
from misdetect.data.memory import from_pairs
from misdetect.nouns.boxes import iou

ROOMS = "rooms:val,size=96,count=8"
CONFIDENCE, SEED = 0.8, 3


def drawn(images, repeats):
    """How often each of ``images`` is drawn, in each resample."""
    return np.random.default_rng(SEED).multinomial(images, [1 / images] * images, size=repeats).tolist()


def ends(first, second):
    """The interval of the difference of two lists of rates; those that cannot be told are left out."""
    known = [b - a for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    return np.quantile(known, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]).tolist()


def share(hits, among, weights, scale=1.0):
    """Σ hits / Σ among, where image i counts ``weights[i]`` times."""
    below = sum(w * n for w, n in zip(weights, among, strict=True))
    return scale * sum(w * n for w, n in zip(weights, hits, strict=True)) / below if below else None


def agrees(told, hits, among, repeats, scale=1.0):
    """``hits`` and ``among``: for each of two runs the counts of each image."""
    images = len(hits[0])
    first, second = (share(h, a, [1] * images, scale) for h, a in zip(hits, among, strict=True))
    assert (told["first"], told["second"]) == pytest.approx((first, second))
    assert told["difference"] == pytest.approx(second - first)
    samples = [
        [share(h, a, weights, scale) for weights in drawn(images, repeats)] for h, a in zip(hits, among, strict=True)
    ]
    low, high = ends(*samples)
    assert told["interval"] == pytest.approx([low, high])
    assert told["certain"] == (low > 0 or high < 0)


def compared(*runs):
    document = md.compare(*runs, confidence=CONFIDENCE, seed=SEED).document
    assert document["paired"], document["why_not_paired"]
    (found,) = document["differences"]
    return document, found


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    """``sound`` and ``frail`` scan the same pairs, ``fewer`` some of them, ``strict`` by another score."""
    folder = tmp_path_factory.mktemp("scans")
    frail = "glassbox:vanish-near/distance=30,data=" + ROOMS

    def scan(name, spec, **settings):
        return md.scan(spec, ROOMS, out=folder / name, **{"pairs": 5, "step": 24, **settings})

    return {
        "sound": scan("sound", f"glassbox:none,data={ROOMS}"),
        "frail": scan("frail", frail),
        "fewer": scan("fewer", frail, pairs=3, step=32),
        "strict": scan("strict", frail, score=0.6),
    }


def positions(run):
    """The rows by pair (background, source, annotation) and condition."""
    found = defaultdict(list)
    for row in run.rows().to_pylist():
        if row["before"]:
            found[(row["background"], row["source"], row["annotation"]), row["condition"]].append(row)
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("other", ["frail", "fewer"])
def test_scans_differ_as_their_positions_do_on_the_pairs_that_both_have(scans, other):
    document, found = compared(scans["sound"], scans[other])
    tables = [positions(scans[name]) for name in ("sound", other)]
    pairs = sorted({key for key, _ in tables[0]} & {key for key, _ in tables[1]})
    images = sorted({key[0] for key in pairs})
    alone = [len({key for key, _ in table}) - len(pairs) for table in tables]
    assert (found["pairs"], found["images"], found["left_out"]) == (len(pairs), len(images), alone)
    assert len(pairs) == (5 if other == "frail" else 3)
    assert [f"{alone[0]} are only in sound" in note for note in document["notes"]] == [True] * any(alone)

    def counts(table, condition, hit, among=lambda row: True):
        rows = [[row for key in pairs if key[0] == image for row in table[key, condition]] for image in images]
        return [sum(hit(r) and among(r) for r in of) for of in rows], [sum(map(among, of)) for of in rows]

    def harmed(row):
        return any(each["harm"] == "harmful" and not each["flicker"] for each in [*row["objects"], *row["new"]])

    for key, hit, among in (
        (("affected", "0.5"), lambda row: row["score"] < 0.5, lambda row: True),
        (("affected", "0.95"), lambda row: row["score"] < 0.95, lambda row: True),
        (("no_occlusion", "0.95"), lambda row: row["score"] < 0.95, lambda row: row["coverage"] == 0),
        (("scene", "0.7"), lambda row: row["scene"] < 0.7, lambda row: True),
        (("harm",), harmed, lambda row: True),
    ):
        told = found
        for name in key:
            told = told[name]
        hits, below = zip(*(counts(table, "object", hit, among) for table in tables), strict=True)
        agrees(told, hits, below, 2000, 100)
    null = [counts(table, "control", harmed) for table in tables]
    real = [counts(table, "object", harmed) for table in tables]
    beyond = [
        share(*of, [1] * len(images), 100) - share(*control, [1] * len(images), 100)
        for of, control in zip(real, null, strict=True)
    ]
    assert found["beyond_control"]["harm"]["difference"] == pytest.approx(beyond[1] - beyond[0])
    assert found["harm"]["certain"], "the fault that was planted is found again"
    assert md.check(document, "harm rises")[0].failed
    assert not md.check(document, "affected[0.5] falls")[0].failed


@pytest.mark.heavy
def test_scans_by_other_rules_are_not_paired(scans):
    document = md.compare(scans["sound"], scans["strict"]).document
    assert (document["paired"], document["differences"]) == (False, [])
    assert document["why_not_paired"] == ["sound and strict differ in score"]


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    more = {"queries": 120, "strategy": "guided", "reach": 2, "relocate": False}
    return [
        md.fuzz(f"glassbox:{fault},data={ROOMS}", ROOMS, out=folder / name, backgrounds=count, **more)
        for name, fault, count in (("sound", "none", 8), ("frail", "vanish-near/distance=30", 6))
    ]


@pytest.mark.heavy
def test_campaigns_differ_as_their_rows_do_on_the_backgrounds_that_both_have(campaigns):
    _, found = compared(*campaigns)
    rows = [run.rows().to_pylist() for run in campaigns]
    clean = [[row["image"] for row in table if row["phase"] == "clean"] for table in rows]
    images = [image for image in clean[0] if image in clean[1]]
    assert (found["images"], found["left_out"]) == (len(images), [len(own) - len(images) for own in clean])
    assert found["left_out"] != [0, 0]

    def per_image(table, count):
        return [sum(count(row) for row in table if row["image"] == image) for image in images]

    def asked(row):
        return row["phase"] == "insertion" and row["failed"] is not None

    def fails(row):
        return asked(row) and any(c["counts"] and not c["flickers"] for c in row["changes"] or ())

    agrees(found["failure_rate"], *([per_image(t, f) for t in rows] for f in (fails, asked)), 2000)
    distinct = [
        [sum(d["image"] == image and d["attributable"] for d in run.document["distinct"]) for image in images]
        for run in campaigns
    ]
    queries = [per_image(table, lambda row: row["queries"]) for table in rows]
    agrees(found["attributable_per_1000"], distinct, queries, 2000, 1000)


class Bolder(Tiles):
    """The same tiles, a steeper score."""

    fingerprint, slope_scale = "bolder", 5.0


@pytest.fixture(scope="module")
def attacks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attack")
    more = {"steps": 8, "ladder": 2, "transfer": "none", "eps": 23}
    return [
        md.attack(model, tiles(5), limit=limit, cache=False, out=folder / name, **more)
        for name, model, limit in (("plain", Tiles(), None), ("bolder", Bolder(), 4))
    ]


def ap50(truths, found):
    """The mean over classes of the 101-point AP at an IoU of one half, in loops. ``truths``: (image, label, box),
    ``found``: (image, label, box, score); an image that is drawn twice is two images."""
    values = []
    for label in sorted({label for _, label, _ in truths}):
        objects = [(image, box) for image, own, box in truths if own == label]
        taken, hits, curve = set(), 0, []
        mine = sorted((each for each in found if each[1] == label), key=lambda each: -each[3])
        for count, (image, _, box, _) in enumerate(mine, start=1):
            overlaps = [
                (float(iou([box], [other])[0, 0]), i)
                for i, (where, other) in enumerate(objects)
                if where == image and i not in taken
            ]
            if overlaps and max(overlaps)[0] >= 0.5:
                taken.add(max(overlaps)[1])
                hits += 1
            curve.append((hits, hits / count))
        recalls = [max([p for h, p in curve if h * 100 >= r * len(objects) - 1e-9], default=0.0) for r in range(101)]
        values.append(sum(recalls) / 101)
    return sum(values) / len(values) if values else None


def precision(table, images, condition, weights):
    """AP50 of the rows of ``condition``, where ``images[i]`` counts ``weights[i]`` times."""
    copies = [(image, copy) for image, n in zip(images, weights, strict=True) for copy in range(n)]
    own = defaultdict(list)
    for row in table:
        if row["condition"] == condition and (row["kind"] == "object" or row["variant"] == "vanilla"):
            row["box"] = [row[side] for side in ("x0", "y0", "x1", "y1")]
            own[row["image"], row["kind"]].append(row)
    truths = [(c, r["label"], r["box"]) for c in copies for r in own[c[0], "object"]]
    return ap50(truths, [(c, r["label"], r["box"], r["score"]) for c in copies for r in own[c[0], "detection"]])


@pytest.mark.heavy
def test_the_fall_under_attack_is_that_of_the_same_images_drawn_again(attacks):
    table = attacks[0].rows().to_pylist()
    images = list(dict.fromkeys(row["image"] for row in table))
    found = attacks[0].document["attacks"]["loc"]
    draws = np.random.default_rng(0).multinomial(5, [1 / 5] * 5, size=400).tolist()
    falls = {
        weights: precision(table, images, "clean", weights) - precision(table, images, "loc", weights)
        for weights in {*map(tuple, draws), (1,) * 5}
    }
    assert found["fall"] == pytest.approx(falls[(1,) * 5])
    assert found["fall"] > 0
    wanted = np.quantile([falls[tuple(weights)] for weights in draws], [0.05, 0.95])
    assert found["intervals"]["fall"] == pytest.approx(wanted.tolist())


def test_attacks_differ_as_the_same_images_drawn_again_do(attacks):
    document, found = compared(*attacks)
    tables = [run.rows().to_pylist() for run in attacks]
    images = list(dict.fromkeys(row["image"] for row in tables[1]))
    assert (found["images"], found["left_out"]) == (4, [1, 0])
    for condition in ("clean", "cls", "loc"):
        told = (found if condition == "clean" else found["attacks"])[condition]["AP50"]
        for i, table in enumerate(tables):
            assert told[("first", "second")[i]] == pytest.approx(precision(table, images, condition, [1] * 4))
        draws = [tuple(weights) for weights in drawn(4, 400)]  # few differ, with four images
        known = [{weights: precision(table, images, condition, weights) for weights in set(draws)} for table in tables]
        assert told["interval"] == pytest.approx(ends(*([own[weights] for weights in draws] for own in known)))
    for name, told in found["attacks"].items():
        if name == "mtd":
            continue

        def counts(table, hit, name=name):
            rows = [row for row in table if row["condition"] == name and row["kind"] == "object"]
            return [sum(bool(hit(row)) for row in rows if row["image"] == image) for image in images]

        lost = [counts(table, lambda row: row["right"] and not row["found"]) for table in tables]
        agrees(told["success"], lost, [counts(table, lambda row: row["right"]) for table in tables], 400)
    assert 0 < found["attacks"]["cls"]["success"]["first"] < 1
    assert md.check(document, "cls.success falls by 0.99")[0].failed is False


def verified(answers, folder, **settings):
    return md.verify(Told(answers), parts(), cache=False, out=folder, context=False, **settings)


@pytest.mark.heavy
def test_verifications_differ_as_their_parts_do_on_the_images_that_both_have(tmp_path):
    every = [(BOXES, [0.9, 0.8, 0.7], [0, 1, 2])] * 4
    some = [(BOXES[:2], [0.9, 0.8], [0, 1]), (BOXES[2:], [0.7], [2]), ((), (), ()), (BOXES[:1], [0.9], [0])]
    runs = [verified(every, tmp_path / "every"), verified(some, tmp_path / "some", limit=3)]
    document, found = compared(*runs)
    assert (found["images"], found["left_out"]) == (3, [1, 0])
    assert "1 are only in every" in document["notes"][0]
    images = ["p0", "p1", "p2"]
    tables = [run.rows().to_pylist() for run in runs]

    def counts(table, missing, detected):
        found = []
        for image in images:
            own = [row for row in table if row["image"] == image]
            said = {row["label"] for row in own if row["kind"] == "detection" and row["score"] >= 0.5}
            of = [row for row in own if row["kind"] == "part" and row["missing"] == missing]
            found.append(sum(row["label"] in said or not detected for row in of))
        return found

    for name, missing in (("present_recall", False), ("missing_recall", True)):
        hits, among = ([counts(table, missing, detected) for table in tables] for detected in (True, False))
        agrees(found["without_localisation"][name], hits, among, 2000)

    def f_vv(table, weights):
        present, ghosts = (
            share(counts(table, missing, True), counts(table, missing, False), weights) for missing in (False, True)
        )
        if present is None or ghosts is None:
            return None
        seen = 1 - ghosts
        below = 0.1**2 * seen + present
        return (1 + 0.1**2) * present * seen / below if below else 0.0

    told = found["without_localisation"]["f_vv"]
    assert (told["first"], told["second"]) == pytest.approx(tuple(f_vv(table, [1, 1, 1]) for table in tables))
    samples = [[f_vv(table, weights) for weights in drawn(3, 2000)] for table in tables]
    assert told["interval"] == pytest.approx(ends(*samples))


def test_other_parts_are_not_compared(tmp_path):
    nothing = [((), (), ())] * 4
    one = verified(nothing, tmp_path / "one")
    moved = parts(make=lambda i: sample(i, boxes=BOXES + 3))
    two = md.verify(Told(nothing), moved, cache=False, out=tmp_path / "two", context=False)
    assert md.compare(one, two).document["why_not_paired"] == ["one and two did not verify the same parts"]


def failing(run):
    """Failures by image, condition and object, and the objects that are judged, in a loop over the ledger."""
    bad, judged, extras = set(), set(), []
    for row in run.ledger().to_pylist():
        attack = json.loads(row["evidence"] or "{}").get("attack", "cls") if run.study == "attack" else "cls"
        if attack not in ("noise", "fgsm", "cls", "loc"):
            continue  # a rung of the ladder
        fails = row["harm"] == "harmful" and not row["control"] and not row["flicker"] and row["outcome"] != "found"
        fails = fails and row["attributable"] is not False
        key = row["image"], row["condition"], row["object"]
        if row["object"] is None:
            extras += [row] if fails else []
        else:
            judged |= {key} if row["harm"] != "unknown" and not row["control"] else set()
            bad |= {key} if fails else set()
    return bad, judged, extras


@pytest.mark.sampled(1)
@pytest.mark.parametrize("which", ["scans", "campaigns", "attacks", "explained"])
def test_failures_are_fixed_new_or_common(which, request, tmp_path):
    if which == "explained":
        runs = [
            md.explain(f"glassbox:{fault},data={ROOMS}", ROOMS, limit=limit, out=tmp_path / name, pixels=False)
            for name, fault, limit in (("a", "sink/rate=0.4", None), ("b", "other-class/rate=0.4,seed=2", 6))
        ]
    else:
        runs = request.getfixturevalue(which)
        runs = [runs["frail"], runs["fewer"]] if which == "scans" else runs
    (found,) = md.compare(*runs).document["failures"]
    (bad, judged, extras), (other, known, more) = (failing(run) for run in runs)
    both = judged & known
    assert bad | other, "there is something to tell"
    fixed, new, common = (bad - other) & both, (other - bad) & both, bad & other
    listed = {
        word: {(e["image"], e["condition"], e["object"]) for e in found["listed"][word] if e["object"] is not None}
        for word in ("fixed", "new", "common")
    }
    assert listed == {"fixed": fixed, "new": new, "common": common}
    if not extras and not more:
        assert [found[word] for word in ("fixed", "new", "common")] == [len(fixed), len(new), len(common)]
        assert found["unknown"] == len((bad ^ other) - both)


def told(extras, limit, out):
    """Scores of a detector that finds the one object of each of four images, and those ``extras`` by image."""
    pairs = [(np.full((60, 60, 3), 20 * i, np.uint8), {"boxes": [[5, 5, 20, 20]], "labels": [0]}) for i in range(4)]

    def detect(images):
        boxes = [[[5, 5, 20, 20], *extras.get(int(image[0, 0, 0]) // 20, ())] for image in images]
        return [(each, [0.9] + [0.8] * (len(each) - 1), [0] * len(each)) for each in boxes]

    found = md.detect(md.load_detector(detect, names=["cup"]), from_pairs(pairs, ["cup"]), out=out / "detect")
    return md.score(found, from_pairs(pairs, ["cup"]), limit=limit, out=out / "score")


@pytest.mark.heavy
def test_extra_detections_are_fixed_new_common_or_unknown(tmp_path):
    """Those that overlap are one; of an image that the other run did not look at nothing is known."""
    here, there = [30, 30, 50, 50], [31, 31, 51, 51]
    first = told({0: [here, there], 1: [here]}, 3, tmp_path / "a")
    second = told({1: [there], 2: [here], 3: [here]}, 4, tmp_path / "b")
    (found,) = md.compare(first, second).document["failures"]
    assert [found[word] for word in ("fixed", "new", "common", "unknown")] == [1, 1, 1, 1]
    assert [len({each["image"] for each in found["listed"][word]}) for word in ("fixed", "new", "common")] == [1, 1, 1]
    (found,) = md.compare(first, told({}, 3, tmp_path / "c")).document["failures"]
    assert [found[word] for word in ("fixed", "new", "common", "unknown")] == [2, 0, 0, 0]

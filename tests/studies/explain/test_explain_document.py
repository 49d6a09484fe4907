"""Every number of an explain document, computed again from the run's rows in plain loops; and the run that stands
alone: read after it was moved, without detector and data, its rows, queries and ledger in agreement."""

import json
import shutil
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from explain_toys import NAMES, Random, dataset, explained
from score_oracles import pycocotools_evaluation

import misdetect as md
from misdetect.metrics.mechanisms import MECHANISMS
from misdetect.studies.failures import failures

LOC, REPORTED = 0.65, 0.5
CONFIDENCE, SEED = 0.8, 7
TYPES = ("Miss", "Cls", "Loc", "Both")
FALSE = ("Cls", "Loc", "Both", "Dupe", "Bkg")


@pytest.fixture(scope="module", params=[True, False], ids=["inside", "outside"])
def run(request, tmp_path_factory):
    """A run on data that has a class more than the detector, and its rows by kind."""
    data = dataset(60, names=(*NAMES, "vase"))
    rules = {"inside": request.param, "loc": LOC, "score": REPORTED}
    made = explained(data, tmp_path_factory.mktemp("explain") / "run", **rules)
    again = md.explain(Random(data), data, out=made.path.with_name("again"), confidence=CONFIDENCE, seed=SEED, **rules)
    rows = again.rows().to_pylist()
    kinds = {kind: [r for r in rows if r["kind"] == kind] for kind in ("object", "detection", "region", "ignored")}
    assert all(kinds.values())
    lost = [r for r in kinds["object"] if not r["found"]]
    assert len({r["mechanism"] for r in lost}) >= 4
    names = MECHANISMS if request.param else (*MECHANISMS, "unknown")
    return SimpleNamespace(api=again, default=made, document=again.document, lost=lost, names=names, **kinds)


def test_counts_are_those_of_the_rows(run):
    document, lost = run.document, run.lost
    assert (document["objects"], document["missed"]) == (len(run.object), len(lost))
    assert document["miss_rate"] == len(lost) / len(run.object)
    assert document["mechanisms"] == {name: sum(r["mechanism"] == name for r in lost) for name in run.names}
    assert document["tide"] == {kind: sum(r["tide"] == kind for r in lost) for kind in TYPES}
    flow = Counter((r["tide"], r["mechanism"]) for r in lost)
    assert {(a, b): n for a, b, n in document["sankey"]} == flow
    reasons = {(m, why): n for m, of in document["reasons"].items() for why, n in of.items()}
    assert reasons == Counter((r["mechanism"], r["reason"]) for r in lost)
    assert document["ignored"] == Counter(r["reason"] for r in run.ignored)
    assert set(document["ignored"]) == {"crowd", "unknown-class"}
    assert any("cannot be looked into" in note for note in document["notes"]) == ("unknown" in run.names)
    strange = f"{document['ignored']['unknown-class']} objects are of classes that the detector does not have"
    assert [note for note in document["notes"] if note.startswith(strange)] == document["notes"][-1:]


def test_classes_are_those_of_the_rows(run):
    assert set(run.document["by_class"]) == {r["label"] for r in run.object}
    for label, entry in run.document["by_class"].items():
        own = [r for r in run.object if r["label"] == label]
        lost = [r for r in own if not r["found"]]
        assert entry == {
            "objects": len(own),
            "missed": len(lost),
            "miss_rate": len(lost) / len(own),
            "mechanisms": {name: sum(r["mechanism"] == name for r in lost) for name in run.names},
            "tide": {kind: sum(r["tide"] == kind for r in lost) for kind in TYPES},
        }


def test_confusions_are_the_most_frequent_pairs(run):
    pairs = Counter((r["label"], r["rival"]) for r in run.lost if r["mechanism"] == "interclass")
    assert len(pairs) > 2
    expected = sorted(([a, b, n] for (a, b), n in pairs.items()), key=lambda row: (-row[2], row[:2]))
    assert run.document["confusions"] == expected[:10]


def test_what_is_typical_of_a_mechanism_is_counted_again(run):
    lost, every, found = run.lost, run.object, run.document["typical"]
    assert set(found) == {row["mechanism"] for row in lost}

    def size(row):
        return "small" if row["area"] < 32**2 else "medium" if row["area"] < 96**2 else "large"

    for name, each in found.items():
        own = [row for row in lost if row["mechanism"] == name]
        for label, band, misses, objects in each["groups"]:
            assert misses == sum((row["label"], size(row)) == (label, band) for row in own)
            assert objects == sum((row["label"], size(row)) == (label, band) for row in every)
        most = Counter((row["label"], size(row)) for row in own).most_common(3)
        assert [group[2] for group in each["groups"]] == [count for _, count in most]
        assert each["sizes"] == {band: sum(size(row) == band for row in own) for band in ("small", "medium", "large")}
        worst = Counter(row["image"] for row in own)
        assert [worst[image] for image in each["images"]] == [count for _, count in worst.most_common(3)]
        score, reached = each["half"]
        assert reached == sum((row["own_score"] or 0) >= score for row in own)


def ends(hit, among, group, repeats=1000):
    """The interval of Σ hit / Σ among, drawing groups again, resample by resample."""
    names = sorted(set(group))
    draws = np.random.default_rng(SEED).multinomial(len(names), [1 / len(names)] * len(names), size=repeats)
    rates = []
    for draw in draws:
        weight = dict(zip(names, draw.tolist(), strict=True))
        below = sum(weight[g] for g, one in zip(group, among, strict=True) if one)
        if below:
            rates.append(sum(weight[g] for g, one in zip(group, hit, strict=True) if one) / below)
    return np.quantile(rates, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]).tolist()


@pytest.mark.heavy
def test_intervals_are_those_of_drawing_images_again(run):
    found, images = run.document["intervals"], [r["image"] for r in run.object]
    assert found["confidence"] == CONFIDENCE
    every, lost = [True] * len(images), [not r["found"] for r in run.object]
    assert found["miss_rate"] == pytest.approx(ends(lost, every, images))
    assert set(found["shares"]) == set(found["rates"]) == set(run.names)
    for name in run.names:
        hit = [r["mechanism"] == name for r in run.object]
        assert found["shares"][name] == pytest.approx(ends(hit, lost, images))
        assert found["rates"][name] == pytest.approx(ends(hit, every, images))
    assert run.default.document["intervals"]["confidence"] == 0.9
    assert run.default.document["intervals"]["miss_rate"] != found["miss_rate"]


def slices_of(row):
    """The slices an object is in, with metrics/slices.py's bounds."""
    light, near = row["brightness"], row["crowding"]
    return {
        "class": row["label"],
        "size": "small" if row["area"] < 1024 else "medium" if row["area"] < 9216 else "large",
        "crowding": "alone" if near < 1 else "1-3 neighbours" if near < 4 else "4+ neighbours",
        "occlusion": ["clear", "partly covered", "mostly covered"][
            (row["occlusion"] >= 0.05) + (row["occlusion"] >= 0.4)
        ],
        "truncation": "cut by the border" if row["truncation"] else "whole",
        "aspect": "tall" if row["aspect"] < 0.5 else "square" if row["aspect"] < 2 else "wide",
        "brightness": "dark" if light < 64 else "middle" if light < 160 else "bright",
    }


def test_slices_are_where_a_rate_is_higher_than_elsewhere(run):
    known = [slices_of(row) for row in run.object]
    expected = set()
    for attribute in known[0]:
        for value in {each[attribute] for each in known}:
            inner = [each[attribute] == value for each in known]
            for name in ("missed", *run.names):
                hit = [not r["found"] if name == "missed" else r["mechanism"] == name for r in run.object]
                there = [h for h, i in zip(hit, inner, strict=True) if i]
                elsewhere = [h for h, i in zip(hit, inner, strict=True) if not i]
                if len(there) >= 10 and elsewhere and np.mean(there) > np.mean(elsewhere):
                    expected.add((attribute, value, name, len(there), sum(there), np.mean(there), np.mean(elsewhere)))
    shown = run.document["slices"]
    got = {
        tuple(each[k] for k in ("attribute", "value", "mechanism", "objects", "hit", "rate", "rate_outside"))
        for each in shown
    }
    assert got <= expected
    assert len(shown) == min(30, len(expected)) > 10
    assert [each["low"] for each in shown] == sorted((each["low"] for each in shown), reverse=True)
    images = [r["image"] for r in run.object]
    for each in (shown[0], shown[-1]):
        inner = [row[each["attribute"]] == each["value"] for row in known]
        name = each["mechanism"]
        hit = [not r["found"] if name == "missed" else r["mechanism"] == name for r in run.object]
        assert [each["low"], each["high"]] == pytest.approx(difference_ends(hit, inner, images))
        assert each["difference"] == pytest.approx(each["rate"] - each["rate_outside"])
        lift = each["rate"] / each["rate_outside"] if each["rate_outside"] else None
        assert each["lift"] == (None if lift is None else pytest.approx(lift))
        assert each["certain"] == (each["low"] > 0)
    assert {each["certain"] for each in shown} == {True, False}


def difference_ends(hit, inner, images):
    """The interval of the rate inside less that outside, resample by resample."""
    names = sorted(set(images))
    draws = np.random.default_rng(SEED).multinomial(len(names), [1 / len(names)] * len(names), size=1000)
    place, found = {name: i for i, name in enumerate(names)}, []
    for draw in draws:
        sums = np.zeros((2, 2))
        for h, i, image in zip(hit, inner, images, strict=True):
            sums[int(i)] += [draw[place[image]] * h, draw[place[image]]]
        (out_hit, out), (in_hit, within) = sums
        found.append((in_hit / within if within else 0) - (out_hit / out if out else 0))
    return np.quantile(found, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]).tolist()


def test_images_are_those_with_the_most_misses(run):
    groups = {}
    for row in run.object:
        groups.setdefault(row["image"], []).append(row)
    missed = {name: [r for r in rows if not r["found"]] for name, rows in groups.items()}
    order = sorted((name for name in groups if missed[name]), key=lambda name: (-len(missed[name]), name))[:10]
    assert [entry["image"] for entry in run.document["images"]] == order
    for entry in run.document["images"]:
        rows, lost = groups[entry["image"]], missed[entry["image"]]
        assert (entry["objects"], entry["missed"]) == (len(rows), len(lost))
        assert entry["miss_rate"] == pytest.approx(len(lost) / len(rows))
        assert entry["mechanisms"] == Counter(r["mechanism"] for r in lost)
        hit = [not r["found"] for r in rows]
        assert entry["interval"] == pytest.approx(ends(hit, [True] * len(rows), list(range(len(rows)))))


def test_the_other_side_has_the_means_of_its_detections(run):
    found = run.document["false_positives"]
    assert set(found) == {"TP", *FALSE, "ignored"}
    assert sum(entry["count"] for entry in found.values()) == len(run.detection)
    for kind, entry in found.items():
        rows = [r for r in run.detection if r["tide"] == kind]
        assert entry["count"] == len(rows)
        for key in ("score", "background", "objectness", "proposal_iou", "moved", "rival_score"):
            known = [r[key] for r in rows if r[key] is not None]
            assert entry[key] == (pytest.approx(np.mean(known), abs=6e-5) if known else None)


def test_the_warning_signal_is_what_counting_regions_gives(run):
    found, misses = run.document["warning"], len(run.lost)
    judged = sorted((r for r in run.region if r["tide"] != "crowd"), key=lambda r: -r["objectness"])
    assert (found["regions"], found["warned"]) == (len(judged), sum(r["matched"] is not None for r in judged))
    assert 0 < found["warned"] < found["regions"] < len(run.region)
    area, last = 0.0, 0.0
    right = np.cumsum([r["matched"] is not None for r in judged]).tolist()
    points = [(hits / (i + 1), hits / misses) for i, hits in enumerate(right)]
    for i, (_, recall) in enumerate(points):
        area, last = area + (recall - last) * max(precision for precision, _ in points[i:]), recall
    assert found["average_precision"] == pytest.approx(area)
    assert 10 < len(found["curve"]) <= 50
    for point in found["curve"]:
        above = [r for r in judged if r["objectness"] >= point["threshold"]]
        right = sum(r["matched"] is not None for r in above)
        assert point["warnings"] == len(above)
        assert (point["precision"], point["recall"]) == pytest.approx((right / len(above), right / misses))
    ranked = sorted(run.region, key=lambda r: -r["objectness"])[:10]
    assert [(s["image"], s["objectness"]) for s in found["suspicious"]] == [
        (r["image"], round(r["objectness"], 4)) for r in ranked
    ]
    assert [s["box"] for s in found["suspicious"]] == [
        [round(r[k], 1) for k in ("x0", "y0", "x1", "y1")] for r in ranked
    ]


def test_the_sweep_is_the_share_of_objects_reached(run):
    found = run.document["sweep"]
    assert (found["scores"][0], found["ious"]) == (0.05, [0.1, 0.3, 0.5, 0.75, 0.9])
    for s in range(len(found["scores"])):
        for u, least in enumerate(found["ious"]):
            reached = sum(r["best_iou"][s] >= least for r in run.object) / len(run.object)
            assert found["recall"][s][u] == pytest.approx(reached, abs=6e-5)
    assert found["recall"][0][0] > found["recall"][-1][-1]


def coco(run, mechanism):
    """Truth and results after the misses of ``mechanism`` have been fixed, for the reference program."""
    fixed = [r for r in run.lost if mechanism in (r["mechanism"], "all")]
    gone = {(r["image"], r["id"]) for r in fixed}
    images = {name: i + 1 for i, name in enumerate(sorted({r["image"] for r in (*run.object, *run.detection)}))}
    crowds = [r for r in run.ignored if r["reason"] == "crowd" and r["label"] in NAMES]
    labels = {name: i + 1 for i, name in enumerate(NAMES)}

    def record(row, **more):
        box = [row["x0"], row["y0"], row["x1"] - row["x0"], row["y1"] - row["y0"]]
        return {"image_id": images[row["image"]], "category_id": labels[row["label"]], "bbox": box, **more}

    truth = [
        record(
            r,
            id=i + 1,
            iscrowd=int(r["kind"] == "ignored"),
            area=r["area"] or (r["x1"] - r["x0"]) * (r["y1"] - r["y0"]),
        )
        for i, r in enumerate((*run.object, *crowds))
        if r["image"] in images
    ]
    results = [
        record(r, score=r["score"])
        for r in run.detection
        if not (r["tide"] in ("Cls", "Loc", "Both") and (r["image"], r["matched"]) in gone)
    ]
    gained = {"discarded": "own_score", "interclass": "rival_score"}
    for r in fixed:
        given = r[gained[r["mechanism"]]] if r["mechanism"] in gained else None
        results.append(record(r, score=max(REPORTED, given or 0)))
    categories = [{"id": i, "name": name} for name, i in labels.items()]
    sizes = [{"id": i, "width": 120, "height": 100} for i in images.values()]
    return {"images": sizes, "categories": categories, "annotations": truth}, results


@pytest.mark.heavy
def test_potential_is_what_the_reference_program_finds_after_the_fix(run):
    found = run.document["potential"]
    assert set(found) == {"none", *run.names, "all"}
    for name, entry in found.items():
        fixed = len(run.lost) if name == "all" else sum(r["mechanism"] == name for r in run.lost)
        tables = pycocotools_evaluation(*coco(run, name), cap=1000).eval["precision"]
        known = tables[:, :, :, 0, -1]
        assert entry["fixed"] == fixed
        assert entry["AP"] == pytest.approx(known[known > -1].mean(), abs=1e-6)
        assert entry["AP50"] == pytest.approx(known[0][known[0] > -1].mean(), abs=1e-6)
        assert entry["recall"] == pytest.approx((len(run.object) - len(run.lost) + fixed) / len(run.object))
        for key in ("AP", "AP50", "recall"):
            assert entry[f"{key}_gain"] == pytest.approx(entry[key] - found["none"][key])
    assert found["all"]["recall"] == 1


def test_sentences_and_numbers_say_what_the_document_says(run):
    from misdetect.studies.explain.document import numbers

    document, rate = run.document, 100 * run.document["miss_rate"]
    first, why = run.api.sentences[:2]
    low, high = (100 * end for end in document["intervals"]["miss_rate"])
    assert first == f"{len(run.lost)} of {len(run.object)} objects are missed: {rate:.1f} % ({low:.0f} to {high:.0f})."
    shares = {name: n / len(run.lost) for name, n in document["mechanisms"].items()}
    ranked = sorted((name for name in shares if shares[name]), key=lambda name: -shares[name])
    assert why == "Why: " + ", ".join(f"{name} {100 * shares[name]:.0f} %" for name in ranked) + "."
    said = numbers(document)
    assert said["miss_rate"].value == document["miss_rate"]
    assert said["miss_rate"].interval == document["intervals"]["miss_rate"]
    for name in run.names:
        assert said[f"shares.{name}"].value == shares[name]
        assert said[f"shares.{name}"].interval == document["intervals"]["shares"][name]


def test_failures_come_in_turn_and_misses_first(run):
    outcomes = [each["outcome"] for each in failures(run.api.directory)]
    kinds = [kind for kind in ("missed", "renamed", "moved", "extra") if kind in outcomes]
    assert kinds[0] == "missed"
    assert len(kinds) > 1
    assert outcomes[: len(kinds)] == kinds
    assert outcomes[len(kinds) : 2 * len(kinds)] == kinds


def test_a_run_stands_alone(run, tmp_path):
    document, moved = run.document, tmp_path / "elsewhere" / "moved"
    shutil.copytree(run.api.path, moved)
    kept = md.open(moved)
    assert kept.document == document
    assert list(kept.document["mechanisms"]) == list(run.names), "in the paper's order, also when read again"
    (moved / "document.json").unlink()
    assert json.dumps(md.open(moved).document) == json.dumps(document), "computed again from rows and run.json alone"
    (moved / "document.json").write_text('{"done": 1}')
    assert md.open(moved).document == document, "one that does not fit the rows is not believed"


def test_rows_queries_and_the_ledger_agree(run):
    api = run.api
    assert api.query("SELECT * FROM rows ORDER BY case_index, row").equals(api.rows())
    ledger = api.ledger().to_pylist()
    assert len(ledger) == len(run.object) + len(run.ignored) + sum(r["tide"] in FALSE for r in run.detection)
    by_object = {(row["image"], row["object"]): row for row in ledger if row["object"] is not None}
    assert len(by_object) == len(run.object) + len(run.ignored)
    for row in run.object:
        told = by_object[row["image"], row["id"]]
        outcome = ("found", "harmless") if row["found"] else ("missed", "harmful")
        assert (told["outcome"], told["harm"]) == outcome
        assert [told[k] for k in ("label", "tide", "mechanism", "reason", "x0", "y1")] == [
            row[k] for k in ("label", "tide", "mechanism", "reason", "x0", "y1")
        ]
        evidence = None if row["found"] else json.loads(told["evidence"])
        assert (evidence is None) == row["found"]
        if evidence is not None:
            assert (evidence["own_score"], evidence["rival"]) == (pytest.approx(row["own_score"]), row["rival"])
        assert (told["condition"], told["control"], told["weight"], told["study"]) == ("clean", False, 1.0, "explain")
    for row in run.ignored:
        told = by_object[row["image"], row["id"]]
        assert (told["outcome"], told["harm"], told["tide"]) == ("ignored", "unknown", None)
    wrong = [r for r in run.detection if r["tide"] in FALSE]
    extra = [row for row in ledger if row["outcome"] == "extra"]
    assert [(e["image"], e["label"], e["tide"], e["score"], e["iou"], e["object"]) for e in extra] == [
        (r["image"], r["label"], r["tide"], r["score"], r["matched_iou"], None) for r in wrong
    ]
    counted = api.query("SELECT tide, count(*) AS n FROM rows WHERE kind = 'object' AND NOT found GROUP BY tide")
    known = {kind: n for kind, n in run.document["tide"].items() if n}
    assert {row["tide"]: row["n"] for row in counted.to_pylist()} == known

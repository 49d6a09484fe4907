"""Every number of an attack's document, computed a second time in plain loops, from made-up rows."""

from collections import Counter
from types import SimpleNamespace

import confusion_oracles as naive
import numpy as np
import pytest
from score_oracles import pycocotools_evaluation

from misdetect.api.run import Run as ApiRun
from misdetect.data.dataset import Dataset
from misdetect.engine.identity import identity
from misdetect.engine.requests import Case, Finished
from misdetect.engine.store import Run
from misdetect.metrics.mechanisms import MECHANISMS
from misdetect.studies.attack import ATTACK
from misdetect.studies.attack.settings import AttackSettings
from misdetect.studies.conditions import SCHEMA

NAMES = ("cup", "bowl", "vase", "lamp")
IMAGES, CLIMBED = 7, 5
TABLE = ("noise", "fgsm", "cls", "loc")
RUNGS = ("2 steps", "20 steps", "3 starts", "eps 64")
CONFIDENCE, SEED = 0.8, 3
PARTS = ("r_idx", "r_all")


def objects_of(rng, image):
    """Boxes, labels and whether each is found on the clean image."""
    boxes = []
    for k in range(int(rng.integers(2, 5))):
        x, y = 60 * (k % 2), 50 * (k // 2)
        boxes.append([x + 4.0, y + 4.0, x + 44.0, y + 34.0])
    labels = rng.integers(0, 3, len(boxes)).tolist()
    return [
        {"id": 10 * image + 9 - k, "label": NAMES[label], "right": bool(rng.random() < 0.7), **sides(box)}
        for k, (box, label) in enumerate(zip(boxes, labels, strict=True))
    ]


def sides(box):
    return dict(zip(("x0", "y0", "x1", "y1"), map(float, box), strict=True))


def box_of(row):
    return [row[side] for side in ("x0", "y0", "x1", "y1")]


def detections(rng, objects, variant, inside):
    found = []
    for own in objects:
        for _ in range(int(rng.integers(0, 3))):
            label = own["label"] if rng.random() < 0.6 else str(rng.choice(NAMES))
            score, background = rng.choice([0.1, 0.3, 0.45, 0.7, 0.9]) + 0.001 * rng.integers(50), rng.uniform(0, 0.8)
            moved = np.array(box_of(own)) + rng.choice([0, 2, 25], p=[0.4, 0.4, 0.2])
            row = {"kind": "detection", "variant": variant, "label": label, "score": float(score), **sides(moved)}
            found.append(
                row
                | ({"background": float(background), "best": max(float(score), rng.uniform(0, 0.8))} if inside else {})
            )
    return found


def rows_of(rng, image, objects, condition, inside):
    """What is known of one image under one condition."""
    rows = []
    if condition != "clean":
        steps = [] if condition == "noise" else rng.uniform(0, 9, 1 if condition == "fgsm" else 2 + image % 3).tolist()
        steps = steps[:1] * len(steps) if image == 3 else steps  # a climb that leads nowhere
        pixels = 0 if (condition, image) in (("outside:16", 1), ("cls", 6)) else int(rng.integers(1, 900))
        unknown = (condition, image, inside) == ("loc", 4, False)
        about = {"kind": "image", "change": int(rng.integers(30)), "pixels": pixels, "losses": steps}
        about |= {"total": None if unknown else float(rng.integers(4)), "flat": int(rng.integers(2)) if steps else None}
        rows.append(about)
    for own in objects:
        found = own["right"] if condition == "clean" else bool(rng.random() < 0.5)
        became = None if found or rng.random() < 0.5 else str(rng.choice(NAMES))
        mechanism = None if found or not inside else str(rng.choice(MECHANISMS))
        rows.append({"kind": "object", **own, "found": found, "became": became, "mechanism": mechanism})
    if image == 2:
        crowd = {"kind": "ignored", "reason": "crowd", "label": "cup", "id": 99, **sides([0, 0, 120, 100])}
        rows += [
            crowd,
            {"kind": "ignored", "reason": "unknown-class", "label": "bowl", "id": 98, **sides([0, 0, 9, 9])},
        ]
    variants = ("vanilla", *PARTS, *(f"{part}:reported" for part in PARTS))
    for variant in variants if inside and condition in ("cls", "loc") else ("vanilla",):
        rows += detections(rng, objects, variant, inside)
    return [{"image": f"i{image}", "condition": condition, "width": 120, "height": 100, **row} for row in rows]


def write(path, conditions, inside, transfer=None, seed=0, **settings):
    """A run directory with made-up rows. The last image is not done under "loc"; only some climb the ladder."""
    how = AttackSettings(steps=10, seed=SEED, confidence=CONFIDENCE, **settings)
    made = Dataset("made", NAMES, IMAGES, lambda i: None, fingerprint="made")
    who = SimpleNamespace(spec="zoo:one", fingerprint="one", names=NAMES)
    known = identity("attack", {**how.document(), "inside": inside, "transfer": transfer}, who, made)
    run = Run.start(path, known, SCHEMA, command=["attack"], versions={}, detector_settings={})
    world, rng, cases = np.random.default_rng(0), np.random.default_rng(seed), 0
    for image in range(IMAGES):
        objects = objects_of(world, image)
        for condition in conditions:
            if (condition == "loc" and image == IMAGES - 1) or (condition in (*RUNGS, "transfer") and image >= CLIMBED):
                continue
            rows = rows_of(rng, image, objects, condition, inside)
            run.add(Finished(Case(cases, f"i{image}/{condition}"), rows))
            cases += 1
    run.note(cases=cases, view=how.document("view"))
    run.close()
    return Run.open(path)


@pytest.fixture(scope="module", params=[True, False], ids=["inside", "outside"])
def made(request, tmp_path_factory):
    """The rows that count by kind, and the document of a run; from inside with a ladder, from outside at distances."""
    path, inside = tmp_path_factory.mktemp("attack") / "run", request.param
    if inside:
        conditions, more = ("clean", *TABLE, *RUNGS), {"ladder": CLIMBED, "transfer": "zoo:two"}
    else:
        conditions, more = ("clean", *TABLE, "outside:4", "outside:16"), {
            "where": "outside", "distances": (16, 4), "ladder": 0, "surrogate": "zoo:two",
        }  # fmt: skip
    run = write(path, conditions, inside, **more)
    borrowed = write(path / "transfer", ("transfer",), False, seed=5).table().to_pylist() if inside else []
    rows = run.table().to_pylist()
    done = [f"i{i}" for i in range(IMAGES - 1)]
    document = ATTACK.document(run)
    return SimpleNamespace(rows=rows, borrowed=borrowed, done=done, document=document, inside=inside, run=run)


def chosen(made, image):
    """What mtd takes of ``image``: nothing where a loss is not known."""
    total = {r["condition"]: r["total"] for r in made.rows if r["kind"] == "image" and r["image"] == image}
    if None in (total["cls"], total["loc"]):
        return None
    return "loc" if total["loc"] > total["cls"] else "cls"


def pick(made, kind, condition, variant=None):
    """Rows on images that are done with every attack of the table."""
    return [
        row
        for row in made.rows
        if row["kind"] == kind
        and row["image"] in made.done
        and row["condition"] == (chosen(made, row["image"]) if condition == "mtd" else condition)
        and row["variant"] == variant
    ]


def ends(hits, among, images, repeats=1000, names=None):
    """The interval of Σ hits / Σ among, drawing images again (those in ``names``), resample by resample."""
    names = sorted(names or set(images))
    draws = np.random.default_rng(SEED).multinomial(len(names), [1 / len(names)] * len(names), size=repeats)
    place = {name: i for i, name in enumerate(names)}
    above, below = np.zeros(len(names)), np.zeros(len(names))
    for hit, one, image in zip(hits, among, images, strict=True):
        above[place[image]] += hit
        below[place[image]] += one
    rates = [draw @ above / (draw @ below) for draw in draws if draw @ below]
    return pytest.approx(np.quantile(rates, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]).tolist())


def lost(row):
    return row["right"] and not row["found"]


@pytest.mark.heavy
def test_objects_are_counted_on_images_that_every_attack_is_done_with(made):
    document, clean = made.document, pick(made, "object", "clean")
    assert document["images"] == len(made.done) == IMAGES - 1
    assert document["objects"] == len(clean)
    assert document["right"] == sum(row["right"] for row in clean)
    assert document["clean"]["missed"] == sum(not row["found"] for row in clean)
    assert document["clean"]["success"] == 0
    assert list(document["attacks"]) == [*TABLE, "mtd"]
    assert document["transfer"] == (not made.inside)
    entries = document["attacks"].values()
    assert min(sum(entry[key] for entry in entries) for key in ("lost", "renamed", "found_anew")) > 0


@pytest.mark.parametrize("name", [*TABLE, "mtd"])
def test_each_attack_is_counted_object_by_object(made, name):
    entry, rows = made.document["attacks"][name], pick(made, "object", name)
    right = [row["right"] for row in rows]
    assert entry["lost"] == sum(map(lost, rows))
    assert entry["success"] == pytest.approx(entry["lost"] / sum(right))
    assert entry["intervals"]["success"] == ends(
        map(lost, rows), right, [row["image"] for row in rows], names=made.done
    )
    assert entry["renamed"] == sum(lost(row) and row["became"] is not None for row in rows)
    assert entry["found_anew"] == sum(row["found"] and not row["right"] for row in rows)
    assert entry["lost"] > 0
    about = [] if name == "mtd" else pick(made, "image", name)
    assert entry["change"] == max((row["change"] for row in about), default=None)
    climbs = [row["losses"] for row in about if len(row["losses"] or []) > 1]
    rises = sum(each[-1] > each[0] for each in climbs)
    assert entry["loss_rises"] == (pytest.approx(rises / len(climbs)) if climbs else None)
    picked = Counter(which for which in (chosen(made, image) for image in made.done) if which)
    assert entry.get("chosen") == (picked if name == "mtd" else None)
    assert len(picked) == 2
    told = ATTACK.numbers(made.document)
    assert (told[f"{name}.success"].value, told[f"{name}.success"].interval) == (
        entry["success"], entry["intervals"]["success"]
    )  # fmt: skip
    assert (told[f"{name}.AP50"].value, told[f"{name}.AP50"].interval) == (entry["AP50"], entry["intervals"]["AP50"])
    assert "clean.success" not in told


def reference_ap(made, found):
    """AP and AP50 of rows, by the reference program."""
    images, labels = {name: i + 1 for i, name in enumerate(made.done)}, {name: i + 1 for i, name in enumerate(NAMES)}

    def record(row, **more):
        x0, y0, x1, y1 = box_of(row)
        return {"image_id": images[row["image"]], "category_id": labels[row["label"]],
                "bbox": [x0, y0, x1 - x0, y1 - y0], **more}  # fmt: skip

    crowds = [row for row in pick(made, "ignored", "clean") if row["reason"] == "crowd"]
    truth = [
        record(r, id=i + 1, iscrowd=int(r["kind"] == "ignored"), area=(r["x1"] - r["x0"]) * (r["y1"] - r["y0"]))
        for i, r in enumerate([*pick(made, "object", "clean"), *crowds])
    ]
    sizes = [{"id": i, "width": 120, "height": 100} for i in images.values()]
    categories = [{"id": i, "name": name} for name, i in labels.items()]
    whole = {"images": sizes, "categories": categories, "annotations": truth}
    tables = pycocotools_evaluation(whole, [record(r, score=r["score"]) for r in found]).eval["precision"]
    known = tables[:, :, :, 0, -1]
    return [pytest.approx(each[each > -1].mean(), abs=1e-6) for each in (known, known[0])]


def test_ap_is_that_of_the_reference_program(made):
    document = made.document
    told = {("clean", "vanilla"): document["clean"]}
    told |= {(name, "vanilla"): entry for name, entry in document["attacks"].items()}
    told |= {(loss, part): entry for loss, parts in document["clsaval"].items() for part, entry in parts.items()}
    assert len(told) == 6 + 2 * len(PARTS) * made.inside
    for (condition, variant), entry in told.items():
        found = pick(made, "detection", condition, variant)
        assert [entry["AP"], entry["AP50"]] == reference_ap(made, found)
        for key in ("AP", "AP50"):
            low, high = entry["intervals"][key]
            assert 0 <= low < high <= 1
            assert low - 0.05 < entry[key] < high + 0.05


def matrices(made):
    """Where a confusion matrix is told, and of which rows it is: those reported, or those of an ablation."""
    for name, found in made.document["dcm"].items():
        yield found, [row for row in pick(made, "detection", name, "vanilla") if row["score"] >= 0.3]
    for loss, parts in made.document["clsaval"].items():
        for part in PARTS:
            yield parts[part]["dcm"], pick(made, "detection", loss, f"{part}:reported")


def test_confusion_is_the_naive_matrix(made):
    place = {name: i for i, name in enumerate(made.done)}
    there = [
        (place[row["image"]], box_of(row), NAMES.index(row["label"]), row["kind"] == "ignored")
        for row in (*pick(made, "object", "clean"), *pick(made, "ignored", "clean"))
        if row["reason"] != "unknown-class"
    ]
    assert list(made.document["dcm"]) == ["clean", "cls", "loc"]
    for told, kept in matrices(made):
        mode = "hard" if made.inside else "reported"
        found = [(place[r["image"]], box_of(r), NAMES.index(r["label"]), r["score"]) for r in kept]
        truth, columns = naive.columns(there, found, len(place), NAMES)
        owner = naive.owners(truth, columns, "paper", 0.5)
        background, best = [row["background"] for row in kept], [[row["best"]] for row in kept]
        counts, confidence, _ = naive.matrix(truth, columns, owner, mode, background, best)
        assert told["mode"] == mode
        assert told["labels"] == [*NAMES, "background"]
        assert told["counts"] == counts.astype(int).tolist()
        assert np.array(told["confidence"]) == pytest.approx(confidence, abs=2e-4)
        assert all(round(value, 4) == value for row in told["confidence"] for value in row)
        own, sunk = np.trace(counts[:-1, :-1]), counts[:-1, -1].sum()
        other = counts[:-1].sum() - own - sunk
        assert told["on_objects"] == {"right": own, "background": sunk, "other": other}
        assert told["on_background"] == counts[-1].sum()
        became = np.array(told["became"])
        real = [label for _, _, label, crowd in there if not crowd]
        assert became.sum(axis=1).tolist() == [real.count(i) for i in range(len(NAMES))]
        outcomes = told["objects"]
        assert outcomes["objects"] == became.sum()
        assert outcomes["right"] == np.trace(became[:, : len(NAMES)])
        assert (outcomes["sunk"], outcomes["missed"]) == (became[:, -2].sum(), became[:, -1].sum())
        assert outcomes["confused"] == became[:, :-2].sum() - outcomes["right"]
        assert outcomes["missed"] == len([t for t in range(len(truth)) if not truth.crowd[t] and t not in owner])


def test_mechanisms_are_counted_over_what_is_not_found(made):
    if not made.inside:
        assert made.document["mechanisms"] == made.document["clsaval"] == {}
        return
    assert list(made.document["mechanisms"]) == ["clean", *TABLE, "mtd"]
    for name, counted in made.document["mechanisms"].items():
        gone = [row["mechanism"] for row in pick(made, "object", name) if not row["found"]]
        assert counted == {mechanism: gone.count(mechanism) for mechanism in MECHANISMS}
        assert sum(counted.values()) == len(gone) > 0


def test_the_ladder_compares_on_the_same_images(made):
    found = made.document["ladder"]
    if not made.inside:
        assert found is None
        return
    climbed = [f"i{i}" for i in range(CLIMBED)]
    assert (found["images"], found["loss"], found["transfer"]) == (CLIMBED, "cls", "zoo:two")
    rows = {
        name: sorted((r for r in (made.borrowed if name == "transfer" else made.rows)
                      if r["kind"] == "object" and r["condition"] == name and r["image"] in climbed),
                     key=lambda r: (r["image"], r["id"]))
        for name in ("noise", "fgsm", RUNGS[0], "cls", *RUNGS[1:], "transfer")
    }  # fmt: skip
    assert [rung["name"] for rung in found["rungs"]] == list(rows)
    for rung, than in zip(found["rungs"], (None, "noise", "fgsm", RUNGS[0], *["cls"] * 4), strict=True):
        own = rows[rung["name"]]
        right, images = [row["right"] for row in own], [row["image"] for row in own]
        gone = [int(lost(row)) for row in own]
        assert rung["than"] == than
        assert rung["success"] == pytest.approx(sum(gone) / sum(right))
        assert rung["interval"] == ends(gone, right, images, 2000)
        if than is not None:
            change = [a - lost(b) for a, b in zip(gone, rows[than], strict=True)]
            assert rung["change"] == pytest.approx(sum(change) / sum(right))
            assert rung["change_interval"] == ends(change, right, images, 2000)
    steps = [r for r in made.rows if r["kind"] == "image" and r["condition"] == "cls" and r["image"] in climbed]
    assert found["flat"] == sum(r["flat"] for r in steps) / sum(len(r["losses"]) for r in steps) > 0


@pytest.mark.parametrize("done", [(), ("clean",)], ids=["none", "nothing done"])
def test_without_a_borrowed_attack_the_ladder_ends_before_it(tmp_path, done):
    run = write(tmp_path / "run", ("clean", *TABLE, *RUNGS), False, ladder=CLIMBED)
    if done:
        write(tmp_path / "run" / "transfer", done, False)
    found = ATTACK.document(run)["ladder"]
    assert [rung["name"] for rung in found["rungs"]] == ["noise", "fgsm", RUNGS[0], "cls", *RUNGS[1:]]
    assert found["images"] == CLIMBED


def test_success_against_distance_leaves_out_images_without_pixels(made):
    if made.inside:
        assert made.document["distance"] == []
        return
    told = made.document["distance"]
    assert [entry["distance"] for entry in told] == [0, 4, 16]
    for entry, name in zip(told, ("cls", "outside:4", "outside:16"), strict=True):
        some = [r for r in made.rows if r["kind"] == "image" and r["condition"] == name and r["pixels"]]
        reached = {r["image"] for r in some} & set(made.done)
        rows = [r for r in pick(made, "object", name) if r["image"] in reached]
        assert entry["images"] == len(reached) == len(made.done) - (name == "outside:16")
        assert entry["success"] == pytest.approx(sum(map(lost, rows)) / sum(r["right"] for r in rows))
        assert entry["pixels"] == pytest.approx(np.mean([r["pixels"] for r in some]))


def test_notes_count_what_is_left_out(made):
    notes = made.document["notes"]
    assert notes[-1] == "1 objects are of classes that the detector does not have; they are not counted."
    where = "outside" if not made.inside else "image"
    assert notes[-2] == f"1 images have no pixels --where {where}, and stay as they are."
    assert [note.startswith("A transfer attack: gradients are those of zoo:two") for note in notes[:-2]] == (
        [] if made.inside else [True]
    )
    assert ApiRun(made.run, document=made.document).sentences[-2:] == notes[-2:]


def test_a_detector_that_reports_nothing_has_no_ap(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "detections", lambda *_: [])
    document = ATTACK.document(write(tmp_path / "run", ("clean", *TABLE), False, ladder=0))
    assert [document["clean"]["AP"], *(each["AP50"] for each in document["attacks"].values())] == [0] * 6
    assert document["dcm"]["cls"]["objects"]["missed"] == document["objects"]


@pytest.mark.parametrize(("eps", "noted"), [(0, False), (0.5, True), (1, False)])
def test_an_eps_that_rounds_to_nothing_is_noted(tmp_path, eps, noted):
    document = ATTACK.document(write(tmp_path / "run", ("clean",), False, eps=eps, ladder=0))
    assert any("An eps below 1" in note for note in document["notes"]) == noted
    assert (document["images"], document["attacks"], document["clean"]["AP"]) == (0, {}, None)
    assert document["verdict"]["says"] == ["No image is done under every attack yet."]

"""Every number of a verify document, computed a second time in plain loops, from made-up rows."""

from collections import Counter
from statistics import fmean
from types import SimpleNamespace

import numpy as np
import pytest
from confusion_oracles import overlap
from score_oracles import pycocotools_evaluation

from misdetect.data.dataset import Dataset
from misdetect.engine.identity import identity
from misdetect.engine.requests import Case, Finished
from misdetect.engine.store import Run
from misdetect.metrics.causes import CAUSES
from misdetect.studies.verify import VERIFY
from misdetect.studies.verify.document import figures_of
from misdetect.studies.verify.rows import EDITS, SCHEMA
from misdetect.studies.verify.settings import VerifySettings
from misdetect.studies.verify.table import Table

NAMES = ("bell", "lock", "saddle", "wheel")
IMAGES, BETA, SCORE, CHECK, CONFIDENCE, SEED = 10, 0.3, 0.35, 2.0, 0.8, 5
NUMBERS = ("present_recall", "missing_recall", "f_vv")
STATES = {"intact": False, "damaged": False, "absent": True, "occluded": True}


def sides(box):
    return dict(zip(("x0", "y0", "x1", "y1"), map(float, box), strict=True))


def box_of(row):
    return [row[side] for side in ("x0", "y0", "x1", "y1")]


def part_rows(rng, image):
    """Parts of one image; the last class is annotated nowhere."""
    rows = []
    for k, name in enumerate(NAMES[:3]):
        state = str(rng.choice(list(STATES)))
        place = np.array([10.0 + 60 * k, 20, 50 + 60 * k, 60]) + rng.integers(-8, 8)
        about = {"id": 10 * image + k, "label": name, "state": state, **sides(place)}
        why = {"kind": "part", "missing": STATES[state]}
        rows.append((why if rng.random() < 0.9 else {"kind": "ignored", "reason": "crowd"}) | about)
    return rows


def detection_rows(rng, parts):
    rows = []
    for row in parts:
        for _ in range(int(rng.integers(0, 3))):
            box = np.array(box_of(row)) + rng.choice([0, 3, 12, 30, 70])
            rows.append({"label": row["label"], "score": float(rng.choice(np.arange(1, 20)) / 20), **sides(box)})
    rows.append({"label": "wheel", "score": 0.9, **sides([0, 0, 20, 20])})
    if not parts:
        rows.append({"label": "bell", "score": 0.9, **sides([0, 0, 20, 20])})
    return [{"kind": "detection", "id": i, **row} for i, row in enumerate(rows)]


def edit_rows(rng, parts):
    rows = []
    for part in (row for row in parts if row.get("missing")):
        scores = {f"score_{edit}": None if rng.random() < 0.2 else float(rng.integers(0, 20) / 20) for edit in EDITS}
        cause, reason = str(rng.choice(CAUSES)), str(rng.choice(["steady", "fragile"]))
        rows.append({**part, "kind": "hallucination", "score": 0.8, "cause": cause, "reason": reason, **scores})
    for edit in EDITS[:4]:
        before = int(rng.integers(0, 3))
        rows.append({"kind": "edit", "edit": edit, "before": before, "kept": int(rng.integers(0, before + 1))})
    return rows


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return made_run(tmp_path_factory.mktemp("verify") / "run", IMAGES)


def made_run(path, images):
    """The rows by kind and the document of a run; its last image has no parts."""
    how = VerifySettings(score=SCORE, beta=BETA, check=CHECK, confidence=CONFIDENCE, seed=SEED)
    data = Dataset("made", NAMES, images, lambda i: None, fingerprint="made")
    who = SimpleNamespace(spec="zoo:one", fingerprint="one", names=NAMES)
    known = identity("verify", how.document(), who, data)
    run = Run.start(path, known, SCHEMA, command=["verify"], versions={}, detector_settings={})
    rng = np.random.default_rng(2)
    for image in range(images):
        parts = part_rows(rng, image) if image < images - 1 else []
        rows = [*parts, *detection_rows(rng, parts), *edit_rows(rng, parts)]
        own = {"image": f"p{image}", "width": 200, "height": 100 + 10 * (image % 3)}
        run.add(Finished(Case(image, f"p{image}"), [own | row for row in rows]))
    run.note(cases=images, view=how.document("view"))
    run.close()
    run = Run.open(path)
    kinds = {}
    for row in run.table().to_pylist():
        kinds.setdefault(row["kind"], []).append(row)
    document = VERIFY.document(run) | {"settings": {"score": SCORE}}
    return SimpleNamespace(document=document, run=run, images=images - 1, **kinds)


def best_score(made, part, localised):
    """The highest score of a detection that finds ``part``, -1 where there is none."""
    least = (0.1 if part["missing"] else 0.5) if localised else 0.0
    own = [d for d in made.detection if (d["case_index"], d["label"]) == (part["case_index"], part["label"])]
    return max((d["score"] for d in own if overlap(box_of(d), box_of(part)) >= least), default=-1.0)


def counts(made, parts, score, localised):
    """Present parts that are found, all of these, missing ones that are detected, all of these."""
    found = []
    for missing in (False, True):
        own = [part for part in parts if part["missing"] == missing]
        found += [sum(best_score(made, part, localised) >= score for part in own), len(own)]
    return found


def numbers(counted):
    """R_P, R_M and F_vv."""
    present, missing = (counted[k] / counted[k + 1] if counted[k + 1] else None for k in (0, 2))
    if present is None or missing is None:
        return [present, missing, None]
    below = BETA**2 * (1 - missing) + present
    return [present, missing, (1 + BETA**2) * present * (1 - missing) / below if below else 0.0]


def quantiles(values):
    """The interval of values, but for those that are not defined."""
    ends = np.quantile([v for v in values if v is not None], [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return pytest.approx(ends.tolist())


def drawn(made, parts, score, localised):
    """The counts of every resample of images."""
    draws = np.random.default_rng(SEED).multinomial(made.images, [1 / made.images] * made.images, size=2000)
    cases = sorted({part["case_index"] for part in made.part})
    table = [counts(made, [p for p in parts if p["case_index"] == case], score, localised) for case in cases]
    return draws, (draws @ np.array(table)).tolist()


def check_row(made, told, parts, localised):
    """A row of Table 1."""
    counted = counts(made, parts, SCORE, localised)
    assert [told[key] for key in ("present_found", "present", "missing_found", "missing")] == counted
    assert [told[name] for name in NUMBERS] == pytest.approx(numbers(counted))
    samples = [numbers(each) for each in drawn(made, parts, SCORE, localised)[1]]
    for k, name in enumerate(NUMBERS):
        assert told["intervals"][name] == quantiles([each[k] for each in samples])


LOCALISED = pytest.mark.parametrize(
    ("name", "localised"), [("with_localisation", True), ("without_localisation", False)]
)


@LOCALISED
def test_table_1_is_counted_part_by_part(made, name, localised):
    told, parts = made.document[name], made.part
    check_row(made, told, parts, localised)
    assert 0 < told["present_found"] < told["present"]
    assert 0 < told["missing_found"] < told["missing"]
    assert (told["present_iou"], told["missing_iou"]) == ((0.5, 0.1) if localised else (0, 0))
    single = []
    for part, entry in made.document["by_part"].items():
        own = [row for row in parts if row["label"] == part]
        check_row(made, entry[name], own, localised)
        assert entry["states"] == Counter(row["state"] for row in own)
        single.append(numbers(counts(made, own, SCORE, localised)))
    assert list(made.document["by_part"]) == list(NAMES[:3])
    means = [fmean(each[k] for each in single) for k in range(3)]
    assert [made.document["macro"][name][number] for number in NUMBERS] == pytest.approx(means)


@LOCALISED
def test_curves_are_the_numbers_at_every_score(made, name, localised):
    scores = [i / 100 for i in range(101)]
    every = [numbers(counts(made, made.part, score, localised)) for score in scores]
    told = made.document["f_vv_curve" if localised else "f_vv_curve_without_localisation"]
    assert [value for each in told for value in each] == pytest.approx(
        [value for score, each in zip(scores, every, strict=True) for value in (score, each[2])]
    )
    assert [value for each in made.document["recall_curves"][name] for value in each] == pytest.approx(
        [value for score, each in zip(scores, every, strict=True) for value in (score, *each[:2])]
    )


def test_recall_of_missing_parts_by_iou(made):
    missing = [part for part in made.part if part["missing"]]
    best = []
    for part in missing:
        own = [d for d in made.detection if (d["case_index"], d["label"]) == (part["case_index"], part["label"])]
        best.append(max((overlap(box_of(d), box_of(part)) for d in own if d["score"] >= SCORE), default=-1.0))
    expected = [(i / 20, sum(value >= i / 20 - 1e-12 for value in best) / len(best)) for i in range(21)]
    told = made.document["missing_recall_curve"]
    assert [value for pair in told for value in pair] == pytest.approx([value for pair in expected for value in pair])
    figures = figures_of(Table(made.run))
    assert (figures["missing"], figures["score"]) == (len(missing), SCORE)
    assert (figures["missing_recall_curve"], figures["f_vv_curve"]) == (told, made.document["f_vv_curve"])
    assert figures["AP"] == {name: entry["AP"] for name, entry in made.document["by_part"].items()}


def halves(made):
    """The parts of the images that choose, and those of the others, which are so many."""
    chosen = set(np.random.default_rng(SEED).permutation(made.images)[: (made.images + 1) // 2].tolist())
    return ([p for p in made.part if (p["case_index"] in chosen) == one] for one in (True, False))


def middle(values):
    """The score of the largest value, the middle one of several."""
    top = [i for i, value in enumerate(values) if value is not None and value >= max(values) - 1e-12]
    return top[len(top) // 2] / 100


@LOCALISED
def test_the_threshold_is_chosen_on_one_half_and_told_on_the_other(made, name, localised):
    told, (one, other) = made.document["best_threshold"][name], halves(made)
    curve = [numbers(counts(made, one, i / 100, localised))[2] for i in range(101)]
    score = middle(curve)
    assert told["score"] == score
    assert told["chosen_f_vv"] == pytest.approx(max(curve))
    counted = counts(made, other, score, localised)
    assert [told[key] for key in ("present_found", "present", "missing_found", "missing")] == counted
    assert told["f_vv"] == pytest.approx(numbers(counted)[2])
    assert told["at_score"] == pytest.approx(numbers(counts(made, other, SCORE, localised))[2])
    assert told["interval"] == quantiles([numbers(each)[2] for each in drawn(made, other, score, localised)[1]])


@pytest.mark.parametrize("images", [IMAGES, 4])
@LOCALISED
def test_what_mistakes_cost(made, name, localised, images, tmp_path):
    """Of few images some resamples have only one of those on which it is told, or none."""
    made = made if images == IMAGES else made_run(tmp_path / "run", images)

    def price(counted):
        return counted[2] / BETA + CHECK * (counted[1] - counted[0])

    told, (one, other) = made.document["cost"][name], halves(made)
    assert (told["false_present"], told["check"]) == (pytest.approx(1 / BETA), CHECK)
    curve = [price(counts(made, made.part, i / 100, localised)) / made.images for i in range(101)]
    assert [value for pair in told["curve"] for value in pair] == pytest.approx(
        [value for i, cost in enumerate(curve) for value in (i / 100, cost)]
    )
    score, rest = middle([-price(counts(made, one, i / 100, localised)) for i in range(101)]), made.images // 2
    assert told["score"] == score
    best, fixed = (price(counts(made, other, each, localised)) / rest for each in (score, SCORE))
    assert (told["per_image"], told["at_score"], told["saving"]) == pytest.approx((best, fixed, fixed - best))
    present = sum(not part["missing"] for part in other)
    assert told["check_everything"] == pytest.approx(CHECK * present / rest)
    draws, at_best = drawn(made, other, score, localised)
    cases = {part["case_index"] for part in other}
    among = draws[:, sorted(cases)].sum(axis=1)
    saved = [
        (price(b) - price(a)) / max(n, 1)
        for a, b, n in zip(at_best, drawn(made, other, SCORE, localised)[1], among, strict=True)
    ]
    assert len(cases) == rest
    assert told["interval"] == quantiles(saved)


def test_the_prior_is_the_mean_box_of_present_parts(made):
    size = {part["case_index"]: (part["width"], part["height"]) * 2 for part in made.part}
    mean = {}
    for name in NAMES[:3]:
        own = [p for p in made.part if p["label"] == name and not p["missing"]]
        shares = [[v / s for v, s in zip(box_of(p), size[p["case_index"]], strict=True)] for p in own]
        mean[name] = np.mean(shares, axis=0)
    ghosts = {name: [] for name in NAMES[:3]}
    for part in made.part:
        own = [d for d in made.detection if (d["case_index"], d["label"]) == (part["case_index"], part["label"])]
        own = [d for d in own if d["score"] >= SCORE]
        if part["missing"] and own:
            best = max(own, key=lambda d: d["score"])
            expected = mean[part["label"]] * size[part["case_index"]]
            pairs = ((best, expected), (best, box_of(part)), (part, expected))
            ghosts[part["label"]].append([overlap(box_of(row), box) for row, box in pairs])
    whole = made.document["prior"]
    for told, fits in [
        (whole, [fit for own in ghosts.values() for fit in own]),
        *((whole["by_part"][name], ghosts[name]) for name in mean),
    ]:
        assert told["hallucinated"] == len(fits) > 0
        means = [fmean(each[k] for each in fits) for k in range(3)]
        assert [told[key] for key in ("iou_prior", "iou_likely", "likely_prior")] == pytest.approx(means)
        assert told["nearer"] == pytest.approx(fmean(a > b for a, b, _ in fits))
    for name, box in mean.items():
        assert whole["by_part"][name]["box"] == pytest.approx(box.tolist())
    assert 0 < whole["nearer"] < 1


def test_ap_is_over_present_parts_and_that_of_the_reference_program(made):
    labels = {name: i + 1 for i, name in enumerate(NAMES[:3])}
    known = {part["case_index"] for part in made.part}

    def record(row, **more):
        x0, y0, x1, y1 = box_of(row)
        return {"image_id": row["case_index"] + 1, "category_id": labels[row["label"]],
                "bbox": [x0, y0, x1 - x0, y1 - y0], **more}  # fmt: skip

    present = [part for part in made.part if not part["missing"]]
    truth = [record(p, id=i + 1, iscrowd=0, area=1600.0) for i, p in enumerate(present)]
    found = [record(d, score=d["score"]) for d in made.detection if d["label"] in labels and d["case_index"] in known]
    whole = {"images": [{"id": i + 1, "width": 200, "height": 200} for i in sorted(known)],
             "categories": [{"id": i, "name": name} for name, i in labels.items()], "annotations": truth}  # fmt: skip
    tables = pycocotools_evaluation(whole, found).eval["precision"][:, :, :, 0, -1]
    document = made.document
    assert document["ap"]["AP"] == pytest.approx(tables.mean(), abs=1e-6)
    assert document["ap"]["AP50"] == pytest.approx(tables[0].mean(), abs=1e-6)
    for k, name in enumerate(labels):
        assert document["by_part"][name]["AP"] == pytest.approx(tables[:, :, k].mean(), abs=1e-6)
        assert document["by_part"][name]["AP50"] == pytest.approx(tables[0, :, k].mean(), abs=1e-6)


def share(hits, images):
    """A share and its interval, drawing those images again that have anything to count."""
    if not hits:
        return None, None
    names = sorted(set(images))
    draws = np.random.default_rng(SEED).multinomial(len(names), [1 / len(names)] * len(names), size=1000)
    above, below = np.zeros(len(names)), np.zeros(len(names))
    for hit, image in zip(hits, images, strict=True):
        above[names.index(image)] += hit
        below[names.index(image)] += 1
    return pytest.approx(fmean(hits)), quantiles((draws @ above / (draws @ below)).tolist())


def test_causes_and_edits_are_counted_in_the_rows(made):
    document, ghosts = made.document, made.hallucination
    images = [row["image"] for row in ghosts]
    assert document["hallucinations"] == len(ghosts) > 10
    for cause, told in document["causes"].items():
        own = [row for row in ghosts if row["cause"] == cause]
        assert told["count"] == len(own)
        assert (told["share"], told["interval"]) == share([row["cause"] == cause for row in ghosts], images)
        assert told["reasons"] == Counter(row["reason"] for row in own)
    assert list(document["causes"]) == list(CAUSES)
    assert document["causes_by_part"] == {
        name: {cause: sum((r["label"], r["cause"]) == (name, cause) for r in ghosts) for cause in CAUSES}
        for name in NAMES[:3]
    }
    for edit, told in document["edits"].items():
        asked = [row for row in ghosts if row[f"score_{edit}"] is not None]
        scores = [row[f"score_{edit}"] for row in asked]
        assert told["asked"] == len(asked) < len(ghosts)
        assert (told["ends"], told["interval"]) == share([s < SCORE for s in scores], [r["image"] for r in asked])
        assert told["mean_score"] == pytest.approx(fmean(scores))
        kept = [row for row in made.edit if row["edit"] == edit]
        before, after = (sum(row[key] for row in kept) for key in ("before", "kept"))
        assert told["present_parts"] == before
        assert told["present_lost"] == (pytest.approx(1 - after / before) if before else None)
    assert document["edits"]["control"]["present_lost"] is None


def test_counts_notes_sentences_and_numbers(made):
    document, parts = made.document, made.part
    assert (document["images"], document["parts"]) == (made.images, len(parts))
    missing = sum(part["missing"] for part in parts)
    assert (document["missing"], document["present"]) == (missing, len(parts) - missing)
    states = Counter(part["state"] for part in parts)
    assert document["states"] == {s: {"count": n, "share": pytest.approx(n / len(parts))} for s, n in states.items()}
    assert document["ignored"] == {"crowd": len(made.ignored)}
    assert document["notes"] == [f"{len(made.ignored)} parts are crowd regions; they are not counted."]
    with_, without, best, causes, note = VERIFY.sentences(document)
    for says, word in ((with_, "with"), (without, "without")):
        row = document[f"{word}_localisation"]
        (pl, ph), (ml, mh) = (row["intervals"][key] for key in NUMBERS[:2])
        assert says == (
            f"{word.capitalize()} localisation, at score {SCORE}: {100 * row['present_recall']:.1f} % "
            f"({100 * pl:.0f} to {100 * ph:.0f}) of {row['present']} present parts are found, "
            f"{100 * row['missing_recall']:.1f} % ({100 * ml:.0f} to {100 * mh:.0f}) of {row['missing']} missing ones "
            f"are hallucinated; F_vv {row['f_vv']:.3f}."
        )
    chosen = document["best_threshold"]["with_localisation"]
    assert best == (
        f"A score of {chosen['score']:g}, chosen on one half of the images, gives an F_vv of {chosen['f_vv']:.3f} on "
        f"the other, instead of {chosen['at_score']:.3f}."
    )
    ranked = sorted(
        ((n, each) for n, each in document["causes"].items() if each["count"]), key=lambda i: -i[1]["count"]
    )
    assert causes == "Hallucinations hang on: " + ", ".join(f"{n} {100 * e['share']:.0f} %" for n, e in ranked) + "."
    assert note == document["notes"][0]
    told = VERIFY.numbers(document)
    for name in ("with_localisation", "without_localisation"):
        for number in NUMBERS:
            both = document[name][number], document[name]["intervals"][number]
            assert (told[f"{name}.{number}"].value, told[f"{name}.{number}"].interval) == both
    assert (told["best_threshold"].value, told["AP"].value) == (chosen["score"], document["ap"]["AP"])
    assert (told["best_f_vv"].value, told["best_f_vv"].interval) == (chosen["f_vv"], chosen["interval"])
    for cause, each in document["causes"].items():
        assert (told[f"causes.{cause}"].value, told[f"causes.{cause}"].interval) == (each["share"], each["interval"])

"""Every number of a scan's document, computed a second time from the rows in plain Python."""

import json
import shutil
from collections import Counter
from statistics import fmean, pstdev

import numpy as np
import pytest
from scan_toys import TileDetector, random_run, scan_of, scanned

from misdetect.data import load_data
from misdetect.engine.store import Run
from misdetect.metrics.bootstrap import resamples
from misdetect.metrics.harm import EFFECTS, HARMS
from misdetect.studies.documents import document_of, keep_document, read_document
from misdetect.studies.scan import SCAN
from misdetect.studies.scan.pairs import candidates, choose_pairs
from misdetect.studies.scan.settings import TAUS, ScanSettings

KINDS = {"full": {}, "adaptive": {"adaptive": True}, "failed": {"fail": (1, 6)}}


@pytest.fixture(scope="module", params=KINDS, ids=str)
def made(request, tmp_path_factory):
    """Rows in plain Python, the document, and the run, with made-up rows."""
    return read(random_run(tmp_path_factory.mktemp("made") / "run", 5, **KINDS[request.param]))


def read(run):
    return run.table().to_pylist(), document_of(run), run


def share(rows, hit, among=lambda row: True):
    """Percent of the weight, as documents round it; ``None`` of nothing."""
    below = sum(row["weight"] for row in rows if among(row))
    above = sum(row["weight"] for row in rows if among(row) and hit(row))
    return pytest.approx(100 * above / below, abs=0.0051) if below else None


def rows_of(rows, condition):
    return [row for row in rows if row["condition"] == condition and row["before"]]


def harmful(row):
    return any(thing["harm"] == "harmful" and not thing["flicker"] for thing in row["objects"] + row["new"])


ROWS = {
    "affected": ("score", lambda row: True),
    "class_agnostic": ("agnostic", lambda row: True),
    "occlusion_20": ("score", lambda row: row["coverage"] <= 0.2),
    "no_occlusion": ("score", lambda row: row["coverage"] == 0),
    "scene": ("scene", lambda row: True),
}


def test_every_row_of_table_one_is_a_share_of_positions(made):
    rows, document, _ = made
    assert {row["score"] for row in rows} >= set(TAUS[:2]), "what is as large as τ is not below it"
    for part, condition in ((document, "object"), (document["control"], "control")):
        for name, (column, among) in ROWS.items():
            for tau in TAUS:
                expected = share(rows_of(rows, condition), lambda row, c=column, t=tau: row[c] < t, among)
                assert part[name][f"{tau:g}"] == expected, (condition, name, tau)
    for name in ROWS:
        for tau, rate in document["difference"][name].items():
            expected = document[name][tau] - document["control"][name][tau]
            assert rate == pytest.approx(expected, abs=0.011)


def test_flicker_is_what_goes_away_when_it_is_left_out(made):
    rows, document, _ = made
    settled = dict.fromkeys(("affected", "occlusion_20", "no_occlusion"), "settled") | {"scene": "scene_settled"}
    for part, condition in ((document["flicker"], "object"), (document["flicker"]["control"], "control")):
        assert set(part) - {"control"} == set(settled)
        for name, other in settled.items():
            column, among = ROWS[name]
            for tau in TAUS:
                expected = share(
                    rows_of(rows, condition), lambda row, c=column, o=other, t=tau: row[c] < t <= row[o], among
                )
                assert part[name][f"{tau:g}"] == expected


def test_harm_is_the_share_of_positions_with_a_harmful_change(made):
    rows, document, _ = made
    harm = document["harm"]
    assert harm["object"] == share(rows_of(rows, "object"), harmful)
    assert harm["control"] == share(rows_of(rows, "control"), harmful)
    assert harm["difference"] == pytest.approx(harm["object"] - harm["control"], abs=0.011)
    assert 0 < harm["object"] < 100


def test_without_a_control_there_is_no_difference(tmp_path):
    _, document, _ = read(random_run(tmp_path / "run", 5, control=False))
    assert document["control"] is document["difference"] is document["flicker"]["control"] is None
    assert set(document["intervals"]) == set(ROWS)
    harm = document["harm"]
    assert harm["control"] is harm["difference"] is harm["intervals"]["difference"] is None
    assert {pair["control"] is None for pair in document["pairs"]} == {True}
    assert not any(name.startswith("difference") for name in SCAN.numbers(document))
    assert "control" not in SCAN.sentences(document)[0]


def test_own_parts_only_keeps_all_and_is_new_only_on_the_object(made):
    rows, document, _ = made

    def keeps(row):
        return all(o["outcome"] == "kept" for o in row["objects"]) and all(n["on_parts"] for n in row["new"])

    for tau in TAUS:
        expected = share(rows_of(rows, "object"), keeps, lambda row, t=tau: row["coverage"] == 0 and row["score"] < t)
        assert document["own_parts_only"][f"{tau:g}"] == expected
    assert any(document["own_parts_only"].values())


def bootstrap(rows, document, hit, among=lambda row: True):
    """The interval of a rate by condition and of the difference, image by image and draw by draw."""
    images = sorted({row["background"] for row in rows if row["before"]})
    draws = resamples(len(images), seed=document["settings"]["seed"])
    samples = {}
    for condition in ("object", "control"):
        counts = []
        for image in images:
            here = [row for row in rows_of(rows, condition) if row["background"] == image and among(row)]
            counts.append((sum(r["weight"] for r in here if hit(r)), sum(r["weight"] for r in here)))
        samples[condition] = []
        for draw in draws.tolist():
            above, below = (sum(n * count[k] for n, count in zip(draw, counts, strict=True)) for k in (0, 1))
            samples[condition].append(100 * above / below if below else np.nan)
    samples["difference"] = np.subtract(samples["object"], samples["control"])
    return {
        name: pytest.approx(np.nanquantile(values, [0.05, 0.95]).tolist(), abs=0.0051)
        for name, values in samples.items()
    }


def test_intervals_draw_whole_images_again_the_same_for_both_conditions(made):
    rows, document, _ = made
    ends = document["intervals"]
    for name, tau in (("affected", 0.5), ("no_occlusion", 0.7), ("scene", 0.3)):
        column, among = ROWS[name]
        expected = bootstrap(rows, document, lambda row, c=column, t=tau: row[c] < t, among)
        found = {"object": ends, "control": ends["control"], "difference": ends["difference"]}
        for key, part in found.items():
            assert part[name][f"{tau:g}"] == expected[key], (name, key)
    for key, each in bootstrap(rows, document, harmful).items():
        assert document["harm"]["intervals"][key] == each


def test_average_over_images_and_the_captions_policy_are_other_views_of_the_rows(tmp_path):
    run = random_run(tmp_path / "run", 5)
    rows, usual, _ = read(run)
    run.note(view={"average": "images", "policy": "caption", "tau": [0.4], "confidence": 0.5})
    document = document_of(run)
    images = {row["background"] for row in rows_of(rows, "object")}
    for name, column in (("affected", "least"), ("class_agnostic", "least_agnostic"), ("scene", "scene")):
        rates = [
            fmean(row[column] < 0.4 for row in rows_of(rows, "object") if row["background"] == image)
            for image in images
        ]
        assert document[name] == {"0.4": pytest.approx(100 * fmean(rates), abs=0.0051)}
    flickers = [row["least"] < 0.4 <= row["settled_least"] for row in rows_of(rows, "object")]
    assert any(flickers)
    by_image = [
        fmean(
            row["least"] < 0.4 <= row["settled_least"] for row in rows_of(rows, "object") if row["background"] == image
        )
        for image in images
    ]
    assert document["flicker"]["affected"]["0.4"] == pytest.approx(100 * fmean(by_image), abs=0.0051)
    run.note(view={"confidence": 0.5})
    narrow, wide = (each["intervals"]["affected"]["0.5"] for each in (document_of(run), usual))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def weighted(rows, condition):
    """(weight, original) of every position."""
    return [(row["weight"], thing) for row in rows if row["condition"] == condition for thing in row["objects"]]


def test_outcomes_and_effects_are_shares_of_originals_times_positions(made):
    rows, document, _ = made
    conditions = {row["condition"] for row in rows}
    assert set(document["outcomes"]) == set(document["effects"]) == set(document["harms"]) == conditions
    for condition in conditions:
        things = weighted(rows, condition)
        whole = sum(weight for weight, _ in things)
        for name, value in document["outcomes"][condition].items():
            hits = sum(w for w, o in things if (o["flicker"] if name == "flicker" else o["outcome"] == name))
            assert value == pytest.approx(100 * hits / whole, abs=0.0051), name
        new = [(row["weight"], n) for row in rows if row["condition"] == condition for n in row["new"]]
        firm = [(weight, thing) for weight, thing in things + new if not thing["flicker"]]
        for key, column, names in (("effects", "effect", EFFECTS), ("harms", "harm", HARMS)):
            assert list(document[key][condition]) == list(names)
            for name in names:
                hits = sum(weight for weight, thing in firm if thing[column] == name)
                assert document[key][condition][name] == pytest.approx(100 * hits / whole, abs=0.0051), (key, name)


def test_changes_by_distance(made):
    rows, document, _ = made
    ends = [0.0, 0.05, 0.1, 0.2, 0.3, 0.5, np.inf]
    bins = {b["to"]: b for b in document["distance"]["bins"]}
    assert [b["from"] for b in document["distance"]["bins"]] == [0.0, *ends[:-1]]
    for condition in {row["condition"] for row in rows}:
        farthest = []
        cells = [[] for _ in ends]
        for row in rows:
            for thing in row["objects"] if row["condition"] == condition else ():
                relative = thing["distance"] / np.hypot(row["width"], row["height"])
                cells[next(i for i, end in enumerate(ends) if relative <= end)].append((row["weight"], thing))
                if thing["outcome"] in ("renamed", "lost") and not thing["flicker"]:
                    farthest.append(thing["distance"])
        for cell, end in zip(cells, ends, strict=True):
            found, whole = bins[None if end == np.inf else end][condition], sum(weight for weight, _ in cell)
            gone = [(w, o) for w, o in cell if o["outcome"] in ("renamed", "lost")]
            assert found["objects"] == len(cell)
            for key, hits in (
                ("changed", sum(w for w, o in gone if not o["flicker"])),
                ("flicker", sum(w for w, o in gone if o["flicker"])),
                ("moved", sum(w for w, o in cell if o["outcome"] == "moved")),
            ):
                assert found[key] == pytest.approx(100 * hits / whole, abs=0.0051)
        assert document["distance"]["farthest"][condition] == max(farthest)


def test_losses_by_fate_and_mechanism_inside_and_outside_the_object(made):
    rows, document, _ = made
    lost = [o for row in rows if row["condition"] == "object" for o in row["objects"] if o["outcome"] == "lost"]
    for key, column in (("suppression", "fate"), ("mechanisms", "mechanism")):
        for where, covered in (("covered", True), ("uncovered", False)):
            expected = Counter(o[column] for o in lost if (o["coverage"] > 0) == covered and o[column])
            assert document[key][where] == expected
        assert document[key]["covered"] != document[key]["uncovered"]


def test_stability_of_the_object_itself(made):
    rows, document, _ = made
    rows = [row for row in rows if row["condition"] == "object"]
    found = document["stability"]
    assert found["detected"] == share(rows, lambda row: row["t_detected"])
    assert found["as_itself"] == share(rows, lambda row: row["t_label"] == "cat")
    assert found["as_another"] == share(rows, lambda row: row["t_label"] == "chair")
    mean = sum(row["weight"] * row["t_confidence"] for row in rows) / sum(row["weight"] for row in rows)
    assert found["confidence"] == pytest.approx(mean, abs=6e-4)
    by_pair = [[row for row in rows if row["pair"] == pair] for pair in sorted({row["pair"] for row in rows})]
    deviations = [pstdev(row["t_confidence"] for row in part) for part in by_pair]
    assert found["confidence_deviation"] == pytest.approx(fmean(deviations), abs=6e-4)
    identities = [len({row["t_label"] for row in part} - {None}) for part in by_pair]
    assert found["identities"] == pytest.approx(fmean(identities), abs=6e-4)
    at = {(row["pair"], row["x"], row["y"]): row for row in rows}
    steps = [
        (row, at[neighbour])
        for (pair, x, y), row in at.items()
        for neighbour in ((pair, x + 8, y), (pair, x, y + 8))
        if neighbour in at
    ]
    step = found["step"]
    assert step["compared"] == len(steps)
    flips = [a["t_detected"] != b["t_detected"] for a, b in steps]
    renames = [bool(a["t_label"] and b["t_label"] and a["t_label"] != b["t_label"]) for a, b in steps]
    jumps = [abs(a["t_confidence"] - b["t_confidence"]) for a, b in steps]
    assert step["flips"] == pytest.approx(100 * fmean(flips), abs=0.0051)
    assert step["renames"] == pytest.approx(100 * fmean(renames), abs=0.0051)
    assert step["mean_jump"] == pytest.approx(fmean(jumps), abs=6e-4)
    assert step["largest_jump"] == pytest.approx(max(jumps), abs=6e-4)


def test_pairs_and_counts(made):
    rows, document, run = made
    assert document["positions"] == sum(each["positions"] for each in run.settings["transplants"])
    assert document["queries"] == len(rows) + len({row["background"] for row in rows})
    assert document["without_detections"] == ["image-2"]
    assert [pair["pair"] for pair in document["pairs"]] == list(range(6))
    for pair, each in zip(document["pairs"], run.settings["transplants"], strict=True):
        here = {c: [r for r in rows if (r["pair"], r["condition"]) == (pair["pair"], c)] for c in ("object", "control")}
        assert {key: pair[key] for key in ("background", "source", "annotation", "label", "positions")} == {
            key: each[key] for key in ("background", "source", "annotation", "label", "positions")
        }
        assert pair["asked"] == len(here["object"])
        seen = here["object"] + here["control"]
        assert pair["detections"] == (seen[0]["before"] if seen else None)
        for key, condition in (("affected", "object"), ("control", "control")):
            if not here[condition]:
                assert pair[key] is None
                continue
            for tau in TAUS:
                assert pair[key][f"{tau:g}"] == share(here[condition], lambda row, t=tau: row["score"] < t)


def test_a_case_that_failed_under_one_condition_shifts_nothing(tmp_path):
    """Image 1 has no row under the control; the images are still the same ones under both."""
    run = random_run(tmp_path / "run", 5, fail=(3,))
    rows, document = run.table().to_pylist(), document_of(run)
    assert (document["cases"], document["done"], document["failed"]) == (12, 12, 1)
    assert document["failures"] == [{"case": "1/control", "image": None, "error": "made up"}]
    assert document["control"]["affected"]["0.5"] == share(rows_of(rows, "control"), lambda row: row["score"] < 0.5)
    expected = bootstrap(rows, document, lambda row: row["score"] < 0.5)
    assert document["intervals"]["difference"]["affected"]["0.5"] == expected["difference"]
    assert document["pairs"][1]["control"] is None
    assert document["pairs"][1]["affected"] is not None


def test_headline_numbers_are_those_of_the_document(made):
    _, document, _ = made
    numbers = SCAN.numbers(document)
    rows, taus = ("affected", "no_occlusion", "scene"), [f"{tau:g}" for tau in TAUS]
    names = {"harm", *(f"{row}.{tau}" for row in rows for tau in taus)}
    assert set(numbers) == names | {f"difference.{name}" for name in names}
    harm, intervals = document["harm"], document["intervals"]
    for name, key in (("harm", "object"), ("difference.harm", "difference")):
        assert (numbers[name].value, numbers[name].interval) == (harm[key], harm["intervals"][key])
    for prefix, rates, ends in (
        ("", document, intervals),
        ("difference.", document["difference"], intervals["difference"]),
    ):
        for row in rows:
            for tau in taus:
                one = numbers[f"{prefix}{row}.{tau}"]
                assert (one.value, one.interval) == (rates[row][tau], ends[row][tau])


def test_the_headline_says_what_harms(made):
    _, document, _ = made
    first, second, *_ = SCAN.sentences(document)
    harm = document["harm"]
    ends = {key: f"({low:.0f} to {high:.0f})" for key, (low, high) in harm["intervals"].items()}
    assert f"does harm at {harm['object']:.1f} % {ends['object']} of positions" in first
    assert f"control at {harm['control']:.1f} % {ends['control']}:" in first
    assert f"a difference of {harm['difference']:.1f} points {ends['difference']}." in first
    assert f"S < 0.7) at {document['affected']['0.7']:.1f} % of positions" in second
    assert f"{document['no_occlusion']['0.7']:.1f} % of those where it covers nothing" in second


@pytest.mark.heavy
def test_the_document_needs_neither_data_nor_detector_nor_its_place(tmp_path, monkeypatch):
    rooms = load_data("rooms:val,size=64,count=8")
    pairs = choose_pairs(rooms, 2, candidates(rooms, 0))
    for name, settings in (("full", {"step": 9}), ("adaptive", {"step": 6, "adaptive": True, "precision": 15.0})):
        run = scanned(scan_of(rooms, pairs, **settings), TileDetector(), tmp_path / name).run
        kept = keep_document(run)
        shutil.move(tmp_path / name, tmp_path / "elsewhere" / name)
        with monkeypatch.context() as patch:
            patch.setattr("misdetect.data.load_data", None)
            patch.setattr("misdetect.detectors.load_detector", None)
            moved = Run.open(tmp_path / "elsewhere" / name)
            assert json.loads(json.dumps(document_of(moved))) == kept
            assert read_document(moved) == kept
        assert kept["finished"]
        assert kept["affected"]["0.95"] > 0


def test_classes_without_a_common_name_are_not_called_harmless(tmp_path):
    rooms = load_data("rooms:val,size=64,count=8")
    pairs = choose_pairs(rooms, 1, candidates(rooms, 0))

    class Strange(TileDetector):
        names = ("one", "two", "three")

    run = scanned(scan_of(rooms, pairs, Strange.names, step=12), Strange(), tmp_path / "run").run
    document = document_of(run)
    assert document["harm"] is None
    assert not any(name.endswith("harm") for name in SCAN.numbers(document))
    assert any("no class in common" in sentence for sentence in SCAN.sentences(document))
    assert {o["right"] for row in run.table().to_pylist() for o in row["objects"]} == {None}


@pytest.mark.parametrize("hiding", [False, True])
def test_a_detector_that_may_hide_faint_scores_is_said_to(tmp_path, hiding):
    """The same tiles, once with all their scores and once behind a threshold of their own."""
    rooms = load_data("rooms:val,size=64,count=8")
    pairs = choose_pairs(rooms, 1, candidates(rooms, 0))

    class Tiles(TileDetector):
        def detect(self, images):
            return [found.above(0.5 if hiding else 0.0) for found in super().detect(images)]

    run = scanned(scan_of(rooms, pairs, step=12), Tiles(), tmp_path / "run").run
    notes = [note for note in document_of(run)["notes"] if "the detector may hide such scores" in note]
    assert len(notes) == hiding
    faint = ScanSettings().faint[0]
    assert all(note.startswith(f"What was lost never left a score of {faint:g} or less behind") for note in notes)


def test_nothing_done_yet_is_a_document_too(tmp_path):
    document = document_of(random_run(tmp_path / "run", 5, fail=range(12)))
    assert document["failed"] == document["cases"] == 12
    assert document["harm"]["object"] is document["affected"]["0.5"] is document["stability"]["detected"] is None
    assert document["pairs"][0]["affected"] is None
    assert SCAN.sentences(document) == ["Only 6 of 29 pairs could be drawn."]

"""Every number of a fuzz document, computed again from the run's rows in plain loops; and the run that stands alone:
read after it was moved, without detector and data, with a ledger that agrees with its rows."""

import json
import shutil
from collections import Counter

import numpy as np
import pytest
from fuzz_toys import BlotDetector, naive_iou, nervous_campaign
from scipy.stats import beta

import misdetect as md
from misdetect.engine.store import Run
from misdetect.metrics import bootstrap
from misdetect.metrics.harm import EFFECTS, HARMS
from misdetect.studies.documents import document_of
from misdetect.studies.fuzz.figures import TABLES
from misdetect.studies.fuzz.tables import page, tables
from misdetect.studies.kinds import kind_of
from misdetect.studies.running import budget_file

TYPES = ("missed", "extra", "renamed", "moved")
CONFIDENCE = 0.8
KEYS = {
    "attributable", "attributable_by_type", "attributable_per_1000", "backgrounds", "by_control", "by_type", "cases",
    "cost", "coverage", "data", "detector", "distinct", "done", "effects", "failed", "failing_insertions",
    "failure_rate", "failures", "finished", "flicker", "harm", "harmful_per_1000", "insertions", "intervals", "joining",
    "naturalness", "noise", "notes", "control_asked", "control_failures", "queries", "raw_failure_rate", "raw_failures",
    "relocated", "relocated_unique", "relocation", "scores", "settings", "shrunk", "study", "tables",
    "unique_failures",
}  # fmt: skip


@pytest.fixture(
    scope="module",
    params=["nervous", *(pytest.param(name, marks=pytest.mark.heavy) for name in ("blots", "adaptive", "flicker"))],
)
def run(request, tmp_path_factory):
    """Campaigns with all phases and every kind of change: a planted one, one whose failures are often the control's
    too, one that learns, and one that counts flicker and leaves out what is not natural."""
    folder = tmp_path_factory.mktemp("fuzz") / "run"
    rooms = "rooms:val,count=24"
    if request.param == "nervous":
        pool = md.pool(rooms, keep=1.0, border=0, min_side=10, out=folder.with_name("pool"))
        return nervous_campaign(folder, pool, confidence=CONFIDENCE)
    more = {
        "blots": {"strategy": "guided", "reach": 2},
        "adaptive": {},
        "flicker": {"strategy": "random", "count_flicker": True, "min_naturalness": 0.96},
    }[request.param]
    return md.fuzz(BlotDetector(), rooms, queries=220, out=folder, cache=False, confidence=CONFIDENCE, **more)


@pytest.fixture(scope="module")
def phases(run):
    """The rows of each phase, as they are stored."""
    found = {phase: [] for phase in ("clean", "insertion", "relocation", "shrinking")}
    for row in run.rows().to_pylist():
        found[row["phase"]].append(row)
    return found


def asked(phases):
    return [row for row in phases["insertion"] if row["failed"] is not None]


def minded(run, row):
    """The changes that make ``row`` a failure."""
    everything = run.document["settings"]["count_flicker"]
    return [c for c in row["changes"] or [] if c["counts"] and (everything or not c["flickers"])]


def groups(run, phases):
    """``[image, type, cases]`` of each distinct failure, by comparing each change with all that came before it."""
    found = []
    for row in asked(phases):
        for change in minded(run, row):
            box = [change[side] for side in ("x0", "y0", "x1", "y1")]
            for image, kind, first, shown in found:
                if (image, kind) != (row["image"], change["type"]):
                    continue
                if kind != "extra":
                    same = first["thing"] == change["thing"]
                else:
                    other = [first[side] for side in ("x0", "y0", "x1", "y1")]
                    same = first["label"] == change["label"] and naive_iou(box, other) >= 0.5
                if same:
                    shown.append((row, change))
                    break
            else:
                found.append((row["image"], change["type"], change, [(row, change)]))
    return found


def best(shown):
    """The case that shows a failure best: attributable before others, harmful before others, then most score lost."""
    for name, value in (("attributable", True), ("cleared", True), ("harm", "harmful")):
        shown = [each for each in shown if each[1][name] == value] or shown
    return max(shown, key=lambda each: (abs(each[1]["score"] - each[1]["after"]), -each[0]["case_index"]))


def test_the_document_has_the_keys_of_the_contract(run):
    document = run.document
    assert set(document) == KEYS
    assert document["finished"]
    assert document["cases"] == document["done"] == len(run.directory.done())
    assert (document["failed"], document["failures"]) == (0, [])


def test_what_is_said_of_insertions_is_counted_in_the_rows(run, phases):
    document, insertions = run.document, asked(phases)
    failing = [row for row in insertions if minded(run, row)]
    raw = [row for row in insertions if any(c["counts"] for c in row["changes"])]
    assert len(failing) > 5
    assert document["backgrounds"] == len(phases["clean"]) > 5
    assert document["insertions"] == len(insertions)
    assert document["failing_insertions"] == len(failing)
    assert document["failure_rate"] == len(failing) / len(insertions)
    assert document["raw_failures"] == len(raw)
    assert document["raw_failure_rate"] == len(raw) / len(insertions)
    only = [row for row in raw if all(c["flickers"] for c in row["changes"] if c["counts"])]
    assert document["flicker"] == len(only)
    firm = [[c for c in row["changes"] if c["counts"] and not c["flickers"]] for row in failing]
    answered = [[c["patches"][0] for c in changes if c["patches"] is not None] for changes in firm]
    assert document["control_asked"] == sum(map(bool, answered))
    assert document["control_failures"] == sum(map(any, answered))
    for name in TYPES:
        assert document["by_type"][name] == sum(any(c["type"] == name for c in minded(run, row)) for row in failing)
    assert document["queries"] == sum(row["queries"] for rows in phases.values() for row in rows) <= 300
    spent = run.outcome.stats["queries"]
    assert document["cost"] == {"queries": spent, "usd": 0.0}


def test_distinct_failures_are_what_comparing_all_with_all_finds(run, phases):
    document, found = run.document, groups(run, phases)
    assert document["unique_failures"] == len(document["distinct"]) == len(found)
    order = []
    for entry in document["distinct"]:
        ((row, change, times),) = [
            (row, change, len(cases))
            for _, kind, _, cases in found
            for row, change in [best(cases)]
            if (row["case"], kind) == (entry["case"], entry["type"])
            and [change[side] for side in ("x0", "y0", "x1", "y1")] == entry["box"]
        ]
        assert (entry["times"], entry["image"], entry["inserted"]) == (times, row["image"], row["label"])
        for name in ("label", "became", "object", "effect", "harm", "score", "after", "attributable", "cleared"):
            assert entry[name] == change[name]
        seen = change["patches"] or []
        assert (entry["patches"], entry["patches_failing"]) == (len(seen), sum(seen))
        known = beta(0.5 + sum(seen), 0.5 + len(seen) - sum(seen))
        assert entry["chance"] == (pytest.approx(known.mean()) if seen else None)
        assert entry["chance_interval"] == (pytest.approx(list(known.interval(CONFIDENCE))) if seen else None)
        lost = abs(entry["score"] - entry["after"])
        worst = (not entry["attributable"], not entry["cleared"], entry["harm"] != "harmful", -lost, row["case_index"])
        order.append(worst)
    assert order == sorted(order), "the worst come first"


def test_the_headline_counts_what_is_attributable_and_what_harms(run, phases):
    document = run.document
    real = [best(cases)[1] | {"kind": kind} for _, kind, _, cases in groups(run, phases)]
    real = [change for change in real if change["attributable"]]
    assert document["attributable"] == len(real) > 0
    assert document["attributable_per_1000"] == 1000 * len(real) / document["queries"]
    assert document["attributable_by_type"] == {name: sum(c["kind"] == name for c in real) for name in TYPES}
    assert document["harm"] == {name: sum(c["harm"] == name for c in real) for name in HARMS}
    assert document["effects"] == {name: sum(c["effect"] == name for c in real) for name in EFFECTS}
    assert document["harmful_per_1000"] == 1000 * document["harm"]["harmful"] / document["queries"]
    assert sum(document["effects"].values()) + document["harm"]["unknown"] == len(real)


def test_coverage_is_measured_box_by_box(run, phases):
    coverage, score = run.document["coverage"], run.document["settings"]["score"]
    objects = tested = usable = touched = 0
    for row in phases["clean"]:
        firm = [d for d in row["detections"] if d["score"] >= score]
        inserted = [
            (i["x"], i["y"], i["x"] + i["width"], i["y"] + i["height"])
            for i in asked(phases)
            if i["image"] == row["image"]
        ]
        usable += bool(firm)
        touched += bool(inserted)
        objects += len(firm)
        for d in firm:
            for x0, y0, x1, y1 in inserted:
                dx, dy = max(0, x0 - d["x1"], d["x0"] - x1), max(0, y0 - d["y1"], d["y0"] - y1)
                if (dx**2 + dy**2) ** 0.5 <= ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5 / 2 + 1:
                    tested += 1
                    break
    assert 0 < tested < objects
    assert coverage["objects"] == tested / objects
    assert coverage["backgrounds"] == touched / usable
    assert coverage["detected_objects"] == objects
    assert coverage["backgrounds_with_detections"] == usable
    assert coverage["insertions_by_reach"] == {
        str(reach): n for reach, n in Counter(row["reach"] for row in asked(phases)).items()
    }
    assert coverage["unnatural"] == sum(row["failed"] is None for row in phases["insertion"])
    if run.document["settings"]["strategy"] == "adaptive":
        assert coverage["dropped"] is None
    else:
        assert coverage["dropped"] == sum(row["dropped"] for row in phases["insertion"])


def test_searches_naturalness_and_noise_are_those_of_the_rows(run, phases):
    document, moved = run.document, [row for row in phases["relocation"] if row["progress"] > 0]
    assert document["relocated"] == len(moved)
    assert document["relocated_unique"] == len({(r["image"], r["cutout"], r["x"], r["y"]) for r in moved})
    relocation = document["relocation"]
    assert (relocation["tried"], relocation["moved"]) == (len(phases["relocation"]), len(moved))
    assert relocation["queries"] == sum(row["queries"] for row in phases["relocation"])
    arrived = [row for row in moved if row["progress"] > 0.999999]
    assert relocation["arrived"] == relocation["progress"]["100"] == len(arrived)
    assert relocation["arrived_share"] == (len(arrived) / len(moved) if moved else None)
    far = sum(row["progress"] >= 0.4 for row in moved)
    assert relocation["at_least_40"] == (far / len(moved) if moved else None)
    for low in (0, 20, 40, 60, 80):
        within = [row for row in moved if low <= 100 * row["progress"] < low + 20]
        assert relocation["progress"][f"{low}-{low + 20}"] == len(within)
    assert [(s["case"], s["origin"], s["strength"], s["opacity"], s["size"]) for s in document["shrunk"]] == [
        (r["case"], r["origin"], r["strength"], r["opacity"], [r["width"], r["height"]]) for r in phases["shrinking"]
    ]
    failing = [row for row in asked(phases) if minded(run, row)]
    for name, rows in (("inserted", asked(phases)), ("failing", failing), ("relocated", moved)):
        mean = 100 * sum(row["naturalness"] for row in rows) / len(rows) if rows else None
        assert document["naturalness"][name] == pytest.approx(mean)
    twice = [row for row in phases["clean"] if row["differs"] is not None]
    assert document["noise"] == {"asked_twice": 5, "differing": 0, "failing": 0}
    assert len(twice) == 5
    assert document["notes"] == []


def test_intervals_are_of_backgrounds_drawn_again(run, phases):
    document = run.document
    images = [row["image"] for row in phases["clean"]]
    queries, insertions, failing, real, harmful = (Counter() for _ in range(5))
    for rows in phases.values():
        for row in rows:
            queries[row["image"]] += row["queries"]
    for row in asked(phases):
        insertions[row["image"]] += 1
        failing[row["image"]] += bool(minded(run, row))
    for image, _, _, cases in groups(run, phases):
        change = best(cases)[1]
        real[image] += change["attributable"]
        harmful[image] += change["attributable"] and change["harm"] == "harmful"
    draws = bootstrap.resamples(len(images), seed=document["settings"]["seed"])
    for name, above, below, factor in (
        ("failure_rate", failing, insertions, 1),
        ("attributable_per_1000", real, queries, 1000),
        ("harmful_per_1000", harmful, queries, 1000),
    ):
        rates = []
        for draw in draws:
            whole = sum(n * below[image] for n, image in zip(draw, images, strict=True))
            if whole:
                rates.append(factor * sum(n * above[image] for n, image in zip(draw, images, strict=True)) / whole)
        tail = (1 - CONFIDENCE) / 2
        assert document["intervals"][name] == pytest.approx(list(np.quantile(rates, [tail, 1 - tail])))
    assert document["intervals"]["confidence"] == CONFIDENCE


def test_the_papers_tables_are_counted_in_the_rows(run, phases):
    """Table 3's second and last columns add up to Table 1's, as in the paper; a synthetic image fails or does not."""
    document = run.document
    failing = sum(row["failed"] for row in asked(phases)) + document["relocated_unique"]
    images = len(asked(phases)) + sum(row["queries"] for row in phases["relocation"])
    assert document["tables"] == {
        "1": {
            "synthetic_images": images,
            "detected_objects": sum(
                d["score"] >= document["settings"]["score"] for row in phases["clean"] for d in row["detections"]
            ),
            "images_causing_failures": failing,
            "share_causing_failures": failing / images,
            "usd": 0.0,
        },
        "3": {
            "inserted": sum(row["failed"] for row in asked(phases)),
            "relocated": document["relocated"],
            "relocated_unique": document["relocated_unique"],
        },
        "4": {name: document["naturalness"][name] for name in ("inserted", "relocated")},
        "figure_8": document["relocation"]["progress"],
    }


def test_the_first_sentence_is_what_harms_and_numbers_have_their_intervals(run):
    document, kind = run.document, kind_of("fuzz")
    first, second, third = run.sentences
    low, high = document["intervals"]["harmful_per_1000"]
    rate = f"({document['harmful_per_1000']:.1f} per 1,000 queries, {low:.1f} to {high:.1f})"
    assert first.startswith(
        f"{document['harm']['harmful']} distinct failures that inserted objects cause do harm {rate}"
    )
    assert second.startswith(f"{document['attributable']} distinct failures are the inserted objects' doing")
    for name, count in document["harm"].items():
        assert (f"{count} {name}" in second) == bool(count)
    assert f"{document['raw_failures']} of {document['insertions']} insertions fail" in third
    assert f"{document['flicker']} only by a score that flickers" in third
    assert repr(run).splitlines()[1].strip() == first
    numbers = kind.numbers(document)
    for name in ("harmful_per_1000", "attributable_per_1000", "failure_rate"):
        assert (numbers[name].value, numbers[name].interval) == (document[name], document["intervals"][name])
    for name in ("raw_failure_rate", "unique_failures", "queries"):
        assert (numbers[name].value, numbers[name].interval) == (document[name], None)
    assert numbers["coverage.objects"].value == document["coverage"]["objects"]


def test_the_run_is_read_where_neither_data_nor_detector_are(run, tmp_path, monkeypatch):
    def refuse(*_args, **_more):
        raise AssertionError("a document needs neither data nor detector")

    for name in ("misdetect.data.load_data", "misdetect.detectors.load_detector", "misdetect.data.opened.load_data"):
        monkeypatch.setattr(name, refuse)
    moved = tmp_path / "elsewhere"
    shutil.copytree(run.path, moved)
    assert json.loads(json.dumps(document_of(Run.open(moved)))) == {
        **run.document,
        "cost": None,
        "tables": run.document["tables"] | {"1": run.document["tables"]["1"] | {"usd": None}},
    }
    assert md.open(moved).document == run.document, "as it was kept"
    shutil.copy(budget_file(run.path), budget_file(moved))
    (moved / "document.json").unlink()
    again = md.open(moved)
    assert again.document == run.document
    assert again.sentences == run.sentences
    assert again.ledger().drop_columns(["run", "replay"]) == run.ledger().drop_columns(["run", "replay"])


def test_the_ledger_has_each_insertion_beside_each_detection(run, phases):
    score = run.document["settings"]["score"]
    clean = {row["image"]: row["detections"] for row in phases["clean"]}
    wanted = []
    for row in asked(phases):
        places = [i for i, d in enumerate(clean[row["image"]]) if d["score"] >= score]
        changes = {c["thing"]: c for c in row["changes"] if c["type"] != "extra"}
        for thing, place in enumerate(places):
            d, c = clean[row["image"]][place], changes.get(thing)
            wanted.append(
                {
                    "case": row["case"], "image": row["image"], "control": False, "label": d["label"],
                    "outcome": "found" if c is None else c["type"],
                    "harm": "harmless" if c is None else c["harm"],
                    "object": d["object"] if c is None or c["object"] is None else c["object"],
                    "became": None if c is None else c["became"],
                    "score_before": d["score"], "score": row["standing"][place] if c is None else c["after"],
                    "flicker": c is not None and c["flickers"], "attributable": c is not None and c["attributable"],
                    "x0": d["x0"], "y1": d["y1"],
                }
            )  # fmt: skip
        for c in row["changes"]:
            own = {"case": row["case"], "image": row["image"], "label": c["label"], "x0": c["x0"], "y1": c["y1"]}
            own |= {"object": c["object"], "became": None, "score_before": c["score"]}
            if c["type"] == "extra":
                more = {"outcome": "extra", "harm": c["harm"], "score": c["after"], "flicker": c["flickers"]}
                wanted.append(own | more | {"control": False, "attributable": c["attributable"]})
            if c["patches"] is not None:
                first = c["patches"][0]
                same = {"outcome": c["type"] if first else "found", "harm": c["harm"] if first else "harmless"}
                wanted.append(own | same | {"control": True, "score": None, "flicker": None, "attributable": False})
    found = run.ledger().to_pylist()

    def key(row):
        return tuple(str(row[name]) for name in sorted(wanted[0]))

    assert {row["condition"] for row in found} == {"insertion"}
    assert sorted(map(key, found)) == sorted(map(key, wanted))
    cases = {row["case"]: row for row in asked(phases)}
    for row in found:
        case = cases[row["case"]]
        assert json.loads(row["evidence"]) == {
            "inserted": case["label"],
            "box": [case["x"], case["y"], case["x"] + case["width"], case["y"] + case["height"]],
            "opacity": case["opacity"],
            "naturalness": case["naturalness"],
        }


def test_figures_show_the_worst_first_and_the_papers_tables(run):
    drawn = run.figures(3)
    assert [path.name for path in drawn[:-1]] == list(
        dict.fromkeys(f"{entry['case'].replace('/', '-')}.png" for entry in run.document["distinct"])
    )[:3]
    assert drawn[-1] == run.path / TABLES
    page, tables = drawn[-1].read_text(), run.document["tables"]
    first = tables["1"]
    assert f"| {first['images_causing_failures']} ({100 * first['share_causing_failures']:.1f} %) | 0.00 |" in page
    assert f"| {first['synthetic_images']} | {first['detected_objects']} |" in page
    third = tables["3"]
    assert f"| {third['inserted']} | {third['relocated']} | {third['relocated_unique']} |" in page
    most = max(tables["figure_8"].values())
    for name, count in tables["figure_8"].items():
        assert f"\n| {name} | {count} | {'█' * round(30 * count / max(most, 1))} |\n" in page
    natural = (("–" if value is None else f"{value:.1f}") for value in tables["4"].values())
    assert f"| {' | '.join(natural)} |" in page
    assert page.count("\n|---|") == 4
    assert f"{run.document['harm']['harmful']} of them do harm" in page
    assert run.figures(0) == []


def test_the_papers_tables_by_hand():
    """5 of 40 insertions fail, and 3 of 24 that are moved; one of these in a way that none of the 5 does."""
    document = {
        "raw_failures": 5, "relocated_unique": 1, "relocated": 3, "insertions": 40, "attributable": 4, "flicker": 2,
        "relocation": {"queries": 24, "progress": {"0-20": 2, "20-40": 8, "40-60": 0}}, "cost": {"usd": 1.254},
        "coverage": {"detected_objects": 31}, "naturalness": {"inserted": 62.55, "relocated": 7.0, "other": 1},
        "harm": {"harmful": 3}, "detector": "zoo:x", "settings": {"strategy": "random", "reach": 2},
    }  # fmt: skip
    document["tables"] = tables(document)
    assert document["tables"] == {
        "1": {"synthetic_images": 64, "detected_objects": 31, "images_causing_failures": 6,
              "share_causing_failures": 6 / 64, "usd": 1.254},
        "3": {"inserted": 5, "relocated": 3, "relocated_unique": 1},
        "4": {"inserted": 62.55, "relocated": 7.0},
        "figure_8": {"0-20": 2, "20-40": 8, "40-60": 0},
    }  # fmt: skip
    lines = [line for line in page(document).splitlines() if line.startswith("|")]
    assert [line for line in lines if "---" not in line] == [
        "| OD | #synthetic images | #detected objects | #images causing failures | USD |",
        "| `zoo:x` | 64 | 31 | 6 (9.4 %) | 1.25 |",
        "| OD | with inserted object | with relocated object | unique of these |",
        "| `zoo:x` | 5 | 3 | 1 |",
        "| OD | inserted | relocated |",
        "| `zoo:x` | 62.5 | 7.0 |",
        "| percent of the way | objects |  |",
        f"| 0-20 | 2 | {8 * '█'} |",
        f"| 20-40 | 8 | {30 * '█'} |",
        "| 40-60 | 0 |  |",
    ]
    assert [line.count("---") for line in lines if "---" in line] == [5, 4, 3, 3]
    said = page(document)
    assert "Of 5 failing insertions 2 only flicker; 4 distinct failures" in said
    assert "3 of them do harm" in said
    document["tables"]["figure_8"] = {"0-20": 1}
    assert f"| 0-20 | 1 | {30 * '█'} |" in page(document)


def test_a_campaign_that_asked_nothing_has_tables_without_shares():
    document = {
        "raw_failures": 0, "relocated_unique": 0, "relocated": 0, "insertions": 0, "attributable": 0, "flicker": 0,
        "relocation": {"queries": 0, "progress": {"0-20": 0}}, "coverage": {"detected_objects": 3}, "cost": None,
        "naturalness": {"inserted": None, "relocated": None}, "harm": {"harmful": 0}, "detector": "a|b",
        "settings": {"strategy": "random", "reach": 2},
    }  # fmt: skip
    document["tables"] = tables(document)
    assert document["tables"]["1"]["share_causing_failures"] is document["tables"]["1"]["usd"] is None
    lines = page(document).splitlines()
    assert "| `a b` | 0 | 3 | 0 (–) | – |" in lines
    assert "| `a b` | – | – |" in lines
    assert "| 0-20 | 0 |  |" in lines

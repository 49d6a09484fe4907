"""Score as a study: rows that hold everything its document is computed from, a run that stands alone, predictions of
every kind, and the ledger."""

import csv
import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from score_oracles import cocoapi100, columns, dataset_of, random_coco

import misdetect as md
from misdetect.data.opened import Opened
from misdetect.engine import run_study
from misdetect.metrics.scoring import score
from misdetect.metrics.tide import MAIN, TideSettings
from misdetect.said.errors import BadArray, BadData, LevelTooLow, RunMismatch
from misdetect.studies.predictions import Predictions
from misdetect.studies.score import SCORE
from misdetect.studies.score.export import exported, write_rows
from misdetect.studies.score.rows import COLUMNS, columns_of
from misdetect.studies.score.settings import ScoreSettings
from misdetect.studies.score.study import ScoreStudy, run_score

EXPORTED = ["kind", "image", "image_id", "id", "label", "x0", "y0", "x1", "y1"]
EXPORTED += ["score", "tide", "matched_id", "iou", "area", "crowd"]


def files(folder, truth, records):
    """A data set made of ``truth``, and ``records`` in a file."""
    path = folder / "results.json"
    path.write_text(json.dumps(records))
    return path, dataset_of(truth)


def text_ids(truth, records):
    for item in (*truth["images"], *truth["annotations"], *records):
        key = "image_id" if "image_id" in item else "id"
        item[key] = f"photo-{item[key]:03d}"
    return truth, records


def same_names(truth, records):
    for category in truth["categories"]:
        category["name"] = "thing"
    return truth, records


WORLDS = {
    "crowds": lambda: random_coco(6, crowd=0.15),
    "ties": lambda: random_coco(0, decimals=1, crowd=0.1),
    "classes without truth": lambda: random_coco(3, without_truth=2),
    "text for ids": lambda: text_ids(*random_coco(2, crowd=0.1)),
    "one name twice": lambda: same_names(*random_coco(0, classes=2)),
    "no objects": lambda: ({**random_coco(0)[0], "annotations": []}, random_coco(0)[1]),
    "no detections": lambda: (random_coco(0)[0], []),
    "nothing": lambda: ({**random_coco(0)[0], "annotations": []}, []),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("settings", [{}, {"tide_cap": 3, "max_detections": 2, "tide_classes": "with-truth"}])
def test_the_document_is_that_of_the_metrics_though_it_comes_from_rows(tmp_path, name, settings):
    truth, records = WORLDS[name]()
    path, data = files(tmp_path, truth, records)
    document = md.score(path, data, **settings).document
    tide = TideSettings(cap=settings.get("tide_cap"), classes=settings.get("tide_classes", "all"))
    cap = settings.get("max_detections", 100)
    expected = score(*columns(truth, records, tmp_path), max_detections=cap, tide_settings=tide).document()
    for key, value in expected.items():
        if key == "settings":
            assert value.items() <= document[key].items()
        else:
            assert document[key] == value, key
    assert document["settings"]["max_detections"] == cap
    assert (document["cases"], document["finished"], document["study"]) == (len(data), True, "score")


def test_what_images_are_called_changes_no_number_even_where_it_is_nothing(tmp_path):
    found = []
    for first in ("photo-001", ""):
        truth, records = text_ids(*random_coco(2, crowd=0.1))
        known = truth["images"][0]["id"]
        for item in (*truth["images"], *truth["annotations"], *records):
            key = "image_id" if "image_id" in item else "id"
            item[key] = first if item[key] == known else item[key]
        (tmp_path / "truth.json").write_text(json.dumps(truth))
        path, _ = files(tmp_path, truth, records)
        document = md.score(path, f"coco:{tmp_path / 'truth.json'}").document
        found.append((document["ap"], document["counts"]))
    assert found[0] == found[1]
    assert found[0][1]["detections"] > 10


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["bbox", "segm"])
def test_masks_come_back_from_the_rows(tmp_path, kind):
    truth, records = cocoapi100(kind)
    path, data = files(tmp_path, truth, records)
    masks = kind == "segm"
    run = md.score(path, data, masks=masks)
    expected = score(*columns(truth, records, tmp_path, masks=masks), masks=masks).document()
    assert {key: run.document[key] for key in ("ap", "tide", "counts")} == {
        key: expected[key] for key in ("ap", "tide", "counts")
    }
    assert run.query("SELECT count(mask) AS n FROM rows").to_pylist()[0]["n"] == (run.rows().num_rows if masks else 0)


def test_rows_hold_every_truth_and_detection_once_and_give_the_counts(tmp_path):
    truth, records = random_coco(6, crowd=0.15)
    run = md.score(*files(tmp_path, truth, records))
    rows = run.rows().to_pylist()
    annotated = [r for r in rows if r["kind"] in ("object", "ignored")]
    found = [r for r in rows if r["kind"] == "detection"]
    assert sorted(r["id"] for r in annotated) == [a["id"] for a in truth["annotations"]]
    assert sorted(r["id"] for r in found) == list(range(len(records)))
    crowds = {a["id"] for a in truth["annotations"] if a["iscrowd"]}
    assert {r["id"] for r in annotated if r["kind"] == "ignored"} == crowds
    counts = run.document["counts"]
    for kind in (*MAIN[:5], "TP", "ignored"):
        assert sum(r["tide"] == kind for r in found) == counts[kind]
    assert sum(r["tide"] == "Miss" for r in annotated) == counts["Miss"] > 0
    assert sum(r["tide"] in ("Cls", "Loc") for r in annotated) == counts["covered"] > 0
    assert {r["tide"] for r in annotated if r["found"] or r["id"] in crowds} == {None}
    # each row says what the files say, and a pair of rows names each other
    by_id = {r["id"]: r for r in annotated}
    assert sum(r["tide"] == "TP" for r in found) > 10
    for row in found:
        record = records[row["id"]]
        assert (row["image_id"], row["image"], row["score"]) == (
            record["image_id"],
            str(record["image_id"]),
            record["score"],
        )
        assert (row["file"], row["width"], row["height"]) == (f"{record['image_id']}.jpg", 400, 400)
        assert row["label"] == f"class {record['category_id']}"
        assert (row["x0"], row["x1"] - row["x0"]) == pytest.approx((record["bbox"][0], record["bbox"][2]))
        if row["tide"] == "TP":
            partner = by_id[row["matched"]]
            assert (partner["matched"], partner["found"], partner["label"]) == (row["id"], True, row["label"])
            assert partner["matched_iou"] == row["matched_iou"] >= 0.5
        elif row["tide"] == "Cls":
            assert by_id[row["matched"]]["label"] != row["label"]
        elif row["tide"] == "ignored":
            assert row["matched"] in crowds
            assert row["tide_without_crowds"] in ("TP", *MAIN[:5])
        if row["tide"] != "ignored":
            assert row["tide_without_crowds"] is row["matched_without_crowds"] is None
    assert all(r["score"] is None for r in annotated)


def test_columns_come_back_as_they_went(tmp_path):
    truth, records = random_coco(6, crowd=0.15)
    path, data = files(tmp_path, truth, records)
    opened = Opened(data)
    study = ScoreStudy(Predictions.of(path, data), opened, ScoreSettings())
    run = run_score(study, tmp_path / "run")
    # written in several parts they are read the same
    other = run_study(study, study.predictions, tmp_path / "other", flush_seconds=0).run
    other.note(left_out=0)
    assert other.table().equals(run.table())
    assert len(list((other.path / "parts").iterdir())) > 3
    for each in (run, other):
        t, d, a = columns_of(each.query(f"SELECT {COLUMNS} FROM rows"), data.names, len(data))
        for before, after in zip(study.columns, (t, d), strict=True):
            for name in ("image", "label", "boxes", "areas", "ids"):
                np.testing.assert_array_equal(getattr(before, name), getattr(after, name), err_msg=name)
        np.testing.assert_array_equal(study.columns[0].crowd, t.crowd)
        np.testing.assert_array_equal(study.columns[1].scores, d.scores)
        from misdetect.metrics import tide

        expected = tide.assign(*study.columns)
        for name, value in vars(expected).items():
            np.testing.assert_array_equal(value, getattr(a, name), err_msg=name)
    assert SCORE.document(other) == SCORE.document(run)


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".json"])
def test_exported_rows_read_back_as_they_were(tmp_path, suffix):
    path = tmp_path / f"rows{suffix}"
    run = md.score(*files(tmp_path, *random_coco(1, crowd=0.1)), rows=path)
    table = exported(run.directory)
    assert table.column_names == EXPORTED
    kinds = table["kind"].to_pylist()
    assert kinds == sorted(kinds, reverse=True), "truths first"
    assert set(table["tide"].to_pylist()) >= {"found", "Miss", "ignored", "TP", "Bkg"}
    if suffix == ".parquet":
        assert pq.read_table(path).equals(table)
    elif suffix == ".json":
        assert json.loads(path.read_text()) == table.to_pylist()
    else:
        read = list(csv.DictReader(path.open()))
        assert [r["tide"] for r in read] == table["tide"].to_pylist()
        assert [float(r["x0"]) for r in read] == table["x0"].to_pylist()
        assert [r["matched_id"] for r in read] == ["" if m is None else str(m) for m in table["matched_id"].to_pylist()]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["results.json", f"rows{suffix}"]
    with pytest.raises(md.MisdetectError, match="no folder"):
        write_rows(table, tmp_path / "nowhere" / f"rows{suffix}")


def test_a_run_stands_alone(tmp_path):
    """Moved, without truth and predictions: the same document."""
    truth, records = random_coco(5, crowd=0.1)
    path, data = files(tmp_path, truth, records)
    run = md.score(path, data, limit=20, out=tmp_path / "run")
    document = run.document
    path.unlink()
    moved = tmp_path / "elsewhere" / "run"
    shutil.copytree(tmp_path / "run", moved)
    (moved / "document.json").unlink()
    again = md.open(moved)
    assert again.document == document
    ids = {image["id"] for image in truth["images"][:20]}
    assert again.document["counts"]["left_out"] == sum(r["image_id"] not in ids for r in records) > 0
    assert any("outside the limit" in note for note in again.document["notes"])
    identity = run.directory.about["identity"]
    assert identity["detector"]["spec"] == f"predictions:{path}"
    assert identity["detector"]["names"] == identity["data"]["names"] == list(data.names)
    assert (identity["data"]["fingerprint"], identity["data"]["limit"]) == (data.fingerprint, 20)
    assert document["settings"]["predictions_fingerprint"] == identity["detector"]["fingerprint"]


def test_a_directory_holds_one_score_but_many_views_of_it(tmp_path):
    truth, records = random_coco(4, without_truth=1)
    path, data = files(tmp_path, truth, records)
    first = md.score(path, data, out=tmp_path / "run")
    other = md.score(path, data, out=tmp_path / "run", max_detections=1, tide_classes="with-truth", tide_ties="file")
    assert other.document["ap"]["AR100"] < first.document["ap"]["AR100"]
    assert other.document["tide_base"] > first.document["tide_base"]
    assert other.document["settings"]["tide_ties"] == "file"
    assert md.open(tmp_path / "run").document == other.document
    assert len(list((tmp_path / "run" / "parts").iterdir())) == 1
    with pytest.raises(RunMismatch, match=r"settings.tide_cap was None, now 5"):
        md.score(path, data, out=tmp_path / "run", tide_cap=5)
    path.write_text(json.dumps(records[1:]))
    with pytest.raises(RunMismatch, match=r"detector.fingerprint"):
        md.score(path, data, out=tmp_path / "run")


def test_what_cannot_be_scored_leaves_nothing_behind(tmp_path):
    truth, records = random_coco(0)
    path, data = files(tmp_path, truth, [*records, {**records[0], "image_id": 999}])
    with pytest.raises(BadData, match="image 999"):
        md.score(path, data, out=tmp_path / "run")
    path, data = files(tmp_path, truth, records)
    with pytest.raises(BadArray, match="boxes without one"):
        md.score(path, data, out=tmp_path / "run", masks=True)
    path.write_text("[]")
    with pytest.raises(BadData, match="has no images"):
        md.score(path, dataset_of({**truth, "images": [], "annotations": []}), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


class Sees:
    """Reports what a table says of each image, known by its brightness."""

    names = ("Thing", "other", "unknown to the data")
    fingerprint = "sees"

    def detect(self, images):
        return [
            ([[1, 2, 11, 12], [3, 3, 20, 20.1234567]], [image.mean() / 255, 0.25000049], [0, 1]) for image in images
        ]


@pytest.fixture
def photos():
    rng = np.random.default_rng(0)
    return md.load_data(
        [
            (
                np.full((24, 32, 3), 10 * i, np.uint8),
                {"boxes": [[1, 2, 11, 12], *rng.uniform(1, 20, (1, 4)).cumsum(axis=1)], "labels": ["thing", "other"]},
            )
            for i in range(1, 9)
        ]
    )


def test_a_run_of_detect_scores_as_its_results_file_does(tmp_path, photos):
    from misdetect.studies.coco_results import coco_results, write_results

    found = md.detect(Sees(), photos, out=tmp_path / "detect")
    write_results(tmp_path / "results.json", coco_results(found.directory, photos))
    by_file, by_run, by_path = (
        md.score(given, photos) for given in (tmp_path / "results.json", found, str(tmp_path / "detect"))
    )
    for other in (by_run, by_path):
        assert other.document["ap"] == by_file.document["ap"]
        assert other.rows().equals(by_file.rows())
    assert by_file.document["ap"]["AP"] > 0.4
    detector = by_run.directory.about["identity"]["detector"]
    assert detector["names"] == list(Sees.names)
    assert detector["fingerprint"] == by_path.directory.about["identity"]["detector"]["fingerprint"]
    with pytest.raises(BadData, match="not among the 5 images"):
        md.score(found, photos[:5])
    with pytest.raises(BadData, match="is a run of score"):
        md.score(by_run, photos)


def test_an_unfinished_run_of_detect_is_refused(tmp_path, photos):
    half = md.detect(Sees(), photos, out=tmp_path / "detect", queries=4, batch=2, cache=False)
    assert not half.document["finished"]
    with pytest.raises(BadData, match="4 of 8 images are done"):
        md.score(half, photos)


def test_a_case_is_the_rows_of_its_image_again(tmp_path):
    truth, records = random_coco(1, crowd=0.1)
    path, data = files(tmp_path, truth, records)
    run = md.score(path, data, out=tmp_path / "run")
    study = SCORE.rebuild(run.directory, data)
    names = [name for name in run.rows().column_names if name not in ("case_index", "case", "row")]
    for case in list(study.cases())[:6]:
        with pytest.raises(StopIteration) as end:
            next(study.run(case))
        stored = run.query("SELECT * FROM rows WHERE case_index = ? ORDER BY row", [case.index])
        assert [{name: row[name] for name in names} for row in end.value.value] == stored.select(names).to_pylist()
        assert set(stored["case"].to_pylist()) <= {case.id}
    with pytest.raises(LevelTooLow):
        md.Run(run.directory, data=data).replay("1")
    path.write_text("[]")
    with pytest.raises(BadData, match="has changed"):
        SCORE.rebuild(run.directory, data)


def test_the_ledger_has_objects_and_false_detections(tmp_path):
    truth, records = random_coco(6, crowd=0.15)
    run = md.score(*files(tmp_path, truth, records), tide_cap=6)
    rows, ledger = run.rows().to_pylist(), run.ledger().to_pylist()
    detections = {r["id"]: r for r in rows if r["kind"] == "detection"}
    objects = [r for r in rows if r["kind"] != "detection"]
    wrong = [r for r in detections.values() if r["tide"] in MAIN]
    assert any(r["tide"] == "capped" for r in detections.values())
    assert len(ledger) == len(objects) + len(wrong)
    told = ledger[: len(objects)]
    assert [t["object"] for t in told] == [r["id"] for r in objects]
    for row, entry in zip(objects, told, strict=True):
        partner = detections.get(row["matched"])
        happened = "ignored" if row["kind"] == "ignored" else "found" if row["found"] else "missed"
        assert (entry["outcome"], entry["tide"], entry["label"]) == (happened, row["tide"], row["label"])
        assert entry["harm"] == {"ignored": "unknown", "found": "harmless", "missed": "harmful"}[happened]
        assert entry["score"] == (partner["score"] if happened == "found" else None)
        assert entry["iou"] == (row["matched_iou"] if happened == "found" else None)
        assert entry["became"] == (partner["label"] if row["tide"] == "Cls" else None)
        assert (entry["x0"], entry["image"], entry["condition"]) == (row["x0"], row["image"], "clean")
    assert {entry["tide"] for entry in told} == {None, "Cls", "Loc", "Miss"}
    for row, entry in zip(wrong, ledger[len(objects) :], strict=True):
        assert (entry["outcome"], entry["harm"], entry["object"]) == ("extra", "harmful", None)
        assert [entry[k] for k in ("tide", "label", "score", "iou")] == [
            row[k] for k in ("tide", "label", "score", "matched_iou")
        ]


def test_sentences_and_numbers_say_what_the_document_says(tmp_path):
    truth, records = random_coco(6, crowd=0.15)
    run = md.score(*files(tmp_path, truth, records))
    document = run.document
    ap, counts = document["ap"], document["counts"]
    assert run.sentences[0] == (
        f"AP {ap['AP']:.3f}, AP50 {ap['AP50']:.3f}, AR {ap['AR100']:.3f}: {counts['detections']} detections of "
        f"{counts['objects']} objects on {counts['images']} images."
    )
    worst = max(MAIN, key=document["tide"].get)
    assert run.sentences[1].startswith(f"TIDE, in points of AP50: {worst} {document['tide'][worst]:.1f}")
    numbers = SCORE.numbers(document)
    assert {name: each.value for name, each in numbers.items()} == {
        **ap,
        **{f"tide.{name}": value for name, value in document["tide"].items()},
    }
    nothing = md.score(*files(tmp_path, {**truth, "annotations": []}, records))
    assert "nothing is annotated" in nothing.sentences[0]
    assert repr(run).splitlines()[0].startswith("score of predictions:")

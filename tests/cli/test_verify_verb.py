"""``misdetect verify``: the keys that its document promises, states in three formats, and bad input."""

import json
from pathlib import Path

import pytest

import misdetect as md
from misdetect.data.export import export_coco
from misdetect.studies.coco_results import coco_results, write_results

KEYS = {
    "with_localisation", "without_localisation", "best_threshold", "by_part", "missing_recall_curve", "f_vv_curve",
    "causes", "settings", "macro", "cost", "prior", "states", "edits", "causes_by_part", "ap", "recall_curves",
    "f_vv_curve_without_localisation", "hallucinations", "images", "parts", "present", "missing", "ignored", "notes",
    "study", "detector", "data", "cases", "done", "failed", "failures", "finished", "out", "pictures", "engine",
    "stopped", "timing", "joining",
}  # fmt: skip
GLASS = "glassbox:hallucinate-context/rate=.5,data=bikes:val,count=4"


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Four bikes as COCO (states as "state") and as DelftBikes, and what the glass box says of them."""
    folder = tmp_path_factory.mktemp("bikes") / "data"
    data = md.load_data("bikes:val,count=4")
    export_coco(data, folder)
    found = md.detect("glassbox:hallucinate/rate=.4,data=bikes:val,count=4", data, cache=False)
    records = list(coco_results(found.directory, data))
    write_results(folder.parent / "results.json", records)
    stems = {sample.image_id: Path(sample.file_name).stem for sample in data}  # what DelftBikes calls its images
    write_results(folder.parent / "stems.json", [r | {"image_id": stems[r["image_id"]]} for r in records])
    return folder


def edited(exported, tmp_path, change) -> str:
    """The COCO file with every annotation changed by ``change``, as a spec."""
    document = json.loads((exported / "instances.json").read_text())
    for i, record in enumerate(document["annotations"]):
        change(i, record)
    path = tmp_path / "instances.json"
    path.write_text(json.dumps(document))
    return f"coco:{path},images={exported / 'images'}"


def verified(run, exported, data, *more):
    file = "stems.json" if data.startswith("delftbikes:") else "results.json"
    results = f"predictions:{exported.parent / file}"
    return run("verify", "--detector", results, "--data", data, "--json", *more)


@pytest.mark.heavy
def test_the_documents_keys_are_those_promised(run, tmp_path):
    code, out, err = run("verify", "--detector", GLASS, "--data", "bikes:val,count=4", "--json", "--pictures", "0")
    assert code == 0, err
    document = json.loads(out)
    assert document.keys() == KEYS
    for name in ("with_localisation", "without_localisation"):
        assert {"present_recall", "missing_recall", "f_vv", "intervals"} <= document[name].keys()
        assert document[name]["intervals"].keys() == {"present_recall", "missing_recall", "f_vv"}
    assert all(len(point) == 2 for name in ("missing_recall_curve", "f_vv_curve") for point in document[name])
    assert document["causes"].keys() == {"context", "position", "appearance", "none"}
    assert len(document["by_part"]) == 22
    assert document["settings"]["missing"] == ["absent", "occluded"]


@pytest.mark.heavy
def test_the_three_formats_say_the_same(run, exported, tmp_path):
    def to_attribute(name):
        def change(_, record):
            record["attributes"] = {name: record.pop("state")}

        return change

    plain = json.loads(verified(run, exported, f"coco:{exported / 'instances.json'}")[1])
    assert plain["missing"] > 0
    assert 0 < plain["with_localisation"]["missing_recall"] < 1
    default = edited(exported, tmp_path, to_attribute("state"))
    (tmp_path / "other").mkdir()
    named = edited(exported, tmp_path / "other", to_attribute("condition"))
    bikes = f"delftbikes:{exported / 'delftbikes.json'},images={exported / 'images'}"
    for data in (default, f"{named},state=attributes.condition", bikes):
        code, out, err = verified(run, exported, data)
        assert code == 0, err
        for key in ("with_localisation", "states", "by_part"):
            assert json.loads(out)[key] == plain[key], data


@pytest.mark.heavy
def test_another_grouping_on_the_command_line(run, exported):
    data = f"coco:{exported / 'instances.json'}"
    every = json.loads(verified(run, exported, data)[1])
    fewer = json.loads(verified(run, exported, data, "--missing", "absent")[1])
    states = {state: each["count"] for state, each in every["states"].items()}
    assert every["missing"] == states["absent"] + states["occluded"]
    assert fewer["missing"] == states["absent"]
    assert fewer["present"] == every["present"] + states["occluded"]


def rename(state):
    return lambda i, record: record.update(state=state) if i in (3, 30) else None


def drop(name, *rows):
    return lambda i, record: record.pop(name) if i in rows else None


def twice(i, record):
    record["category_id"] = 1 if i in (0, 1) else record["category_id"]


BAD = {
    "unknown state": (rename("lost"), "", r"2 of 88 parts have a state that is neither present nor missing (2 'lost')"),
    "part twice": (twice, "", "a part is annotated more than once in an image, 1 times in all"),
    "missing box": (drop("bbox", 4, 5), "", "'bbox' should be four numbers. Got nothing (1 more like it)"),
    "missing state": (drop("state", 4, 5, 6), "", "3 of 88 annotations have no 'state'"),
    "no states": (drop("state", *range(88)), "", "have no states of parts"),
    "no such attribute": (lambda *_: None, ",state=attributes.nope", "88 of 88 annotations have no 'attributes.nope'"),
}


@pytest.mark.parametrize(("change", "option", "says"), BAD.values(), ids=BAD)
def test_bad_input_is_one_sentence_with_counts(run, exported, tmp_path, change, option, says):
    data = edited(exported, tmp_path, change) + option
    code, out, err = verified(run, exported, data, "--out", tmp_path / "run")
    error = json.loads(out)["error"]
    assert (code, err) == (2, "")
    assert says in error["message"]
    assert not (tmp_path / "run").exists()


def test_a_delftbikes_file_without_boxes_is_counted(run, exported, tmp_path):
    document = json.loads((exported / "delftbikes.json").read_text())
    for record in document.values():
        del record["parts"]["bell"]["absolute_bounding_box"]
    (tmp_path / "d.json").write_text(json.dumps(document))
    code, out, _ = verified(run, exported, f"delftbikes:{tmp_path / 'd.json'},images={exported / 'images'}")
    assert code == 2
    assert "(4 parts in all)" in json.loads(out)["error"]["message"]


def test_predictions_of_other_images_are_refused(run, exported, tmp_path):
    records = json.loads((exported.parent / "results.json").read_text())
    records[0]["image_id"] = 4711
    (tmp_path / "r.json").write_text(json.dumps(records))
    data = f"coco:{exported / 'instances.json'}"
    code, _, err = run("verify", "--detector", f"predictions:{tmp_path / 'r.json'}", "--data", data)
    assert code == 2
    assert "predictions on 1 images" in err


def test_shown_for_people(run, tmp_path):
    few = ("--out", tmp_path / "run", "--pictures", 1)
    code, out, _ = run("verify", "--detector", GLASS, "--data", "bikes:val,count=4", *few)
    assert code == 0
    assert "Picture: " in out
    for words in ("Table 1", "localisation", "hallucinations hang on", "context", "Operating points"):
        assert words in out
    code, shown, _ = run("show", tmp_path / "run")
    assert code == 0
    assert "Table 1" in shown
    code, again, err = run("replay", tmp_path / "run", "bikes-val-0-000001", "--json")
    assert code == 0, err
    assert json.loads(again)["reproduced"]


@pytest.mark.heavy
def test_a_users_classifier_stands_in(run, tmp_path):
    """As docs/verify.md has it."""
    (tmp_path / "mine.py").write_text(
        "import misdetect as md\n"
        "class Mine:\n"
        "    names = ['front_wheel', 'bell', 'dynamo']\n"
        "    def detect(self, images):\n"
        "        return [md.Detections.of_whole_image([0.9, 0.6, 0.1], i.shape[1], i.shape[0]) for i in images]\n"
    )
    spec = f"python:{tmp_path / 'mine.py'}:Mine"
    code, out, err = run("verify", "--detector", spec, "--data", "bikes:val,count=4", "--missing-iou", "0", "--json")
    assert code == 0, err
    document = json.loads(out)
    row = document["without_localisation"]
    wheel, bell, dynamo = (
        document["by_part"][part]["without_localisation"] for part in ("front_wheel", "bell", "dynamo")
    )
    assert row["present_found"] == wheel["present"] + bell["present"]
    assert row["missing_found"] == wheel["missing"] + bell["missing"] > 0
    assert dynamo["present_found"] == dynamo["missing_found"] == 0
    assert document["ignored"] == {"unknown-class": 4 * 19}

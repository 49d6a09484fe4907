"""What runs are called, what is known of them and in which settings they differ: on few written down by hand."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from explain_runs import write

from misdetect.engine.store import Run
from misdetect.report.comparison import CompareSettings, check_folder, compare, endings, flat, open_all, settings_of
from misdetect.said.errors import BadData, BadSpec


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["/x/a", "/x/b"], ["a", "b"]),
        (["/x/a/run", "/y/b/run"], ["a/run", "b/run"]),
        (["/x/a/run", "/y/a/run", "/y/b"], ["x/a/run", "y/a/run", "/y/b"]),
        (["/x/a.json", "/x/b"], ["a", "b"]),
        (["a", "b/a"], ["a", "b/a"]),
        (["/x/a.json", "/x/a"], ["/x/a.json", "/x/a"]),
    ],
)
def test_runs_are_called_by_the_shortest_ends_of_their_paths_that_differ(paths, names):
    assert endings([Path(path) for path in paths]) == names


def test_settings_are_flat_shared_or_different_what_was_asked_first():
    first = {"settings": {"b": 1, "a": 7, "of": {"deep": [1, 2], "none": {}}}, "detector": {"spec": "x"}}
    second = {"settings": {"b": 1, "of": {"deep": [1, 3]}}, "detector": {"spec": "x"}, "data": {"spec": "d"}}
    assert flat(first) == {
        "settings.b": 1, "settings.a": 7, "settings.of.deep": [1, 2], "detector.spec": "x"
    }  # fmt: skip
    common, differing = settings_of([SimpleNamespace(settings=flat(each)) for each in (first, second, first)])
    assert common == {"settings.b": 1, "detector.spec": "x"}
    assert list(common) == ["settings.b", "detector.spec"]
    assert differing == [
        {"setting": "settings.a", "values": [7, None, 7]},
        {"setting": "settings.of.deep", "values": [[1, 2], [1, 3], [1, 2]]},
        {"setting": "data.spec", "values": [None, "d", None]},
    ]


def test_figures_of_a_comparison_are_drawn_into_a_folder_of_their_own(tmp_path):
    check_folder(tmp_path / "absent")
    check_folder(tmp_path)
    (tmp_path / "file").write_text("")
    for name, kept in (("run", "run.json"), ("checkup", "plan.json")):
        (tmp_path / name).mkdir()
        (tmp_path / name / kept).write_text("{}")
    for name in ("file", "run", "checkup"):
        with pytest.raises(BadSpec, match="expected another folder"):
            check_folder(tmp_path / name)


def test_what_is_known_of_a_run_is_asked_of_whom_and_with_which_versions(tmp_path):
    """Also how the detector was set; not the names of its classes."""
    for name in ("a", "b"):
        kept = Run.open(write(tmp_path / name, [["proposal"], [None]], detector=f"zoo:{name}"))
        kept.note(detector_settings={"nms": 0.5}, versions={"misdetect": "1"})
        kept.close()
    first, second = open_all([tmp_path / "a", tmp_path / "b"], CompareSettings())
    assert (first.name, first.study, first.document["missed"]) == ("a", "explain", 1)
    known = {"detector_settings.nms": 0.5, "versions.misdetect": "1", "settings.loc": 0.5, "data.spec": "made"}
    assert known.items() <= second.settings.items()
    assert second.settings["detector.spec"] == "zoo:b"
    assert not any(key.endswith(".names") for key in second.settings)


def test_documents_are_only_set_side_by_side(tmp_path):
    """As a study without a comparison of its own, here one of an older version that does not say what failed."""
    for name, findings in (("a", []), ("b", [1, 2])):
        said = {"study": "doctor", "settings": {"images": 6}, "findings": findings, "before": 0.25, "images": 6}
        (tmp_path / f"{name}.json").write_text(json.dumps(said | {"counts": {"images": 7}}))
    found = compare([tmp_path / "a.json", tmp_path / "b.json"], CompareSettings())
    assert [each["value"] for each in found["numbers"]["findings"]] == [0, 2]
    assert (found["paired"], found["why_not_paired"]) == (False, ["runs of doctor are set side by side only"])
    assert [(each["name"], each["images"], each["failed"]) for each in found["runs"]] == [("a", 7, 0), ("b", 7, 0)]
    assert found["resampling"] == {"confidence": 0.9, "seed": 0}
    assert found["settings"] == {"settings.images": 6}
    said["finished"] = False
    (tmp_path / "b.json").write_text(json.dumps(said))
    with pytest.raises(BadData, match="compare takes finished run directories"):
        compare([tmp_path / "a.json", tmp_path / "b.json"], CompareSettings())


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"confidence": 0.009}, {"confidence": 0.9991}])
def test_what_no_interval_can_be_made_of_is_refused(wrong):
    with pytest.raises(BadSpec, match="should be"):
        CompareSettings(**wrong)

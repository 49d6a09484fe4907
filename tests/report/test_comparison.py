"""What runs are called, and in which settings they differ: on settings written down by hand."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from misdetect.errors import BadSpec
from misdetect.report.comparison import check_folder, endings, flat, settings_of


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

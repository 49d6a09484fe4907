"""The file of a checkup, written and read again, on folders made by hand."""

import json

import pytest
from written_runs import write

from misdetect.report.checkups import CHECKUP, PLAN, is_checkup, read_checkup, write_checkup
from misdetect.said.errors import BadData
from misdetect.studies.kinds import names

FOUND = {
    "detector": {"spec": "zoo:x"}, "data": {"spec": "rooms:val", "names": ["cup"]}, "skipped": [], "settings": {"b": 1},
    "findings": [{"study": "scan"}], "studies": {name: {"done": 3} for name in sorted(names())}, "timing": 5,
}  # fmt: skip


def test_what_was_written_is_read_again_where_it_is_now_without_what_differs_between_sittings(tmp_path):
    found = FOUND | {"studies": {name: {"done": 3, "engine": {"cached": 7}, "out": "gone"} for name in sorted(names())}}
    write_checkup(tmp_path, found)
    text = (tmp_path / CHECKUP).read_text()
    document = read_checkup(tmp_path)
    assert document == {key: value for key, value in FOUND.items() if key != "timing"} | {
        "studies": {name: {"done": 3, "out": str(tmp_path / name)} for name in names()},
        "report": str(tmp_path / "report.html"), "out": str(tmp_path),
    }  # fmt: skip
    order = list(document["studies"])
    assert order[:4] == ["doctor", "detect", "score", "explain"], "as they are run"
    assert sorted(order) == sorted(names())
    write_checkup(tmp_path, dict(reversed(found.items())))
    assert (tmp_path / CHECKUP).read_text() == text, "whatever the order in which it is told"
    assert text.endswith("}\n")
    assert list(json.loads(text)) == sorted(json.loads(text))


@pytest.mark.parametrize(
    ("file", "is_one"), [(CHECKUP, True), (PLAN, True), ("other.json", False), (None, False), ("run.json", False)]
)
def test_a_checkup_is_known_by_its_files_and_no_run_is_one(tmp_path, file, is_one):
    if file is not None:
        (tmp_path / file).write_text("{}")
    assert is_checkup(tmp_path) is is_one
    (tmp_path / "run.json").write_text("{}")
    assert not is_checkup(tmp_path)


def test_what_is_not_whole_is_refused_with_the_command_that_goes_on(tmp_path):
    with pytest.raises(BadData, match="is neither a run directory nor the folder of a checkup"):
        read_checkup(tmp_path)
    (tmp_path / PLAN).write_text("{}")
    with pytest.raises(BadData, match=r"is not finished; go on with: misdetect checkup … --out "):
        read_checkup(tmp_path)
    command(tmp_path / "doctor", ["doctor", "--json"])
    command(tmp_path / "scan", ["checkup", "--detector", "zoo x"])
    with pytest.raises(BadData, match=r"is not finished; go on with: misdetect checkup --detector 'zoo x'$"):
        read_checkup(tmp_path)


def command(path, words):
    """A run that was made by ``misdetect`` with these words."""
    run = write(path, [])
    run.note(command=words)
    run.close()


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda kept: [], "was not written by this version"),
        (lambda kept: kept | {"format": 3}, "was not written by this version"),
        (lambda kept: kept | {"skipped": [1]}, "is damaged"),
        (lambda kept: {key: value for key, value in kept.items() if key != "check"}, "is damaged"),
    ],
)
def test_what_was_changed_since_is_refused(tmp_path, edit, says):
    write_checkup(tmp_path, FOUND)
    kept = json.loads((tmp_path / CHECKUP).read_text())
    assert kept["format"] == 2
    (tmp_path / CHECKUP).write_text(json.dumps(edit(kept)))
    with pytest.raises(BadData, match=says):
        read_checkup(tmp_path)


@pytest.mark.parametrize("strange", [{"findings": {}}, {"studies": {"../scan": {}}}, {"detector": None}])
def test_what_was_never_a_checkup_is_refused(tmp_path, strange):
    write_checkup(tmp_path, FOUND | strange)
    with pytest.raises(BadData, match="is damaged"):
        read_checkup(tmp_path)

"""The same command writes the same bytes, in another process and at another time: documents, pages and pictures, and
the same rows (which parts they are in depends on the clock)."""

import shutil

import pytest
from cli_world import finish, start
from malformed_world import coco, coco_document, mine

from misdetect.engine.store import PARTS, Run

COMMANDS = {
    "explain": ("--pictures", "2"),
    "scan": ("--pairs", "2", "--step", "12", "--pictures", "1"),
    "fuzz": ("--queries", "20", "--pictures", "1"),
}


def written(run):
    """The bytes of every file of a run directory by name, and the rows in its parts."""
    files = {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("*") if path.is_file()}
    kept = {name: data for name, data in files.items() if not name.startswith((PARTS, ".lock", "answers.sqlite"))}
    return kept | {PARTS: Run.open(run).table().to_pylist()}


def check(verb, tmp_path):
    out, data = tmp_path / "run", coco(tmp_path, coco_document())
    line = [verb, "--detector", mine(tmp_path), "--data", data, "--out", str(out), "--no-cache", *COMMANDS[verb]]
    found = []
    for seed in ("1", "2"):  # sets are in another order
        code, _, err = finish(start(*line, PYTHONHASHSEED=seed))
        assert code == 0, err
        found.append(written(out))
        shutil.rmtree(out)
        (tmp_path / "run.budget").unlink(missing_ok=True)  # what was spent is not spent again
    one, other = found
    assert sorted(one) == sorted(other)
    assert [name for name in one if one[name] != other[name]] == []
    return one


@pytest.mark.heavy
def test_a_run_of_explain_is_the_same_to_the_last_byte(tmp_path):
    assert "images/mechanisms.png" in check("explain", tmp_path)


@pytest.mark.heavy
@pytest.mark.parametrize("verb", ["scan", "fuzz"])
def test_runs_of_other_studies_are_the_same_to_the_last_byte(verb, tmp_path):
    check(verb, tmp_path)

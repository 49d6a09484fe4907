"""The ledger: the union of what studies say, one row per object and condition; joined, it answers in one query."""

import collections
import shutil
import subprocess

import numpy as np
import pyarrow.parquet as pq
import pytest

import misdetect as md
from misdetect.engine.indices import Indices
from misdetect.engine.parts import write_part
from misdetect.engine.store import Run
from misdetect.metrics.harm import HARMS
from misdetect.said.errors import BadSpec
from misdetect.studies.ledger import COLUMNS, OUTCOMES, ledger

DATA = "rooms:val,count=60"
DETECTORS = {"glassbox": f"glassbox:sink/class=chair,data={DATA}", "yolox": "zoo:yolox"}


@pytest.fixture(scope="module", params=["glassbox", pytest.param("yolox", marks=pytest.mark.heavy)])
def runs(request, tmp_path_factory):
    """Explain, scan and fuzz of one detector on the same rooms."""
    folder, spec = tmp_path_factory.mktemp("ledger"), DETECTORS[request.param]
    return {
        "explain": md.explain(spec, DATA, out=folder / "explain"),
        "scan": md.scan(spec, DATA, pairs=4, step=24, out=folder / "scan"),
        "fuzz": md.fuzz(spec, DATA, queries=120, out=folder / "fuzz"),
        "detect": md.detect(spec, DATA, limit=5, out=folder / "detect"),
    }


def test_every_study_fills_the_same_columns_with_the_same_words(runs):
    table = md.ledger(list(runs.values()))
    assert table.column_names == list(COLUMNS)
    assert set(table["study"].to_pylist()) == set(runs)
    assert set(table["outcome"].to_pylist()) <= {*OUTCOMES, None}
    assert set(table["harm"].to_pylist()) <= set(HARMS)
    assert set(table["tide"].to_pylist()) <= {None, "Cls", "Loc", "Both", "Dupe", "Bkg", "Miss"}
    assert set(table["condition"].to_pylist()) <= {"clean", "transplant", "insertion"}
    assert None not in table["control"].to_pylist()
    assert all(weight > 0 for weight in table["weight"].to_pylist())


def test_objects_are_annotations_of_their_image(runs):
    """Whatever a study calls an object is annotated in that image, with that class."""
    known = {s.id: dict(zip(s.truth.ids.tolist(), s.truth.labels.tolist(), strict=True)) for s in md.load_data(DATA)}
    names = md.load_data(DATA).names
    rows = [r for r in md.ledger(list(runs.values())).to_pylist() if r["object"] is not None]
    assert {r["study"] for r in rows} == {"explain", "scan", "fuzz"}
    for row in rows:
        assert row["object"] in known[row["image"]]
        if row["study"] == "explain":
            assert row["label"] == names[known[row["image"]][row["object"]]]


def test_explain_counts_in_the_ledger_are_those_of_its_document(runs):
    document = runs["explain"].document
    rows = runs["explain"].ledger().to_pylist()
    objects = [r for r in rows if r["outcome"] in ("found", "missed")]
    assert len(objects) == document["objects"]
    missed = collections.Counter(r["mechanism"] for r in rows if r["outcome"] == "missed")
    assert missed == {name: n for name, n in document["mechanisms"].items() if n}
    wrong = collections.Counter(r["tide"] for r in rows if r["outcome"] == "extra")
    assert wrong == {k: v["count"] for k, v in document["false_positives"].items() if v["count"] and k in wrong}
    assert sum(wrong.values()) == sum(
        document["false_positives"][k]["count"] for k in ("Cls", "Loc", "Both", "Dupe", "Bkg")
    )


def test_this_object_in_one_query(runs):
    """Its TIDE type, its mechanism, what scan did to it, what fuzz did to it: against a join written out in Python."""
    sql = """
        SELECT e.image, e.object, e.tide, e.mechanism,
               count(*) FILTER (o.study = 'scan') AS in_scan,
               count(*) FILTER (o.study = 'scan' AND o.outcome <> 'found') AS changed_in_scan,
               count(*) FILTER (o.study = 'fuzz') AS in_fuzz,
               count(*) FILTER (o.study = 'fuzz' AND o.outcome <> 'found') AS changed_in_fuzz
        FROM ledger e LEFT JOIN ledger o ON o.image = e.image AND o.object = e.object
             AND o.study IN ('scan', 'fuzz') AND NOT o.control
        WHERE e.study = 'explain' AND e.object IS NOT NULL GROUP BY ALL ORDER BY ALL"""
    found = md.ledger(list(runs.values()), sql).to_pylist()
    rows = md.ledger(list(runs.values())).to_pylist()
    assert len(found) == sum(r["study"] == "explain" and r["object"] is not None for r in rows)
    for study in ("scan", "fuzz"):
        own = [r for r in rows if r["study"] == study and not r["control"] and r["object"] is not None]
        seen = collections.Counter((r["image"], r["object"]) for r in own)
        changed = collections.Counter((r["image"], r["object"]) for r in own if r["outcome"] != "found")
        assert {(r["image"], r["object"]): r[f"in_{study}"] for r in found if r[f"in_{study}"]} == dict(seen)
        assert {
            (r["image"], r["object"]): r[f"changed_in_{study}"] for r in found if r[f"changed_in_{study}"]
        } == changed
    assert any(r["in_scan"] and r["in_fuzz"] for r in found), "some object was in all three"


@pytest.mark.heavy
def test_replay_is_a_command_that_works(runs):
    row = next(r for r in runs["explain"].ledger().to_pylist() if r["outcome"] == "missed")
    done = subprocess.run(f".venv/bin/{row['replay']}", shell=True, capture_output=True, text=True, timeout=120)
    if done.returncode == 127:  # another environment's command
        done = subprocess.run(row["replay"], shell=True, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "the same happens again" in done.stdout


def test_the_command_shows_queries_and_writes(runs, run, tmp_path):
    paths = [str(each.path) for each in runs.values()]
    code, out, _ = run("ledger", *paths)
    assert code == 0
    assert all(study in out for study in runs)
    code, out, _ = run("ledger", *paths, "--sql", "SELECT study, finished FROM runs ORDER BY 1", "--json")
    assert code == 0
    assert '"finished": true' in out
    code, _, _ = run("ledger", *paths, "--out", tmp_path / "l.parquet")
    assert code == 0
    assert pq.read_table(tmp_path / "l.parquet").equals(md.ledger(paths))
    run("ledger", *paths, "--out", tmp_path / "l.csv")
    assert (tmp_path / "l.csv").read_text().splitlines()[0].split(",")[0] == '"run"'


@pytest.mark.parametrize("sql", ["SELEC", "SELECT nothing FROM ledger", "COPY ledger TO 'x.csv'", "ATTACH 'x.db'"])
def test_a_query_that_cannot_be_answered_is_one_sentence(runs, sql, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadSpec, match="the query cannot be answered"):
        md.ledger(runs["detect"], sql)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("folder", ["label=chair", "a[b]*", "it's", "~x"])
def test_a_folder_may_be_called_anything(runs, folder, tmp_path, monkeypatch):
    """DuckDB takes label=chair for a column, [b]* for a pattern, ~x for a home."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(runs["detect"].path, tmp_path / folder / "run")
    there, here = md.ledger(f"{folder}/run"), md.ledger(runs["detect"])
    own = ("run", "replay")
    assert there.drop_columns(own).equals(here.drop_columns(own))
    assert set(there["run"].to_pylist()) == {f"{folder}/run"}
    assert Run.open(f"{folder}/run").table().equals(runs["detect"].directory.table())


def test_rows_are_in_the_order_of_cases_whatever_the_order_of_parts(runs, tmp_path):
    """And a ledger that is asked while its parts are compacted does not mind."""
    run = runs["explain"].directory
    rows = run.table()
    shutil.copytree(run.path, tmp_path / "run")
    for part in (tmp_path / "run" / "parts").iterdir():
        part.unlink()
    assert md.ledger(tmp_path / "run").num_rows == 0, "as long as nothing is done, there is nothing"
    every = run.everything().to_table().sort_by("case_index")
    index = every["case_index"].to_numpy()
    for number, cases in enumerate((range(40, 60), range(20), range(20, 40)), start=1):
        mine = every.filter(np.isin(index, list(cases)))
        write_part(tmp_path / "run" / "parts", number, run.about["id"], mine, Indices(cases), Indices())
    assert Run.open(tmp_path / "run").table().equals(rows)
    copy, compacting = Run.open(tmp_path / "run"), Run.open(tmp_path / "run")
    assert copy.done() == set(range(60))
    before = ledger([copy])
    assert before["case"].to_pylist() == md.ledger(runs["explain"])["case"].to_pylist()
    everything = Run.everything

    def while_compacted(self):
        found = everything(self)
        if len(parts := compacting._parts()) > 1:
            compacting._compact(parts)
            compacting._remove_replaced()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "everything", while_compacted)
        assert ledger([copy]).equals(before)
    assert len(list((tmp_path / "run" / "parts").iterdir())) == 1

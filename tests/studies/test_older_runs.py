"""Runs of the format before, whose words were others, say what the same run says today, and can be gone on with."""

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fuzz_runs import GUIDED, document
from scan_toys import random_run

import misdetect as md
from misdetect.engine.about import identity_id, read_about, write_about
from misdetect.engine.parts import look, write_part
from misdetect.engine.requests import Case, Finished
from misdetect.engine.store import Run
from misdetect.report.checkups import read_checkup, write_checkup
from misdetect.said.errors import BadGate, BadSpec
from misdetect.studies.documents import document_of, keep_document, read_document
from misdetect.studies.ledger import ledger, query

GLASS, ROOMS = "glassbox:sink/rate=.3+misrank/rate=.4,data=rooms:val", "rooms:val,count=4"


def old_words(value, key=None):
    """Rows as the version before wrote them."""
    if isinstance(value, dict):
        return {"null_failed" if k == "control_failed" else k: old_words(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [old_words(each) for each in value]
    if isinstance(value, str):
        known = {("mechanism", "discarded"): "calibration", ("condition", "control"): "null"}
        return value.replace("/control", "/null") if key == "case" else known.get((key, value), value)
    return value


def aged(new, path, parts=None):
    """The run ``new`` in ``path`` as the version before would have it, or only its first ``parts``."""
    shutil.copytree(new, path)
    if (spent := new.with_name(f"{new.name}.budget")).exists():
        shutil.copy(spent, path.with_name(spent.name))
    about = read_about(path)
    settings = {{"control": "null"}.get(name, name): value for name, value in about["identity"]["settings"].items()}
    identity = {**about["identity"], "settings": settings}
    old = {**about, "format": 2, "identity": identity, "id": identity_id(identity)}
    write_about(path, old)
    files = sorted((path / "parts").iterdir())
    for number, file in enumerate(files, start=1):
        part, table = look(file, about["id"]), pq.read_table(file, partitioning=None)
        file.unlink()
        if parts is not None and number > parts:
            continue
        schema = pa.schema(f.with_name("null_failed") if f.name == "control_failed" else f for f in table.schema)
        written = pa.Table.from_pylist(old_words(table.to_pylist()), schema=schema)
        write_part(path / "parts", number, old["id"], written, part.done, part.failed)
    return Run.open(path)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """By study: a run, and the same of the version before."""
    folder, found = tmp_path_factory.mktemp("older"), {}
    random_run(folder / "scan", 5, fail=(1,))
    md.explain(GLASS, ROOMS, out=folder / "explain")
    document(*GUIDED, "--queries", 60, "--out", folder / "fuzz", "--pictures", "0")
    for name in ("scan", "explain", "fuzz"):
        found[name] = Run.open(folder / name), aged(folder / name, folder / "old" / name)
    return found


def plain(value):
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("study", ["scan", "explain", "fuzz"])
def test_an_older_run_says_what_it_says_today(runs, study):
    new, old = runs[study]
    stored = "".join(str(pq.read_table(part.path).to_pydict()) for part in old._parts())
    assert {"scan": "'null'", "explain": "'calibration'", "fuzz": "'null_failed'"}[study] in stored, "it is an old one"
    assert old.table().equals(new.table())
    assert old.errors().equals(new.errors())
    assert plain(document_of(old)) == plain(document_of(new))
    columns = [name for name in ledger([new]).column_names if name not in ("run", "replay")]
    assert ledger([old]).select(columns).equals(ledger([new]).select(columns))


def test_a_kept_document_with_old_words_is_not_read(runs):
    new, old = runs["explain"]
    keep_document(old)
    text = (old.path / "document.json").read_text()
    (old.path / "document.json").write_text(text.replace("discarded", "calibration"))
    assert plain(read_document(old)) == plain(document_of(new))


def test_the_same_command_asks_an_older_run_nothing(runs):
    _, old = runs["explain"]
    again = md.explain(GLASS, ROOMS, out=old.path)
    assert again.outcome.stats["queries"] == 0
    assert again.document["reasons"]["discarded"]["suppressed"] > 0
    assert not {"calibration"} & set(again.document["mechanisms"])


SCHEMA = pa.schema([("condition", pa.string()), ("mechanism", pa.string()), ("control_failed", pa.bool_())])
ROWS = [
    {"condition": "control", "mechanism": "discarded", "control_failed": True},
    {"condition": "object", "mechanism": "background", "control_failed": False},
]
IDENTITY = {
    "study": "toy",
    "settings": {"control": True},
    "detector": {"spec": None, "fingerprint": "made", "names": []},
    "data": {"spec": "made", "fingerprint": "made", "names": []},
}


def started(path):
    return Run.start(path, IDENTITY, SCHEMA, command=[], versions={}, detector_settings={})


def test_an_older_run_is_gone_on_with(tmp_path):
    whole = started(tmp_path / "whole")
    for index, row in enumerate(ROWS):
        whole.add(Finished(Case(index, f"{index}/{row['condition']}"), [row], None), flush_seconds=0)
    whole.close()
    old = aged(whole.path, tmp_path / "old", parts=1)
    assert list(old.done()) == [0]
    for _ in range(2):  # what is noted of it leaves it a run of its format
        resumed = started(old.path)
        resumed.note(cases=2)
        if 1 not in resumed.done():
            resumed.add(Finished(Case(1, "1/object"), [ROWS[1]], None), flush_seconds=0)
        resumed.close()
    assert Run.open(old.path).finished
    assert Run.open(old.path).table().equals(Run.open(whole.path).table())


def test_old_words_are_told_their_new_names(runs):
    run = md.open(runs["fuzz"][1].path)
    with pytest.raises(
        BadGate, match=r"'null_failures' is called 'control_failures' since 0\.2; control means: the same"
    ):
        run.check("null_failures > 3")
    with pytest.raises(BadGate, match=r"'calibration' is called 'discarded'.*by suppression, a cap or the threshold"):
        md.open(runs["explain"][0].path).check("reasons.calibration.score > 3")
    with pytest.raises(BadSpec, match="'null_failed' is called 'control_failed'"):
        run.query("SELECT null_failed FROM rows")
    with pytest.raises(BadSpec, match="'calibration' is called 'discarded'"):
        query([runs["explain"][0]], "SELECT count(*) FROM ledger WHERE mechanism = 'calibration'")
    with pytest.raises(BadSpec, match="scan: 'null' is called 'control'"):
        md.scan(GLASS, ROOMS, null=False)
    assert (
        query([runs["explain"][0]], "SELECT count(*) AS n FROM ledger WHERE label = 'calibration'")["n"][0].as_py() == 0
    )


def test_a_checkup_of_the_version_before_is_read_in_the_words_of_today(tmp_path):
    said = {"detector": {}, "data": {}, "skipped": [], "settings": {}}
    one = {"mechanisms": {"discarded": 3}, "sankey": [["Loc", "discarded", 3]]}
    write_checkup(tmp_path, {**said, "findings": [{"kind": "discarded"}], "studies": {"explain": one}})
    today = read_checkup(tmp_path)
    old = {"mechanisms": {"calibration": 3}, "sankey": [["Loc", "calibration", 3]]}
    write_checkup(tmp_path, {**said, "findings": [{"kind": "calibration"}], "studies": {"explain": old}, "format": 1})
    assert json.loads((tmp_path / "checkup.json").read_text())["format"] == 1
    assert read_checkup(tmp_path) == today

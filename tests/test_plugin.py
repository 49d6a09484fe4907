"""The example plugin, installed into an environment of its own: its study, detectors and data are wherever those of
misdetect are, and not a line of misdetect knows their names.

Its own detector is asked about its own data: squares of two greys, which a threshold of 100 must lose at known lights.
"""

import csv
import importlib.util
import json
import re
import shlex
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image
from wheels import PLUGIN, ROOT, environment, run, said, wheel

GREYS = {250: ((10, 10, 30, 30), 0.35), 160: ((60, 30, 80, 50), 0.5)}
"""By grey, where the square is, and the first of the lights at which it is darker than 100."""
STUDY = ["brightness", "--data", "boxes-csv:boxes.csv", "--score", "0.2", "--light", "0.7,0.5,0.35,0.25"]
BRIGHTEST = ["--detector", "brightest:100,name=spot"]
QUESTIONS = 5 * 4
"""Five images, until both squares are lost at 0.35; a sixth holds nothing, and is not asked about."""
BLOCK = re.compile(r"^```(\w+) ?(\S*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(language):
    """File and text of the blocks of the tutorial in ``language``."""
    found = BLOCK.findall((ROOT / "docs" / "plugin.md").read_text(encoding="utf-8"))
    return [(name, text) for kind, name, text in found if kind == language]


TUTORIAL = [shlex.split(line) for _, text in blocks("sh") for line in text.splitlines()]
"""What the tutorial types: the first line installs, which is the fixture's to do."""
COMMANDS = {
    "help": ["--help"],
    "verb": ["brightness", "--help"],
    "data": ["data", "boxes-csv:boxes.csv", "--json"],
    "detectors": ["detectors"],
    "run": [*STUDY, *BRIGHTEST, "--out", "run", "--json"],
    "other": [*STUDY, "--detector", "brightest:60,name=spot", "--out", "other"],
    "gate": [*STUDY, *BRIGHTEST, "--out", "run", "--fail-if", "lost > 0.1", "--junit", "gate.xml"],
    "show": ["show", "run"],
    "ledger": ["ledger", "run", "other", "--out", "ledger.parquet"],
    "replay": ["replay", "run", "1.png"],
    "page": ["export", "run", "--to", "page", "--out", "run.html"],
    "folders": ["export", "run", "--to", "folders", "--out", "folders"],
    "coco": ["export", "run", "--to", "coco", "--out", "coco"],
    "latex": ["export", "run", "other", "--to", "latex", "--out", "run.tex"],
    "compare": ["compare", "run", "other", "--fail-if", "lost falls"],
    "broke": [*STUDY, *BRIGHTEST, "--out", "resumed", "--queries", "7", "--no-cache"],
    "resumed": [*STUDY, *BRIGHTEST, "--out", "resumed", "--queries", "1000", "--no-cache", "--json"],
    **{" ".join(words[:3]): words[1:] for words in TUTORIAL[1:]},
}


def squares(folder):
    """Six images, on five of them both squares, and the CSV file of their boxes."""
    lines = [("image", "label", "x0", "y0", "x1", "y1")]
    for number in range(6):
        image = np.full((64, 96, 3), 20 + number, np.uint8)
        for grey, ((x0, y0, x1, y1), _) in GREYS.items() if number < 5 else ():
            image[y0:y1, x0:x1] = grey
            lines.append((f"{number}.png", "spot", x0, y0, x1, y1))
        Image.fromarray(image).save(folder / f"{number}.png")
    lines.append(("5.png", "", "", "", "", ""))
    with (folder / "boxes.csv").open("w", newline="") as file:
        csv.writer(file).writerows(lines)


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Of an environment with misdetect and the plugin."""
    folder = tmp_path_factory.mktemp("plugin")
    return environment(folder / "environment", wheel(ROOT, folder), wheel(PLUGIN, folder))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("squares")
    squares(made)
    return made


@pytest.fixture(scope="module")
def told(python, folder):
    """What each of the commands says."""
    return dict(zip(COMMANDS, said(python, list(COMMANDS.values()), folder), strict=True))


def document(told, name):
    code, out, err = told[name]
    assert code == 0, err
    return json.loads(out)


def test_the_tutorial_installs_and_then_uses_misdetect():
    assert [words[0] for words in TUTORIAL] == ["pip", *["misdetect"] * (len(TUTORIAL) - 1)]


def test_it_is_the_installed_misdetect_that_is_run(python, folder):
    where = run(
        python, "-c", "import misdetect, misdetect_darkness as m; print(misdetect.__file__, m.__file__)", cwd=folder
    )
    assert all(Path(file).is_relative_to(python.parents[1]) for file in where.split())


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("gate", "compare")])
def test_every_command_takes_it(told, name):
    code, out, err = told[name]
    assert code == 0, err
    assert out


def test_help_lists_the_study_under_its_question_and_its_options(told):
    assert re.search(r"brightness +How far images can be darkened before objects are lost\.", told["help"][1])
    assert all(option in told["verb"][1] for option in ("--light", "--needed", "--workers", "--fail-if", "Example"))


def test_data_and_detectors_are_listed_and_read(told):
    assert document(told, "data")["objects"] == 10
    assert "bright spots, by OpenCV; boxes only; installed" in told["detectors"][1]


def test_what_is_lost_is_what_was_planted(told):
    found = document(told, "run")
    assert (found["objects"], found["found"], found["lost"]) == (10, 10, 0.5)
    assert found["by_light"] == {"0.7": 0, "0.5": 0.5, "0.35": 1, "0.25": 1}
    assert found["engine"]["queries"] == QUESTIONS
    assert found["intervals"]["lost"] == [0.5, 0.5], "all images are alike"


def test_the_ledger_says_at_which_light_each_object_is_lost(told, folder):
    rows = pq.read_table(folder / "ledger.parquet").to_pylist()
    lost = [row for row in rows if row["run"] == "run" and row["condition"] == "darkened"]
    grey = {box[0]: light for box, light in GREYS.values()}
    assert len(lost) == 10
    assert all(json.loads(row["evidence"])["light"] == grey[int(row["x0"])] for row in lost)


def test_a_gate_fails_and_is_a_test_case(told, folder):
    code, _, err = told["gate"]
    assert code == 1
    assert "lost is 0.5 (0.5 to 0.5)" in err
    assert 'classname="misdetect.brightness"' in (folder / "gate.xml").read_text()


def test_runs_are_compared_object_by_object(told):
    code, out, _ = told["compare"]
    assert code == 1, "the other detector certainly loses less, which this gate is told to fail for"
    assert re.search(r"lost +0\.500 +0\.000 +-0\.500 -0\.500\.\.-0\.500\*", out)


def test_show_has_the_line_of_each_light(told):
    assert re.search(r"50 % +50\.0 %", told["show"][1])


def test_exports_show_the_darkened_pictures(told, folder):
    failures = sorted((folder / "folders").iterdir())
    assert len(failures) == 10
    for each in failures:
        light = json.loads((each / "failure.json").read_text())["failure"]["evidence"]["light"]
        assert np.asarray(Image.open(each / "asked.png")).max() == round(250 * light)
    assert len(json.loads((folder / "coco" / "labels.json").read_text())["annotations"]) == 10
    assert "Objects lost, in percent" in (folder / "run.tex").read_text()
    page = (folder / "run.html").read_text()
    assert "What darkness does" in page
    assert "Objects lost in the dark" in page
    assert "with {by} of the light" in page


def test_an_interrupted_run_goes_on_to_the_same_rows(told):
    assert "the budget" in told["broke"][2]
    own = ("objects", "found", "lost", "by_light", "intervals", "cases", "done")
    whole, resumed = document(told, "run"), document(told, "resumed")
    assert [resumed[name] for name in own] == [whole[name] for name in own]
    assert resumed["engine"]["queries"] < whole["engine"]["queries"]


((_, SCRIPT),) = [each for each in blocks("python") if not each[0]]
"""The tutorial's Python."""
PYTHON = """
import json, sys
import misdetect as md
from starlette.testclient import TestClient
from misdetect.app.server import application

run = md.brightness("brightest:100,name=spot", "boxes-csv:boxes.csv", score=0.2, light=(0.7, 0.5), out="python")
assert "brightness" in dir(md) and "light: Shares of its light" in md.brightness.__doc__
try:
    md.assert_stable("brightest:100,name=spot", "boxes-csv:boxes.csv", by="brightness", most=0.1, score=0.2)
    held = ""
except AssertionError as error:
    held = str(error)
client = TestClient(application(["run"]), base_url="http://localhost")
failing = {"filter": json.dumps({"study": ["brightness"], "failure": [True]})}
rows = client.get("/api/rows", params=failing).json()
drawn = client.get("/picture/edited/0", params={"scene": rows["rows"][0]["scene"]})
print(json.dumps({
    "sentence": run.sentences[0], "held": held, "total": rows["total"], "by": sorted({r["by"] for r in rows["rows"]}),
    "facets": client.get("/api/facets").json()["facets"]["study"],
    "drawn": [drawn.status_code, drawn.headers["content-type"]],
    "words": client.get("/api/meta").json()["words"]["brightness"]["told"],
    "page": "What darkness does" in client.get("/").text,
}))
"""


def test_python_assertions_and_the_server_have_it(told, python, folder):
    found = json.loads(run(python, "-c", PYTHON + SCRIPT, cwd=folder).splitlines()[0])
    assert found["sentence"].startswith("With 50 % of the light, 50.0 %")
    assert "missed spot" in found["held"]
    assert "misdetect replay" in found["held"]
    assert found["total"] == 10
    assert found["by"] == ["0.35", "0.5"]
    assert found["facets"] == [["brightness", 10]]
    assert found["drawn"] == [200, "image/jpeg"]
    assert found["words"] == "light {by}"
    assert found["page"]


@pytest.fixture(scope="module")
def checkups(python, folder):
    """Two checkups, and what comparing them says."""
    detectors = {"one": "brightest:100,name=spot", "two": "brightest:60,name=spot"}
    commands = [["checkup", "--detector", spec, "--data", "boxes-csv:boxes.csv", "--minutes", "0.1", "--out", name]
                for name, spec in detectors.items()]  # fmt: skip
    return said(python, [*commands, ["compare", "one", "two"], ["show", "one"]], folder)


@pytest.mark.heavy
def test_a_checkup_runs_it_says_what_is_wrong_and_is_compared(checkups, folder):
    assert [code for code, _, _ in checkups] == [0, 0, 0, 0], checkups
    found = json.loads((folder / "one" / "checkup.json").read_text())
    assert "brightness" in found["studies"]
    page = (folder / "one" / "report.html").read_text()
    assert "What darkness does" in page
    assert "brightness: " in checkups[2][1]


@pytest.mark.heavy
def test_a_checkup_is_shown_where_its_package_is_gone(checkups, folder):
    out = run(sys.executable, "-m", "misdetect", "show", "one", cwd=folder, path=ROOT / "src")
    assert "this misdetect has no study 'brightness'" in out
    assert "detect" in out


@pytest.mark.heavy
def test_workers_make_the_same_rows(told, python, folder):
    (each,) = said(python, [[*STUDY, *BRIGHTEST, "--out", "two-workers", "--workers", "2", "--json"]], folder)
    code, out, err = each
    assert code == 0, err
    assert json.loads(out)["by_light"] == document(told, "run")["by_light"]


@pytest.mark.unix
@pytest.mark.heavy
def test_a_killed_run_goes_on_to_the_same_rows(python, tmp_path):
    study = ["brightness", "--detector", "brightest:200,name=lamp", "--data", "rooms:val,count=300", "--no-cache"]
    begun = subprocess.Popen([python, "-m", "misdetect", *study, "--out", "killed"], cwd=tmp_path)
    while begun.poll() is None and not list(tmp_path.glob("killed/parts/*.parquet")):
        time.sleep(0.01)
    begun.kill()
    assert begun.wait() == -signal.SIGKILL, "it was killed while it ran"
    ledgers = [["ledger", name, "--out", f"{name}.csv", "--sql", "SELECT * EXCLUDE (run, replay) FROM ledger"]
               for name in ("killed", "whole")]  # fmt: skip
    found = said(python, [[*study, "--out", "killed"], [*study, "--out", "whole"], *ledgers], tmp_path)
    assert [code for code, _, _ in found] == [0, 0, 0, 0], found
    assert (tmp_path / "killed.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


@pytest.mark.heavy
def test_pytest_finds_the_fixtures(python, folder):
    (folder / "test_own.py").write_text(
        "from misdetect import assert_stable\n\n\ndef test_dark(misdetect_detector, misdetect_data, misdetect_out):\n"
        "    assert_stable(misdetect_detector, misdetect_data, by='brightness', most=0.6, score=0.2,\n"
        "                  out=misdetect_out / 'dark')\n"
    )
    options = ["--misdetect-detector", "brightest:100,name=spot", "--misdetect-data", "boxes-csv:boxes.csv"]
    assert "1 passed" in run(python, "-m", "pytest", "-p", "no:cacheprovider", "test_own.py", *options, cwd=folder)


def test_hatchling_puts_the_same_files_into_the_wheel(tmp_path):
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed here")
    (tmp_path / "own").mkdir()
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=PLUGIN)
    (made,) = tmp_path.glob("*.whl")
    theirs, ours = (zipfile.ZipFile(each) for each in (made, wheel(PLUGIN, tmp_path / "own")))
    assert set(ours.namelist()) <= set(theirs.namelist())
    for name in ours.namelist():
        if not name.endswith(("RECORD", "WHEEL", "METADATA")):
            assert ours.read(name).split() == theirs.read(name).split(), name


def test_the_tutorial_shows_the_files_as_they_are():
    shown = [(name, text) for name, text in (*blocks("toml"), *blocks("python")) if name]
    assert len(shown) > 10
    for name, text in shown:
        assert text in (PLUGIN / name).read_text(encoding="utf-8"), name

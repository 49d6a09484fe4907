"""Benchmarks still run, each in its short form, and take every command that README and docs quote. What they measure is
not looked at: a figure of the short form means nothing."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = sorted(file.stem for file in (ROOT / "benchmarks").glob("[a-z]*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MEASURED = ROOT / "docs" / "measured.md"

MODES = [  # what a benchmark does only when it is asked to
    "adaptive --chart FOLDER/chart.png",
    "doctor --onnx --only threshold",
    "doctor --alarms 1 --only zoo:ssd",
    "explain --confusion",
    "robust_zoo --runs FOLDER",
    "scale --before",
    "verify --planted 2",
]
LIMIT = 300
"""Seconds for what takes at most forty on an idle machine: a short form that is none ends here."""

_COMMAND = re.compile(r"(?:python |`)benchmarks/(\w+)\.py([^`\n]*)")
_OR_ELSE = re.compile(r"`, `(--[^`\n]*)")
_PLACEHOLDERS = str.maketrans("", "", "[]|…")

_CHECKED = """
import contextlib, io, json, runpy, sys
sys.path.insert(0, "benchmarks")
refused = {}
for command in json.load(sys.stdin):
    name, *given = command
    sys.argv, said = [name, *given, "--check"], io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            runpy.run_path(f"benchmarks/{name}.py", run_name="__main__")
        refused[" ".join(command)] = "does not know --check"
    except SystemExit as ended:
        if ended.code:
            refused[" ".join(command)] = said.getvalue()
    except Exception as error:
        refused[" ".join(command)] = repr(error)
print(json.dumps(refused))
"""


def quoted(text: str) -> list[list[str]]:
    """The benchmarks' commands in a page, without marks of what may be left out; `` `A --b`, `--c` `` are two."""
    found = []
    for match in _COMMAND.finditer(text):
        name, variants, end = match[1], [match[2]], match.end()
        while more := _OR_ELSE.match(text, end):
            variants.append(more[1])
            end = more.end()
        for variant in variants:
            arguments, _, _ = variant.strip().partition("  ")  # behind it is what the command does
            found.append([name, *shlex.split(arguments.translate(_PLACEHOLDERS))])
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_says_what_its_short_form_is(name):
    text = (ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
    assert "short=" in text, f"{name}.py has no short form: give its arguments short=, see benchmarks/_measuring.py."


@pytest.mark.heavy
@pytest.mark.parametrize("command", [*NAMES, *MODES])
def test_the_short_form_runs_and_prints_figures(command, tmp_path):
    name, *more = command.replace("FOLDER", str(tmp_path)).split()
    started = [sys.executable, f"benchmarks/{name}.py", "--short", *more]
    done = subprocess.run(started, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT)
    if "skipped:" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d", done.stdout), done.stdout


def test_commands_are_found_in_pages():
    page = "| `python benchmarks/a.py --n 1`, `--m 2` | `--no` |\n    python benchmarks/b.py x --n 1   what it does\n"
    assert quoted(page) == [["a", "--n", "1"], ["a", "--m", "2"], ["b", "x", "--n", "1"]]
    assert quoted("`python benchmarks/c.py [SPEC… | --one FILE]`, `benchmarks/d.py`") == [
        ["c", "SPEC", "--one", "FILE"],
        ["d"],
    ]


def test_benchmarks_take_every_command_that_a_page_quotes():
    commands = [command for page in PAGES for command in quoted(page.read_text(encoding="utf-8"))]
    assert {"engine", "trace"} <= {name for name, *_ in commands}
    done = subprocess.run(
        [sys.executable, "-c", _CHECKED], cwd=ROOT, input=json.dumps(commands), capture_output=True, text=True
    )
    assert json.loads(done.stdout) == {}


def test_every_figure_names_its_command():
    text = MEASURED.read_text(encoding="utf-8")
    rows = re.findall(r"^\| .+ \| (.+) \|$", text.partition("\n## ")[0], re.MULTILINE)
    assert len(rows) > 20
    assert [row for row in rows[1:] if "`" not in row and row != "〃"] == []


def test_the_readme_has_a_few_of_these_figures():
    """Their commands, word for word; what was not measured by one has a page of its own."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Measured")[2].partition("\n\nOn what")[0]
    commands = re.findall(r"^\| .+ \| (`.+`) \|$", section, re.MULTILINE)
    assert len(commands) == 5
    assert [each for each in commands if each.rstrip("`") not in MEASURED.read_text(encoding="utf-8")] == []

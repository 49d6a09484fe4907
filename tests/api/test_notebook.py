"""The notebook of the examples runs, and what its cells show says what it should."""

import ast
import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


def cells() -> list[str]:
    found = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"]


def show(source: str, names: dict) -> object:
    """Run a cell; the value of its last expression, which a notebook shows."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)


@pytest.mark.heavy
def test_the_notebook_runs():
    names: dict = {}
    shown = [show(source, names) for source in cells()]
    assert len(shown) == 8
    explained, found, classes, figure, compared, fuzzed, ledger, own = shown
    assert found[0] == explained.document["mechanisms"]
    assert classes["miss_rate"].max() <= 1
    assert len(classes) == 12
    assert min(figure.size) > 200
    assert "miss_rate" in repr(compared)
    assert set(ledger["study"]) == {"explain", "fuzz"}
    assert own.document["objects"] > 0
    for thing in (explained, compared, fuzzed, own):
        assert thing._repr_html_().startswith("<")


def test_cells_are_stored_without_results():
    found = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert [cell["outputs"] for cell in found] == [[]] * 8

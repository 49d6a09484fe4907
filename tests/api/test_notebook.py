"""The notebooks of the examples run, and what their cells show says what it should."""

import ast
import json
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def code(notebook: Path) -> list[dict]:
    found = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == "code"]


def show(source: str, names: dict) -> object:
    """Run a cell; the value of its last expression, which a notebook shows."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def shown(name: str) -> tuple[list[object], dict]:
    """What the cells of a notebook show, and the names that they leave."""
    names: dict = {"__name__": "notebook"}
    return [show("".join(cell["source"]), names) for cell in code(EXAMPLES / name)], names


@pytest.mark.heavy
def test_a_first_look():
    (explained, found, classes, figure, compared, fuzzed, ledger), _ = shown("first_look.ipynb")
    assert found[0] == explained.document["mechanisms"]
    assert classes["miss_rate"].max() <= 1
    assert len(classes) == 12
    assert min(figure.size) > 200
    assert "miss_rate" in repr(compared)
    assert set(ledger["study"]) == {"explain", "fuzz"}
    for thing in (explained, compared, fuzzed):
        assert thing._repr_html_().startswith("<")


@pytest.mark.heavy
def test_a_torch_model_of_ones_own():
    (_, checked, _, misses, inside), names = shown("own_torch_model.ipynb")
    own = names["explained"].document
    assert checked.document["findings"] == []
    assert own["objects"] == inside.document["objects"] > 0
    assert own["missed"] == inside.document["missed"], "the module is the network that stands for it"
    assert list(misses["misses"]) == sorted(misses["misses"], reverse=True)


@pytest.mark.heavy
def test_a_gate_in_pytest():
    _, names = shown("gate_in_pytest.ipynb")
    (passed, said), (failed, why) = names["passed"], names["failed"]
    assert passed == 0, said
    assert "2 passed" in said
    assert failed == 1
    assert "miss_rate" in why


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_are_stored_without_results(notebook):
    assert [cell["outputs"] for cell in code(notebook)] == [[]] * len(code(notebook))
    assert all(cell["execution_count"] is None for cell in code(notebook))

"""Would a test notice? Plants one small change after another into a file and runs tests against each.

``python tools/mutants.py src/misdetect/report/scan.py --tests tests/report`` prints the changes that no test noticed,
and how many there were. Each change is made in a copy of the source tree and tested in a process forked from one that
has imported the heavy libraries, so that a change costs seconds. It ends with exit code 1 if one survives.
"""

import argparse
import ast
import copy
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEAVY = (
    "numpy",
    "cv2",
    "PIL.Image",
    "pyarrow.parquet",
    "duckdb",
    "torch",
    "rich.table",
)
SECONDS = 180
"""After which a change counts as noticed: it made the tests hang."""
_COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_LEFT_ALONE = {"alpha", "color", "dpi", "fontsize", "labelsize", "linewidth", "markersize", "ncols", "strict", "zorder"}
"""Keywords that say how something looks, or guard against what cannot happen."""
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


def changed(node: ast.AST) -> ast.AST | None:
    """A copy of ``node`` with one change in it, or ``None`` where this kind of node is left alone."""
    other = copy.deepcopy(node)
    match other:
        case ast.Compare(ops=[op]) if type(op) in _COMPARE:
            other.ops = [_COMPARE[type(op)]()]
        case ast.BinOp(op=op) if type(op) in _ARITHMETIC:
            other.op = _ARITHMETIC[type(op)]()
        case ast.BoolOp(op=op):
            other.op = ast.Or() if isinstance(op, ast.And) else ast.And()
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return inner
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return inner
        case ast.IfExp():
            other.body, other.orelse = other.orelse, other.body
        case ast.Constant(value=bool(value)):
            other.value = not value
        case ast.Constant(value=int(value) | float(value)):
            other.value = value + 1
        case _:
            return None
    return ast.copy_location(other, node)


def sites(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Where ``tree`` can be changed: parent, its field, the place in that field, and the node. Decorators, the types of
    parameters and results, and what only says how a line is drawn are not looked at."""
    for field, value in ast.iter_fields(tree):
        if field in ("returns", "decorator_list", "type_params") or (
            field == "annotation" and isinstance(tree, ast.arg)
        ):
            continue
        for place, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(node, ast.AST) or (isinstance(node, ast.keyword) and node.arg in _LEFT_ALONE):
                continue
            if field != "annotation" and changed(node) is not None:
                yield tree, field, place, node
            yield from sites(node)


def mutants(source: str) -> Iterator[tuple[str, str]]:
    """Every changed version of ``source``, with what was changed."""
    count = sum(1 for _ in sites(ast.parse(source)))
    for number in range(count):
        tree = ast.parse(source)
        parent, field, place, node = next(site for i, site in enumerate(sites(tree)) if i == number)
        other = changed(node)
        assert other is not None
        if place is None:
            setattr(parent, field, other)
        else:
            getattr(parent, field)[place] = other
        line = getattr(node, "lineno", 0)
        yield ast.unparse(ast.fix_missing_locations(tree)), f"{line}: {ast.unparse(node)}  ->  {ast.unparse(other)}"


def noticed(copied: Path, tests: list[str]) -> bool:
    """Whether one of ``tests`` fails against the source tree ``copied``, in a child of this process."""
    child = os.fork()
    if not child:
        code = 0
        try:
            os.setsid()
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            os.environ["PYTHONPATH"] = str(copied)
            sys.path.insert(0, str(copied))
            import pytest

            code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]))
        finally:
            os._exit(code)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) != 0
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def main() -> int:
    """Print what survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--tests", nargs="+", required=True)
    parser.add_argument("--every", type=int, default=1, help="try only every N-th change")
    given = parser.parse_args()
    for name in HEAVY:
        __import__(name)
    all_of_them = survived = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copied = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copied)
        if noticed(copied, given.tests):
            sys.exit("the tests fail without any change.")
        for file in given.files:
            place = copied / file.resolve().relative_to(ROOT / "src")
            source = file.read_text(encoding="utf-8")
            for number, (text, what) in enumerate(mutants(source)):
                if number % given.every:
                    continue
                place.write_text(text, encoding="utf-8")
                all_of_them += 1
                if not noticed(copied, given.tests):
                    survived += 1
                    print(f"{file}:{what}", flush=True)
            place.write_text(source, encoding="utf-8")
    print(f"{all_of_them} changes, {survived} not noticed")
    return bool(survived)


if __name__ == "__main__":
    sys.exit(main())

"""Drawings as data: what a ``.shapes`` file says, and how it is drawn.

A shape is a name, the sizes it is called with, and one line for each thing that is drawn::

    lollipop  h
      colour = pick(PAINTS)                             # a name for a number, a colour, a throw of the dice
      stroke 0,0 0,h | #f0ece2 .02                      # a verb, where | in which colour, how
      fill smooth -.1,h 0,h+.2 .1,h | colour texture=grain slope=0,.2
      if chance(.5)                                     # ``if``, ``elif``, ``else`` and ``for`` as in Python
        spiral h                                        # another shape; it knows every name of the one that calls it
      choose design%2 spiral wrapper                    # one of several, by its number

Where and how are arithmetic without spaces; points are ``x,y``. The verbs are the methods of a ``Pen``; one that has
lines below it takes its points or parts from there. All is worked out from left to right and from top to bottom, and
in this order the dice are thrown: another order gives other images. ``NAME = …`` at the margin is a constant, ``…`` at
the end of a line goes on with the next. A file is read once: its shapes become Python, in which every expression has
been found to be arithmetic.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import copysign, cos, pi, sin, sqrt
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

from misdetect.data.procedural.draw.canvas import Points, arc, curved, mix, tint
from misdetect.data.procedural.draw.dice import Dice

COLOURS = Path(__file__).with_name("colours.shapes")
"""Palettes that all drawings share."""
_FORMS = ("smooth", "curve")
_WORDS = ("texture", "relief")
"""Options whose value is a word, unless it is in brackets."""
_ARITHMETIC = (
    ast.Expression, ast.Constant, ast.Name, ast.Load, ast.Tuple, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare,
    ast.IfExp, ast.Call, ast.Subscript, ast.Slice, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip
_KNOWN: dict[str, Any] = {
    "__builtins__": {}, "names_here": globals, "mix": mix, "tint": tint, "arc": arc,
    "curve": partial(curved, form="curve"), "len": len, "range": range, "sum": sum, "round": round, "int": int,
    "sin": sin, "cos": cos, "pi": pi, "sqrt": sqrt, "copysign": copysign, "min": min, "max": max, "abs": abs,
}  # fmt: skip


@dataclass
class Line:
    """A line of a file without its indent, and the lines indented below it."""

    text: str
    below: list["Line"] = field(default_factory=list)


def read(text: str) -> list[Line]:
    """The lines at the margin of a file; comments begin with ``#`` and a space."""
    margin = Line("")
    above = [(-1, margin)]
    for raw in re.sub(r"…\n\s*", "", text).splitlines():
        bare = re.sub(r"(^|\s)# .*", "", raw)
        if not bare.strip():
            continue
        depth = len(bare) - len(bare.lstrip())
        while above[-1][0] >= depth:
            above.pop()
        above[-1][1].below.append(line := Line(" ".join(bare.split())))
        above.append((depth, line))
    return margin.below


def arithmetic(text: str) -> str:
    """``text`` with colours as numbers, if it has nothing but numbers, names, operators and calls of what is known."""
    plain = re.sub(r"#(..)(..)(..)\b", lambda m: str(tuple(int(part, 16) for part in m.groups())), text)
    for node in ast.walk(ast.parse(plain, mode="eval")):
        if not isinstance(node, _ARITHMETIC) or (isinstance(node, ast.Call) and not isinstance(node.func, ast.Name)):
            raise ValueError(f"A drawing has arithmetic only, not {type(node).__name__} as in {text!r}.")
    return plain


def _tokens(text: str) -> list[str]:
    """What spaces outside brackets separate."""
    return re.findall(r"(?:\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|[^\s()])+", text)


def _value(token: str) -> str:
    """A token as a value in Python; ``*points`` are several."""
    return "*" * token.startswith("*") + f"({arithmetic(token.lstrip('*'))})"


class Shapes:
    """The shapes of some files, drawn by pens of the class ``pen``."""

    def __init__(self, pen: type, *files: Path) -> None:
        self._outlines: list[Points] = []
        self.constants = {**_KNOWN, "call_shape": self._call, "outlines": self._outlines}
        self._pen = pen
        self._shapes: dict[str, tuple[list[str], CodeType]] = {}
        shapes: dict[str, Line] = {}
        for line in (line for file in files for line in read(file.read_text(encoding="utf-8"))):
            name, constant, value = line.text.partition(" = ")
            if constant:
                self.constants[name] = eval(arithmetic(value), self.constants)
            else:
                shapes[name.split()[0]] = line
        self.names = tuple(shapes)
        for name, line in shapes.items():
            code = compile("\n".join(self._python(line.below, "")), name, "exec")
            self._shapes[name] = line.text.split()[1:], code

    def draw(self, name: str, pen: Any, dice: Dice, known: Mapping[str, Any]) -> None:
        """Draw shape ``name`` with ``pen``, its chance from ``dice``; ``known`` are sizes and colours it may use."""
        throws = {
            "between": dice.between,
            "whole": dice.whole,
            "chance": dice.chance,
            "sign": dice.sign,
            "pick": lambda *options: dice.pick(options if len(options) > 1 else options[0]),
        }
        exec(self._shapes[name][1], {**self.constants, **throws, **known, "pen": pen})

    def _call(self, name: str, known: dict[str, Any], *given: Any) -> None:
        """Draw shape ``name`` for another one, which goes on afterwards on the surface where it was."""
        sizes, code = self._shapes[name]
        pen = known["pen"]
        surface = pen.surface
        exec(code, {**known, **dict(zip(sizes, given, strict=True))} if sizes else known.copy())
        pen.surface = surface

    def _python(self, lines: list[Line], indent: str) -> Iterator[str]:
        """Lines in Python, of which every expression is arithmetic."""
        for line in lines:
            word, _, rest = line.text.partition(" ")
            name = re.match(r"(for )?(\w+(?:,\w+)*) (=|in) ", line.text)
            if word in ("if", "elif", "else", "for"):
                start, rest = (name.group(), line.text[name.end() :]) if name and word == "for" else (word, rest)
                yield f"{indent}{start} {arithmetic(rest) if rest else ''}:"
                yield from self._python(line.below, indent + " ")
            elif name:
                yield indent + name.group() + arithmetic(line.text[name.end() :])
            elif word in self.names:
                yield f"{indent}call_shape({', '.join([repr(word), 'names_here()', *map(_value, _tokens(rest))])})"
            elif word == "choose":
                number, *shapes = _tokens(rest)
                yield f"{indent}call_shape({shapes}[{arithmetic(number)}], names_here())"
            else:
                yield from self._verb(word, rest, line.below, indent)

    def _verb(self, word: str, rest: str, below: list[Line], indent: str) -> Iterator[str]:
        """The call of a verb: ``pen.verb([where], colour, width, option=…)``."""
        if word.startswith("_") or not callable(getattr(self._pen, word, None)):
            raise ValueError(f"{word!r} is neither a shape nor a verb of {self._pen.__name__}.")
        places: list[str] = []
        looks: list[str] = []
        options: dict[str, str] = {}
        for side, text in zip((places, looks), f"{rest}|".split("|"), strict=False):
            for token in _tokens(text):
                option, equals, value = token.partition("=")
                if token in _FORMS:
                    options["form"] = repr(token)
                elif equals and option.isidentifier():
                    options[option] = repr(value) if option in _WORDS and value.isalpha() else _value(value)
                else:
                    side.append(_value(token))
        where = f"[{', '.join(places)}]"
        if below:
            where = "pen.listed"
            yield f"{indent}pen.listed = []"
            yield from self._python(below, indent)
        elif word in ("fill", "stroke") and not re.search(r"[a-z*]", where):
            # An outline of numbers alone is the same in every picture.
            outline = np.array(eval(where, {"__builtins__": {}}), dtype=np.float64)
            self._outlines.append(curved(outline, ast.literal_eval(options.pop("form", "None"))))
            where = f"outlines[{len(self._outlines) - 1}]"
        how = [f"{option}={value}" for option, value in options.items()]
        yield f"{indent}pen.{word}({', '.join([where, *looks, *how])})"

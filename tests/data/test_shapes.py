"""Laws of drawings that are data: a line draws what the pen would, in the order of the dice, by arithmetic alone."""

import re
from pathlib import Path

import numpy as np
import pytest

from misdetect.data import procedural
from misdetect.data.procedural.bikes.parts import PARTS
from misdetect.data.procedural.draw.canvas import Canvas, smooth
from misdetect.data.procedural.draw.dice import Dice
from misdetect.data.procedural.draw.pen import Pen
from misdetect.data.procedural.draw.shapes import Shapes, read
from misdetect.data.procedural.draw.surface import Surface, circle

FILES = sorted(Path(procedural.__file__).parent.rglob("*.shapes"))
KINDS = (
    "ball book cat chair clock couch cup elephant lamp plant table tv picture window plate vase box cabinet shelf rug"
)
BY_CODE = {*KINDS.split(), "boulder", "tree", "fence", "landscape", "background", "before_the_bicycle", *PARTS, "frame",
           "cranks", "bush", "carton", "sign", "pot", "post", "bag", "crate", "coat", "sack"}  # fmt: skip
"""Shapes that no other shape calls."""


def picture(tmp_path, text, **known):
    """What the shape ``it`` draws, and how often it threw the dice."""
    file = tmp_path / "it.shapes"
    file.write_text(text, encoding="utf-8")
    canvas, dice = Canvas(48), Dice.seeded(3)
    Shapes(Pen, file).draw("it", pen(canvas), dice, known)
    return canvas.pixels, dice


def pen(canvas):
    return Pen(canvas, Surface(canvas, canvas.lens, 1.0, circle(28)))


def by_hand(draw):
    canvas = Canvas(48)
    draw(pen(canvas))
    return canvas.pixels


def test_a_line_draws_what_the_pen_draws(tmp_path):
    found, _ = picture(
        tmp_path,
        "it\n  fill smooth .1,.1 w,.2 .5,.9 | #0a1420 relief=sphere slope=0,.2\n  stroke 0,0 1,w | #ff0000 .03",
        w=0.8,
    )

    def draw(it):
        outline = smooth([(0.1, 0.1), (0.8, 0.2), (0.5, 0.9)])
        it.fill(outline, (10, 20, 32), relief="sphere", slope=(0, 0.2))
        it.stroke([(0, 0), (1, 0.8)], (255, 0, 0), 0.03)

    assert np.array_equal(found, by_hand(draw))


def test_dice_are_thrown_in_the_order_of_reading(tmp_path):
    text = """it
  at between(0,.5),between(0,.5) unit=between(.2,.4)
  fill 0,0 1,between(0,1) 0,1 | pick(#ff0000,#00ff00)
"""
    found, after = picture(tmp_path, text)
    dice = Dice.seeded(3)
    x, y, unit = dice.between(0, 0.5), dice.between(0, 0.5), dice.between(0.2, 0.4)
    corner, colour = dice.between(0, 1), dice.pick([(255, 0, 0), (0, 255, 0)])
    points = [(x, y), (x + unit, y + corner * unit), (x, y + unit)]
    assert np.array_equal(found, by_hand(lambda it: it.fill(points, colour)))
    assert after.unit() == dice.unit()


def test_lines_below_a_verb_are_its_points(tmp_path):
    below = "it\n  fill | #ffffff\n    for x in .2,.8\n      point x,.1\n    point .5,.9"
    assert np.array_equal(picture(tmp_path, below)[0], picture(tmp_path, "it\n  fill .2,.1 .8,.1 .5,.9 | #ffffff")[0])


def test_a_shape_sees_its_caller_but_leaves_nothing_behind(tmp_path):
    text = """it
  c = #ffffff
  inner .5
  fill 0,0 .2,0 0,.2 | c

inner  r
  at r,r
  fill 0,0 .2,0 0,.2 | c
  c = #ff0000
"""
    plain = "it\n  fill .5,.5 .7,.5 .5,.7 | #ffffff\n  fill 0,0 .2,0 0,.2 | #ffffff"
    assert np.array_equal(picture(tmp_path, text)[0], picture(tmp_path, plain)[0])


@pytest.mark.parametrize("bad", ["().__class__", "[x for x in (1,2)]", "lambda: 1", "max.__call__(1,2)", "(x := 1)"])
def test_a_drawing_is_arithmetic_only(tmp_path, bad):
    with pytest.raises(ValueError, match="arithmetic"):
        picture(tmp_path, f"it\n  x = {bad}\n")


def test_a_drawing_reaches_nothing_that_it_was_not_given(tmp_path):
    with pytest.raises(NameError):
        picture(tmp_path, "it\n  x = __import__('os')\n")
    with pytest.raises(ValueError, match="neither a shape nor a verb"):
        picture(tmp_path, "it\n  scribble 0,0 1,1 | #ffffff\n")


def test_every_shape_of_the_package_is_drawn_by_something():
    lines = [line for file in FILES for line in read(file.read_text(encoding="utf-8")) if " = " not in line.text]
    names = {line.text.split()[0] for line in lines}
    said: set[str] = set()

    def listen(below):
        for line in below:
            said.update(line.text.split(" ") if line.text.startswith("choose") else re.findall(r"^\w+", line.text))
            listen(line.below)

    for line in lines:
        listen(line.below)
    assert len(names) > 90
    assert names - said - BY_CODE == set()
    assert BY_CODE - names == set()

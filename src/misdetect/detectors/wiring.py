"""The options that every network in a file is read with, whatever runs it: preprocessing, thresholds and batch.

The graph says its input's size, layout and type where it fixes them; a preset says what its family does; the spec can
state all of it, and what nobody states is an error that names the missing options.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, get_args

from misdetect.detectors.preprocess import PRESETS, Colour, Layout, Preprocess, Resize
from misdetect.nouns.spec import Spec
from misdetect.said.errors import BadArray, BadSpec

DEFAULT_BATCH = 8
WIRING = frozenset({"preset", "resize", "colour", "scale", "mean", "std", "pad"})
"""The options that say how pixels become values, but for size and layout."""


def limits_of(spec: Spec, suppression: float) -> dict[str, Any]:
    """The thresholds and caps that decide what is reported."""
    return {
        "score": share(spec, "score", 0.01),
        "nms": share(spec, "nms", suppression),
        "max": positive(spec, "max", 100),
        "agnostic": spec.take("agnostic", False),
        "multilabel": spec.take("multilabel", False),
    }


Shape = Sequence[int | None]
"""Of an image input, batch first; ``None`` where an axis is dynamic."""


def preprocess_of(
    spec: Spec, preset: str, shape: Shape, dtype: str, exported: tuple[int, int] | None = None
) -> Preprocess:
    """The preprocessing that preset, spec and graph state together, or a ``BadSpec`` that says what is missing.
    ``exported`` is the width and height that a file says it was made for, where its graph takes any."""
    stated: dict[str, Any] = dict(PRESETS[preset]) if preset else {}
    for name, kind in (("resize", Resize), ("colour", Colour)):
        if value := spec.take(name, "", choices=get_args(kind)):
            stated[name] = value
    for name in ("scale", "pad"):
        if value := spec.take(name, ""):
            (stated[name],) = _numbers(spec, name, value, 1)
    for name in ("mean", "std"):
        if value := spec.take(name, ""):
            stated[name] = _numbers(spec, name, value, 3)
    spec.take("layout", "", choices=get_args(Layout))
    layout = layout_of(spec, shape)
    size = _size(spec, *sides_of(shape, layout), exported)
    missing = [name for name in ("resize", "colour", "scale") if name not in stated]
    missing += ["pad"] if str(stated.get("resize", "")).startswith("letterbox") and "pad" not in stated else []
    missing += ["layout"] if not layout else []
    missing += ["size"] if size is None else []
    if missing or size is None or not layout:
        raise BadSpec(
            f"{spec.text!r}: neither the graph nor the decoder states {', '.join(missing)}; give "
            f"{', '.join(f'{name}=' for name in missing)}"
            + ("" if preset or missing == ["size"] else f" or preset= ({', '.join(PRESETS)})")
            + " as the network was trained with."
        )
    try:
        return Preprocess(*size, **stated, layout=layout, dtype=dtype)
    except BadArray as error:
        raise BadSpec(f"{spec.text!r}: {error}") from error


def needs_preset(spec: Spec) -> bool:
    """Whether ``spec`` leaves how pixels become values to a preset."""
    return "preset" not in spec.options and not {"resize", "colour", "scale"} <= spec.options.keys()


def layout_of(spec: Spec, shape: Shape, told: str = "") -> Layout | None:
    """What the channel axis of the graph says, or the spec; ``None`` where neither does. ``told``: the input, for a
    message."""
    stated = spec.options.get("layout", "")
    possible = [name for name, channels in (("nchw", shape[1]), ("nhwc", shape[3])) if channels in (3, None)]
    if shape[1] == 1 and shape[3] is None:  # a grey image of any width, and not a single row of pixels
        possible = []
    if not possible or (stated and stated not in possible):
        raise BadSpec(
            f"{spec.text!r}: expected an input with 3 channels{f' in layout={stated}' if stated else ''}. "
            f"Got {told or list(shape)}."
        )
    seen = {(True, False): "nchw", (False, True): "nhwc"}.get((shape[1] == 3, shape[3] == 3))
    return stated or seen  # type: ignore[return-value]


def sides_of(shape: Shape, layout: Layout | None) -> tuple[int | None, int | None]:
    """Width and height that the graph fixes."""
    _, first, second, third = shape
    return (third, second) if layout != "nhwc" else (second, first)


def _size(
    spec: Spec, width: int | None, height: int | None, exported: tuple[int, int] | None
) -> tuple[int, int] | None:
    """Width and height: the graph's where it fixes them, else ``size=640`` or ``size=WIDTHxHEIGHT``, else those that
    the file says it was ``exported`` for."""
    text = spec.take("size", "")
    if not text:
        usual = exported or (0, 0)
        found = (width or usual[0], height or usual[1])
        return found if all(found) else None
    parts = text.lower().split("x")
    if len(parts) > 2 or not all(part.isdecimal() and int(part) for part in parts):
        raise BadSpec(f"{spec.text!r}: size={text} should be a number of pixels or WIDTHxHEIGHT, such as 640x480.")
    size = int(parts[0]), int(parts[-1])
    if (width or size[0], height or size[1]) != size:
        raise BadSpec(f"{spec.text!r}: size={text}, but the graph's input is {width or 'any'}x{height or 'any'}.")
    return size


def size_stated(spec: Spec) -> tuple[int, int] | None:
    """Width and height that ``size=`` states, where they can be read."""
    stated = spec.options.get("size", "").lower().split("x")
    good = all(part.isdecimal() and 0 < int(part) < 1 << 15 for part in stated)
    return (int(stated[0]), int(stated[-1])) if good else None


def batch_size_of(spec: Spec, axis: int | None) -> int:
    """Images at once: as many as the graph fixes (``axis``), else ``batch=``."""
    given = positive(spec, "batch", axis or DEFAULT_BATCH)
    if axis and given != axis:
        raise BadSpec(f"{spec.text!r}: batch={given}, but the graph takes {axis} images at a time.")
    return given


def _numbers(spec: Spec, name: str, text: str, count: int) -> tuple[float, ...] | Any:
    """``count`` numbers, written as decimals or fractions (``1/255``); one number stands for all."""
    try:
        values = tuple(_number(part) for part in text.split(","))
    except (ValueError, ZeroDivisionError, OverflowError):
        values = ()
    if len(values) not in (1, count):
        wanted = "a number such as 0.5 or 1/255" if count == 1 else f"{count} numbers such as 0.485,0.456,0.406"
        raise BadSpec(f"{spec.text!r}: {name}={text} should be {wanted}.")
    return values * count if len(values) == 1 else values


def _number(text: str) -> float:
    """A decimal, or a fraction of two."""
    whole, slash, parts = text.partition("/")
    return float(Fraction(whole.strip()) / Fraction(parts.strip() if slash else 1))


def share(spec: Spec, name: str, default: float) -> float:
    """Option ``name`` as a number from 0 to 1."""
    value = spec.take(name, default)
    if not 0 <= value <= 1:
        raise BadSpec(f"{spec.text!r}: {name}={value:g} should be between 0 and 1.")
    return value


def positive(spec: Spec, name: str, default: int) -> int:
    """Option ``name`` as a whole number of at least 1."""
    value = spec.take(name, default)
    if value < 1:
        raise BadSpec(f"{spec.text!r}: {name}={value} should be at least 1.")
    return value

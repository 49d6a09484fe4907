"""Gates: when the numbers of a document count as a failure, as CI asks: ``miss_rate > 0.2``, ``AP falls by 0.01``.

A gate names a key of a document, as ``--json`` prints it, and a limit; on a comparison, a direction, which fails only
where the interval of the difference is sure of it. Text is parsed, never evaluated. A gate that cannot be judged (no
such key, nothing measured) has neither passed nor failed, and says why: whoever asks has to treat that as an error.
"""

import difflib
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any, NamedTuple

from misdetect.said.errors import BadGate
from misdetect.said.glossary import KEYS, told_of

LIMITS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
MOVES = ("falls", "rises")
ANY = "any"
"""Short for ``findings > 0``."""
COUNTED = ("findings", "skipped", "fixed_findings", "new_findings", "common_findings")
"""Lists that stand for how many they hold; of any other, an element is to be named."""
ASIDE = ("settings", "joining", "intervals")
"""What is found only by its full key: no results, or no single number."""
_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?"
_STEP = re.compile(r"""\.?(?P<name>[^\s.\[\]<>=!"']+)|\[\s*(?:"([^"]*)"|'([^']*)'|([^\]"']*?))\s*\]""")
_LIMIT = re.compile(rf"\s*({'|'.join(LIMITS)})\s*({_NUMBER})\s*")
_MOVE = re.compile(rf"\s+({'|'.join(MOVES)})(?:\s+by\s+({_NUMBER}))?\s*")
_BARE = re.compile(r"[^\W\d][\w-]*")
_NEAR, _SHOWN = 3, 6
Key = tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """What became of a gate: the ``key`` that it found and its ``value`` there, with the ``interval`` where there is
    one, whether it ``failed`` (``None``: it cannot be judged), and a sentence that ``says`` so. On a comparison the
    value is the difference to the first run."""

    gate: str
    key: str | None
    value: float | int | None
    interval: Sequence[float] | None
    failed: bool | None
    says: str

    def document(self) -> dict[str, Any]:
        """As it stands in a document, under ``gates``."""
        return asdict(self)


class Place(NamedTuple):
    """A ``value`` of a document, by its ``path`` from ``root``; ``key`` is how to write that."""

    key: str
    root: Any
    path: Key
    value: Any


@dataclass(frozen=True)
class Gate:
    """A condition under which a document fails: ``key`` (``sign``) ``bound``, as written in ``text``."""

    text: str
    key: Key
    sign: str
    bound: float

    @classmethod
    def parse(cls, text: str) -> "Gate":
        """``KEY < NUMBER`` (or another comparison), ``KEY falls``, ``KEY rises by NUMBER``, or ``any``."""
        if text.strip() == ANY:
            return cls(text, ("findings",), ">", 0.0)
        key, rest = _key(text.strip())
        for shape in (_LIMIT, _MOVE):
            if key and (found := shape.fullmatch(rest)) and isfinite(bound := float(found[2] or 0)):
                if found[1] in MOVES and bound < 0:
                    raise BadGate(f"the gate {text!r} should name a positive number after by. Got {found[2]}.")
                return cls(text, key, found[1], bound)
        raise BadGate(
            f"the gate {text!r} cannot be read: expected KEY > NUMBER (or <, >=, <=, ==, !=), as in 'miss_rate > 0.2' "
            "or 'affected[0.5] > 10'; of compare also KEY falls by NUMBER or KEY rises, as in 'AP falls by 0.01'."
        )

    @property
    def moves(self) -> bool:
        """Whether it asks for a change between runs."""
        return self.sign in MOVES

    def judge(self, document: Mapping[str, Any]) -> Verdict:
        """Whether ``document`` (of a study, of checkup, of compare) fails."""
        found = self._judged(document)
        if found.key is None and (renamed := told_of(self.key, KEYS)) is not None:
            return self._unjudged(renamed)
        return found

    def _judged(self, document: Mapping[str, Any]) -> Verdict:
        if not self.moves:
            return self._held(document)
        return self._moved(document) if _studies(document) is None else self._moved_of_studies(document)

    def _held(self, document: Mapping[str, Any]) -> Verdict:
        places = _places(document, self.key)
        if len(places) != 1:
            return self._unjudged(_missing(document, self.key) if not places else _several(places))
        place = places[0]
        value = len(place.value) if place.path[-1] in COUNTED and isinstance(place.value, list) else place.value
        if not isinstance(value, (int, float)):
            return self._unjudged(_no_number(place), place.key)
        interval, value = _interval(place), int(value) if isinstance(value, bool) else value
        failed = LIMITS[self.sign](value, self.bound)
        told = f"{place.key} is {value:.6g}{_range(interval)}."
        return Verdict(self.text, place.key, value, interval, failed, self._failed(told) if failed else told)

    def _moved_of_studies(self, document: Mapping[str, Any]) -> Verdict:
        """Of checkups side by side: the first name is that of a study, or only one study has the key."""
        studies, head = _studies(document) or {}, self.key[0]
        known = {name: [changes for _, changes in _pairs(study)] for name, study in studies.items()}
        if head in studies and len(self.key) > 1:
            return replace(self, key=self.key[1:])._moved(studies[head], head)
        if why := _skipped(document, head):
            return self._unjudged(why)
        own = [name for name, every in known.items() if any(_nearest(changes, self.key) for changes in every)]
        if len(own) == 1:
            return self._moved(studies[own[0]], own[0])
        if own:
            places = [place for name in own for place in _nearest(known[name][0], self.key, name)]
            return self._unjudged(_several(places))
        first = {name: every[0] for name, every in known.items() if every}
        return self._unjudged(f"{written(self.key)} has no paired interval{_like(first, self.key, _change)}")

    def _moved(self, document: Mapping[str, Any], *above: str) -> Verdict:
        pairs = list(_pairs(document))
        if not pairs:
            why = "; ".join(document.get("why_not_paired", ())) or "it asks how runs differ, which only compare knows"
            return self._unjudged(f"{why}.")
        judged = []
        for second, changes in pairs:
            places = _nearest(changes, self.key, *above)
            change = _change(places[0].value) if len(places) == 1 else None
            if len(places) > 1:
                return self._unjudged(_several(places))
            if not places or (change is None and places[0].value is not None):
                return self._unjudged(
                    f"{written((*above, *self.key))} has no paired interval{_like(changes, self.key, _change, *above)}"
                )
            if change is None or change["interval"] is None:
                return self._unjudged(f"{places[0].key} of {second} was not measured.", places[0].key)
            judged.append((second, places[0].key, change["difference"], change["interval"]))
        turn = -1 if self.sign == "falls" else 1
        # the surest first: its interval lies farthest in the direction that is asked for
        second, key, value, ends = max(judged, key=lambda each: min(turn * end for end in each[3]))
        failed = min(turn * end for end in ends) > self.bound
        told = f"{key} of {second} changes by {value:+.6g}{_range(ends)}."
        return Verdict(self.text, key, value, ends, failed, self._failed(told) if failed else told)

    def _failed(self, why: str) -> str:
        return f"the gate {self.text!r} failed: {why}"

    def _unjudged(self, why: str, key: str | None = None) -> Verdict:
        return Verdict(self.text, key, None, None, None, f"the gate {self.text!r} cannot be judged: {why}")


def parsed(texts: Iterable[str], *, comparing: bool = False) -> list[Gate]:
    """The gates that ``texts`` say; those that ask for a change need a comparison."""
    gates = [Gate.parse(text) for text in texts]
    for gate in gates:
        if gate.moves and not comparing:
            raise BadGate(f"the gate {gate.text!r} asks how runs differ; give it to misdetect compare.")
    return gates


def check(document: Mapping[str, Any], fail_if: str | Iterable[str]) -> list[Verdict]:
    """Judge ``document`` by the gates ``fail_if``. What cannot be judged raises a ``BadGate``: no gate may pass because
    nothing was measured."""
    texts = [fail_if] if isinstance(fail_if, str) else list(fail_if)
    verdicts = [gate.judge(document) for gate in parsed(texts, comparing="differing_settings" in document)]
    for verdict in verdicts:
        if verdict.failed is None:
            raise BadGate(verdict.says)
    return verdicts


def _key(text: str) -> tuple[Key, str]:
    """The key that ``text`` begins with, and what is left of it."""
    key: list[str] = []
    place = 0
    while found := _STEP.match(text, place):
        if (found["name"] is not None) and text.startswith(".", place) == (not key):
            break  # the first name has no dot, all others have one
        key.append(next(part for part in found.groups() if part is not None))
        place = found.end()
    return tuple(key), text[place:]


def written(path: Sequence[str]) -> str:
    """``path`` as a gate has it."""
    parts = [f".{name}" if _BARE.fullmatch(name) else f"[{_quoted(name)}]" for name in path]
    return "".join(parts).removeprefix(".")


def _quoted(name: str) -> str:
    return name if not set(name) & set("[]\"'") and name == name.strip() else f'"{name}"'


def _places(document: Mapping[str, Any], key: Key) -> list[Place]:
    """Where ``key`` is. Of a checkup its first name may be that of a study; without one, every study is looked at."""
    studies = _studies(document)
    if studies is None:
        return _nearest(document, key)
    if own := _follow(document, key):
        return [Place(written(own[0]), document, *own)]
    if key[0] in studies and len(key) > 1:
        return _nearest(studies[key[0]], key[1:], key[0])
    return [place for name, study in studies.items() for place in _nearest(study, key, name)]


def _nearest(root: Mapping[str, Any], key: Key, *above: str) -> list[Place]:
    """Where ``key`` is in ``root``, whatever names stand before it: of all places those nearest to the top."""
    level: list[tuple[Key, Mapping[str, Any]]] = [((), root)]
    while level:
        hits = [(path, hit) for path, node in level if (hit := _follow(node, key))]
        if hits:
            paths = [(path + found, value) for path, (found, value) in hits]
            return [Place(written((*above, *path)), root, path, value) for path, value in paths]
        level = [
            ((*path, name), inner)
            for path, node in level
            for name, inner in node.items()
            if isinstance(inner, Mapping) and name not in ASIDE
        ]
    return []


def _follow(node: Any, key: Key) -> tuple[Key, Any] | None:
    """What ``key`` leads to from ``node``, and the names as they are there; ``None`` where it leads nowhere."""
    path: list[str] = []
    for name in key:
        if isinstance(node, Mapping):
            known = name if name in node else next((k for k in node if _same_number(k, name)), None)
            if known is None:
                return None
            node, name = node[known], known
        elif isinstance(node, list) and re.fullmatch(r"-?[0-9]{1,9}", name) and -len(node) <= int(name) < len(node):
            node = node[int(name)]
        else:
            return None
        path.append(name)
    return tuple(path), node


def _same_number(one: str, other: str) -> bool:
    """Whether both are written numbers, and the same: .5 and 0.5."""
    try:
        return float(one) == float(other)
    except ValueError:
        return False


def _interval(place: Place) -> list[float] | None:
    """The interval of a number: under ``intervals`` beside it, or beside what it stands in, by the same names."""
    for depth in range(len(place.path) - 1, -1, -1):
        _, node = _follow(place.root, place.path[:depth]) or ((), None)
        ends = _follow(node, ("intervals", *place.path[depth:]))
        if ends is not None and isinstance(ends[1], list) and len(ends[1]) == 2 and None not in ends[1]:
            return [float(end) for end in ends[1]]
    return None


def _range(ends: Sequence[float] | None) -> str:
    return "" if ends is None else f" ({ends[0]:.6g} to {ends[1]:.6g})"


def _pairs(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Of a comparison, each run but the first, and how it differs from that one."""
    runs = [run["name"] for run in document.get("runs", ())]
    yield from ((each["second"], each) for each in document.get("differences", ()) if each["first"] == runs[0])


def _change(value: Any) -> Mapping[str, Any] | None:
    """A difference with its interval; where there are several of one thing, that of its rate per object."""
    if not isinstance(value, Mapping):
        return None
    return value if "difference" in value else _change(value.get("rate"))


def _several(places: Sequence[Place]) -> str:
    return f"it could be {' or '.join(place.key for place in _one_each(places))}; say which."


def _one_each(places: Sequence[Place]) -> list[Place]:
    """Some of several ``places``; of a checkup one of each study."""
    studies = {place.key.partition(".")[0]: place for place in reversed(places)}
    return (list(reversed(studies.values())) if len(studies) > 1 else list(places))[:_SHOWN]


def _no_number(place: Place) -> str:
    if place.value is None:
        return f"{place.key} was not measured."
    if isinstance(place.value, Mapping) and place.value:
        return f"{place.key} holds several: {', '.join(list(map(str, place.value))[:_SHOWN])}."
    if isinstance(place.value, list) and place.value:
        return f"{place.key} is a list of {len(place.value)}; name one, as in {place.key}[0]."
    return f"{place.key} is no number."


def _missing(document: Mapping[str, Any], key: Key) -> str:
    studies = _studies(document)
    if studies is None:
        return f"there is no {written(key)}{_like(document, key, _is_number)}"
    if why := _skipped(document, key[0]):
        return why
    if key[0] in studies:
        where, *rest = key
        if not rest:
            return f"{where} is a study; name one of its numbers{_like(studies[where], ('',), _is_number, where)}"
        return f"there is no {written(key)}{_like(studies[where], tuple(rest), _is_number, where)}"
    return f"there is no {written(key)}{_like(studies, key, _is_number)}"


def _studies(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The documents by study, of a checkup or of checkups side by side."""
    found = document.get("studies")
    return found if isinstance(found, Mapping) else None


def _skipped(document: Mapping[str, Any], study: str) -> str | None:
    """Why ``study`` is not there, where that is known."""
    word = "is not compared" if "differing_settings" in document else "was not run"
    if study in (_studies(document) or {}):
        return None
    return next(
        (f"{study} {word}: {each['why']}" for each in document.get("skipped", ()) if each["study"] == study), None
    )


def _is_number(value: Any) -> bool | None:
    return isinstance(value, (int, float)) or None


def _like(node: Mapping[str, Any], key: Key, wanted: Callable[[Any], Any], *above: str) -> str:
    """The end of a sentence that names keys like ``key`` of what is ``wanted`` in ``node``, or some that there are."""
    known = sorted(_known(node, wanted), key=len)  # the last name alone stands for the place nearest to the top
    table: dict[str, str] = {}
    for path in known:
        for name in (path[-1], written(path)):
            table.setdefault(name.lower(), written((*above, *path)))
    near = difflib.get_close_matches(written(key).lower(), list(table), _NEAR)
    if near:
        return f"; near it is {' or '.join(dict.fromkeys(table[name] for name in near))}."
    some = [written((*above, *path)) for path in known[:_SHOWN]]
    return f"; there is {', '.join(some)}." if some else "."


def _known(node: Mapping[str, Any], wanted: Callable[[Any], Any], path: Key = ()) -> Iterator[Key]:
    """The paths of all that is ``wanted`` in ``node``."""
    for name, value in node.items():
        if name in ASIDE:
            continue
        if wanted(value) is not None:
            yield (*path, str(name))
        elif isinstance(value, Mapping):
            yield from _known(value, wanted, (*path, str(name)))

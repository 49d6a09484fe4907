"""What a view asks for, as it comes in an address, made into a WHERE: names are known ones, values are parameters.

The same filters are in ``front/filter.js`` and ``report/embedded.py``: columns with the values that a row may have
there, and some that are no columns: see ``Wanted``.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from misdetect.said.errors import BadSpec

ENUMS = ("run", "detector", "study", "label", "outcome", "tide", "mechanism", "size", "by", "others", "harm", "became",
         "reason")  # fmt: skip
"""Text columns with few values."""
_TEXTS, _BOOLS = ("image", "scene", "key"), ("control", "flicker", "attributable", "failure", "again")
_SEARCHED = ("image", "label", "became", "mechanism", "reason", "by", "study", "detector", "tide", "outcome")
ORDERS = {
    "worst": "place",
    "surest": "score DESC NULLS LAST, place",
    "faintest": "score ASC NULLS FIRST, place",
    "largest": "area DESC, place",
    "smallest": "area ASC, place",
}
LONGEST = 20_000
"""Characters of a filter."""
_MOST = 200
"""Values of a column, and characters that are searched for."""


@dataclass(frozen=True)
class Wanted:
    """A filter: ``wrong_at``, a score: errors at that threshold; ``scores``, two: the score lies between them;
    ``search``: every word is found somewhere in a row; ``sort``: one of ``ORDERS``; ``tag``: what people call it, which
    ``keys`` has found (of each run the keys of its failures). Anything else is a column."""

    filter: Mapping[str, Any]
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> "Wanted":
        """The filter in an address; a ``BadSpec`` where it is none."""
        if len(text) > LONGEST:
            raise BadSpec(f"a filter has at most {LONGEST} characters. Got {len(text)}.")
        try:
            found = json.loads(text or "{}")
        except (ValueError, RecursionError):
            raise BadSpec("the filter is no JSON.") from None
        if not isinstance(found, dict):
            raise BadSpec("the filter should be an object: columns with lists of values.")
        for name, values in found.items():
            _check(name, values)
        return cls(found)

    def without(self, column: str) -> "Wanted":
        """The same, whatever ``column`` is; of a study all is counted, whoever else tells of it."""
        gone = (column, "again") if column == "study" else (column,)
        return Wanted({name: values for name, values in self.filter.items() if name not in gone}, self.keys)

    def among(self, columns: Sequence[str]) -> "Wanted":
        """What is wanted of ``columns`` alone."""
        return Wanted({name: values for name, values in self.filter.items() if name in columns}, self.keys)

    def beyond(self, columns: Sequence[str]) -> "Wanted":
        """What is wanted of everything else."""
        return Wanted({name: values for name, values in self.filter.items() if name not in columns}, self.keys)

    @property
    def order(self) -> str:
        """The ORDER BY."""
        return ORDERS[self.filter.get("sort", "worst")]

    def where(self, words: Mapping[str, Sequence[str]]) -> tuple[str, list[Any]]:
        """A WHERE over the rows, and its values; ``words`` are those of each enumeration."""
        parts, values = ["true"], list[Any]()
        for name, wanted in self.filter.items():
            part, own = self._part(name, wanted, words)
            parts.append(part)
            values += own
        return " AND ".join(parts), values

    def _part(self, name: str, wanted: Any, words: Mapping[str, Sequence[str]]) -> tuple[str, list[Any]]:
        values: list[Any]
        if name == "sort":
            return "true", []
        if name == "wrong_at":
            return "CASE WHEN outcome = 'extra' THEN score >= ? ELSE score IS NULL OR score < ? END", [wanted, wanted]
        if name == "scores":
            return "score BETWEEN ? AND ?", list(wanted)
        if name == "search":
            return self._search(wanted, words)
        if name == "tag":
            own = [(run, list(keys)) for run, keys in self.keys.items() if keys and run in words["run"]]
            parts = [
                f"line IN (SELECT rowid FROM staged WHERE run = ? AND key IN ({', '.join('?' * len(keys))}))"
                for _, keys in own
            ]
            return f"({' OR '.join(parts) or 'false'})", [value for run, keys in own for value in (run, *keys)]
        if name == "image":
            values = [value for value in wanted if value is not None]
            return f"photo IN (SELECT id FROM images WHERE name IN ({', '.join('?' * len(values)) or 'NULL'}))", values
        if name in _TEXTS:
            values = [value for value in wanted if value is not None]
            listed = ", ".join("?" * len(values)) or "NULL"
            return f'line IN (SELECT rowid FROM staged WHERE "{name}" IN ({listed}))', values
        if name in ENUMS:
            known = [value for value in wanted if value in set(words[name])]
            parts = [f'"{name}" = CAST(? AS "enum_{name}")'] * len(known)
            values = known
        else:
            values = [value for value in wanted if value is not None]
            parts = [f'"{name}" = ?'] * len(values)
        if None in wanted:
            parts.append(f'"{name}" IS NULL')
        return f"({' OR '.join(parts) or 'false'})", values

    @staticmethod
    def _search(text: str, words: Mapping[str, Sequence[str]]) -> tuple[str, list[Any]]:
        """Rows in which every word of ``text`` is part of an image's name or of a value of another column. Values are
        few, so that they are searched here and not in every row."""
        parts, values = [], list[Any]()
        for word in text.lower().split():
            own = ["photo IN (SELECT id FROM images WHERE contains(lower(name), ?))"]
            values.append(word)
            for name in _SEARCHED:
                hits = [each for each in words.get(name, ()) if word in each.lower()]
                if hits:
                    own.append(f'"{name}" IN ({", ".join([f"CAST(? AS enum_{name})"] * len(hits))})')
                    values += hits
            parts.append(f"({' OR '.join(own)})")
        return " AND ".join(parts) or "true", values


def _check(name: str, values: Any) -> None:
    """Refuse what no filter has."""
    if name == "wrong_at":
        sound = _is_number(values)
    elif name == "scores":
        sound = isinstance(values, list) and len(values) == 2 and all(map(_is_number, values))
    elif name == "search":
        sound = isinstance(values, str) and len(values) <= _MOST
    elif name == "sort":
        sound = isinstance(values, str) and values in ORDERS
    elif name == "object":
        sound = _all(values, int) and not any(isinstance(value, bool) or abs(value or 0) >= 1 << 63 for value in values)
    elif name in _BOOLS:
        sound = _all(values, bool)
    else:
        sound = name in (*ENUMS, *_TEXTS, "tag") and _all(values, str)
    if not sound:
        raise BadSpec(f"the filter has no {str(name)[:40]!r} of that kind.")


def _all(values: Any, kind: type) -> bool:
    each = values if isinstance(values, list) else [...]
    return len(each) <= _MOST and all(value is None or isinstance(value, kind) for value in each)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9

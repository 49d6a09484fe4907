"""``OpenNames``: class names that nobody knows beforehand, such as the words that a reader of text may read.

A label is then a number made from the word itself, the same in every process and run, so that neither the order in
which words turn up nor who met them decides anything. Words are compared as they are, letter by letter.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from misdetect.nouns.boxes import Bools, Ints
from misdetect.said.errors import BadArray

_FIRST = 1 << 61
"""Numbers of words start here: none of them can be mistaken for a place in a list."""
_LONGEST = 1000
"""Letters of a word that is kept; nobody reads longer ones."""
_heard: dict[int, str] = {}
"""Every word that this process has met, by its number."""


class OpenNames(Sequence[str]):
    """The ``names`` of a detector that says words: ``names[label]`` is the word of a label that was heard.

    As a list it is empty, since no class is known beforehand. A detector with these names returns words for labels, or
    the numbers that ``index`` gives.
    """

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __getitem__(self, label: Any) -> Any:
        try:
            return _heard[int(label)]
        except (KeyError, TypeError, ValueError):
            raise IndexError(f"no word has the number {label!r:.40} here.") from None

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """The label of the word ``value``, be it heard before or not."""
        return number_of(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpenNames)

    def __hash__(self) -> int:
        return hash(OpenNames)

    def __repr__(self) -> str:
        return "OpenNames()"


def number_of(word: object) -> int:
    """The number of ``word``, which is remembered."""
    if not isinstance(word, str) or not word or not word.isprintable() or len(word) > _LONGEST:
        raise BadArray(f"Expected a printable word of at most {_LONGEST} letters as a label. Got {word!r:.60}.")
    number = _FIRST | int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little") >> 3
    if _heard.setdefault(number, word) != word:
        raise BadArray(f"The words {word!r:.60} and {_heard[number]!r:.60} have the same number.")
    return number


def is_word(labels: Ints) -> Bools:
    """Which of ``labels`` ``[N]`` are numbers of words, and not places in a list of names."""
    return labels >= _FIRST


def words_of(labels: Ints) -> list[str]:
    """The words of ``labels`` ``[N]``, all of which were heard in this process; a ``BadArray`` for any other number."""
    unknown = [label for label in labels.tolist() if label not in _heard]
    if unknown:
        raise BadArray(f"Expected words as labels, or the numbers of words. Got {unknown[0]}.")
    return [_heard[label] for label in labels.tolist()]


def numbered(answer: Any) -> Any:
    """What a detector with open names said, with numbers for its words; anything else as it is."""
    if isinstance(answer, tuple) and len(answer) == 3:
        return (*answer[:2], _numbers(answer[2]))
    if isinstance(answer, Mapping) and "labels" in answer:
        return {**answer, "labels": _numbers(answer["labels"])}
    return answer


def _numbers(labels: Any) -> Any:
    words = labels.tolist() if isinstance(labels, np.ndarray) else labels
    if isinstance(words, (list, tuple)) and any(isinstance(word, str) for word in words):
        return np.array([number_of(word) for word in words], dtype=np.int64)
    return labels


def fixed(names: Sequence[str]) -> Sequence[str]:
    """``names`` as they will stay: a tuple, or open."""
    return names if isinstance(names, OpenNames) else tuple(names)


def names_in(detector: Mapping[str, Any]) -> Sequence[str]:
    """The names of a detector as ``run.json`` has it."""
    return OpenNames() if detector.get("open_names") else tuple(detector["names"])

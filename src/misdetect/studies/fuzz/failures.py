"""What counts as one failure: the object of the background that is affected, and how.

A hundred insertions beside one shaky object are not a hundred failures. Extra detections have no object to be named by;
they are one if they are of one class and overlap by half.
"""

from collections.abc import Mapping
from typing import Any

from misdetect.metrics.metamorphic import EXTRA, same_extra
from misdetect.nouns.boxes import SIDES

Key = tuple[str, str, int]
"""Image, type, and the number of the object (of the extra detection) on that image."""


class Register:
    """Names changes by what they are changes of. Extras are numbered as they are met, so feed it in order of cases."""

    def __init__(self) -> None:
        self._extras: dict[str, list[tuple[str, list[float]]]] = {}

    def key(self, image: str, change: Mapping[str, Any]) -> Key:
        """The failure that ``change`` (a row's record) on background ``image`` is an instance of."""
        if change["type"] != EXTRA:
            return image, change["type"], change["thing"]
        known = self._extras.setdefault(image, [])
        box = [change[name] for name in SIDES]
        for number, (label, other) in enumerate(known):
            if same_extra(change["label"], box, label, other):
                return image, EXTRA, number
        known.append((change["label"], box))
        return image, EXTRA, len(known) - 1


def counted(row: Mapping[str, Any], count_flicker: bool) -> list[Mapping[str, Any]]:
    """The changes of ``row`` that make it a failure."""
    return [c for c in row["changes"] or () if c["counts"] and (count_flicker or not c["flickers"])]

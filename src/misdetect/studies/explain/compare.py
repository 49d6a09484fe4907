"""Several explain runs side by side: Fig. 5 of paper 3, over data sets or over detectors.

Shares of the five mechanisms with their intervals; and for two runs over the same objects, which misses both have and
how the mechanism of those differs.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from misdetect.engine.store import Run
from misdetect.errors import BadData


def shares(document: Mapping[str, Any]) -> dict[str, float]:
    """Each mechanism's share of the misses, in 0..1; empty where nothing is missed."""
    missed = document["missed"]
    return {name: count / missed for name, count in document["mechanisms"].items()} if missed else {}


def side_by_side(documents: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row per run: objects, misses, rate, and the shares of the mechanisms with their intervals."""
    return [
        {
            "run": name,
            "objects": document["objects"],
            "missed": document["missed"],
            "miss_rate": document["miss_rate"],
            "shares": shares(document),
            "intervals": document["intervals"]["shares"],
        }
        for name, document in documents.items()
    ]


def shared_misses(first: Path | str, second: Path | str) -> dict[str, Any]:
    """Two runs over the same objects: found by both, missed by one or both, and for those missed by both how often
    mechanism a of the first meets mechanism b of the second (``[a, b, count]``)."""
    fates = [_fates(path) for path in (first, second)]
    common = sorted(fates[0].keys() & fates[1].keys())
    if not common:
        raise BadData(f"{first} and {second} have no object in common; only runs over the same data can be paired.")
    pairs = Counter((fates[0][key], fates[1][key]) for key in common)
    return {
        "objects": len(common),
        "both_found": pairs[None, None],
        "only_first_missed": sum(n for (a, b), n in pairs.items() if a is not None and b is None),
        "only_second_missed": sum(n for (a, b), n in pairs.items() if a is None and b is not None),
        "both_missed": _crossed(pairs),
    }


def _crossed(pairs: "Counter[tuple[str | None, str | None]]") -> Sequence[list[Any]]:
    both = [[a, b, n] for (a, b), n in pairs.items() if a is not None and b is not None]
    return sorted(both, key=lambda row: (-row[2], row[0], row[1]))


def _fates(path: Path | str) -> dict[tuple[str, int], str | None]:
    run = Run.open(path)
    if run.document.get("identity", {}).get("study") != "explain":
        raise BadData(f"{path} is not an explain run.")
    rows = run.query("SELECT image, id, mechanism FROM rows WHERE kind = 'object'").to_pylist()
    return {(row["image"], row["id"]): row["mechanism"] for row in rows}

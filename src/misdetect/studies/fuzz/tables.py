"""Paper 4's Tables 1, 3 and 4 and Fig. 8 for one campaign, as numbers and as a page to read."""

from collections.abc import Mapping, Sequence
from typing import Any


def tables(document: Mapping[str, Any]) -> dict[str, Any]:
    """From what ``fuzz`` reports, counted as the paper does: every failing image, also where a score only flickers or
    the control fails too. Synthetic images are insertions and relocations, controls are not."""
    failing = document["raw_failures"] + document["relocated_unique"]
    images = document["insertions"] + document["relocation"]["queries"]
    return {
        "1": {
            "synthetic_images": images,
            "detected_objects": document["coverage"]["detected_objects"],
            "images_causing_failures": failing,
            "share_causing_failures": failing / images if images else None,
            "usd": document["cost"]["usd"] if document["cost"] is not None else None,
        },
        "3": {
            "inserted": document["raw_failures"],
            "relocated": document["relocated"],
            "relocated_unique": document["relocated_unique"],
        },
        "4": {name: document["naturalness"][name] for name in ("inserted", "relocated")},
        "figure_8": document["relocation"]["progress"],
    }


def page(document: Mapping[str, Any]) -> str:
    """The tables as Markdown, under the paper's headings."""
    found, detector = document["tables"], f"`{str(document['detector']).replace('|', ' ')}`"
    first, third, fourth, moved = (found[name] for name in ("1", "3", "4", "figure_8"))
    share = "–" if first["share_causing_failures"] is None else f"{100 * first['share_causing_failures']:.1f} %"
    most = max([1, *moved.values()])
    return "\n\n".join(
        [
            "# The tables of the paper for this campaign",
            f"Strategy {document['settings']['strategy']}, reach {document['settings']['reach']}. Counted as the paper "
            "does: a failing image counts even if a score only flickers, or if the photo's own texture in the same "
            f"place makes it fail too. Of {document['raw_failures']} failing insertions {document['flicker']} only "
            f"flicker; {document['attributable']} distinct failures are the inserted objects' doing, "
            f"{document['harm']['harmful']} of them do harm. Only what does not flicker is relocated.",
            "## Table 1: overview",
            _table(
                ("OD", "#synthetic images", "#detected objects", "#images causing failures", "USD"),
                (
                    detector,
                    first["synthetic_images"],
                    first["detected_objects"],
                    f"{first['images_causing_failures']} ({share})",
                    "–" if first["usd"] is None else f"{first['usd']:.2f}",
                ),
            ),
            "## Table 3: images causing failures",
            _table(
                ("OD", "with inserted object", "with relocated object", "unique of these"),
                (detector, third["inserted"], third["relocated"], third["relocated_unique"]),
            ),
            "## Table 4: HOG intersection with the background, percent",
            _table(("OD", "inserted", "relocated"), (detector, *(_percent(v) for v in fourth.values()))),
            "## Figure 8: how far towards the destination failing objects could be moved",
            _table(
                ("percent of the way", "objects", ""),
                *((name, count, "█" * round(30 * count / most)) for name, count in moved.items()),
            )
            + "\n",
        ]
    )


def _table(*rows: Sequence[object]) -> str:
    head, *body = ("| " + " | ".join(map(str, row)) + " |" for row in rows)
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body])


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"

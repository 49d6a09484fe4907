"""What assertions hold of a scan."""

from misdetect.studies.contract import Claim

CLAIMS = {
    "stable": Claim(
        "harm.difference",
        "harm.intervals.difference[0]",
        "NOT control AND attributable AND harm IN ('harmful', 'unknown')",
        rank=20,
    )
}

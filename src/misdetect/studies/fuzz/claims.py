"""What assertions hold of a campaign."""

from misdetect.studies.contract import Claim

_ITS_DOING = "NOT control AND attributable AND harm IN ('harmful', 'unknown')"
_BUDGET = {"queries": 200}
"""Questions of a campaign that is given no budget."""

CLAIMS = {
    "stable": Claim(
        "harmful_per_1000",
        "intervals.harmful_per_1000[0]",
        _ITS_DOING,
        unknown=("attributable_per_1000", "intervals.attributable_per_1000[0]"),
        settings=_BUDGET,
        rank=10,
    ),
    "no_hallucination": Claim(
        "effects['new hallucination']",
        "effects['new hallucination']",  # of which there is no interval
        f"{_ITS_DOING} AND outcome = 'extra'",
        unknown=("attributable_by_type.extra", "attributable_by_type.extra"),
        settings=_BUDGET,
        rank=20,
    ),
}

"""What assertions hold of verify."""

from misdetect.data.dataset import Dataset
from misdetect.studies.contract import Claim

_LOOKED = 50
"""Samples in which states are looked for."""


def _has_states(data: Dataset) -> bool:
    return any(data[i].truth.states is not None for i in range(min(len(data), _LOOKED)))


CLAIMS = {
    "no_hallucination": Claim(
        "with_localisation.missing_recall",
        "with_localisation.intervals.missing_recall[0]",
        "condition = 'clean' AND outcome = 'extra'",
        fits=_has_states,
        rank=10,
    )
}

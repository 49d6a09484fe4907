"""What became of a lost object's candidate, on hand-made insides whose chain is known."""

import numpy as np

from misdetect.nouns.boxes import sides
from misdetect.nouns.candidates import Candidates, Dropped, Pairs, Reason
from misdetect.studies.suppression import explain_losses

A, B, C = [0, 0, 20, 20], [12, 0, 32, 20], [24, 0, 44, 20]


def inside(scores, kept, dropped=()):
    """Candidates A, B, C of one class; ``dropped`` as (candidate, reason, row in kept that suppressed it)."""
    boxes = np.array([A, B, C], dtype=float)
    values = np.array(scores, dtype=float)[:, None]
    candidates = [d[0] for d in dropped]
    return Candidates(
        proposals=boxes,
        refined=boxes,
        scores=values,
        background=1 - values[:, 0],
        identity=np.array([10, 11, 12]),
        kept=Pairs(np.array(kept), np.zeros(len(kept))),
        dropped=Dropped(
            np.array(candidates), np.zeros(len(candidates)), np.array([d[1] for d in dropped]), [d[2] for d in dropped]
        ),
    )


def explained(box, clean, edited, outcome="lost"):
    """What is said of an original at ``box``; one that is kept comes before it."""
    things = [{"label": "dog", "outcome": o, "fate": None, "chain": None, **sides(box)} for o in ("kept", outcome)]
    explain_losses(things, np.array([1, 0]), ["dog", "cat"], clean, edited, score=0.5)
    assert things[0]["fate"] is None
    return things[1]


def test_the_chain_of_the_papers_discussion():
    """A suppressed B; T covers A; B is no longer suppressed, and takes C, far from T, with it."""
    clean = inside([0.9, 0.8, 0.7], kept=[0, 2], dropped=[(1, Reason.SUPPRESSED, 0)])
    edited = inside([0.1, 0.8, 0.7], kept=[1], dropped=[(2, Reason.SUPPRESSED, 0)])
    thing = explained(C, clean, edited)
    assert thing["fate"] == "suppressed"
    assert thing["mechanism"] == "discarded"
    assert thing["chain"] == ["dog at [12, 0, 32, 20], score 0.80", "on the clean image suppressed by dog"]


def test_other_fates():
    clean = inside([0.9, 0.2, 0.7], kept=[0, 2])
    for edited, fate, mechanism in (
        (inside([0.9, 0.2, 0.4], kept=[0, 2]), "score", "background"),
        (inside([0.9, 0.2, 0.7], kept=[0], dropped=[(2, Reason.CAP, -1)]), "cap", "discarded"),
        (inside([0.9, 0.2, 0.7], kept=[0], dropped=[(2, Reason.TOP_K, -1)]), "top-k", "discarded"),
        (inside([0.9, 0.2, 0.7], kept=[0, 2]), "elsewhere", "discarded"),
    ):
        thing = explained(C, clean, edited)
        assert (thing["fate"], thing["mechanism"], thing["chain"]) == (fate, mechanism, None)


def test_a_new_suppressor_is_told_from_one_that_was_there():
    clean = inside([0.9, 0.3, 0.7], kept=[0, 2])
    edited = inside([0.9, 0.8, 0.7], kept=[0, 1], dropped=[(2, Reason.SUPPRESSED, 1)])
    assert explained(C, clean, edited)["chain"][1] == "on the clean image its score was 0.30"


def test_objects_that_are_not_lost_are_left_alone():
    clean, edited = inside([0.9, 0.2, 0.7], kept=[0, 2]), inside([0.9, 0.2, 0.1], kept=[0])
    assert explained(C, clean, edited, outcome="kept")["fate"] is None

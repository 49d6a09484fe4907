"""What a hallucination hangs on: its context, its place in the frame, or the pixels in its box (paper 2's future work).

Each edit takes one of these away and leaves the others as they are. What the hallucination scores under each says which
of them it needs; an edit that takes away nothing of the three is the control.
"""

from collections.abc import Mapping

POSITION, APPEARANCE, CONTEXT, NONE = CAUSES = ("position", "appearance", "context", "none")
EDITS = {POSITION: "moved", APPEARANCE: "patched", CONTEXT: "covered"}
"""The edit that takes each cause away. In the order in which they are believed where two take away equally much: the
smaller change first."""
CONTROL = "control"
STAYS, GONE, STEADY, FRAGILE, UNTESTED = "stays", "gone", "steady", "fragile", "untested"


def cause_of(before: float, after: Mapping[str, float | None], stayed: float | None, score: float) -> tuple[str, str]:
    """The cause and the reason of a hallucination of score ``before``, which is ``score`` or more.

    ``after``: its score under each edit (``None``: the edit could not be made; 0: nothing is left). An edit ends it if
    less than ``score`` is left. The cause is what was taken away by the edit that ends it with the largest loss.
    ``stayed``: what is detected at the old place in the frame, where everything else moved. "none": no edit ends it
    (steady), the control does too (fragile), or none does but not all could be made (untested).
    """
    known = {cause: value for cause, edit in EDITS.items() if (value := after.get(edit)) is not None}
    control = after.get(CONTROL)
    if control is not None and control < score:
        return NONE, FRAGILE
    ending = [cause for cause, value in known.items() if value < score]
    if not ending:
        return NONE, STEADY if len(known) == len(EDITS) else UNTESTED
    cause = max(ending, key=lambda each: before - known[each])  # the first of equals
    return cause, STAYS if cause == POSITION and stayed is not None and stayed >= score else GONE

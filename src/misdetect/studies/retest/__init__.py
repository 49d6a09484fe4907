"""``retest``: the same photos, and the same edits of an earlier campaign of ``fuzz``, shown to a detector.

Where fuzz asks what an edit changes, this asks what is found at all, by the annotations: so that two detectors, one
before and one after hardening, can be compared object by object. Made by ``misdetect harden``; rows are those of
``attack``, the conditions "clean" and "insertion".
"""

from misdetect.studies.contract import Kind

RETEST = Kind(
    "retest",
    room=__name__,
    help="The same photos, and the same edits of an earlier campaign, shown to a detector.",
    group="better",
    title="What is found at all",
    settings="settings:RetestSettings",
    ledger="document:ledger",
)

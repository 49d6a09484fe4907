"""``retest``: the same photos, and the objects that an earlier run put into them, shown to a detector.

A campaign of insertions asks what an edit changes; this asks what is found at all, by the annotations. So two
detectors, one before and one after hardening, can be compared object by object. ``misdetect harden`` makes these runs.
"""

from misdetect.studies.contract import Kind

RETEST = Kind(
    "retest",
    room=__name__,
    help="The same photos, and the same edits of an earlier campaign, shown to a detector.",
    group="better",
    title="What is found at all",
    settings="settings:RetestSettings",
)

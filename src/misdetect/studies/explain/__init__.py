"""``explain``: why each object was missed (paper 3, "What's in the Black Box?").

Algorithm 1 itself is in ``metrics/mechanisms``. ``study`` asks the detector about each image, ``rows`` turns an answer
into one row per object, detection and suspicious region, ``outside`` is what remains to be said of a black box,
``regions`` the warning signal, ``potential`` what solving a mechanism would buy, ``document`` what a run says,
``compare`` several runs side by side (Fig. 5).
"""

from misdetect.studies.contract import Kind

EXPLAIN = Kind(
    "explain",
    room=__name__,
    help="Why each object was missed: which part of the detector failed, with the evidence.",
    group="why",
    title="Why objects are missed",
    example="--detector zoo:yolox --data rooms:val --out RUN",
    headlines=("miss_rate",),
    open_names=True,
    settings="settings:ExplainSettings",
    asked="study:asked",
)

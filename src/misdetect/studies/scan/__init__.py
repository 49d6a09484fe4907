"""``scan``: transplant an object and watch the rest (paper 1, "The Elephant in the Room").

Read ``study`` beside the paper: it is the scan over a grid. ``pairs`` draws the pairs (I, J) and the object T,
``prepare`` chooses images for it, ``adaptive`` scans with fewer questions, ``truth`` says what is harmed; ``table``
makes Table I out of rows, ``phenomena`` the rest, ``ranking`` orders positions as the figures do, ``interference`` is
Fig. 3, ``suppression`` the discussion's chain through NMS, ``document`` all of it together. The arithmetic (eq. 1 to 3)
is in ``metrics/transplant``.
"""

from misdetect.studies.contract import Kind

SCAN = Kind(
    "scan",
    room=__name__,
    help="Transplant objects over a dense grid and watch what happens to the other detections.",
    group="breaks",
    title="What a foreign object does to the rest",
    example="--detector zoo:yolox --data rooms:val --pairs 8 --out RUN",
    headlines=("affected[0.5]", "harm"),
    by_document=True,
    open_names=True,
    settings="settings:ScanSettings",
    prepare="prepare:prepare",
    rebuild="prepare:rebuild",
    after="interference:take_apart",
)

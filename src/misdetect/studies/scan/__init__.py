"""``scan``: put an object in and watch the rest (paper 1, "The Elephant in the Room").

Read ``study`` beside the paper: it is the scan over a grid. ``pairs`` draws the pairs (I, J) and the object T,
``prepare`` finds images for it, ``adaptive`` asks less (by ``strata`` of the grid), ``truth`` says what is harmed,
``rows`` are what remains. ``table`` makes Table I out of them, ``phenomena`` what the paper lists after its
Fig. 1, ``interference`` is Fig. 3, ``ranking`` orders positions as Figs. 5 to 9 do, ``document`` all of it. The
discussion's chain through NMS is in ``studies/suppression``, the arithmetic (eq. 1 to 3) in ``metrics/transplant``.
"""

from misdetect.studies.contract import Kind

SCAN = Kind(
    "scan",
    room=__name__,
    help="Put an object in at every place of a grid and watch what happens to the other detections.",
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

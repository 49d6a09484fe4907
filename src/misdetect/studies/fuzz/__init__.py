"""``fuzz``: campaigns of metamorphic object insertion (paper 4, "Metamorphic Object Insertion for Testing Object
Detection Systems").

The oracle is in ``metrics/metamorphic``, what a change means against the truth in ``metrics/harm``. ``campaign`` begins
or goes on with a run; ``study`` hands out its cases, ``plan`` decides on them round by round (``adaptive``: where a
failure is most likely; ``reach``: what may be inserted where; ``search``: relocate and shrink); ``cases`` ask and make
``rows`` at the ``workbench``; ``truth`` judges them; ``results``, ``document`` and ``tables`` are what a run says,
``replay``, ``edits`` and ``images`` what can be done with its cases; ``live`` is one insertion at a time, chosen by a
person.
"""

from misdetect.studies.contract import Kind

FUZZ = Kind(
    "fuzz",
    room=__name__,
    help="Insert objects beside others and see which detections that breaks, within a budget.",
    group="breaks",
    title="What breaks when an object is inserted",
    example="--detector zoo:yolox --data rooms:val --queries 600 --out RUN",
    headlines=("failure_rate", "harmful_per_1000"),
    by_document=True,
    settings="settings:FuzzSettings",
    prepare="campaign:prepare",
    rebuild="campaign:rebuild",
    images="images:images",
)

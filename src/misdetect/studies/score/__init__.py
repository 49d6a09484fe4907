"""``score``: AP, AR and TIDE of predictions that are there already. No detector is asked.

AP and TIDE themselves are in ``metrics``, what can be scored in ``studies.predictions``. ``study`` finds the TIDE type
of every object and detection, ``rows`` are the columns of a run and the way back from them, ``document`` is what a run
says, ``costs`` how sure TIDE's numbers are, ``compare`` how AP differs between runs.
"""

from misdetect.studies.contract import Kind, Subject

PREDICTIONS = Subject(
    "predictions",
    "COCO results file, predictions:FILE,truth=COCO-FILE to join classes by name, or a run of detect.",
)
TRUTH = Subject("truth", "Data of the truth: a file, or a spec such as coco:instances.json.", is_data=True)

SCORE = Kind(
    "score",
    room=__name__,
    help="AP, AR and TIDE errors of stored predictions.",
    group="data",
    title="How good it is",
    example="--truth coco:instances.json --predictions results.json",
    subjects=(PREDICTIONS, TRUTH),
    headlines=("AP", "AP50"),
    by_document=True,
    reads="detect",
    settings="settings:ScoreSettings",
    run="study:run",
)

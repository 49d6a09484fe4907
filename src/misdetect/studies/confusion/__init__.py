"""``confusion``: what each object was taken for, of any detector and data (paper 5's Detection Confusion Matrix).

The matrix itself is in ``metrics/confusion``. ``study`` asks about each image, ``rows`` says of every object and
detection where it is counted, ``document`` computes the matrix again from rows, ``cells`` lists what is behind one
cell, ``compare`` sets several runs side by side, ``stored`` reads results that are there already.
"""

from misdetect.studies.contract import Kind

CONFUSION = Kind(
    "confusion",
    room=__name__,
    help="What each object was taken for: the detection confusion matrix, and what is behind its cells.",
    group="why",
    title="What is taken for what",
    example="--detector zoo:yolox --data rooms:val --out RUN",
    headlines=("outcomes.right",),
    settings="settings:ConfusionSettings",
    stored="stored:stored",
)

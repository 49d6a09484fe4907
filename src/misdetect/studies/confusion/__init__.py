"""``confusion``: what each object was taken for, of any detector and data (paper 5's Detection Confusion Matrix).

The matrix itself is in ``metrics/confusion``. ``study`` asks about each image, ``rows`` says of every object and
detection where it is counted, ``document`` computes the matrix again from rows, ``cells`` lists what is behind one
cell, ``compare`` sets several runs side by side, ``stored`` reads results that are there already.
"""

from misdetect.studies.confusion.compare import compare
from misdetect.studies.confusion.document import document, ledger, numbers, sentences
from misdetect.studies.confusion.settings import ConfusionSettings
from misdetect.studies.confusion.study import ConfusionStudy, prepare, rebuild
from misdetect.studies.contract import Kind

CONFUSION = Kind("confusion", ConfusionSettings, prepare, document, ledger, sentences, numbers, rebuild, compare)

__all__ = ["CONFUSION", "ConfusionSettings", "ConfusionStudy"]
